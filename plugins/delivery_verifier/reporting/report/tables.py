"""The tables of the report: findings, invariants, gaps in the reports, and settings of the arms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from delivery_verifier.model.anomalies import KINDS, Anomaly
from delivery_verifier.model.data import Setting, setting_text
from delivery_verifier.model.figures import share
from delivery_verifier.model.history import injection_during
from delivery_verifier.model.verdict import ArmVerdict, CheckedInvariant, Finding
from delivery_verifier.reporting.explained_by import TimeText, explained_lines
from delivery_verifier.reporting.leadership import Clock, injection_name
from delivery_verifier.reporting.material import Material
from delivery_verifier.reporting.words import number, plain_name
from delivery_verifier.run_directory import tables
from delivery_verifier.run_directory.counts import LATE

GAPS_SHOWN = 24
"""The greatest number of gaps (see GapRow) that are shown, the longest gaps first."""


@dataclass(frozen=True)
class FindingRow:
    """One row of the findings: one anomaly of one arm, with texts for readers.

    * `name`: the name of the anomaly in plain language. `definition`: the definition of the anomaly.
    * `tolerated`: the number of tolerated cases.
    * `share`: the number of cases as a share of a count of the counts, e.g. of the number of attempts. It is empty if
      there is no case, if this count is not known, or if cases of REORDERED include attempts that were never reported.
    * `explained_by`: the disturbances that explain the cases (see `explained_lines`).
    """

    finding: Finding
    name: str
    definition: str
    tolerated: str
    share: str
    explained_by: list[str]
    mark: str
    """How the number of cases compares with the tolerance.

    `none`: there is no case. `within`: there are cases, but no more than tolerated. `above`: there are more cases than
    tolerated. `permitted`: there are cases, and any number is tolerated.
    """


def finding_rows(arm: ArmVerdict, time_text: TimeText) -> list[FindingRow]:
    """Returns the rows of the findings of one arm. Findings with more cases than tolerated come first. Findings without
    a case come last."""
    rows = [
        FindingRow(
            finding=finding,
            name=plain_name(finding.anomaly),
            definition=KINDS[Anomaly(finding.anomaly)].definition if finding.anomaly in Anomaly.__members__ else "",
            tolerated="any number" if finding.tolerance is None else number(finding.tolerance),
            share=_share(arm, finding),
            explained_by=explained_lines(finding, time_text),
            mark=_mark(finding),
        )
        for finding in arm.findings
    ]
    order = ("above", "permitted", "within", "none")
    return sorted(rows, key=lambda row: order.index(row.mark))


def _mark(finding: Finding) -> str:
    if not finding.cases:
        return "none"
    if finding.tolerance is None:
        return "permitted"
    return "above" if finding.broken else "within"


def _share(arm: ArmVerdict, finding: Finding) -> str:
    column = KINDS[Anomaly(finding.anomaly)].share_of if finding.anomaly in Anomaly.__members__ else ""
    whole = arm.tally.get(column, 0)
    count = finding.cases
    if finding.anomaly == Anomaly.REORDERED and arm.tally.get(LATE):  # these are no reported records
        return ""
    return f"{share(count, whole)} of {number(whole)} {column.replace('_', ' ')}" if count and whole else ""


@dataclass(frozen=True)
class InvariantRow:
    """One invariant, with the results of its checks. An invariant can be checked several times, e.g. once per
    partition.

    * `meaning`: the invariant in words. `checks`: the number of checks. Each check is a row of counts/invariants.
    * `left_name`: the name of the count on the left side. `left`: the sum of this count over all checks. `right_name`
      and `right`: the same for the count on the right side.
    * `unbalanced`: the rows of counts/invariants in which the two counts differ, or the left count is null.
    """

    invariant: str
    meaning: str
    checks: int
    left_name: str
    left: int
    right_name: str
    right: int
    unbalanced: list[dict[str, Any]]


def invariant_rows(table: pa.Table | None, checked: Iterable[CheckedInvariant]) -> list[InvariantRow]:
    """Returns the invariants of the counts, in the order of `table`, which is counts/invariants. Returns an empty list
    if `table` is None. `checked`: the invariants of the verdict, which say what an invariant means."""
    meanings = {invariant.invariant: invariant.meaning for invariant in checked}
    rows: list[dict[str, Any]] = [] if table is None else table.to_pylist()
    invariants = []
    for invariant in dict.fromkeys(row["invariant"] for row in rows):
        checks = [row for row in rows if row["invariant"] == invariant]
        invariants.append(
            InvariantRow(
                invariant=invariant,
                meaning=meanings.get(invariant, ""),
                checks=len(checks),
                left_name=_name(checks, "left_name"),
                left=sum(row["left"] or 0 for row in checks),
                right_name=_name(checks, "right_name"),
                right=sum(row["right"] or 0 for row in checks),
                unbalanced=[row for row in checks if row["left"] is None or row["left"] != row["right"]],
            )
        )
    return invariants


def _name(rows: list[dict[str, Any]], side: str) -> str:
    """Returns the first name in the column `side` of `rows`. If the rows have different names, `(and so on)`
    follows."""
    names = list(dict.fromkeys(row[side] for row in rows))
    return str(names[0]) if len(names) == 1 else f"{names[0]} (and so on)"


@dataclass(frozen=True)
class GapRow:
    """The longest gap of one arm on one partition. A gap is the time between two consecutive reports of records.

    `since`: the start of the gap as text. `injection`: the name of the first fault injection that overlaps the gap (see
    `injection_during`), or an en dash if there is none.
    """

    arm: str
    partition: int
    longest_gap_s: float
    since: str
    injection: str


def gap_rows(material: Material, clock: Clock) -> list[GapRow]:
    """Returns the longest gap of each arm and partition. The longest gap of all comes first. There are at most
    GAPS_SHOWN rows.

    An arm has no gap on a partition with fewer than two reports.
    """
    table = material.table(tables.GAPS)
    rows: list[dict[str, Any]] = [] if table is None else table.to_pylist()
    rows = [row for row in rows if row["longest_gap_s"] is not None]
    rows.sort(key=lambda row: -row["longest_gap_s"])
    gaps = []
    for row in rows[:GAPS_SHOWN]:
        start = row["gap_start_us"]
        end = None if start is None else start + int(row["longest_gap_s"] * 1e6)
        injection = injection_during(material.injections, start, end)
        gaps.append(
            GapRow(
                row["arm"],
                row["partition"],
                row["longest_gap_s"],
                clock.text(start),
                injection_name(injection) if injection else "–",
            )
        )
    return gaps


@dataclass(frozen=True)
class SettingRow:
    """One property of a client or topic. `values`: the value of the property in each arm. `differs`: whether these
    values differ."""

    name: str
    values: list[str]
    differs: bool


def setting_rows(per_arm: Iterable[dict[str, Setting]]) -> list[SettingRow]:
    """Returns one row for each property that at least one arm sets. Properties whose values differ between the arms
    come first.

    `per_arm`: for each arm, a group of its settings, e.g. those of the producer or of the topic. The keys are the names
    of the properties.
    """
    arms = list(per_arm)
    names = sorted({name for settings in arms for name in settings})
    rows = []
    for name in names:
        values = [setting_text(settings[name]) if name in settings else "not set" for settings in arms]
        rows.append(SettingRow(name, values, len(set(values)) > 1))
    return sorted(rows, key=lambda row: not row.differs)
