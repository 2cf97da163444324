"""Tests of resends: which sequences the application sends again, and with which attempt number. The numbers have no
gaps, and the counts of a killed producer balance."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from delivery_verifier.load.error_codes import code_of
from delivery_verifier.load.layout import LoadLayout
from delivery_verifier.load.live_ledger import (
    ACKED_NOWHERE,
    FAILED,
    INDETERMINATE,
    MASK,
    SENT,
    SHIFT,
    SLOTS,
    Control,
    LiveLedger,
    Word,
    encode_error,
    outcome_of,
)
from delivery_verifier.load.publish_ledger import publish_ledger
from delivery_verifier.load.resends import (
    Round,
    SequenceRange,
    attempt_folder,
    count_outcomes,
    next_round,
    partition_shifts,
    read_rounds,
    unanswered,
    write_round,
)

TIMED_OUT, REFUSED, OPEN = encode_error(INDETERMINATE, code_of(-192)), encode_error(FAILED, 10), 0
LAYOUT = LoadLayout(block=3, partitions=2)


def write(folder: Path, results: dict[int, int], attempt: int = 0) -> None:
    """Puts `results` (by sequence) into the live ledger, as a producer's callback does."""
    live = LiveLedger(attempt_folder(folder, attempt))
    for sequence, result in results.items():
        live.open(sequence, 1, 1_000_000 * (attempt + 1))
        live.segments[sequence >> SHIFT].result[sequence & MASK] = result


def again(folder: Path, frontier: int, include_open: bool) -> Round:
    """Plans the next round of resends, writes it to the folder, and returns it."""
    before = read_rounds(folder)
    made = next_round(unanswered(folder, frontier, before, include_open), frontier, before, LAYOUT)
    write_round(folder, len(before) + 1, made)
    return made


def test_only_what_nobody_can_know_is_sent_again(tmp_path: Path) -> None:
    write(tmp_path, {0: 5, 1: ACKED_NOWHERE, 2: SENT, 3: REFUSED, 4: TIMED_OUT, 5: OPEN})
    assert unanswered(tmp_path, 6, [], include_open=False) == {4: 0}, "an attempt under way may still be answered"
    assert unanswered(tmp_path, 6, [], include_open=True) == {4: 0, 5: 0}, "but not to a process that is gone"
    assert unanswered(tmp_path, 4, [], include_open=True) == {}, "what was never announced was never sent"


def test_a_resend_that_is_answered_is_over_and_one_that_is_not_becomes_a_third_attempt(tmp_path: Path) -> None:
    write(tmp_path, dict.fromkeys(range(6), OPEN))
    assert [(run.attempt, run.first, run.count) for run in again(tmp_path, 6, include_open=True).ranges] == [
        (1, 0, 3),
        (1, 3, 3),
    ]
    write(tmp_path, {0: 9, 1: OPEN, 2: TIMED_OUT, 3: 10, 4: 11, 5: REFUSED}, attempt=1)
    write(tmp_path, {6: TIMED_OUT, 7: 12, 8: 13})
    assert unanswered(tmp_path, 9, read_rounds(tmp_path), include_open=False) == {2: 1, 6: 0}
    assert [(run.attempt, run.first, run.count) for run in again(tmp_path, 9, include_open=True).ranges] == [
        (2, 1, 2),
        (1, 6, 1),
    ]


