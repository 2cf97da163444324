"""The tab of a run that has no report: which step is at work, or which one failed and what it said."""

from __future__ import annotations

from urllib.parse import quote

from delivery_verifier.model.steps import BEFORE_GATE, GATE
from delivery_verifier.orchestration.local.settings import CATALOGUE_DAG_ID, DAG_ID
from delivery_verifier.orchestration.plugin.dag_runs import State, Step
from delivery_verifier.pages.overview import page

LOOKS_AGAIN_S = 4
SYMBOLS = {"success": "✔", "failed": "✘", "upstream_failed": "–", "running": "▸", "skipped": "–"}


def of_another_dag() -> str:
    """The tab stands on every DAG's runs; others than ours have no report."""
    told = f"Only runs of the DAG {DAG_ID} have one, and those of {CATALOGUE_DAG_ID} a matrix once their plan is made."
    return _page("This DAG has no delivery report", told, [], [], None)


def no_catalogue() -> str:
    """The matrix where no catalogue run was ever begun."""
    told = f"Trigger the DAG {CATALOGUE_DAG_ID}, or run kdv catalogue in a terminal."
    return _page("No catalogue run yet", told, [], [], None)


def no_docs() -> str:
    """The Data Docs of a run whose expectations were never evaluated."""
    return _page(
        "This run has no Data Docs", "They are written by the step validate, which did not finish.", [], [], None
    )


def void(name: str) -> str:
    """A report in whose place there is another judgement, or none yet."""
    told = (
        f"Run {name} was reconciled or validated again since, and this report tells of books that are gone. It is "
        f"written anew by the step conclude, or by: kdv reconcile {name}"
    )
    return _page("This report is void", told, [], [], None)


def of_run(run_id: str, state: State | None) -> str:
    """The tab of a run whose report is not there. It looks again only while the run can still write one."""
    if state is None:
        return _page(
            "There is no such run", "Airflow knows no run of this name; it may have been deleted.", [], [], None
        )
    failures = [_failure(run_id, step) for step in _failed(state)]
    headline, explanation = _ended(state) if state.ended else _at_work(state)
    return _page(headline, explanation, state.steps, failures, None if state.ended else LOOKS_AGAIN_S)


def _failed(state: State) -> list[Step]:
    """The steps that failed; the gate only if nothing before it did, for it fails with all of them."""
    failed = state.of("failed")
    if any(step.task_id in BEFORE_GATE for step in failed):
        return [step for step in failed if step.task_id != GATE]
    return failed


def _at_work(state: State) -> tuple[str, str]:
    names = [step.task_id for step in state.of("running")]
    if state.state == "queued" or not any(step.state for step in state.steps):
        return "The run waits to begin", "One run works at a time; this one starts when those before it have ended."
    if _failed(state):
        failed = " and ".join(step.task_id for step in _failed(state))
        return f"Step {failed} failed", "There will be no verdict. The run ends as soon as its cluster is stopped."
    doing = f"Step {' and '.join(names)} is at work" if len(names) < 2 else f"Steps {' and '.join(names)} are at work"
    return (
        doing if names else "Between two steps"
    ), "The report is written by conclude. This page looks again by itself."


def _ended(state: State) -> tuple[str, str]:
    failed = [step.task_id for step in _failed(state)]
    if failed == [GATE] and state.of("skipped"):
        return "The run was ended", "It was marked failed before all of its steps were done; there is no verdict."
    if failed:
        headline = f"Step {failed[0]} failed" if len(failed) == 1 else f"Steps {' and '.join(failed)} failed"
        return headline, "The run ended without a verdict: nothing is known about the claim."
    if state.state == "failed":
        return "The run was ended", "No step failed, but the run was marked failed; there is no verdict."
    return "The report is gone", "The run succeeded, but its directory or its report is no longer there."


def _failure(run_id: str, step: Step) -> dict[str, object]:
    href = f"../../../../dags/{quote(DAG_ID)}/runs/{quote(run_id, safe='')}/tasks/{quote(step.task_id)}"
    return {"task_id": step.task_id, "said": step.said, "href": href}


def _page(
    headline: str, explanation: str, tasks: list[Step], failures: list[dict[str, object]], refresh_s: int | None
) -> str:
    return page.render(
        "unreported.html.j2",
        "Delivery report",
        headline=headline,
        explanation=explanation,
        tasks=tasks,
        failures=failures,
        refresh_s=refresh_s,
        symbols=SYMBOLS,
    )
