"""The rows of the log that the canary of a run by hand has."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from delivery_verifier import canary
from delivery_verifier.model import record
from delivery_verifier.model.scenario import Scenario
from support.run_directories import ILLEGIBLE, Row, line


def canary_lines(made: Scenario, layout: canary.CanaryLayout) -> tuple[list[Row], list[int]]:
    """Returns the log's rows of the canary, in both views, and the offset of each record."""
    ends: defaultdict[int, int] = defaultdict(int)
    rows, offsets = [], []
    shown = {effect.position for effect in canary.applied(made, layout)}
    hidden = range(len(layout.values) - (layout.transactions[-1][0] if layout.transactions else 0), len(layout.values))
    assert not shown & set(hidden)
    for index, (partition, value) in enumerate(layout.values):
        offsets.append(ends[partition])
        ends[partition] += 1
        header: Any = record.parse(value)
        names = ("producer", "sequence", "attempt", "partition_sequence", "crc_ok")
        known = {name: getattr(header, name) for name in names} if header else ILLEGIBLE
        rows.append(line("canary", 0, offsets[-1], 0, partition=partition) | known)
        if layout.transactions and index not in hidden:
            rows.append(rows[-1] | {"view": "committed"})
    return rows, offsets
