"""The tasks of the DAG audit_delivery: `plan` checks the form, `audit` makes and judges the run directory, and
`conclude` is the gate.

Airflow reads the DAG's file again and again. So modules that only a task needs are imported inside its function.
"""

from __future__ import annotations

import logging
from pathlib import Path

from airflow.sdk import Context, get_current_context

from delivery_verifier.host import folders
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.inputs import bad_input
from delivery_verifier.model.steps import GATE
from delivery_verifier.orchestration.names import AUDIT_DAG_ID
from delivery_verifier.orchestration.tasks import gate, red_run
from delivery_verifier.run_directory.run_directory import RunDirectory

BEFORE_GATE = ("plan", "audit")
"""The tasks that must succeed, or there is no verdict."""
_log = logging.getLogger(__name__)


def plan() -> str:
    """The task `plan`: checks the fields of the form. Returns the path of the run directory, which does not exist yet.

    Raises BadInput if a field is not allowed, or if an audit with this name was made already, and gate.GatePassed if
    the gate has succeeded already.
    """
    context = get_current_context()
    gate.require_not_passed(context, GATE)
    from delivery_verifier.audit.form_request import request_of

    name = folders.run_directory_name(str(context["run_id"]))
    request_of(context["params"], name)
    run_dir = folders.runs_dir() / name
    _require_new(run_dir)
    return str(run_dir)


def _require_new(run_dir: Path) -> None:
    """Raises BadInput if an audit has written this run directory: another one could replace its evidence."""
    if (run_dir / "scenario.json").exists():
        required, why = "one that was not audited yet", "the topic may have changed: trigger a new audit"
        raise bad_input("run", run_dir.name, required, why)


def audit() -> None:
    """The task `audit`: reads the ledger and the topic, writes the run directory, and judges it. Spark runs in this
    task.

    Raises BadInput if the ledger is not allowed or the task was cleared after an audit, and the errors of the cluster,
    of Spark and of the judgement. A red verdict is no error: the gate decides.
    """
    context = get_current_context()
    gate.require_not_passed(context, GATE)
    run_dir = _run_directory(context)
    _require_new(run_dir)
    from delivery_verifier.audit.form_request import request_of
    from delivery_verifier.audit.perform import perform
    from delivery_verifier.pipeline.direct import judge
    from delivery_verifier.pipeline.local_spark import foreign_session

    folders.require_writable()
    with foreign_session() as spark:
        perform(request_of(context["params"], run_dir.name), run_dir, spark, _log.info)
        judge(run_dir, lambda _progress: None, spark)


def conclude() -> None:
    """The task `conclude`, which is the gate: fails if the verdict is not green.

    Raises gate.GateClosed if a task before the gate did not succeed, and SystemExit if there is a verdict that is not
    green: Airflow would log any other exception with its traceback.
    """
    context = get_current_context()
    gate.require_success(context, BEFORE_GATE)
    verdict = RunDirectory(_run_directory(context)).verdict()
    if not verdict.green:
        red_run.end(verdict, str(context["run_id"]), AUDIT_DAG_ID)


def _run_directory(context: Context) -> Path:
    """Returns the path that the task `plan` returned. Raises StepFailed if it returned none."""
    path = context["ti"].xcom_pull(task_ids="plan")
    if not path:
        raise StepFailed("task plan left no run directory")
    return Path(str(path))
