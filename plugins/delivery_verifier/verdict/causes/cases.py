"""From the cases of an arm to their causes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from delivery_verifier.model.anomalies import EFFECTS, Anomaly, subset
from delivery_verifier.model.verdict import Cause
from delivery_verifier.run_directory.times import as_us
from delivery_verifier.verdict.causes.group import Group
from delivery_verifier.verdict.causes.others import OVERTAKEN, ghost
from delivery_verifier.verdict.causes.pattern import Applied, Pattern
from delivery_verifier.verdict.causes.reapplied import reapplied
from delivery_verifier.verdict.causes.skipped import skipped
from delivery_verifier.verdict.evidence import ArmEvidence

Row = dict[str, Any]
COLUMNS = ("kind", "producer", "sequence", "partition", "offsets", "sent_at", "detail")
"""The columns of anomalies/ from which causes are derived."""
_Patterns = Callable[[Group, Sequence[Applied], bool], list[Pattern | None]]


def causes(arm: ArmEvidence) -> list[Cause]:
    """Returns the causes of the arm's cases, the most frequent of each anomaly first. The result is empty if the arm
    has no application of the user's own, or if there is no list of cases."""
    group, cases = group_of(arm), arm.run.cases
    if group is None or cases is None or not {"arm", *COLUMNS} <= set(cases.column_names):
        return []
    return causes_of(group, _rows(arm, cases), of_transactions=_is_of_transactions(arm))


def cause_of_case(arm: ArmEvidence, group: Group, row: Row) -> Cause | None:
    """Returns what the arm's program did to the record of the case `row`; None if nothing in progress shows it. `group`
    is the group of the arm. Times are in µs since the epoch."""
    assert arm.run.cases is not None, "the case is one of them"
    rows = [other for other in _rows(arm, arm.run.cases) if other["kind"] == row["kind"]]
    return cause_of(group, row, rows, of_transactions=_is_of_transactions(arm))


def group_of(arm: ArmEvidence) -> Group | None:
    """Returns the history of the group of the arm's program.

    Returns None if the arm has no application of the user's own, or if the brokers' log of the group was not read.
    """
    application, group_log = arm.spec.application, arm.run.group_log
    if application is None or application.discipline != "own" or group_log is None:
        return None
    commits, generations = (
        [row for row in rows if row["arm"] == arm.name] for rows in (group_log.commits, group_log.generations)
    )
    return Group.from_rows(arm.spec.topic_name, commits, generations, arm.run.injections, arm.run.offsets.taken_at_us)


def _rows(arm: ArmEvidence, cases: pa.Table) -> list[Row]:
    own = cases.filter(pc.equal(cases["arm"], arm.name)).select(COLUMNS)
    own = own.set_column(own.column_names.index("sent_at"), "sent_at", as_us(own["sent_at"]))
    rows: list[Row] = own.to_pylist()
    return rows


def _is_of_transactions(arm: ArmEvidence) -> bool:
    is_whole = not arm.totals.get("lost") and not arm.totals.get("torn")
    return bool(arm.spec.transactional_id) and is_whole


def causes_of(group: Group, rows: Sequence[Row], *, of_transactions: bool = False) -> list[Cause]:
    """Returns the causes of the cases `rows`, which have the columns COLUMNS. Times are in µs since the epoch.

    `of_transactions`: whether the arm writes transactions, and has lost no record. A case of which nothing in progress
    shows that the program did it has no cause.
    """
    return [
        cause
        for kind in EFFECTS
        if (cases := [_case(row) for row in rows if row["kind"] == kind])
        for cause in _causes(kind, group, cases, _PATTERNS[kind](group, cases, of_transactions))
    ]


def cause_of(group: Group, row: Row, rows: Sequence[Row], *, of_transactions: bool = False) -> Cause | None:
    """Returns the cause of the case `row`. `rows` are all cases of its arm and its anomaly. Returns None if nothing in
    progress shows that the program did it."""
    kind, case = Anomaly(row["kind"]), _case(row)
    pattern = _PATTERNS[kind](group, [case, *map(_case, rows)], of_transactions)[0]
    return None if pattern is None else _cause(kind, group, pattern, case, 1)


def _cause(kind: Anomaly, group: Group, pattern: Pattern, case: Applied, count: int) -> Cause:
    return Cause(
        anomaly=kind.value,
        count=count,
        what=pattern.what,
        evidence=pattern.evidence(group, case),
        look_for=pattern.look_for(group),
    )


def _causes(kind: Anomaly, group: Group, cases: Sequence[Applied], patterns: Sequence[Pattern | None]) -> list[Cause]:
    counts = Counter(patterns)
    examples = dict(reversed([*zip(patterns, cases, strict=True)]))  # the first case of each pattern
    return [
        _cause(kind, group, pattern, examples[pattern], count)
        for pattern, count in counts.most_common()
        if pattern is not None
    ]


_PATTERNS: Mapping[Anomaly, _Patterns] = subset(
    "only an application applies records: these are the kinds of effects",
    {
        Anomaly.SKIPPED: lambda group, cases, of_transactions: skipped(group, cases),
        Anomaly.REAPPLIED: lambda group, cases, of_transactions: reapplied(group, cases),
        Anomaly.GHOST: lambda group, cases, of_transactions: [
            ghost(case, of_transactions=of_transactions) for case in cases
        ],
        Anomaly.OVERTAKEN: lambda group, cases, of_transactions: [OVERTAKEN for _ in cases],
    },
)


def _case(row: Row) -> Applied:
    said = [part for part in str(row["detail"] or "").split("; ") if part.startswith("applied ")]
    return Applied(
        producer=row["producer"],
        sequence=row["sequence"],
        partition=row["partition"],
        offsets=tuple(row["offsets"] or ()),
        sent_us=row["sent_at"],
        applied=said[0] if said else "",
    )
