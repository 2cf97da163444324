"""The tables of the matrix, computed from the record of a catalogue run.

There is one table for each kind of scenario, with a row per scenario. A table has a column per profile or, for arms
with an application, per pair of profile and application. The page shows all tables as one map (see `columns`). A
catalogue run runs each scenario in one or more rounds. If the first run of a scenario in a round is INCONCLUSIVE, the
round has a second run of this scenario. In this module, an `Attempt` is one run of a scenario, not a send of a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from delivery_verifier.catalogue.applications import profile_and_application
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.catalogue_run import ArmResult, Attempt, CatalogueRun, Item, State
from delivery_verifier.reporting.anomaly_columns import cases, columns, heading
from delivery_verifier.reporting.words import latency, number

_HEADINGS = {"acks": "Acknowledgements", "network": "The network", "everyday": "Everyday faults"}


def heading_of_kind(kind: str) -> str:
    """Returns the heading for a kind of scenario, e.g. `Acknowledgements` for `acks`."""
    return _HEADINGS.get(kind, kind.capitalize())


@dataclass(frozen=True)
class Cell:
    """The results of one arm of a scenario, from the last run of the scenario in each round.

    * `profile`: the name of the arm's profile. If the arm has an application, its name follows, and then the client
      if it is not librdkafka.
    * `verdict`: the different verdicts as text, e.g. `HELD / VIOLATED`. If several rounds have the same verdict, the
      number of rounds stands behind it.
    * `counts`: for each kind of anomaly, a heading and the number of cases as text.
    * `figures`: for each other figure, such as the longest gap, a heading and a text.
    * `sentence`: the sentence of the verdict in the first round in which the arm did not end as expected. If there is
      no such round, the sentence of the first round.
    * `tone`: `unsure` (INCONCLUSIVE in some round), `bad` (not as expected), `proven` (VIOLATED as expected) or `good`
      (HELD as expected).
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

    @property
    def letters(self) -> str:
        """Returns the first letter of each verdict, e.g. `H`. If the verdicts of the rounds differ, the letters are
        separated by a slash, e.g. `H/V`."""
        return "/".join(verdict[0] for verdict in self.verdict.split(" / "))


