"""The pages that the plugin shows instead of a missing report, a missing matrix or missing Data Docs.

The page of a run without a report says which step is running. If a step failed, the page names this step and shows the
end of the step's log.
"""

from __future__ import annotations

from urllib.parse import quote

from delivery_verifier.model.sentinel import SentinelResult
from delivery_verifier.model.steps import BEFORE_GATE, GATE
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.orchestration.names import AUDIT_DAG_ID, CATALOGUE_DAG_ID, DAG_ID, SENTINEL_DAG_ID
from delivery_verifier.orchestration.plugin.dag_runs import State, Step
from delivery_verifier.orchestration.plugin.live_run import LiveRun
from delivery_verifier.reporting.overview import page

LOOKS_AGAIN_S = 2
"""Seconds after which the page of a run that has not ended reloads itself."""
SYMBOLS = {"success": "✔", "failed": "✘", "upstream_failed": "–", "running": "▸", "skipped": "–"}
"""The symbol of each state of a task."""


def another_dag() -> str:
    """Returns the page that the tab Delivery report shows for a run of any DAG whose runs have no report.

    Airflow shows the tab on the runs of every DAG. A run of verify_catalogue gets this page only as long as it has no
    matrix. A run of any third DAG always gets this page.
    """
    explanation = (
        f"Only runs of the DAGs {DAG_ID}, {AUDIT_DAG_ID} and {SENTINEL_DAG_ID} have one, and those of "
        f"{CATALOGUE_DAG_ID} a matrix once their plan is made."
    )
    return _page("This DAG has no delivery report", explanation, [], [], None)


def no_catalogue() -> str:
    """Returns the page that is shown instead of the matrix as long as there is no catalogue run."""
    explanation = f"Trigger the DAG {CATALOGUE_DAG_ID}, or run kdv catalogue in a terminal."
    return _page("No catalogue run yet", explanation, [], [], None)


def no_docs() -> str:
    """Returns the page that the tab Data Docs shows for a run whose step validate has not written Data Docs."""
    return _page(
        "This run has no Data Docs", "They are written by the step validate, which did not finish.", [], [], None
    )


def void(name: str) -> str:
    """Returns the page that is shown instead of a void report. `name` is the name of the run directory.

    A report is void if the step reconcile or the step validate of its run was repeated after the report was written.
    The report then shows figures that are no longer valid.
    """
    explanation = (
        f"Run {name} was reconciled or validated again since, and this report tells of counts that are gone. It is "
        f"written anew by the step conclude, or by: kdv reconcile {name}"
    )
    return _page("This report is void", explanation, [], [], None)


def not_written(verdict: RunVerdict, why: str) -> str:
    """Returns the page that is shown for a judged run whose report could not be written. `why` is the reason."""
    explanation = (
        f"{verdict.sentence} The report of this run could not be written: {why}. To write it: kdv reconcile "
        f"{verdict.run_id}"
    )
    return _page(f"{verdict.verdict}, without a report", explanation, [], [], None)


def run_without_report(
    run_id: str, state: State | None, live: LiveRun | None = None, remedy: str = "", dag_id: str = DAG_ID
) -> str:
    """Returns the page that the tab Delivery report shows for a run without a report.

    `run_id` is the id of the DAG run. `state` is the state of this run in Airflow, or None if Airflow has no such run.
    If the run has not ended, `live` says how far the run has come. The page reloads itself until the run has ended.
    `remedy`: how to judge the run if it has ended without a verdict (see `how_to_judge`).
    """
    if state is None:
        return _page(
            "There is no such run", "Airflow knows no run of this name; it may have been deleted.", [], [], None
        )
    failures = [_failure(dag_id, run_id, step) for step in _failed(state)]
    if state.ended:
        headline, explanation = _end(state)
        return _page(headline, f"{explanation} {remedy}".rstrip(), state.steps, failures, None)
    headline, explanation = _progress(state, live)
    coming = live.coming if live and not failures else ""
    explanation = " ".join(filter(None, (live.busy if live else "", explanation, coming)))
    return _page(headline, explanation, state.steps, failures, LOOKS_AGAIN_S, live)


