"""Tests of the canary, an arm in which known anomalies are planted. The counts that its planters announce must equal
the counts that the oracle finds, and the counts in this file."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace
from support.applications import applied
from support.effect_histories import effect, marker
from support.effect_histories import judge as judge_effects
from support.oracle import judge
from support.run_directories import ILLEGIBLE, Row, line, scenario

from delivery_verifier import canary
from delivery_verifier.canary.effects import NEVER_SENT
from delivery_verifier.canary.layout import NOWHERE
from delivery_verifier.model.anomalies import EFFECTS as KINDS_OF_EFFECTS
from delivery_verifier.model.anomalies import Anomaly, column
from delivery_verifier.model.record import parse
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.run_directory.effect_tables import EFFECT_COUNTS
from delivery_verifier.run_directory.tally import COUNTS

PLAIN, TRANSACTIONAL = scenario(["plain"]), scenario(["plain", "transactional"], transactional=["transactional"])

TOTALS: dict[str, int] = {
    "attempted": 64,
    "acked": 52,
    "sent": 1,
    "failed": 3,
    "indeterminate": 8,
    "reported": 53,
    "found": 49,
    "lost": 4,
    "resolved_present": 5,
    "resolved_absent": 3,
    "resolved_late": 1,
    "log_records": 73,
    "first_copies": 54,
    "extra_copies": 7,
    "phantoms": 9,
    "unattributed": 3,
    "corrupted": 6,
    "misrouted": 7,
    "phantom": 6,
    "duplicated": 4,
    "resent": 8,
    "misplaced": 3,
    "reordered": 5,
    "also_resent": 0,
    "also_misplaced": 2,
    "also_reordered": 1,
    "aborted_visible": 0,
    "torn": 0,
    "also_aborted_visible": 0,
    "also_torn": 0,
}
"""The counts that a canary of two partitions must show, by column, over both. They were counted by hand, independently
of the planters.

Of the misrouted records, three are copies in another partition, three are of another arm, and one stands in another
partition alone. Half of the cases of PHANTOM were never attempted, the others FAILED. Half of the corrupted records
stand at an acknowledged offset, the others are unattributed. Each resent sequence has two attempts. A detector that
compares only neighbours misses one of the reordered records. A duplicate hides one more reordered record. A resend,
and the record that stands in another partition alone, hide one misplaced record each.
"""

IN_TRANSACTIONS: dict[str, int] = {
    "attempted": 20,
    "acked": 19,
    "indeterminate": 1,
    "reported": 19,
    "found": 18,
    "lost": 1,
    "resolved_absent": 1,
    "log_records": 19,
    "first_copies": 18,
    "extra_copies": 1,
    "corrupted": 1,
    "duplicated": 1,
    "aborted_visible": 3,
    "torn": 5,
    "also_aborted_visible": 1,
    "also_torn": 1,
}
"""The counts that the canary's transactions add to TOTALS."""

EFFECTS: dict[str, int] = {
    "attempted": 21,
    "acked": 21,
    "reported": 21,
    "found": 18,
    "lost": 3,
    "log_records": 21,
    "first_copies": 18,
    "extra_copies": 3,
    "duplicated": 3,
    "skipped": 3,
    "reapplied": 5,
    "ghost": 6,
    "overtaken": 3,
    "also_overtaken": 1,
    "effects_markers": 1,
    "effects_drained": 1,
    "effects_unparsed": 6,
    "effects_effects": 102,
    "effects_visible": 75,
    "effects_applied": 71,
    "effects_pending": 1,
    "effects_again": 18,
    "effects_extra": 9,
    "effects_skipped_behind": 3,
    "effects_carried": 8,
    "effects_copies": 85,
    "effects_lines": 85,
    "effects_ghost_effects": 6,
}
"""The counts that a canary with an application has more than one without an application."""


def test_the_totals_of_what_the_planters_add_are_those_that_stand_here() -> None:
    forgotten = {"attempted": 10, "acked": 10, "reported": 10, "lost": 10}
    plain = {name: TOTALS.get(name, 0) + forgotten.get(name, 0) for name in COUNTS}
    assert canary.expected_counts(PLAIN) == plain and TOTALS.keys() <= plain.keys()
    assert canary.expected_counts(TRANSACTIONAL) == {
        name: count + IN_TRANSACTIONS.get(name, 0) for name, count in plain.items()
    }


def test_an_application_adds_the_counts_that_stand_here() -> None:
    before, after = canary.expected_counts(PLAIN), canary.expected_counts(applied(PLAIN))
    added = {name: count - before.get(name, 0) for name, count in after.items()}
    assert {name: count for name, count in added.items() if count} == EFFECTS


def test_the_attempts_of_the_canary_have_every_sequence_once_and_no_gap() -> None:
    made = applied(PLAIN)
    assert sorted({row.sequence for row in canary.lay_out(made).rows}) == [*range(81)]


def test_the_canary_determines_every_count_of_the_tally_and_plants_every_anomaly() -> None:
    assert set(canary.expected_counts(TRANSACTIONAL)) == set(COUNTS), "a run without applications counts no effects"
    planted = canary.expected_counts(applied(TRANSACTIONAL))
    of_effects = {f"effects_{count.name}" for count in EFFECT_COUNTS}
    assert set(planted) == {*COUNTS, *of_effects}, "a planter of canary/planters.py names a count that the counts lack"
    missing = [anomaly.value for anomaly in Anomaly if not planted[column(anomaly)]]
    assert not missing, f"canary/planters.py plants no {missing}: write a planter and name it in PLANTERS"


