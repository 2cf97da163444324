"""# Verify sentinel

A **sentinel** puts a small verified load on a cluster that somebody else runs, on a schedule, and breaks nothing. Each
run sends 1,000 numbered records to topics of its own, reads them back, compares them one by one, and removes the
topics. `HELD` then means: of these records, none was lost, duplicated or reordered. It says nothing about a broker that
dies.

## To start it

The variable `KDV_SENTINEL` names a JSON file with the fields of the form and a `schedule`, a cron expression in UTC.
Without the variable, the DAG starts only if you press **Trigger**. Choose

* **Cluster that somebody else runs**: the name of the cluster;
* **Delivery profile**: the producer and topic settings with which the records are sent, e.g. `safe`.

## To read the result

The page **Sentinel** in the navigation shows the history of each cluster: the results over time, the share of runs that
ended HELD, the share of records that were acknowledged within a second, and the latencies. The tab **Delivery report**
of a run shows the verdict with its evidence.

| a run ends | which means |
|---|---|
| `HELD` | nothing was lost, duplicated or reordered, and the cluster stayed as it was |
| `VIOLATED` | something is broken; the report lists the records |
| `INCONCLUSIVE` | the evidence does not suffice, e.g. because a broker stopped or a leader moved |
| `NO VERDICT` | the run failed, e.g. because the cluster did not answer |
| `SKIPPED` | it did not begin, because another run uses this host or the cluster, or waits in this Airflow |

A run is green only if it ended `HELD`. The tasks of a skipped run are `skipped`, and they say who was there. Airflow
knows no such state of a whole run, and shows it as a success; the page **Sentinel** never counts it as one.

## The tasks

The tasks are those of **Verify delivery**: `plan`, `start_cluster`, `create_topics`, `produce`, `inject_fault` (which
injects nothing), `settle`, `reconcile`, `validate`, `conclude`, `stop_cluster` and `publish_verdict`. `start_cluster`
goes to the cluster, and `stop_cluster` removes what the run created there.
"""

from __future__ import annotations

from airflow.sdk import DAG

from delivery_verifier.orchestration.names import SENTINEL_DAG_ID
from delivery_verifier.orchestration.tasks import graph, notify, sentinel_form, verify_sentinel
from delivery_verifier.orchestration.tasks.sentinel_message import of_sentinel
from delivery_verifier.planning import sentinel

with DAG(
    dag_id=SENTINEL_DAG_ID,
    dag_display_name="Verify sentinel",
    description="Puts a small verified load on a cluster that somebody else runs, on a schedule, without any fault.",
    schedule=sentinel.settings().schedule,
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=["kafka", "delivery"],
    doc_md=__doc__,
    default_args={"owner": "delivery-verifier", "retries": 0},
    params=sentinel_form.params(),
    on_success_callback=notify.on_red(of_sentinel),
    on_failure_callback=[verify_sentinel.remember_missing, *notify.on_red(of_sentinel)],
) as dag:
    graph.add_tasks(dag, verify_sentinel.INSTEAD)
