"""Publishing: turns a producer's live ledger into rows of the run's ledger.

The segments (files) of the live ledger are read one after the other, so that memory stays constant.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from delivery_verifier.load.error_codes import error_name
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
from delivery_verifier.load.resends import (
    Numbers,
    Round,
    SequenceRange,
    attempt_folder,
    partition_shifts,
    read_rounds,
    read_slots,
)
from delivery_verifier.load.transactions import transaction_columns
from delivery_verifier.model.outcomes import Outcome
from delivery_verifier.run_directory import ledger


class LedgerOwner(NamedTuple):
    """The producer whose attempts are published. `folder` holds its live ledger.

    `session` is a number in the headers of the producer's records, and not a session of Kafka.
    `transaction_records` is the number of records in a transaction. It is 0 if the producer uses no transactions.
    """

    arm: str
    producer: int
    session: int
    folder: Path
    layout: LoadLayout
    transaction_records: int


def publish_ledger(
    folder: Path, target: Path, arm: str, producer: int, session: int, layout: LoadLayout, transaction_records: int = 0
) -> int:
    """Writes all attempts of the producer in `folder` to the file `target`. Returns the number of attempts.

    The file has the columns of `ledger.SCHEMA`. The first attempts of all records come first. The resends follow, in
    the order in which they were sent. An attempt without a delivery report is INDETERMINATE, and its `made_by` is
    `recovery`. `session` is the number of the session in the headers of the records. `transaction_records` is the
    number of records in a transaction, or 0 if the producer uses no transactions.
    """
    owner = LedgerOwner(arm, producer, session, folder, layout, transaction_records)
    rounds, control = read_rounds(folder), Control(folder)
    with ledger.writer(target) as writer:
        for first in range(0, control[Word.ANNOUNCED], SLOTS):
            count = min(SLOTS, control[Word.ANNOUNCED] - first)
            slots = read_segment(folder, first >> SHIFT)[:, :count]
            writer.write_table(_table(slots, owner, first, _partition_sequences(first, count, rounds, layout)))
        for resends in rounds:
            if resends.ranges:
                writer.write_table(pa.concat_tables([_resend_table(owner, resend) for resend in resends.ranges]))
    return control[Word.ANNOUNCED] + control[Word.RESENT]


def counted_outcomes(control: Control, acks: str) -> dict[str, int]:
    """Returns how many reports of each outcome the producer counted, and the number of miscounted reports (MISCOUNTED).

    The numbers come from the control block alone, so that they can be compared with the ledger, which comes from the
    slots. `acks` is the producer's setting `acks`. Reports without an error count as SENT with acks=0, otherwise as
    ACKED.
    """
    return {
        Outcome.ACKED: 0 if acks == "0" else control[Word.REPORTED],
        Outcome.SENT: control[Word.REPORTED] if acks == "0" else 0,
        Outcome.FAILED: control[Word.FAILED],
        Outcome.INDETERMINATE: control[Word.INDETERMINATE],
        ledger.MISCOUNTED: control[Word.MISCOUNTED],
    }


def _resend_table(owner: LedgerOwner, resend: SequenceRange) -> pa.Table:
    """Returns a table with the columns of `ledger.SCHEMA` and one row for each resend in the range `resend`.

    The range holds consecutive records.
    """
    slots = read_slots(attempt_folder(owner.folder, resend.attempt), resend.first, resend.count)
    partition_sequences = np.arange(resend.partition_sequence, resend.partition_sequence + resend.count, dtype=np.int64)
    return _table(slots, owner, resend.first, partition_sequences, resend.attempt)


def _partition_sequences(first: int, count: int, rounds: Iterable[Round], layout: LoadLayout) -> Numbers:
    """Returns the partition sequences of the first attempts of `count` records whose numbers begin with `first`.

    A partition sequence is the number of an attempt among its producer's attempts to the same partition. It is the sum
    of two numbers: the number from `layout`, which ignores resends, and the number of earlier resends to the same
    partition.
    """
    partitions, partition_sequences = layout.columns(first, count)
    for resends in rounds:
        by_partition = partition_shifts([resends], layout)
        shifts = np.array([by_partition[partition] for partition in range(layout.partitions)], np.int64)
        after_round = max(0, resends.frontier - first)
        partition_sequences[after_round:] += shifts[partitions[after_round:]]
    return partition_sequences


def _table(slots: Numbers, owner: LedgerOwner, first: int, partition_sequences: Numbers, attempt: int = 0) -> pa.Table:
    """Returns a table with the columns of `ledger.SCHEMA` about consecutive records. Each row is one attempt of one
    record.

    The records have the sequences `first`, `first` + 1, and so on. `attempt` is the attempt number: 0 for first
    attempts. `slots` has one column per attempt. The three rows of `slots` hold result, sent and settled, which are the
    columns of the live ledger.
    """
    result, sent_ns, settled_ns = slots
    count = len(result)
    partitions, _ = owner.layout.columns(first, count)
    # All acknowledgements with an offset have the same outcome and no error, so the result 1 stands for all of them.
    distinct, inverse = np.unique(np.minimum(result, 1), return_inverse=True)
    outcomes = pa.array([str(outcome_of(int(value))) for value in distinct])
    errors = pa.array([_error_name(int(value)) for value in distinct], pa.string())
    indices = pa.array(inverse.reshape(-1).astype(np.int32))
    sequences = np.arange(first, first + count, dtype=np.int64)
    transactions, transaction_outcomes = transaction_columns(owner.folder, owner.transaction_records, sequences)
    arm = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([owner.arm]))
    data = {
        "arm": arm.cast(pa.string()),
        "producer": pa.array(np.full(count, owner.producer, np.int32)),
        "session": pa.array(np.full(count, owner.session, np.int32)),
        "sequence": pa.array(sequences),
        "attempt": pa.array(np.full(count, attempt, np.int32)),
        "partition": pa.array(partitions),
        "partition_sequence": pa.array(partition_sequences),
        "outcome": outcomes.take(indices),
        "offset": pa.array(result - 1, mask=result <= 0),
        "transaction": transactions,
        "transaction_outcome": transaction_outcomes,
        "sent_at": pa.array(sent_ns // 1000).cast(pa.timestamp("us", tz="UTC")),
        "settled_at": pa.array(settled_ns // 1000, mask=(settled_ns == 0) | (result == 0)).cast(
            pa.timestamp("us", tz="UTC")
        ),
        "error": errors.take(indices),
        "made_by": pa.array(np.where(result == 0, "recovery", "client").astype(object), pa.string()),
    }
    return pa.table(data, schema=ledger.SCHEMA)


def _error_name(result: int) -> str | None:
    code = error_code(result)
    return None if code is None else error_name(code)
