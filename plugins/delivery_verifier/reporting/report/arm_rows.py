"""The table of the arms: what became of the records of each arm. The settings under test come first."""

from __future__ import annotations

from dataclasses import dataclass

from delivery_verifier.model.anomalies import EFFECTS, KINDS, Anomaly, subset
from delivery_verifier.model.verdict import COUNTED, ArmVerdict, Finding, RunVerdict, exposed
from delivery_verifier.reporting.anomaly_columns import cases, columns, heading
from delivery_verifier.reporting.given_up import HEADING, count_of, is_given_up
from delivery_verifier.reporting.words import number
from delivery_verifier.run_directory.counts import UNPROVEN

OF_APPLICATIONS = subset(
    "readers look for these two first where an application applies the records; others have a column if they occur",
    (Anomaly.SKIPPED, Anomaly.REAPPLIED),
)
"""The kinds of effects that the table always shows if an arm has an application."""


@dataclass(frozen=True)
class Cell:
    """One figure. `text`: the figure, or an en dash if it is not known. `note`: a word beside the figure, or an empty
    text.

    `mark`: how the number of cases compares with the tolerated number: `none`, `within`, `above` or `permitted`. A
    figure that counts no anomaly is `plain`, or `given-up` if it counts attempts that were given up.
    """

    heading: str
    text: str
    mark: str = "plain"
    note: str = ""


@dataclass(frozen=True)
class ArmRow:
    """One row of the table: an arm, its figures, and the tone of its verdict. `under_test`: whether the arm is a
    subject.

    `tone`: the tone of the verdict (see the function `tone`), which decides the colour. An arm is green only if its
    verdict is HELD, and it has no case of any anomaly, and gave up nothing.
    """

    arm: ArmVerdict
    cells: list[Cell]
    tone: str
    under_test: bool


def arm_rows(verdict: RunVerdict | None) -> list[ArmRow]:
    """Returns the rows of the table, subjects first. The canary has no row. The list is empty if the run was not
    judged."""
    arms = [arm for arm in (verdict.arms if verdict else []) if arm.role != "canary"]
    arms.sort(key=lambda arm: arm.role != "subject")
    anomalies = columns(arm.tally for arm in arms)
    if any(arm.application for arm in arms):
        anomalies += [anomaly for anomaly in OF_APPLICATIONS if anomaly not in anomalies]
    given_up = is_given_up(arms)
    return [
        ArmRow(arm, _cells(arm, anomalies, bool(arm.application), given_up), tone(arm), arm.role == "subject")
        for arm in arms
    ]


def tone(arm: ArmVerdict) -> str:
    """Returns the tone of an arm's verdict, which decides the colour. The tone is the verdict itself, with one
    exception.

    The tone is `NONE` for an arm that HELD although it has cases, because the arm's settings permit these cases. So it
    is for an arm that HELD and gave up records. For the canary, the tone is always the verdict.
    """
    is_whole = arm.given_up is None and not any(finding.cases for finding in arm.findings)
    return arm.verdict if arm.verdict != "HELD" or arm.role == "canary" or is_whole else "NONE"


def run_tone(verdict: RunVerdict | None) -> str:
    """Returns the tone of the run's verdict. Returns `NONE` if `verdict` is None.

    Only subjects with the same verdict as the run count. If they all have the same tone, the run has this tone.
    Otherwise the tone is the verdict of the run.
    """
    if verdict is None:
        return "NONE"
    tones = {tone(arm) for arm in verdict.arms if arm.role == "subject" and arm.verdict == verdict.verdict}
    return tones.pop() if len(tones) == 1 else verdict.verdict


def _cells(arm: ArmVerdict, anomalies: list[Anomaly], applied: bool, given_up: bool) -> list[Cell]:
    sent = arm.tally.get("sent", 0)
    reported = Cell("reported", number(arm.tally.get("reported")), note="sent, no acks" if sent else "")
    counts = [_count(arm, anomaly, applied) for anomaly in anomalies]
    if given_up:
        count = count_of(arm)
        counts.insert(0, Cell(HEADING, number(count), "given-up" if count else "none"))
    in_flight = [number(exposed(arm.exposure, name)) if arm.exposure else "–" for name in reversed(COUNTED)]
    gap = "–" if arm.longest_gap_s is None else f"{arm.longest_gap_s:.1f} s"
    return [
        reported,
        *counts,
        Cell("in flight at the fault", in_flight[0]),
        Cell("exposed until recovery", in_flight[1]),
        Cell("longest silence", gap),
    ]


def _count(arm: ArmVerdict, anomaly: Anomaly, applied: bool) -> Cell:
    if anomaly in EFFECTS and not applied:
        return Cell(heading(anomaly), "–")
    count = cases(arm.tally, anomaly)
    if anomaly is Anomaly.LOST and UNPROVEN in arm.tally:
        return Cell(heading(anomaly), f"≥ {number(arm.tally.get('lost', 0))}", _mark(arm, anomaly), "more not found")
    mark = _mark(arm, anomaly) if count else "none"
    note = {"permitted": "permitted", "within": "tolerated"}.get(mark, "")
    return Cell(heading(anomaly), number(count), mark, note)


def _mark(arm: ArmVerdict, anomaly: Anomaly) -> str:
    findings: list[Finding] = [finding for finding in arm.findings if finding.anomaly == anomaly]
    if any(finding.broken for finding in findings):
        return "above"
    with_cases = [finding for finding in findings if finding.cases]
    if not with_cases:
        return "none"
    return "permitted" if any(finding.tolerance is None for finding in with_cases) else "within"


def title(anomaly_heading: str) -> str:
    """Returns the definition of the anomaly with the heading `anomaly_heading`. The page shows it to a reader who
    points at a column. Returns an empty text if no anomaly has this heading."""
    return next((kind.definition for anomaly, kind in KINDS.items() if heading(anomaly) == anomaly_heading), "")
