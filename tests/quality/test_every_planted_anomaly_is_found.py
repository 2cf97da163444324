"""Compares one Spark job over many random histories, and all that are made to deceive it, with the oracle
(tests/support/oracle.py). Each history is an arm, and the results must be equal."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.adversaries import DECEIVING, nothing_wrong
from support.oracle import Case, given_up, judge
from support.planters import BORDERLINE, EVERY, HEALTHY, IN_TRANSACTIONS, PLANTERS, History, random_history
from support.run_directories import scenario, table, write
from support.seeds import FEWEST, in_this_round
from support.seeds import histories as number_of_histories

from delivery_verifier.model.anomalies import EFFECTS, KINDS, Anomaly, column
from delivery_verifier.run_directory.given_up import read_given_up
from delivery_verifier.run_directory.run_directory import RunDirectory
from delivery_verifier.run_directory.tally import COUNTS, SECOND_OPINION
from spark_jobs import reconcile as job
from spark_jobs.checks.second_opinion import COUNTS as COUNTED_TWICE
from spark_jobs.matching import match
from spark_jobs.matching.anomalies import DETECTORS

SEED = in_this_round(20_260_101)
OF_THE_LOG = [kind for kind in Anomaly if kind not in EFFECTS]
"""The kinds of the other anomalies, those of effects, have histories of their own: see test_effects."""


def test_every_anomaly_has_a_definition_a_detector_and_a_planter() -> None:
    assert set(OF_THE_LOG) == set(PLANTERS) and set(Anomaly) == set(KINDS)
    assert list(DETECTORS) == OF_THE_LOG, "detectors are tried in the order of precedence"


EXHAUSTIVE = "exhaustive"
LARGE = (EXHAUSTIVE, 2, 3)
"""The parameters of `way` with which Spark has many tasks and shuffles, as in large runs. With the other, each query is
one task, as in small runs."""
COLLECTED = 3
"""The parameter of `way` with which the unproven rows of the large run are collected first, because they are few."""
WITH_FEW = (1, 3)
"""The parameters of `way` that play FEWEST random histories, however many the others play. What only these ways do has
tests with crafted defects: spark/test_screen and spark/test_one_pass."""
WAYS = [EXHAUSTIVE, pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(3, marks=pytest.mark.slow)]
"""`make test` plays the first and the third way, `make test-all` all of them."""


@pytest.fixture(scope="module", params=WAYS, ids=lambda way: f"bits-{way}")
def way(request: pytest.FixtureRequest) -> str | int:
    """How the histories are reconciled: without the screen, or the bits of a screen: it proves 2, 4 or 8 sequences at
    once.

    The screen (spark_jobs.matching.screen) skips the matching of sequences in which ledger and log provably agree.
    """
    chosen: str | int = request.param
    return chosen


@pytest.fixture(scope="module")
def histories(way: str | int) -> list[History]:
    number = min(FEWEST, number_of_histories()) if way in WITH_FEW else number_of_histories()
    mixed = [random_history(f"h{at}", at, SEED + at, EVERY, 25) for at in range(1, number + 1)]
    clean = [random_history(f"clean{at}", number + 1 + at, SEED + at, HEALTHY, 40) for at in range(number // 10)]
    first = 1 + len(mixed) + len(clean)
    return mixed + clean + [_single(at, plant, first + at) for at, plant in enumerate((*EVERY, *DECEIVING))]


def _single(at: int, plant: Any, ordinal: int) -> History:
    history = History(f"single-{at}-{plant.__name__}", ordinal)
    plant(history)
    return history


def mixed(histories: list[History]) -> int:
    """Returns how many random histories may have anomalies."""
    return sum(history.arm.startswith("h") for history in histories)


@pytest.fixture(scope="module")
def run(
    way: str | int, histories: list[History], spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> RunDirectory:
    """The run directory of all histories, reconciled once in each way."""
    exhaustive = way == EXHAUSTIVE
    transactional = {history.arm for history in histories if history.transaction}
    made = scenario([history.arm for history in histories], partitions=2, producers=2, transactional=transactional)
    rows = [row for history in histories for row in history.attempts]
    lines = [row for history in histories for row in history.lines + (history.seen if history.transaction else [])]
    path: Path = tmp_path_factory.mktemp("thousand")
    directory = write(path, made, rows, lines)
    with pytest.MonkeyPatch.context() as patch:
        if way in LARGE:
            patch.setattr(job, "SMALL_ROWS", 0)
        patch.setattr(match, "FEW_DAMAGED", match.FEW if way == COLLECTED else -1)
        job.reconcile(path, True, spark, exhaustive=exhaustive, bits=way if isinstance(way, int) else 1)
    counts = directory.manifest("reconcile").counts
    assert exhaustive or (counts["screen/dirty"] < counts["screen/buckets"] and "screen/refuted" not in counts)
    return directory


@pytest.fixture(scope="module")
def tally(run: RunDirectory) -> dict[str, Counter[str]]:
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    for row in table(run, "counts/producers.parquet"):
        totals[row["arm"]].update({name: row[name] for name in COUNTS})
    return {arm: +counts for arm, counts in totals.items()}


@pytest.fixture(scope="module")
def cases(run: RunDirectory) -> dict[str, Counter[Case]]:
    found: dict[str, Counter[Case]] = defaultdict(Counter)
    for row in table(run, "anomalies"):
        key = tuple(row[name] for name in ("producer", "session", "sequence", "attempt"))
        found[row["arm"]][row["kind"], tuple(row["also"]), key, tuple(row["offsets"])] += 1
    return found


def test_the_tally_of_every_history_are_the_oracles(histories: list[History], tally: dict[str, Counter[str]]) -> None:
    for history in histories:
        assert tally[history.arm] == judge(history.attempts, history.lines, history.seen)[0], history.arm


def test_the_cases_of_every_history_are_the_oracles(histories: list[History], cases: dict[str, Counter[Case]]) -> None:
    for history in histories:
        expected = Counter[Case]()
        for case, count in judge(history.attempts, history.lines, history.seen)[1].items():
            expected[(*case[:3], tuple(offset for offset, _ in case[3]))] += count
        assert cases.get(history.arm, Counter()) == expected, history.arm


def test_what_was_given_up_in_every_history_is_what_the_oracle_counts(
    histories: list[History], run: RunDirectory
) -> None:
    counts = read_given_up(run)
    found = {history.arm: sum(count.attempts for count in counts[history.arm]) for history in histories}
    assert found == {history.arm: given_up(history.attempts, history.lines) for history in histories}
    assert sum(map(bool, found.values())) > len(histories) / 10, "many histories give up something"


def test_a_planter_makes_its_kind_appear(histories: list[History], tally: dict[str, Counter[str]]) -> None:
    by_name = {history.arm.split("-", 2)[-1]: history.arm for history in histories if "-" in history.arm}
    for kind, ways in PLANTERS.items():
        for plant in ways:
            assert tally[by_name[plant.__name__]][kind.value.lower()] >= 1, plant.__name__


def test_what_is_healthy_is_never_called_an_anomaly(histories: list[History], cases: dict[str, Counter[Case]]) -> None:
    innocent = {plant.__name__ for plant in (*HEALTHY, *BORDERLINE, *IN_TRANSACTIONS, nothing_wrong)}
    arms = [h.arm for h in histories if h.arm.startswith("clean") or h.arm.split("-", 2)[-1] in innocent]
    assert len(arms) == mixed(histories) // 10 + len(innocent)
    assert {arm: cases[arm] for arm in arms if arm in cases} == {}


def test_mixed_histories_contain_every_kind_often(histories: list[History], cases: dict[str, Counter[Case]]) -> None:
    kinds = Counter(case[0] for found in cases.values() for case in found.elements())
    assert min(kinds[kind.value] for kind in OF_THE_LOG) > mixed(histories) // 20, kinds


def test_foreign_writers_are_counted_where_no_record_was_acknowledged(
    histories: list[History], run: RunDirectory
) -> None:
    counts = run.manifest("reconcile").counts
    for history in histories:
        acked = {(row["partition"], row["offset"]) for row in history.attempts if row["outcome"] == "ACKED"}
        strange = [row for row in history.lines if row["foreign"] and not row["parsed"]]
        count = sum((row["partition"], row["offset"]) not in acked for row in strange)
        assert counts[f"foreign_writers/{history.arm}"] == count, history.arm
    assert sum(count for name, count in counts.items() if name.startswith("foreign_writers/")) > mixed(histories) // 20


def test_duckdb_counts_in_every_history_without_damage_what_the_oracle_counts(
    histories: list[History], run: RunDirectory
) -> None:
    counted: dict[str, dict[str, int]] = defaultdict(dict)
    for row in table(run, "counts/invariants.parquet"):
        if row["invariant"] == SECOND_OPINION:
            counted[row["arm"]][row["left_name"].removesuffix(", counted by DuckDB")] = row["left"]
    expected, whole = {}, Counter[str]()
    for history in histories:
        damaged = sum(not row["crc_ok"] for row in history.lines)
        expected[history.arm] = {"damaged records in log/": damaged}
        if not damaged:
            totals = judge(history.attempts, history.lines, history.seen)[0]
            expected[history.arm] |= {name.replace("_", " "): totals[name] for name in COUNTED_TWICE}
            whole.update(totals)
    assert counted == expected | {"canary": counted["canary"]}
    assert min(whole[column(kind)] for kind in OF_THE_LOG if kind != Anomaly.CORRUPTED) > mixed(histories) * 3 // 100, (
        whole
    )


def test_the_invariants_hold_for_every_history(run: RunDirectory) -> None:
    assert [row for row in table(run, "counts/invariants.parquet") if row["left"] != row["right"]] == []
