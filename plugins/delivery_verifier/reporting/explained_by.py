"""Explains in words: the disturbances that explain the cases of an anomaly.

The verdict holds the explains. This module only formats them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from delivery_verifier.model.figures import enumeration
from delivery_verifier.model.history import Disturbance
from delivery_verifier.model.verdict import ArmVerdict, ExplainedBy, Finding
from delivery_verifier.reporting.words import number
from delivery_verifier.run_directory.cases import record_name

GROUPS_SHOWN = 5
"""The greatest number of groups of disturbances that are shown for one finding."""
PARTITIONS_SHOWN = 12
"""The greatest number of partitions that are named for one group of disturbances."""
TOGETHER_US = 1_000_000
"""The longest time (µs) between two consecutive disturbances of one kind that share a line."""
TimeText = Callable[[int], str]
"""Turns a time in µs since the epoch into text."""


def explained_lines(finding: Finding, time_text: TimeText) -> list[str]:
    """Returns lines of text that say which disturbances explain how many cases of `finding`.

    A line is, e.g., `7 by leader_change of partition 0 at +3.000 s (broker 2)`. Disturbances of one kind that follow
    each other within TOGETHER_US share a line. The lines with the most cases come first. At most GROUPS_SHOWN such
    lines are shown, and one line sums up the others. Up to two more lines follow: the number of cases that no
    disturbance surely explains, and the number of cases that were not written down one by one. Returns an empty list if
    the finding has neither explains nor doubtful cases.
    """
    if not finding.explained_by and not finding.doubtful:
        return []
    groups = sorted(_groups(finding.explained_by), key=lambda group: -sum(explanation.count for explanation in group))
    lines = [_line(group, time_text) for group in groups[:GROUPS_SHOWN]]
    if others := groups[GROUPS_SHOWN:]:
        count = sum(explanation.count for group in others for explanation in group)
        lines.append(f"{number(count)} by {number(sum(map(len, others)))} further disturbances, named in verdict.json")
    if finding.doubtful:
        lines.append(f"{number(finding.doubtful)} unexplained: no disturbance surely explains them")
    unlisted = finding.cases - finding.explained - finding.doubtful
    if unlisted > 0:
        lines.append(f"{number(unlisted)} not written down one by one: what explains them is not known")
    return lines


def explanation_of_case(arm: ArmVerdict | None, row: Mapping[str, Any], time_text: TimeText) -> str:
    """Returns the disturbance that explains one case, as text. `row`: the row of the case in anomalies/.

    If the verdict names none, the text is one of these:

    * `unexplained`: the case needs an explanation, but nothing surely explains the case. So the case may be doubtful.
    * An en dash: the case needs no disturbance, the anomaly is forbidden, or nothing is known.
    """
    record = record_name(row)
    for finding in arm.findings if arm else ():
        if finding.anomaly != row["kind"]:
            continue
        for explanation in finding.explained_by:
            if record in explanation.records:
                return _named([explanation.disturbance], time_text)
        if record in finding.unexplained:
            return "unexplained"
    return "–"


def _groups(explained_by: Sequence[ExplainedBy]) -> Iterator[list[ExplainedBy]]:
    group: list[ExplainedBy] = []
    for explanation in sorted(
        explained_by, key=lambda explanation: (explanation.disturbance.kind, explanation.disturbance.at_us)
    ):
        last, now = (group[-1].disturbance if group else None), explanation.disturbance
        if last and (last.kind, last.planned) == (now.kind, now.planned) and now.at_us - last.at_us <= TOGETHER_US:
            group.append(explanation)
            continue
        if group:
            yield group
        group = [explanation]
    if group:
        yield group


def _line(group: Sequence[ExplainedBy], time_text: TimeText) -> str:
    count = sum(explanation.count for explanation in group)
    return f"{number(count)} by {_named([explanation.disturbance for explanation in group], time_text)}"


def _named(disturbances: Sequence[Disturbance], time_text: TimeText) -> str:
    kind, planned = disturbances[0].kind, disturbances[0].planned
    partitions = sorted({partition for disturbance in disturbances for partition in disturbance.partitions})
    brokers = sorted({broker for disturbance in disturbances for broker in disturbance.brokers})
    times = [disturbance.at_us for disturbance in disturbances]
    first, last = time_text(min(times)), time_text(max(times))
    where = f" of {_enumerated('partition', partitions)}" if partitions else ""
    when = f"at {first}" if first == last else f"from {first} to {last}"
    notes = [_enumerated("broker", brokers)] if brokers else []
    notes += [] if planned else ["not planned"]
    return f"{kind}{where} {when}" + (f" ({', '.join(notes)})" if notes else "")


def _enumerated(noun: str, numbers: Sequence[int]) -> str:
    shown = [str(item) for item in numbers[:PARTITIONS_SHOWN]]
    if len(numbers) > PARTITIONS_SHOWN:
        shown.append(f"{len(numbers) - PARTITIONS_SHOWN} more")
    return f"{noun}{'s' if len(numbers) > 1 else ''} {enumeration(shown, 'and')}"
