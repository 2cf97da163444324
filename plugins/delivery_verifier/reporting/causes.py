"""Who broke a promise: what a program of the user's own did, in the words of the verdict (see `verdict.Cause`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from delivery_verifier.model.anomalies import KINDS, Anomaly
from delivery_verifier.model.verdict import ArmVerdict
from delivery_verifier.reporting.words import number

CAUSES_SHOWN = 3
"""The greatest number of causes of one arm that are shown."""
LOOK_FOR = "Look for"


@dataclass(frozen=True)
class ReportedCause:
    """One cause as it is told. `heading`: what the program did, with the number of cases, e.g. `16 skipped: The program
    ...`. `evidence`: the sentences about one record. `look_for`: what to look for in the program."""

    heading: str
    evidence: str
    look_for: list[str]

    @property
    def lines(self) -> Iterator[str]:
        """The cause in two lines."""
        yield f"{self.heading} {self.evidence}"
        yield f"{LOOK_FOR}: {'; '.join(self.look_for)}."


def causes_of(judged: ArmVerdict, name: str = "") -> Iterator[ReportedCause]:
    """Yields the causes of an arm that are shown: first those of anomalies that broke a promise. `name`: the name that
    stands before each; empty for none."""
    broken = {finding.anomaly for finding in judged.findings if finding.broken}
    for cause in sorted(judged.causes, key=lambda cause: cause.anomaly not in broken)[:CAUSES_SHOWN]:
        heading = f"{name}{': ' if name else ''}{_counted(cause.count, cause.anomaly)}: {cause.what}"
        yield ReportedCause(heading, " ".join(cause.evidence), cause.look_for)


def _counted(count: int, anomaly: str) -> str:
    return f"{number(count)} {KINDS[Anomaly(anomaly)].participle if anomaly in Anomaly.__members__ else anomaly}"
