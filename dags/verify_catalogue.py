"""# Verify catalogue

Runs every scenario of the catalogue, one at a time, and shows all of them on one page: the **matrix**. Each scenario
tests one promise of Kafka's settings, and predicts how the test ends. A scenario is **green** if it ended as predicted,
or if it could not run on this host and you expected that. Any other scenario is **red**. The catalogue is green only if
every scenario is green, and at least one of them ended as predicted.

## To start it

The DAG starts every night. The variable `KDV_NIGHTLY` sets another time: it is a cron expression, `1` for 02:00 UTC, or
`0` for never. On the local Airflow of `kdv up`, the DAG starts by schedule only if the variable sets a time.

You can start it at any time: press **Trigger** and choose

* **Tag**: only scenarios with this tag, e.g. `smoke`; all scenarios with the tag `smoke` together take minutes;
* **Scenarios**: only the scenarios that you select here;
* **Expected to be unavailable**: scenarios that this host may be unable to run. Name the scenarios, their kinds, or the
  capabilities that they need, e.g. `power,network` on a host without root.

## To read the result

The page **Matrix** in the navigation shows the newest run of this DAG. The tab **Delivery report** of any run of this
DAG shows the matrix of that run. Each scenario is a run of `verify_delivery` with a report of its own.

| a scenario is | which means |
|---|---|
| as expected | every arm (delivery profile) ended as predicted, even if the prediction was `VIOLATED` |
| not as expected | an arm did not end as predicted: this is what you want to know in the morning |
| inconclusive | two runs could not tell whether the promise holds |
| unavailable | this host lacks what the fault needs; the scenario is red unless you expected this |
| failed | there is no verdict at all |

A red scenario does not stop the scenarios after it.

## The tasks

`plan` stores which scenarios will be run. `run_scenario` triggers `verify_delivery` once per scenario and waits for the
run to end. `repeat` looks for scenarios that ended INCONCLUSIVE, and `run_again` runs each of them once more. `matrix`
writes the page, even if an earlier task failed. `gate` fails unless every scenario is green.

To run one scenario again, clear its task instance of `run_scenario` together with the downstream tasks. The page is
then written anew.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, task, teardown

from delivery_verifier.orchestration.names import CATALOGUE_DAG_ID, nightly
from delivery_verifier.orchestration.tasks import catalogue_form, message, notify
from delivery_verifier.orchestration.tasks.verify_catalogue import (
    AGAIN,
    FIRST,
    RunScenario,
    begin_catalogue,
    collect_first,
    require_green,
    write_matrix,
)

SHORT, LONG = timedelta(minutes=15), timedelta(hours=3)

with DAG(
    dag_id=CATALOGUE_DAG_ID,
    dag_display_name="Verify catalogue",
    description="Runs every scenario of the catalogue, one at a time, and writes the matrix.",
    schedule=nightly(),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=["kafka", "delivery"],
    doc_md=__doc__,
    default_args={"owner": "delivery-verifier", "retries": 0},
    params=catalogue_form.params(),
    on_failure_callback=notify.on_red(message.of_catalogue),
) as dag:
    plan = task(task_id="plan", execution_timeout=SHORT)(begin_catalogue)()
    # Only one scenario runs at a time, because all scenarios run on one host. A task that waits for its run holds one
    # slot of the executor, and the run needs two more slots.
    cells = RunScenario.partial(task_id=FIRST, max_active_tis_per_dag=1, execution_timeout=LONG).expand(cell=plan)
    repeat = task(task_id="repeat", trigger_rule="all_done", execution_timeout=SHORT)(collect_first)()
    again = RunScenario.partial(task_id=AGAIN, max_active_tis_per_dag=1, execution_timeout=LONG).expand(cell=repeat)
    matrix = task(task_id="matrix", trigger_rule="all_done", execution_timeout=SHORT)(write_matrix)()
    # The gate comes after the task that writes the page. Only the gate decides whether the catalogue run is green, also
    # if a user ended the run.
    gate = teardown(on_failure_fail_dagrun=True)(task(task_id="gate", execution_timeout=SHORT)(require_green))()

    cells >> repeat
    [cells, again] >> matrix >> gate