@dataclass(frozen=True)
class ScenarioRow:
    """The results of one scenario in all rounds. `cells`: the cells of its arms, by profile.

    * `green`: whether all rounds are green. A round is green if the scenario ended as expected. A round is also green
      if this host could not run the scenario and the user expected this.
    * `state`: the state of the first round that is not green. If all rounds are green, the state of the first round.
    * `note`: why the round whose state is in `state` has no results, e.g. `not run yet`; empty if the round has
      results.
    * `runs`: for each run of the scenario, the text of the link to its report, e.g. `round 2`, and the run.
    * `most`: for each kind of anomaly that an arm has, the heading of the kind and the greatest number of cases in one
      arm.
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
    most: list[tuple[str, int]]

    @property
    def doubts(self) -> list[str]:
        """Returns the first six doubts of all runs of the scenario, each doubt once."""
        return list(dict.fromkeys(doubt for _, attempt in self.runs for doubt in attempt.doubts))[:6]


@dataclass(frozen=True)
class Table:
    """The table of the scenarios of one kind. `columns`: the profiles of the arms. `rows`: a row per scenario.

    `counts`: the headings of the counts in each cell. There is one count for each kind of anomaly that the table shows.
    """

    kind: str
    heading: str
    columns: list[str]
    counts: list[str]
    rows: list[ScenarioRow]


def tables(catalogue: CatalogueRun) -> list[Table]:
    """Returns the tables of a catalogue run, one per kind of scenario, in the order in which the kinds were run."""
    kinds = list(dict.fromkeys(item.kind for item in catalogue.items))
    return [_table(kind, [item for item in catalogue.items if item.kind == kind]) for kind in kinds]


def _table(kind: str, items: Sequence[Item]) -> Table:
    last = [item.attempts[-1] for item in items if item.attempts]
    anomalies = columns(arm.counts for attempt in last for arm in attempt.arms)
    names = dict.fromkeys(item.name for item in items)
    rows = [_row([item for item in items if item.name == name], anomalies) for name in names]
    profiles = list(dict.fromkeys(profile for row in rows for profile in row.cells))
    return Table(kind, heading_of_kind(kind), profiles, [heading(anomaly) for anomaly in anomalies], rows)


def _row(rounds: Sequence[Item], anomalies: Sequence[Anomaly]) -> ScenarioRow:
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
        most=_most([arm for attempt in last for arm in attempt.arms], anomalies),
    )


def _most(arms: Sequence[ArmResult], anomalies: Sequence[Anomaly]) -> list[tuple[str, int]]:
    greatest = {anomaly: max((cases(arm.counts, anomaly) or 0 for arm in arms), default=0) for anomaly in anomalies}
    return [(heading(anomaly), count) for anomaly, count in greatest.items() if count]


def _note(item: Item) -> str:
    """Returns the reason why `item`, a scenario in one round, has no results. Returns an empty text if `item` has
    results.

    The reason is what this host lacks to run the scenario, the error of the last run, or `not run yet`.
    """
    if item.unavailable:
        return item.unavailable
    last = item.attempts[-1] if item.attempts else None
    return last.error if last is not None else "not run yet"


def _runs(rounds: Sequence[Item]) -> list[tuple[str, Attempt]]:
    """Returns all runs of a scenario, as pairs (text of the link to the report, run). The text is, e.g., `round 2`."""
    runs = []
    for item in rounds:
        for ordinal, attempt in enumerate(item.attempts, 1):
            words = [f"round {item.round}"] if len(rounds) > 1 else []
            words += [f"attempt {ordinal}"] if len(item.attempts) > 1 else []
            runs.append((", ".join(words) or "report", attempt))
    return runs


def _cell(arms: Sequence[ArmResult], rounds: int, anomalies: Sequence[Anomaly]) -> Cell:
    """Returns the cell of one arm. `arms`: the results of the arm, from the last run in each round.

    `rounds`: the number of rounds in which the scenario was run.
    """
    arm = next((other for other in arms if not other.as_expected), arms[0])
    verdicts = list(dict.fromkeys(other.verdict for other in arms))
    times = f" {len(arms)}×" if rounds > 1 and len(verdicts) == 1 else ""
    return Cell(
        arm=arm.arm,
        profile=_with_client(profile_and_application(arm.profile, arm.application), arm.client),
        role=arm.role,
        claim=arm.claim,
        verdict=" / ".join(verdicts) + times,
        tone=_tone(arms),
        expected=arm.expected,
        sentence=arm.sentence,
        counts=_counts(arms, anomalies),
        figures=_figures(arms),
    )


def _with_client(name: str, client: str) -> str:
    return f"{name}, {client}" if client else name


def _tone(arms: Sequence[ArmResult]) -> str:
    if any(arm.verdict == "INCONCLUSIVE" for arm in arms):
        return "unsure"
    if not all(arm.as_expected for arm in arms):
        return "bad"
    return "proven" if any(arm.verdict == "VIOLATED" for arm in arms) else "good"


def _counts(arms: Sequence[ArmResult], anomalies: Sequence[Anomaly]) -> list[tuple[str, str]]:
    """Returns, for each kind of anomaly, its heading and the number of cases as text.

    If the rounds have different numbers, the text gives the least and the greatest number.
    """
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
    """Returns the numbers of FAILED and INDETERMINATE attempts as text, e.g. `3 + 2 unknown`.

    If no attempt was INDETERMINATE, the text has only the first number. If a number differs between rounds, the text
    gives the least and the greatest number.
    """
    failed, unknown = (_range([arm.counts.get(name) for arm in arms]) for name in ("failed", "indeterminate"))
    return f"{failed} + {unknown} unknown" if unknown not in ("0", "–") else failed


def _greatest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _range(values: Sequence[int | None]) -> str:
    """Returns the range of the known values as text. If all known values are equal, the text has this one number.
    Otherwise the text has the least and the greatest value.

    Returns an en dash if no value is known.
    """
    known = sorted(value for value in values if value is not None)
    if not known:
        return "–"
    return number(known[0]) if known[0] == known[-1] else f"{number(known[0])}–{number(known[-1])}"
