"""conclude: the verdict, its report, and the gate that turns the run red."""

from __future__ import annotations

from pathlib import Path

from delivery_verifier.cluster import workspaces
from delivery_verifier.host import variables
from delivery_verifier.judgement.judge import load_and_judge
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.pages.report import page
from delivery_verifier.store.run_directory import IncompleteRun, RunDirectory


class NotAsExpected(RuntimeError):
    """The run is red: an arm did not end as expected, or no verdict could be given."""


def conclude(run_dir: Path) -> None:
    """Judges, writes verdict.json and report.html, and raises NotAsExpected unless the run is green."""
    verdict = judge_and_report(run_dir)
    if not verdict.green:
        raise NotAsExpected(verdict.sentence)


def judge_and_report(run_dir: Path) -> RunVerdict:
    """Judges the run and publishes verdict.json and report.html."""
    run = RunDirectory(run_dir)
    run.scenario.fail_if_asked("conclude")
    run.require("plan", "produce", "inject_fault", "settle", "reconcile", "validate")
    verdict = load_and_judge(run_dir)
    with run.writing("conclude") as output:
        output.write_json("verdict.json", verdict)
        page.write(run_dir, verdict, output.staging / "report.html")
    _clear_workspace(run, keep=any(arm.verdict == "VIOLATED" for arm in verdict.arms if arm.role == "subject"))
    return verdict


def _clear_workspace(run: RunDirectory, keep: bool) -> None:
    """The brokers' data and logs go once a run is judged, unless it found a violation or KDV_KEEP is set."""
    try:
        workspace = Path(run.manifest("start_cluster").notes["workspace"])
    except (IncompleteRun, KeyError):
        return  # a run directory from elsewhere
    ours = workspace == workspaces.folder() / run.scenario.run_token  # what a file says is no leave to remove a folder
    if not ours or not workspaces.is_workspace(workspace):
        return
    if keep or variables.flag("KDV_KEEP"):
        workspaces.keep(workspace)
    elif not workspaces.is_served(workspace):
        workspaces.remove(workspace)
