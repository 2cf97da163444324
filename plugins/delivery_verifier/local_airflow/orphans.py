"""Orphaned runs: those that were under way when the local Airflow last ended. Ends them through Airflow's REST API.

Their producers and brokers are gone, so they cannot succeed. But Airflow's scheduler would go on with them: it would
run their tasks again, although tasks before `reconcile` have no retries. Until the last task had ended, no new run
would begin. So they must end before a scheduler starts. The api-server alone can do that.
"""

from __future__ import annotations

import logging

from delivery_verifier.orchestration.client import ENDED, FINISHED_TASK, AirflowError, AirflowLacks, Client

MOST_ROUNDS = 20
"""How often the unfinished tasks of a run are ended at most. No DAG of this project has so many tasks in a row."""
_log = logging.getLogger("kdv.orphans")


def end_all(client: Client) -> None:
    """Marks every run that is queued or running as failed, with all of its unfinished tasks. No scheduler may run.

    Leaves a run alone whose DAG is no longer there: nobody goes on with it. Raises AirflowError if Airflow refuses this
    or if a run does not end, and AirflowSilent if Airflow does not answer. After AirflowSilent, the function can be
    called again.
    """
    without_dag = set[tuple[str, str]]()
    while runs := [run for run in client.unfinished_runs() if run not in without_dag]:
        for dag_id, run_id in runs:
            try:
                _end(client, dag_id, run_id)
            except AirflowLacks as error:
                without_dag.add((dag_id, run_id))
                _log.warning("left the run %s of %s as it is: %s", run_id, dag_id, error)
                continue
            _log.info("ended the run %s of %s, which was under way when Airflow ended", run_id, dag_id)


def _end(client: Client, dag_id: str, run_id: str) -> None:
    for _ in range(MOST_ROUNDS):
        # Airflow ends a run only if it has no unfinished teardown tasks, which it leaves to the scheduler.
        client.end_run(dag_id, run_id)
        if client.state(dag_id, run_id) in ENDED:
            return
        # When a task is marked, Airflow clears those failed tasks that come after it. The next round ends them.
        for task in client.tasks(dag_id, run_id):
            if task.state not in FINISHED_TASK and task.map_index < 0:
                client.fail_task(dag_id, run_id, task.task_id)
    raise AirflowError(f"the run {run_id} of {dag_id} was under way when Airflow ended, and cannot be ended")
