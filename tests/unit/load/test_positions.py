"""Tests of where a running load's records stand, as the live ledgers say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from support.evidence import RUN, SUBJECT

from delivery_verifier.load.handle import RunningLoad
from delivery_verifier.load.layout import of_arm
from delivery_verifier.load.live_ledger import (
    ACKED_NOWHERE,
    FAILED,
    INDETERMINATE,
    MASK,
    SHIFT,
    Control,
    LiveLedger,
    Word,
)

ARM = replace(RUN.arm(SUBJECT), producers=2)
SCENARIO = replace(RUN, arms=(ARM, *(arm for arm in RUN.arms if arm.name != SUBJECT)))


def write(folder: Path, results: dict[int, int], count: int) -> None:
    """Announces `count` records of a producer, of which some have a result."""
    ledger = LiveLedger(folder)
    ledger.open(0, count, 1)
    for sequence, result in results.items():
        ledger.segments[sequence >> SHIFT].result[sequence & MASK] = result
    Control(folder)[Word.ANNOUNCED] = count


@pytest.mark.parametrize("count", [0, 5, (1 << SHIFT) + 3])
def test_a_record_stands_where_a_broker_has_acknowledged_it_and_nowhere_without(tmp_path: Path, count: int) -> None:
    folder = tmp_path / "live" / SUBJECT
    last = max(count - 1, 0)
    results = {last: 1, 1: 8, 2: ACKED_NOWHERE, 3: FAILED, 4: INDETERMINATE} if count else {}
    if count:
        write(folder / "0", results, count)
    found = RunningLoad(SCENARIO, tmp_path).positions(ARM)
    assert set(found) == {0, 1} and len(found[1].offset) == 0
    offsets = np.full(count, -1)
    for sequence, result in results.items():
        offsets[sequence] = result - 1 if result > 0 else -1
    assert found[0].offset.tolist() == offsets.tolist()
    layout = of_arm(SCENARIO.load, ARM)
    assert found[0].partition[:5].tolist() == [layout.partition(sequence) for sequence in range(count)][:5]