def test_partition_sequences_number_what_is_sent_in_the_order_of_sending(tmp_path: Path) -> None:
    """The load has two rounds of resends, with first attempts before, between and after these rounds."""
    for frontier, results in ((12, {4: OPEN, 5: OPEN, 7: OPEN}), (18, {2: OPEN, 13: OPEN, 16: TIMED_OUT})):
        write(tmp_path, dict.fromkeys(range(frontier), 1) | results)
        for one in again(tmp_path, frontier, include_open=True).ranges:
            write(tmp_path, dict.fromkeys(range(one.first, one.first + one.count), 1), one.attempt)
    write(tmp_path, dict.fromkeys(range(18, 30), 1))
    control = Control(tmp_path)
    control[Word.ANNOUNCED], control[Word.RESENT] = 30, sum(one.attempts for one in read_rounds(tmp_path))
    announced = publish_ledger(tmp_path, tmp_path / "ledger", "a", 0, 0, LAYOUT)
    rows = pq.read_table(tmp_path / "ledger").to_pylist()
    assert len(rows) == announced == 36
    for partition in (0, 1):
        mine = [row for row in rows if row["partition"] == partition]
        assert all(LAYOUT.partition(row["sequence"]) == partition for row in mine), (
            "a resend goes where the first one went"
        )
        by_number = sorted(mine, key=lambda row: row["partition_sequence"])
        assert [row["partition_sequence"] for row in by_number] == list(range(len(mine)))
        first = [row["sequence"] for row in by_number if not row["attempt"]]
        assert first == sorted(first)
        for frontier, resent in ((12, {4, 5, 7}), (18, {2, 13, 16})):
            number = {(row["sequence"], row["attempt"]): row["partition_sequence"] for row in mine}
            of_round = [number[key] for key in number if key[1] and key[0] in resent]
            assert all(
                number[sequence, 0] < at for at in of_round for sequence in range(frontier) if (sequence, 0) in number
            )
            assert all(
                at < number[sequence, 0]
                for at in of_round
                for sequence in range(frontier, 30)
                if (sequence, 0) in number
            )


def test_the_layout_counts_what_a_partition_holds() -> None:
    for end in range(0, 60, LAYOUT.block):
        held = Counter(LAYOUT.partition(sequence) for sequence in range(end))
        assert [LAYOUT.count_in(at, end) for at in (0, 1)] == [held[0], held[1]]


def test_a_run_of_resends_may_lie_in_two_segments(tmp_path: Path) -> None:
    wide, begin = LoadLayout(block=1000, partitions=1), (SLOTS // 1000) * 1000
    live = LiveLedger(tmp_path)
    live.open(begin, 1000, 7)
    live.open(0, SLOTS, 7)
    for sequence in range(begin):
        live.segments[0].result[sequence] = 1
    found = unanswered(tmp_path, begin + 1000, [], include_open=True)
    (run,) = next_round(found, begin + 1000, [], wide).ranges
    assert (
        run == SequenceRange(attempt=1, first=begin, count=1000, partition_sequence=begin + 1000)
        and begin < SLOTS < begin + 1000
    )


def test_after_a_kill_the_words_say_what_the_slots_say(tmp_path: Path) -> None:
    """A producer may be killed after it has written a result into its slot and before it has counted the result. So the
    counts are made again from the slots."""
    results = {0: 5, 1: ACKED_NOWHERE, 2: SENT, 3: REFUSED, 4: TIMED_OUT, 5: OPEN}
    write(tmp_path, results)
    again(tmp_path, 6, include_open=True)
    write(tmp_path, {4: 6, 5: OPEN}, attempt=1)
    assert count_outcomes(tmp_path, 6) == {
        Word.REPORTED: 4,
        Word.FAILED: 1,
        Word.INDETERMINATE: 1,
        Word.ABANDONED: 2,
        Word.RESENT: 2,
    }
    told = Counter(outcome_of(result) for result in [*results.values(), 6, OPEN])
    assert sorted(told.values()) == [1, 1, 3, 3]


def test_a_round_that_was_not_written_to_its_end_was_never_begun(tmp_path: Path) -> None:
    (tmp_path / "round-000001.new").write_text('{"frontier": 6, "ru')
    assert read_rounds(tmp_path) == []
    write_round(tmp_path, 1, Round(6, [SequenceRange(1, 0, 3, 3)]))
    (read,) = read_rounds(tmp_path)
    assert read.attempts == 3 and partition_shifts([read], LAYOUT) == {0: 3}


@pytest.mark.parametrize("result", [OPEN, TIMED_OUT])
def test_an_answer_that_was_timed_and_not_written_down_was_never_heard(tmp_path: Path, result: int) -> None:
    write(tmp_path, {0: result})
    live = LiveLedger(tmp_path)
    live.open(0, 1, 1)
    live.segments[0].settled[0] = 2_000_000
    Control(tmp_path)[Word.ANNOUNCED] = 1
    publish_ledger(tmp_path, tmp_path / "ledger", "a", 0, 0, LAYOUT)
    (row,) = pq.read_table(tmp_path / "ledger").to_pylist()
    assert (row["settled_at"] is None) == (result == OPEN) == (row["made_by"] == "recovery")
