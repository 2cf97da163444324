"""The step conclude: judges the run, works out the advice, writes both as one verdict, and draws the report from it.
Fails if the run is not green.

No verdict rests on the advice or the report, nor on the removal of the brokers' data. If one of them fails, the verdict
stands.

A run is green if every arm ended as the scenario expects, and no arm is INCONCLUSIVE. In Airflow, the run of the DAG
succeeds only if this step succeeds.
"""

from __future__ import annotations

import os
from pathlib import Path

from msgspec.structs import replace

from delivery_verifier import __version__
from delivery_verifier.advice.advise import advise
from delivery_verifier.advice.doubts import with_remedies
from delivery_verifier.cluster import workspaces
from delivery_verifier.host import variables
from delivery_verifier.host.optional import optional
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.steps import EVIDENCE
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.planning import provenance
from delivery_verifier.run_directory.manifests import NOT_WRITTEN
from delivery_verifier.run_directory.run_directory import IncompleteRun, RunDirectory
from delivery_verifier.verdict.judge import judge, load

REPORT = "report.html"
ADVICE_S, REPORT_S, CLEARING_S = 120.0, 300.0, 120.0
"""How long the advice, the report, and the removal of the brokers' data, may take, in seconds."""
ON_DISK = {"log_unreadable", "replicas_differ", "open_transaction"}
"""Names of doubts that only the brokers' data and logs can explain."""


class RunNotGreen(VerifierError, RuntimeError):
    """The run is not green: an arm did not end as the scenario expects, or is INCONCLUSIVE.

    The message is the sentence of the run's verdict.
    """


def conclude(run_dir: Path) -> None:
    """Judges the run, and writes verdict.json and report.html. Then raises RunNotGreen if the run is not green."""
    verdict = judge_and_report(run_dir)
    if not verdict.green:
        raise RunNotGreen(verdict.sentence)


def judge_and_report(run_dir: Path) -> RunVerdict:
    """Judges the run, writes verdict.json and report.html, and returns the verdict.

    The manifest says which version of the verifier judged, and a note of the verdict if another one made the run. At
    the end, removes the brokers' data, except in three cases: a subject is VIOLATED, an arm has a doubt in ON_DISK, or
    KDV_KEEP is 1. If the report cannot be written, there is no report, and a note in the manifest says why. Raises
    IncompleteRun if the output of an earlier step is missing or altered.
    """
    run = RunDirectory(run_dir)
    scenario = run.read_scenario()
    scenario.fail_if_asked("conclude")
    run.require(*EVIDENCE)
    judge = _version(__version__, provenance.commit())
    verdict = complete_verdict(run_dir)
    verdict = replace(verdict, notes=[*verdict.notes, *_other_rules(run, scenario.commit, judge)])
    with run.writing("conclude") as output:
        output.notes["judged_by"] = judge
        output.write_json("verdict.json", verdict)
        if missing := optional("the report", lambda: _write_report(run_dir, verdict, output.staging), REPORT_S):
            output.notes[f"{NOT_WRITTEN}{REPORT}"] = missing
            (run.path / REPORT).unlink(missing_ok=True)  # a report of an earlier judgement would tell another verdict
    keep = _explained_by_data(verdict)
    optional("the removal of the brokers' data", lambda: _clear_workspace(run, scenario.run_token, keep), CLEARING_S)
    return verdict


def complete_verdict(run_dir: Path) -> RunVerdict:
    """Returns the verdict of the run, with its advice. If the advice cannot be worked out, a note says why; what to do
    about each doubt is there all the same. Raises IncompleteRun if there can be no verdict (see `judge.load`)."""
    evidence, validation = load(run_dir)
    verdict, advised = with_remedies(judge(evidence, validation)), list[RunVerdict]()
    missing = optional("the advice", lambda: advised.append(advise(evidence, verdict, run_dir)), ADVICE_S)
    if missing:
        return replace(verdict, notes=[*verdict.notes, f"What to change could not be worked out: {missing}"])
    return advised[0]


def _version(verifier: str, commit: str) -> str:
    return f"version {verifier}, commit {commit}"


def _other_rules(run: RunDirectory, commit: str, judge: str) -> list[str]:
    # The rules have no version of their own: they change with the verifier, within one format of the run directory.
    maker = _version(run.manifest("plan").notes.get("verifier", "of an unknown version"), commit)
    if maker == judge:
        return []
    return [f"Judged by {judge}; the run was made by {maker}, whose rules may differ."]


def _write_report(run_dir: Path, verdict: RunVerdict, folder: Path) -> None:
    """Writes the report into `folder`, as a whole or not at all."""
    from delivery_verifier.reporting.report import page  # if a library of the report is broken, there is a verdict

    page.write(run_dir, verdict, folder / f".{REPORT}")
    os.replace(folder / f".{REPORT}", folder / REPORT)


def _explained_by_data(verdict: RunVerdict) -> bool:
    """Returns whether the brokers' data may explain the verdict: a subject arm is VIOLATED, or any arm has one of the
    doubts in ON_DISK."""
    violated = any(arm.verdict == "VIOLATED" for arm in verdict.arms if arm.role == "subject")
    return violated or any(doubt.name in ON_DISK for arm in verdict.arms for doubt in arm.doubts)


def _clear_workspace(run: RunDirectory, run_token: str, keep: bool) -> None:
    """Removes the workspace with the brokers' data and logs. If `keep` is true or KDV_KEEP is 1, keeps the workspace.

    `run_token` is the name of the workspace. Removes nothing if the workspace is not on this host, or if its cluster
    still runs.
    """
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
