"""Tests of the widths of slots and intervals, and of the silences that follow from slots."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from support.run_directories import START_US, scenario
from support.silences import check_gaps

from delivery_verifier.verdict.observer_doubts import LOAD_INTERVAL_US
from spark_jobs.summaries import silences, timeline

S, HOURS_US = 1_000_000, 6 * 3_600_000_000


def test_a_slot_is_a_millisecond_in_short_runs_and_there_are_never_more_than_a_million() -> None:
    assert silences.slot_us(0, 60 * S, 12) == silences.SLOT_US
    for span_us in (60 * S, HOURS_US, 20 * HOURS_US, 365 * 4 * HOURS_US):
        for partitions in (1, 12, 1_000):
            assert span_us // silences.slot_us(0, span_us, partitions) * partitions <= silences.SLOTS
    assert silences.slot_us(0, HOURS_US, 12) == 512_000, "the error of a run of six hours with 12 partitions"


def test_an_interval_is_never_longer_than_the_judgement_takes_it_for() -> None:
    widths_us = [timeline.interval_us(0, span_us) for span_us in (60 * S, 301 * S, HOURS_US, 365 * 4 * HOURS_US)]
    assert widths_us == [timeline.FINE_US, *3 * [timeline.COARSE_US]]
    assert timeline.COARSE_US == LOAD_INTERVAL_US
    assert timeline.INTERVALS * timeline.COARSE_US > 86_400 * S, "the longest load that a form allows"


def test_silences_of_random_reports_are_within_their_error_for_any_width_of_a_slot() -> None:
    chance, seen = np.random.default_rng(13), Counter[str]()
    for _ in range(300):
        slot_us = int(2 ** chance.integers(0, 15))
        lengths = np.exp(chance.uniform(0, chance.uniform(1, 11), chance.integers(0, 60)))
        times = START_US + np.cumsum(lengths.astype(np.int64))
        slots = pa.table(
            {
                "arm": pa.array(["one"] * len(times), pa.string()),
                "partition": pa.array([0] * len(times), pa.int32()),
                "slot": times - times % slot_us,
                "first_us": times,
                "last_us": times,
            }
        )
        began_us = START_US + int(chance.choice([0, 10_000, 10**9]))
        rows = silences.gaps(slots, began_us, scenario(["one"], partitions=1)).to_pylist()
        seen += check_gaps(rows, {("one", 0): times}, began_us, slot_us)
    assert min(seen["exact"], seen["short"]) > 20, seen
