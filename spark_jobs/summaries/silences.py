"""Silences: the longest time between two consecutive reports of the client for attempts to the same partition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delivery_verifier.model.scenario import Scenario
from spark_jobs.schemas import GAPS, arrow

SLOT_US = 1_000
"""The least width of a slot in µs. The summary keeps only the first and the last report of each slot."""
SLOTS = 1_000_000
"""About the greatest number of slots that a summary of the load has. In longer runs, slots are wider."""


def slot_us(from_us: int, until_us: int, partitions: int) -> int:
    """Returns the width of a slot in µs, for a load from `from_us` to `until_us` (both µs since the epoch).

    `partitions`: the number of partitions of all arms together.
    """
    width_us = SLOT_US
    while (until_us - from_us) // width_us * partitions > SLOTS:
        width_us *= 2
    return width_us


def gaps(slots: pa.Table, began_us: int, scenario: Scenario) -> pa.Table:
    """Returns GAPS from `Summary.slots`: the longest silence of each partition of each arm that carries load.

    A partition with fewer than two reports has no silence. Each producer sends a few warm-up records before the load.
    The verifier itself causes the silence between warm-up and load. So only the part of this silence after `began_us`
    counts. `began_us` is the beginning of the load (µs since the epoch).

    A silence within one slot is not found. So if the longest silence is shorter than a slot, the silence in the result
    may be too short, by less than a slot. Otherwise the result is exact.
    """
    per_slot = (
        slots.filter(pc.is_valid(slots["slot"]))
        .group_by(["arm", "partition", "slot"])
        .aggregate([("first_us", "min"), ("last_us", "max")])
        .sort_by([(name, "ascending") for name in ("arm", "partition", "slot")])
    )
    rows = [
        {"arm": arm.name, "partition": partition} | _longest(per_slot, arm.name, partition, began_us)
        for arm in scenario.loaded
        for partition in range(scenario.load.partitions)
    ]
    return pa.Table.from_pylist(rows, schema=arrow(GAPS))


def _longest(per_slot: pa.Table, arm: str, partition: int, began_us: int) -> dict[str, Any]:
    """Returns the columns of GAPS about the longest silence of a partition. The result is empty if there is no
    silence."""
    own = per_slot.filter(pc.and_(pc.equal(per_slot["arm"], arm), pc.equal(per_slot["partition"], partition)))
    ends = own["first_us_min"].to_numpy()[1:]
    starts = np.maximum(own["last_us_max"].to_numpy()[:-1], began_us)
    lengths = (ends - starts)[ends > began_us]
    if not len(lengths):
        return {}
    longest = int(lengths.argmax())
    return {"longest_gap_s": float(lengths[longest] / 1e6), "gap_start_us": int(starts[ends > began_us][longest])}
