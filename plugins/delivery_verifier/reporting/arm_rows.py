"""The table of the arms: what became of the records of each arm. The settings under test come first. Report, terminal,
note, mail and log have the same figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from delivery_verifier.model.anomalies import EFFECTS, KINDS, Anomaly, subset
from delivery_verifier.model.client import CLIENTS
from delivery_verifier.model.verdict import COUNTED, ArmVerdict, Finding, RunVerdict, exposed
from delivery_verifier.reporting.anomaly_columns import cases, columns, heading
from delivery_verifier.reporting.words import number
from delivery_verifier.run_directory.counts import UNPROVEN

OF_APPLICATIONS = subset(
    "readers look for these two first where an application applies the records; others have a column if they occur",
    (Anomaly.SKIPPED, Anomaly.REAPPLIED),
)
"""The kinds of effects that the table always shows if an arm has an application."""
GIVEN_UP = "given up"
"""The heading of the column that counts attempts that were neither acknowledged nor written. A table has this column
only if an arm gave up something."""
UNKNOWN = "–"


@dataclass(frozen=True)
class Cell:
    """One figure. `text`: the figure, or UNKNOWN. `note`: a word beside the figure, or an empty text. `short`: the
    heading where there is little room; empty: `heading`.

    `mark`: how the number of cases compares with the tolerated number: `none`, `within`, `above` or `permitted`. A
    figure that counts no anomaly is `plain`, or `given-up` if it counts attempts that were given up.
    """

    heading: str
    text: str
    mark: str = "plain"
    note: str = ""
    short: str = ""


@dataclass(frozen=True)
class ArmRow:
    """One row of the table: an arm, its figures, and the tone of its verdict.

    * `sent`: how many attempts there were, and how many were acknowledged. `reported`: how many were reported. A
      terminal shows the former, all others the latter.
    * `counts`: what was given up, if any arm gave up something, and the cases of each anomaly of the table.
    * `exposure`: how many records the fault found in flight, how many it exposed, and the longest silence. Empty if
      nothing of this is known of any arm.
    * `client`: the client of the arm. Empty if all arms have librdkafka, which needs no word then.
    * `tone`: the tone of the verdict (see the function `tone`), which decides the colour. An arm is green only if its
      verdict is HELD, and it has no case of any anomaly, and gave up nothing.
    """

    arm: ArmVerdict
    sent: list[Cell]
    reported: Cell
    counts: list[Cell]
    exposure: list[Cell]
    tone: str
    client: str = ""

    @property
    def cells(self) -> list[Cell]:
        """The figures that a report shows."""
        return [self.reported, *self.counts, *self.exposure]


def arm_rows(judged: Iterable[ArmVerdict]) -> list[ArmRow]:
    """Returns the rows of the table, subjects first, and the canary last. The planted cases of the canary give the
    table no column."""
    arms = sorted(judged, key=lambda arm: ("subject", "control", "canary").index(arm.role))
    anomalies = columns(arm.tally for arm in arms if arm.role != "canary")
    if any(arm.application for arm in arms):
        anomalies += [anomaly for anomaly in OF_APPLICATIONS if anomaly not in anomalies]
    given_up = any(arm.given_up for arm in arms)
    exposed_at_all = any(arm.exposure or arm.longest_gap_s is not None for arm in arms)  # in an audit nothing is
    is_named = any(arm.client not in ("", CLIENTS["librdkafka"].title) for arm in arms)
    rows = [_row(arm, anomalies, given_up, exposed_at_all) for arm in arms]
    return [replace(row, client=row.arm.client) for row in rows] if is_named else rows


def _row(arm: ArmVerdict, anomalies: list[Anomaly], given_up: bool, exposed_at_all: bool) -> ArmRow:
    away = arm.given_up.attempts if arm.given_up else 0
    in_flight = [number(exposed(arm.exposure, name)) if arm.exposure else UNKNOWN for name in reversed(COUNTED)]
    return ArmRow(
        arm,
        sent=[
            Cell("attempted", number(arm.tally.get("attempted"))),
            Cell("acknowledged", number(arm.tally.get("acked")), short="acked"),
        ],
        reported=Cell(
            "reported", number(arm.tally.get("reported")), note="sent, no acks" if arm.tally.get("sent") else ""
        ),
        counts=[
            *([Cell(GIVEN_UP, number(away), "given-up" if away else "none")] if given_up else []),
            *(_count(arm, anomaly) for anomaly in anomalies),
        ],
        exposure=[
            Cell("in flight at the fault", in_flight[0], short="in flight"),
            Cell("exposed until recovery", in_flight[1], short="exposed"),
            Cell("longest silence", UNKNOWN if arm.longest_gap_s is None else f"{arm.longest_gap_s:.1f} s"),
        ]
        if exposed_at_all
        else [],
        tone=tone(arm),
    )


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


def _count(arm: ArmVerdict, anomaly: Anomaly) -> Cell:
    count = cases(arm.tally, anomaly)
    if anomaly in EFFECTS and not arm.application and not count:
        return Cell(heading(anomaly), UNKNOWN)
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
