"""conclude: the verdict, its report, and the gate that turns the run red."""

from __future__ import annotations

from pathlib import Path

from delivery_verifier.cluster import workspaces
from delivery_verifier.host import variables
from delivery_verifier.judgement.judge import load_and_judge
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.steps import EVIDENCE
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.pages.report import page
from delivery_verifier.store.run_directory import IncompleteRun, RunDirectory


class RunNotGreen(VerifierError, RuntimeError):
    """An arm did not end as expected, or no verdict could be given. The message is the verdict's sentence."""


def conclude(run_dir: Path) -> None:
    """Judges, writes verdict.json and report.html, and raises RunNotGreen unless the run is green."""
    verdict = judge_and_report(run_dir)
    if not verdict.green:
        raise RunNotGreen(verdict.sentence)


def judge_and_report(run_dir: Path) -> RunVerdict:
    """Judges the run and publishes verdict.json and report.html. Raises IncompleteRun where evidence is missing."""
    run = RunDirectory(run_dir)
    scenario = run.read_scenario()
    scenario.fail_if_asked("conclude")
    run.require(*EVIDENCE)
    verdict = load_and_judge(run_dir)
    with run.writing("conclude") as output:
        output.write_json("verdict.json", verdict)
        page.write(run_dir, verdict, output.staging / "report.html")
    violated = any(arm.verdict == "VIOLATED" for arm in verdict.arms if arm.role == "subject")
    _clear_workspace(run, scenario.run_token, keep=violated)
    return verdict


def _clear_workspace(run: RunDirectory, run_token: str, keep: bool) -> None:
    """Removes the brokers' data and logs, unless `keep` or KDV_KEEP says that they are kept."""
    try:
        workspace = Path(run.manifest("start_cluster").notes["workspace"])
    except (IncompleteRun, KeyError):
        return  # the run directory comes from another host
    # A path in a file is no permission to remove a folder: the path must be the workspace of this run on this host.
    if workspace != workspaces.folder() / run_token or not workspaces.is_workspace(workspace):
        return
    if keep or variables.flag("KDV_KEEP"):
        workspaces.keep(workspace)
    elif not workspaces.is_served(workspace):
        workspaces.remove(workspace)
