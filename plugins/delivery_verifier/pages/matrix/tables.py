"""The tables of the matrix, computed from the record of a catalogue run.

Each kind of scenario has a table, with a row per scenario and a column per profile. A catalogue run runs each scenario
in one or more rounds. An attempt is one run of a scenario in a round. A scenario whose first attempt was INCONCLUSIVE
has a second attempt in this round.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.catalogue_run import ArmResult, Attempt, CatalogueRun, Item, State
from delivery_verifier.pages.anomaly_columns import cases, columns, heading
from delivery_verifier.pages.words import latency, number

EVERYDAY = "everyday"
"""The kind of the scenarios with everyday faults."""
HEADINGS = {
    "acks": "Acknowledgements",
    "replication": "Replication",
    "duplicates": "Duplicates",
    "order": "Order",
    "clients": "Clients",
    "transactions": "Transactions",
    "network": "The network",
    "power": "Power",
    EVERYDAY: "Everyday faults",
}
"""The heading of each kind of scenario. A kind that is not listed here has its own name as heading."""


@dataclass(frozen=True)
class Cell:
    """One arm of a scenario. It shows the last attempt of each round, with all rounds together.

    `verdict`: the verdicts that occurred. `counts`, `figures`: pairs of a heading and a text. `counts` has the cases of
    each kind of anomaly in the table, `figures` the gap, the latency, the rate and the attempts not reported.
    `sentence`: of the first round that did not end as expected, or else of the first. `tone`: good (HELD as expected),
    proven (VIOLATED as expected), bad (not as expected) or unsure (INCONCLUSIVE in a round).
    """

    arm: str
    profile: str
    role: str
    claim: str
    verdict: str
    tone: str
    expected: str
    counts: list[tuple[str, str]]
    figures: list[tuple[str, str]]
    sentence: str


@dataclass(frozen=True)
class ScenarioRow:
    """One scenario over all rounds. `cells`: the cells of its arms, by profile.

    `green`: whether each round ended as expected, or could not run on this host, as the user expected. `state`: that of
    the first round that is not green, or else of the first round. `note`: why there are no arms to show, e.g. `not run
    yet`. `runs`: every attempt of every round, each after the text of the link to its report.
    """

    name: str
    title: str
    promise: str
    fault: str
    tags: str
    state: State
    green: bool
    note: str
    cells: dict[str, list[Cell]]
    runs: list[tuple[str, Attempt]]

    @property
    def doubts(self) -> list[str]:
        """The doubts that made attempts INCONCLUSIVE: each doubt once, the first six."""
        return list(dict.fromkeys(doubt for _, attempt in self.runs for doubt in attempt.doubts))[:6]


@dataclass(frozen=True)
class Table:
    """The scenarios of one kind. `columns`: the profiles of their arms. `rows`: one per scenario.

    `counts`: the headings of the counts in each cell, one for each kind of anomaly that the table shows.
    """

    kind: str
    heading: str
    columns: list[str]
    counts: list[str]
    rows: list[ScenarioRow]


def tables(catalogue: CatalogueRun) -> list[Table]:
    """The tables of a catalogue run, one per kind of scenario, in the order in which the kinds were run."""
    kinds = list(dict.fromkeys(item.kind for item in catalogue.items))
    return [_table(kind, [item for item in catalogue.items if item.kind == kind]) for kind in kinds]


def everyday(all_tables: Iterable[Table]) -> Table | None:
    """The table of the everyday faults. The page also shows it in short at the top, as a grid of faults and profiles.

    None if no scenario with an everyday fault has results.
    """
    return next((table for table in all_tables if table.kind == EVERYDAY and table.columns), None)


def _table(kind: str, items: Sequence[Item]) -> Table:
    last = [item.attempts[-1] for item in items if item.attempts]
    anomalies = columns(arm.counts for attempt in last for arm in attempt.arms)
    names = dict.fromkeys(item.name for item in items)
    rows = [_row([item for item in items if item.name == name], anomalies) for name in names]
    profiles = list(dict.fromkeys(profile for row in rows for profile in row.cells))
    return Table(kind, HEADINGS.get(kind, kind), profiles, [heading(anomaly) for anomaly in anomalies], rows)


def _row(rounds: Sequence[Item], anomalies: Sequence[Anomaly]) -> ScenarioRow:
    """One scenario over its rounds. Its state is that of the first round that is not green, or else of round one."""
    last = [item.attempts[-1] for item in rounds if item.attempts]
    worst = next((item for item in rounds if not item.green), rounds[0])
    names = dict.fromkeys(arm.arm for attempt in last for arm in attempt.arms)
    cells: dict[str, list[Cell]] = {}
    for name in names:
        cell = _cell([arm for attempt in last for arm in attempt.arms if arm.arm == name], len(last), anomalies)
        cells.setdefault(cell.profile, []).append(cell)
    item = rounds[0]
    return ScenarioRow(
        name=item.name,
        title=item.title,
        promise=item.promise,
        fault=item.fault,
        tags=", ".join(item.tags),
        state=worst.state,
        green=all(other.green for other in rounds),
        note=_note(worst),
        cells=cells,
        runs=_runs(rounds),
    )


def _note(item: Item) -> str:
    """The text for an item that has no arms to show: why the item is unavailable, its last error, or `not run yet`."""
    if item.unavailable:
        return item.unavailable
    last = item.attempts[-1] if item.attempts else None
    return last.error if last is not None else "not run yet"


def _runs(rounds: Sequence[Item]) -> list[tuple[str, Attempt]]:
    """Every attempt of a scenario, each after the text of the link to its report."""
    runs = []
    for item in rounds:
        for ordinal, attempt in enumerate(item.attempts, 1):
            words = [f"round {item.round}"] if len(rounds) > 1 else []
            words += [f"attempt {ordinal}"] if len(item.attempts) > 1 else []
            runs.append((", ".join(words) or "report", attempt))
    return runs


def _cell(arms: Sequence[ArmResult], rounds: int, anomalies: Sequence[Anomaly]) -> Cell:
    """The cell of one arm. `arms`: the results of this arm, one per round that has them."""
    arm = next((other for other in arms if not other.as_expected), arms[0])
    verdicts = list(dict.fromkeys(other.verdict for other in arms))
    times = f" {len(arms)}×" if rounds > 1 and len(verdicts) == 1 else ""
    return Cell(
        arm=arm.arm,
        profile=arm.profile,
        role=arm.role,
        claim=arm.claim,
        verdict=" / ".join(verdicts) + times,
        tone=_tone(arms),
        expected=arm.expected,
        sentence=arm.sentence,
        counts=_counts(arms, anomalies),
        figures=_figures(arms),
    )


def _tone(arms: Sequence[ArmResult]) -> str:
    if any(arm.verdict == "INCONCLUSIVE" for arm in arms):
        return "unsure"
    if not all(arm.as_expected for arm in arms):
        return "bad"
    return "proven" if any(arm.verdict == "VIOLATED" for arm in arms) else "good"


def _counts(arms: Sequence[ArmResult], anomalies: Sequence[Anomaly]) -> list[tuple[str, str]]:
    """The cases of each kind, as pairs of a heading and a text. The text is that of `_range` over the rounds."""
    return [(heading(anomaly), _range([cases(arm.counts, anomaly) for arm in arms])) for anomaly in anomalies]


def _figures(arms: Sequence[ArmResult]) -> list[tuple[str, str]]:
    gap, p99 = _greatest(arm.longest_gap_s for arm in arms), _greatest(arm.latency_ms_p99 for arm in arms)
    rates = [arm.records_per_s for arm in arms if arm.records_per_s is not None]
    return [
        ("gap", "–" if gap is None else f"{gap:.1f} s"),
        ("p99", "–" if p99 is None else latency(p99)),
        ("rate", "–" if not rates else f"{number(round(min(rates)))}/s"),
        ("refused", _refused(arms)),
    ]


def _refused(arms: Sequence[ArmResult]) -> str:
    """The attempts that were not reported: the count of FAILED and, if there are any, the count of INDETERMINATE."""
    failed, unknown = (_range([arm.counts.get(name) for arm in arms]) for name in ("failed", "indeterminate"))
    return f"{failed} + {unknown} unknown" if unknown not in ("0", "–") else failed


def _greatest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _range(values: Sequence[int | None]) -> str:
    """One number if all known values are equal, else the least and the greatest. An en dash if no value is known."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return "–"
    return number(known[0]) if known[0] == known[-1] else f"{number(known[0])}–{number(known[-1])}"
