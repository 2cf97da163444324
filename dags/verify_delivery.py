"""# Verify delivery

Does Kafka keep what **your** settings promise when a broker dies? Trigger this DAG to find out. It boots a fresh
Kafka cluster, and sends numbered records with the chosen delivery profile. It injects a fault while the records flow.
Then it reads the topics back, and compares, for each record, what Kafka told the producer with what is in the topic.

## To start a run

Press **Trigger** and choose

* **Delivery profile**: the producer and topic settings to be verified, e.g. `acks_1`;
* **Fault**: what happens to the brokers, e.g. `kill_leader`;
* **Claim**: `contract` asks of the profile exactly what Kafka promises for it. You may also choose a stronger claim,
  such as `exactly_once` for a profile that may write twice. The run then tries to refute this claim. The claim
  `ordered` is about the first copy of each record. Suppose the topic holds a second copy of a record, behind records
  that were sent later. This copy violates `exactly_once`, but not `ordered`;
* **Records**: the least number of records to send.

The folded sections hold all other settings, for example of the load and the topics. Their defaults are enough for a
complete run of about two minutes.

## To read the result

The tab **Delivery report** of a run shows the verdict with its evidence.

| verdict | meaning |
|---|---|
| `HELD` | nothing happened that the claim forbids, and it is proven that the fault hit enough records for a verdict |
| `VIOLATED` | something happened that the claim forbids; the report lists the records |
| `INCONCLUSIVE` | the evidence does not suffice for HELD or VIOLATED, and the report says why |

A run is **green** only if every arm (the chosen profile, and the control profiles beside it) ended as expected. A run
is red if a verdict was not as expected. It is also red if a step up to the verdict failed; then there is no verdict at
all. What comes after the evidence, such as `stop_cluster` or the report, takes no verdict away if it fails.

## The steps

`plan` checks the settings and writes the scenario. `start_cluster` boots the brokers. `create_topics`
makes one topic per arm. `produce` sends the load, and `inject_fault` injects the fault at the same time. `settle` waits
until all replicas are in sync, and records where each partition ends. `reconcile` (Spark) finds the anomalies,
`validate` (Great Expectations) compares them with what the contract permits, and `conclude` gives the verdict.
`stop_cluster` removes the brokers, even if a step failed.

`publish_verdict` is no step. It emits each verdict as an event of the asset `kafka_delivery_verdict`, and is skipped if
there is no verdict. A DAG with `schedule=Asset.ref(name="kafka_delivery_verdict")` starts after each verdict.

Only one run works at a time. A run that is triggered meanwhile waits.
"""

from __future__ import annotations

from airflow.sdk import DAG

from delivery_verifier.orchestration.names import DAG_ID
from delivery_verifier.orchestration.tasks import form, graph, notify

with DAG(
    dag_id=DAG_ID,
    dag_display_name="Verify delivery",
    description="Sends a sequenced load, injects a broker fault, reconciles every record, and gives a verdict.",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=["kafka", "delivery"],
    doc_md=__doc__,
    default_args={"owner": "delivery-verifier", "retries": 0},
    params=form.params(),
    on_failure_callback=notify.on_red(),
) as dag:
    graph.add_tasks(dag)