def of_sentinel(result: SentinelResult, state: State | None) -> str:
    """Returns the page that the tab Delivery report shows for a run of a sentinel that has ended and has no report: it
    was skipped, it failed, or its run directory was removed. `state` is the state of the run in Airflow, or None."""
    tasks = [] if state is None else state.steps
    failures = [] if state is None else [_failure(SENTINEL_DAG_ID, result.run_id, step) for step in _failed(state)]
    if result.state == "SKIPPED":
        return _page("The run was skipped", f"Nothing was learnt of the cluster: {result.why}", tasks, failures, None)
    if result.state == "NO VERDICT":
        explanation = f"The run ended without a verdict: nothing is known about the claim. {result.why}"
        return _page("The run failed", explanation, tasks, failures, None)
    explanation = f"{result.why} Its run directory was removed; the page Sentinel has its figures."
    return _page("The report is gone", explanation, tasks, failures, None)


def _failed(state: State) -> list[Step]:
    """Returns the steps that failed. Leaves out the gate (the step conclude) if a step before the gate failed, because
    the gate always fails in this case."""
    failed = state.steps_in("failed")
    if any(step.task_id in BEFORE_GATE for step in failed):
        return [step for step in failed if step.task_id != GATE]
    return failed


def _progress(state: State, live: LiveRun | None) -> tuple[str, str]:
    """Returns two texts about a run that has not ended: the headline and the explanation."""
    if state.state == "queued" or not any(step.state for step in state.steps):
        return "Waiting to begin", "One run works at a time; this one starts when those before it have ended."
    lost = [step.task_id for step in _failed(state) if step.task_id in (*BEFORE_GATE, GATE)]
    if lost:
        failed = " and ".join(lost)
        return f"Step {failed} failed", "There will be no verdict. The run ends as soon as its cluster is stopped."
    now = live.phase if live else "under way"
    return f"{now[:1].upper()}{now[1:]}", "The report is written by conclude. This page looks again by itself."


def _end(state: State) -> tuple[str, str]:
    """Returns two texts about a run that has ended: the headline and the explanation."""
    failed = [step.task_id for step in _failed(state)]
    if failed == [GATE] and any(step.task_id in BEFORE_GATE for step in state.steps_in("skipped")):
        return "The run was ended", "It was marked failed before all of its steps were done; there is no verdict."
    if failed:
        headline = f"Step {failed[0]} failed" if len(failed) == 1 else f"Steps {' and '.join(failed)} failed"
        return headline, "The run ended without a verdict: nothing is known about the claim."
    if state.state == "failed":
        return "The run was ended", "No step failed, but the run was marked failed; there is no verdict."
    return "The report is gone", "The run succeeded, but its directory or its report is no longer there."


def _failure(dag_id: str, run_id: str, step: Step) -> dict[str, object]:
    """Returns the data of a failed step for the template: the step's id, the step's last log lines, and the address
    (`href`) of the step's page in the Airflow UI."""
    href = f"../../../../dags/{quote(dag_id)}/runs/{quote(run_id, safe='')}/tasks/{quote(step.task_id)}"
    return {"task_id": step.task_id, "said": step.said, "href": href}


def _page(
    headline: str,
    explanation: str,
    tasks: list[Step],
    failures: list[dict[str, object]],
    refresh_s: int | None,
    live: LiveRun | None = None,
) -> str:
    """Returns the page as HTML. The page reloads itself after `refresh_s` seconds, or never if `refresh_s` is None."""
    return page.render(
        "unreported.html.j2",
        "Delivery report",
        headline=headline,
        explanation=explanation,
        tasks=tasks,
        failures=failures,
        refresh_s=refresh_s,
        symbols=SYMBOLS,
        clock=live.clock if live else "",
        live=live.load if live else None,
        spark=live.spark if live else "",
    )