def fields_of(header: Any) -> Row:
    fields = ("producer", "sequence", "attempt", "partition_sequence", "crc_ok")
    return {name: getattr(header, name) for name in fields} | {"header_arm": header.arm, "foreign": header.arm != 0}


def log_of(layout: canary.CanaryLayout) -> list[Row]:
    """Returns the log rows of the layout's records. The offset of each record is its index in `values`."""
    rows = []
    for offset, (partition, value) in enumerate(layout.values):
        header: Any = parse(value)
        known = fields_of(header) if header else ILLEGIBLE
        rows.append(line("canary", 0, offset, 0, partition=partition) | known)
    return rows


def test_one_partition_holds_the_whole_canary_if_there_is_no_other() -> None:
    load = canary.lay_out(scenario(["plain"], partitions=1)).values
    assert {partition for partition, _ in load} == {0}
    assert {partition for partition, _ in canary.lay_out(PLAIN).values} == {0, 1}


@pytest.mark.parametrize("partitions", [1, 2, 3])
@pytest.mark.parametrize("plain", [PLAIN, TRANSACTIONAL], ids=["plain", "transactional"])
def test_what_the_planters_say_of_effects_is_what_the_oracle_of_effects_finds(plain: Scenario, partitions: int) -> None:
    made = applied(replace(plain, load=replace(plain.load, partitions=partitions)))
    layout = canary.lay_out(made)
    log = log_of(layout)
    hidden = {
        index
        for index, row in enumerate(log)
        if layout.transactions and index >= len(log) - layout.transactions[-1][0]  # the last transaction is aborted
    }
    effects = []
    for order, planned in enumerate(canary.applied(made, layout)):
        header: Any = parse(planned.value)
        assert planned.position not in hidden
        row = line("canary", 0, planned.position, 0, partition=planned.partition) | (
            fields_of(header) if header else ILLEGIBLE
        )
        effects.append(effect("canary", row, order))
    effects.append(effect("canary", marker("canary", 0, 0), len(effects)))
    cases, tally = judge_effects([row for index, row in enumerate(log) if index not in hidden], effects)
    assert dict(tally) == {name: count for name, count in canary.expected_effects(made, layout).items() if count}
    found = Counter(kind for kind, *_ in cases.elements())
    planted = canary.expected_counts(made)
    assert {kind: planted[column(kind)] for kind in KINDS_OF_EFFECTS} == found
    assert planted["also_overtaken"] == sum(also for _, also, *_ in cases.elements()) == 1
    assert found["SKIPPED"] == (4 if partitions == 1 else 3), "in a partition without a marker nothing is skipped"
    assert tally["pending"] == (0 if partitions == 1 else 1)


def test_the_last_three_records_that_stand_twice_are_applied_twice_once_and_three_times() -> None:
    layout = canary.lay_out(applied(PLAIN))
    copies = Counter(value for _, value in layout.values)
    times = Counter(effect.value for effect in layout.effects)
    assert [times[value] for value, count in copies.items() if count == 2][-3:] == [2, 1, 3]


def test_records_are_applied_where_they_stand_and_some_twice_or_four_times() -> None:
    layout = canary.lay_out(applied(PLAIN))
    standing = [effect for effect in layout.effects if effect.position < NOWHERE]
    assert all(layout.values[effect.position][1] == effect.value for effect in standing)
    copies = Counter(value for _, value in layout.values)
    times = Counter(effect.value for effect in standing)
    often = {value: times[value] for value, count in copies.items() if count == 1}
    assert {*often.values()} == {0, 1, 2, 4}
    assert [count for value, count in often.items() if count > 1] == [4, 2, 4, 2], (
        "four times, twice, four times; overtaken"
    )


def test_a_ghost_is_applied_at_the_offset_that_was_acknowledged_and_holds_nothing() -> None:
    made = applied(PLAIN)
    layout = canary.lay_out(made)
    acknowledged = canary.ledger_table(made, layout, list(range(len(layout.values))))["offset"].to_pylist()
    ghosts = {effect.position for effect in layout.effects if NOWHERE <= effect.position < NOWHERE + NEVER_SENT}
    assert len(ghosts) == 3 and ghosts <= set(acknowledged)


@pytest.mark.parametrize("made", [PLAIN, TRANSACTIONAL], ids=["plain", "transactional"])
def test_what_the_planters_say_they_add_is_what_the_oracle_finds(made: Scenario) -> None:
    layout = canary.lay_out(made)
    ledger = canary.ledger_table(made, layout, list(range(len(layout.values)))).to_pylist()
    log = log_of(layout)
    hidden = sum(count for count, committed in layout.transactions if not committed)
    tally, _ = judge(ledger, log, log[: len(log) - hidden] if layout.transactions else [])
    assert {name: count for name, count in layout.counts.items() if count} == dict(tally)


def test_an_offset_beyond_the_log_is_claimed_as_it_is() -> None:
    run = scenario(["plain"])
    layout = canary.lay_out(run)
    (row, *_) = layout.rows
    layout.rows[:] = [dataclasses.replace(row, acked_at=at) for at in (None, 0, NOWHERE, NOWHERE + 1)]
    offsets = canary.ledger_table(run, layout, [77])["offset"].to_pylist()
    assert offsets == [None, 77, NOWHERE, NOWHERE + 1]
