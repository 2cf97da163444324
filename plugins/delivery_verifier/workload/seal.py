"""Sealing: a producer's live ledger becomes rows of the published ledger, segment by segment in flat memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import KafkaError

from delivery_verifier import ledger
from delivery_verifier.workload.layout import Layout
from delivery_verifier.workload.live import SHIFT, SLOTS, Control, Word, error_code, outcome_of


def seal(folder: Path, target: Path, arm: str, producer: int, session: int, layout: Layout) -> int:
    """Writes all announced attempts of the producer in `folder` to `target` (`ledger.SCHEMA`); returns their number.

    Attempts that no delivery report settled are INDETERMINATE and `made_by` recovery.
    """
    announced = Control(folder)[Word.ANNOUNCED]
    with ledger.writer(target) as out:
        for first in range(0, announced, SLOTS):
            count = min(SLOTS, announced - first)
            columns = np.fromfile(folder / f"segment-{first >> SHIFT:06d}", np.int64).reshape(3, SLOTS)[:, :count]
            identity = (arm, producer, session)
            out.write_table(_table(columns, first, identity, layout))
    return announced


def _table(
    columns: npt.NDArray[np.int64], first: int, identity: tuple[str, int, int], layout: Layout
) -> pa.Table:
    result, sent_ns, settled_ns = columns
    count, (arm, producer, session) = len(result), identity
    partition, partition_sequence = layout.columns(first, count)
    kinds, index = np.unique(np.minimum(result, 1), return_inverse=True)
    outcome = pa.array([str(outcome_of(int(kind))) for kind in kinds])
    error = pa.array([_error_name(int(kind)) for kind in kinds], pa.string())
    indices = pa.array(index.reshape(-1).astype(np.int32))
    none = pa.nulls(count, pa.string())
    data = {
        "arm": pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([arm])).cast(pa.string()),
        "producer": pa.array(np.full(count, producer, np.int32)),
        "session": pa.array(np.full(count, session, np.int32)),
        "sequence": pa.array(np.arange(first, first + count, dtype=np.int64)),
        "attempt": pa.array(np.zeros(count, np.int32)),
        "partition": pa.array(partition),
        "partition_sequence": pa.array(partition_sequence),
        "outcome": outcome.take(indices),
        "offset": pa.array(result - 1, mask=result <= 0),
        "transaction": none,
        "transaction_outcome": none,
        "sent_at": pa.array(sent_ns // 1000).cast(pa.timestamp("us", tz="UTC")),
        "settled_at": pa.array(settled_ns // 1000, mask=settled_ns == 0).cast(pa.timestamp("us", tz="UTC")),
        "error": error.take(indices),
        "made_by": pa.array(np.where(result == 0, "recovery", "client").astype(object), pa.string()),
    }
    return pa.table(data, schema=ledger.SCHEMA)


def _error_name(result: int) -> str | None:
    code = error_code(result)
    return None if code is None else str(KafkaError(code).name())
