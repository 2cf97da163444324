"""Sealing: a producer's live ledger becomes rows of the published ledger, segment by segment in flat memory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError

from delivery_verifier.load.layout import LoadLayout
from delivery_verifier.load.live_ledger import (
    SHIFT,
    SLOTS,
    Control,
    Word,
    error_code,
    outcome_of,
    read_segment,
)
from delivery_verifier.load.resends import Numbers, Round, SequenceRange, folder_of, read_rounds, read_slots, shifts
from delivery_verifier.load.transactions import columns as columns_of
from delivery_verifier.store import ledger


class Whose(NamedTuple):
    """Whose attempts they are, and what is needed to tell their transactions."""

    arm: str
    producer: int
    session: int
    folder: Path
    transaction_records: int


def publish_ledger(
    folder: Path, target: Path, arm: str, producer: int, session: int, layout: LoadLayout, transaction_records: int = 0
) -> int:
    """Writes all announced attempts of the producer in `folder` to `target` (`ledger.SCHEMA`); returns their number.

    First attempts come first, then the resends, round by round. Attempts that no delivery report settled are
    INDETERMINATE and `made_by` recovery.
    """
    whose, rounds, control = (
        Whose(arm, producer, session, folder, transaction_records),
        read_rounds(folder),
        Control(folder),
    )
    with ledger.writer(target) as out:
        for first in range(0, control[Word.ANNOUNCED], SLOTS):
            count = min(SLOTS, control[Word.ANNOUNCED] - first)
            numbered = _put_off(first, count, rounds, layout)
            out.write_table(_table(read_segment(folder, first >> SHIFT)[:, :count], whose, first, numbered, layout))
        for one in rounds:
            if one.runs:
                out.write_table(pa.concat_tables([_of_run(folder, run, whose, layout) for run in one.runs]))
    return control[Word.ANNOUNCED] + control[Word.RESENT]


def _of_run(folder: Path, run: SequenceRange, whose: Whose, layout: LoadLayout) -> pa.Table:
    slots = read_slots(folder_of(folder, run.attempt), run.first, run.count)
    numbered = np.arange(run.partition_sequence, run.partition_sequence + run.count, dtype=np.int64)
    return _table(slots, whose, run.first, numbered, layout, run.attempt)


def _put_off(first: int, count: int, rounds: Iterable[Round], layout: LoadLayout) -> Numbers:
    """The partition sequences of first attempts [first, first + count): the layout's, put off by earlier rounds."""
    partition, numbered = layout.columns(first, count)
    for one in rounds:
        by_partition = shifts([one], layout)
        put_off = np.array([by_partition[at] for at in range(layout.partitions)], np.int64)
        later = max(0, one.frontier - first)
        numbered[later:] += put_off[partition[later:]]
    return numbered


def _table(
    columns: Numbers, whose: Whose, first: int, numbered: Numbers, layout: LoadLayout, attempt: int = 0
) -> pa.Table:
    result, sent_ns, settled_ns = columns
    count = len(result)
    partition, _ = layout.columns(first, count)
    kinds, index = np.unique(np.minimum(result, 1), return_inverse=True)
    outcome = pa.array([str(outcome_of(int(kind))) for kind in kinds])
    error = pa.array([_error_name(int(kind)) for kind in kinds], pa.string())
    indices = pa.array(index.reshape(-1).astype(np.int32))
    sequences = np.arange(first, first + count, dtype=np.int64)
    transaction, transaction_outcome = columns_of(whose.folder, whose.transaction_records, sequences)
    data = {
        "arm": pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([whose.arm])).cast(
            pa.string()
        ),
        "producer": pa.array(np.full(count, whose.producer, np.int32)),
        "session": pa.array(np.full(count, whose.session, np.int32)),
        "sequence": pa.array(sequences),
        "attempt": pa.array(np.full(count, attempt, np.int32)),
        "partition": pa.array(partition),
        "partition_sequence": pa.array(numbered),
        "outcome": outcome.take(indices),
        "offset": pa.array(result - 1, mask=result <= 0),
        "transaction": transaction,
        "transaction_outcome": transaction_outcome,
        "sent_at": pa.array(sent_ns // 1000).cast(pa.timestamp("us", tz="UTC")),
        "settled_at": pa.array(settled_ns // 1000, mask=(settled_ns == 0) | (result == 0)).cast(
            pa.timestamp("us", tz="UTC")
        ),
        "error": error.take(indices),
        "made_by": pa.array(np.where(result == 0, "recovery", "client").astype(object), pa.string()),
    }
    return pa.table(data, schema=ledger.SCHEMA)


def _error_name(result: int) -> str | None:
    code = error_code(result)
    return None if code is None else str(KafkaError(code).name())
