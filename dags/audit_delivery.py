"""# Audit delivery

Does your topic hold what your user application was told? This DAG compares the **ledger** of your application, the
record that it keeps of Kafka's acknowledgements, with the topic, record by record. It sends no load, injects no fault,
and writes nothing to your cluster.

## To start an audit

Press **Trigger** and give

* **Ledger**: the files, as the worker sees them. JSON lines, CSV, Parquet, or the lines of Kafka's VerifiableProducer;
* **Topic** and **Cluster**: where the application wrote to. A cluster has addresses, or the name of one of your
  clusters, which may ask for TLS and SASL;
* **Identity**: where a record names its claim, e.g. `header:order-id`.

The other fields say what the application's producer was set to, what must hold, and who else writes.

## On a schedule

The variable `KDV_AUDIT` names a JSON file with the fields of the form and a `schedule`, a cron expression in UTC. The
file sets the defaults of this form, and a scheduled audit uses them.

## To read the result

The tab **Delivery report** of a run shows the verdict with its evidence, and the page **Delivery** lists all audits
among the runs. An audit is green only if the verdict is `HELD`.

| verdict | meaning |
|---|---|
| `HELD` | of the claims in these files, nothing is broken, and nothing that was needed for this answer is missing |
| `VIOLATED` | something is broken; the report lists the records |
| `INCONCLUSIVE` | the doubts say by name what is missing |

## The tasks

`plan` checks the fields. `audit` waits until the topic stands still, reads ledger and topic, and judges. `conclude`
fails unless the verdict is green.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, task, teardown

from delivery_verifier.audit import fields
from delivery_verifier.orchestration.names import AUDIT_DAG_ID
from delivery_verifier.orchestration.tasks import audit_delivery, audit_form, message, notify

SHORT, LONG = timedelta(minutes=5), timedelta(hours=3)

with DAG(
    dag_id=AUDIT_DAG_ID,
    dag_display_name="Audit delivery",
    description="Compares the ledger of an application with its topic, record by record, and gives a verdict.",
    schedule=fields.defaults()[1],
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=["kafka", "delivery"],
    doc_md=__doc__,
    default_args={"owner": "delivery-verifier", "retries": 0},
    params=audit_form.params(),
    on_failure_callback=notify.on_red(message.of_audit),
) as dag:
    plan = task(task_id="plan", execution_timeout=SHORT)(audit_delivery.plan)()
    audit = task(task_id="audit", execution_timeout=LONG)(audit_delivery.audit)()
    # conclude is the gate: it asks Airflow for the states of the tasks before it, also if a user ended the run.
    conclude = teardown(on_failure_fail_dagrun=True)(
        task(task_id="conclude", execution_timeout=SHORT)(audit_delivery.conclude)
    )()

    plan >> audit >> conclude

    # A task takes the default values from the DAG and the chosen values from the run, so it needs no copy of the form.
    for each in dag.tasks:
        each.params = {}
