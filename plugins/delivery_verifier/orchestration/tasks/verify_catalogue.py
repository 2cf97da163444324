"""The tasks of the DAG verify_catalogue. A run of this DAG, a *catalogue run*, runs many scenarios one after another.

`run_scenario` and `run_again` are mapped tasks. Each of their task instances triggers a run of the DAG verify_delivery
for one scenario. The argument of such a task instance is called a *cell* (see `Cell`). Other tasks collect the results
of the triggered runs from the run directories and from Airflow's states of these runs.

Airflow reads the DAG's file again and again, and once more for every task. So modules that only some tasks need are
imported inside the functions that need them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import Context, get_current_context
from airflow.sdk.exceptions import AirflowFailException
from airflow.utils.state import DagRunState
from msgspec.structs import replace

from delivery_verifier.host import folders
from delivery_verifier.host.optional import optional
from delivery_verifier.host.processes import incarnations
from delivery_verifier.model.catalogue_run import Attempt, CatalogueRun, Item
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.external_cluster import ClusterAccess
from delivery_verifier.orchestration.names import DAG_ID
from delivery_verifier.orchestration.tasks import gate, kafka_connection
from delivery_verifier.run_directory import catalogue_runs
from delivery_verifier.run_directory.run_directory import IncompleteRun

PAGE_S = 300.0
"""How long the writing of the matrix may take, in seconds. The results are in catalogue.json."""
POKE_S = 2
"""Seconds between two looks at the state of a triggered run."""
FIRST, AGAIN, GATE = "run_scenario", "run_again", "gate"
"""The ids of three tasks. FIRST runs every scenario. If the first run of a scenario was INCONCLUSIVE, AGAIN runs the
scenario a second time. GATE is the last task, which decides whether the catalogue run is green."""
Cell = dict[str, str]
"""The argument of a task instance that runs one scenario. The key `scenario` holds the name of the scenario. The key
`run` holds the id of the run of verify_delivery that the task instance triggers."""


class CatalogueNotGreen(VerifierError, RuntimeError):
    """The error that makes a catalogue run red: a scenario did not end as expected, or was not run.

    A scenario that this host cannot run is no error under two conditions: the user expected this, and another scenario
    was run.
    """


class RunScenario(TriggerDagRunOperator):
    """A task that triggers a run of verify_delivery for one scenario, and waits for the end of this run.

    The task fails if the run fails. If a user clears the task, the task triggers a new run, with another id.
    """

    template_fields = ("cell",)

    def __init__(self, *, task_id: str, cell: Cell, **more: Any) -> None:
        super().__init__(
            task_id=task_id,
            trigger_dag_id=DAG_ID,
            logical_date=None,
            wait_for_completion=True,
            deferrable=False,
            poke_interval=POKE_S,
            fail_when_dag_is_paused=True,
            **more,
        )
        self.cell = cell

    def execute(self, context: Context) -> None:
        """Raises DagRunTriggerException, as the base class does. Airflow then triggers the run and waits for its end.

        Raises AirflowFailException if the owner of the catalogue run has ended. The owner is the process that asked for
        the catalogue run. If a user triggered the catalogue run in the UI, it has no owner. Raises gate.GatePassed if
        the gate of the catalogue run has succeeded already.
        """
        gate.require_not_passed(context, GATE)
        owner = (context["dag_run"].conf or {}).get("owner")
        if owner and not incarnations(str(owner)):
            raise AirflowFailException(f"the command that asked for this catalogue run (process {owner}) has ended")
        number = context["ti"].try_number
        self.trigger_run_id = self.cell["run"] + (f"-try{number}" if number > 1 else "")
        access = ClusterAccess.of_fields(context["params"])
        self.conf = {
            "scenario": self.cell["scenario"],
            **({"owner": owner} if owner else {}),
            **(access.fields if access else {}),
        }
        super().execute(context)


def begin_catalogue() -> list[Cell]:
    """The task `plan`: writes the selected scenarios to catalogue.json.

    Returns one Cell for each selected scenario that this host can run. Airflow makes a task instance of `run_scenario`
    from each Cell. Raises BadInput if a field of the form is not allowed, or if the catalogue run has been planned
    before. Raises gate.GatePassed if the gate has succeeded already.
    """
    from delivery_verifier.reporting.matrix import page
    from delivery_verifier.suite import begin

    context = get_current_context()
    gate.require_not_passed(context, GATE)
    kafka_connection.provide()
    params = context["params"]
    catalogue = begin.begin(
        _name(context),
        names=params["names"] or (),
        tag=params["tag"],
        expect_unavailable=params["expect_unavailable"],
        direct=False,
        external=ClusterAccess.of_fields(params),
    )
    optional(catalogue_runs.PAGE, lambda: page.write(catalogue), PAGE_S)
    return [_cell(catalogue, item) for item in catalogue.open]


def collect_first() -> list[Cell]:
    """The task `repeat`: stores the results so far, and selects each INCONCLUSIVE scenario for a second run.

    Returns one Cell for each scenario that was selected. Airflow makes a task instance of `run_again` from each Cell.
    Raises gate.GatePassed if the gate has succeeded already.
    """
    gate.require_not_passed(get_current_context(), GATE)
    catalogue = _collect(get_current_context())
    return [_cell(catalogue, item, "-2") for item in catalogue.open if item.attempts]


def write_matrix() -> None:
    """The task `matrix`: stores all results in catalogue.json, and writes the page with the results.

    Also stores the current time in catalogue.json, as the time when the catalogue run ended. This task runs even if a
    task before it failed. Raises gate.GatePassed if the gate has succeeded already.
    """
    from delivery_verifier.suite.loop import now

    gate.require_not_passed(get_current_context(), GATE)
    _collect(get_current_context(), ended_at=now())


def require_green() -> None:
    """The task `gate`: raises CatalogueNotGreen if the catalogue run is not green, or has no time of its end. The error
    names each red scenario.

    Raises gate.GateClosed if the task `plan`, `repeat` or `matrix` did not succeed. In this case, first stores the time
    when the catalogue run ended in catalogue.json, if this file exists. Usually `matrix` stores this time, but `matrix`
    may not have run.
    """
    from delivery_verifier.suite.loop import now

    context = get_current_context()
    try:
        gate.require_success(context, ["plan", "repeat", "matrix"])
    except gate.GateClosed:
        if (catalogue_runs.directory(_name(context)) / catalogue_runs.FILE).is_file():
            _collect(context, ended_at=now())
        raise
    catalogue = catalogue_runs.read(_name(context))
    if not catalogue.green or not catalogue.ended_at:
        red = [f"{item.name}: {item.state}" for item in catalogue.items if not item.green]
        raise CatalogueNotGreen("; ".join(red) or "no scenario was run")


def with_attempts(catalogue: CatalogueRun, triggered: Mapping[str, list[tuple[str, str]]]) -> CatalogueRun:
    """Returns `catalogue` with an `Attempt` for each run of verify_delivery that was triggered for a scenario.

    An `Attempt` here describes one run of a scenario. It is not an attempt to send a record. The new Attempts replace
    those in `catalogue`. `triggered` maps the name of a scenario to its triggered runs, as pairs (run id, Airflow
    state).
    """
    items = [
        replace(item, attempts=tuple(attempt_of(*run) for run in triggered.get(item.name, [])))
        for item in catalogue.items
    ]
    return replace(catalogue, items=tuple(items))


def attempt_of(run_id: str, state: str) -> Attempt:
    """Returns the result of the run `run_id` of verify_delivery as an `Attempt`. `state` is Airflow's state of the run.

    The Attempt has no verdict if the run has stored no readable verdict, or if the stored verdict contradicts `state`:

    * The run succeeded, but the verdict is not green.
    * The run did not succeed, but the verdict is green. This happens, for example, if a user marks the run as failed.
    """
    from delivery_verifier.suite import results
    from delivery_verifier.suite.loop import now

    run_dir = folders.runs_dir() / folders.run_directory_name(run_id)
    try:
        attempt = results.attempt(run_dir)
    except (IncompleteRun, OSError) as error:
        return results.failed(run_dir.name, now(), 0.0, f"the run is {state} and has no verdict: {error}")
    if (state == "success") != attempt.green:
        why = f"the run is {state} though its verdict is {attempt.verdict}: a step failed"
        return results.failed(run_dir.name, attempt.started_at, attempt.seconds, why)
    return attempt


def _collect(context: Context, ended_at: str = "") -> CatalogueRun:
    """Records the results of all triggered runs, and writes the page of the matrix. Returns the catalogue run.

    `ended_at` is the time when the catalogue run ended, as ISO 8601. It is empty while the catalogue run goes on.
    """
    from delivery_verifier.reporting.matrix import page

    catalogue = replace(with_attempts(catalogue_runs.read(_name(context)), _triggered(context)), ended_at=ended_at)
    catalogue_runs.write(catalogue)
    optional(catalogue_runs.PAGE, lambda: page.write(catalogue), PAGE_S)
    return catalogue


def _cell(catalogue: CatalogueRun, item: Item, suffix: str = "") -> Cell:
    """Returns the Cell for the scenario of `item`. The Cell's run id ends with `suffix`."""
    from delivery_verifier.suite.loop import run_name

    return {"scenario": item.name, "run": run_name(catalogue, item) + suffix}


def _name(context: Context) -> str:
    """Returns the name of the directory of the catalogue run."""
    return folders.run_directory_name(str(context["run_id"]))


def _triggered(context: Context) -> dict[str, list[tuple[str, str]]]:
    """Returns the runs of verify_delivery that this catalogue run has triggered, by the name of the scenario.

    Each run is given as (run id, Airflow state). The first run of a scenario comes before its second run.
    """
    ti: Any = context["ti"]
    runs: dict[str, list[tuple[str, str]]] = {}
    for origin, task in (("plan", FIRST), ("repeat", AGAIN)):
        for index, cell in enumerate(ti.xcom_pull(task_ids=origin) or []):
            if run_id := ti.xcom_pull(task_ids=task, key="trigger_run_id", map_indexes=index):
                # str() of a DagRunState is not its value.
                state = DagRunState(ti.get_dagrun_state(DAG_ID, str(run_id))).value
                runs.setdefault(cell["scenario"], []).append((str(run_id), state))
    return runs
