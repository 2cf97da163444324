"""Delivery reports: writes what the client reports about an attempt into the attempt's slot in the live ledger.

A slot is the place of one attempt in a file (see live_ledger).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from confluent_kafka import KafkaError, Message

from delivery_verifier.load.error_codes import code_of
from delivery_verifier.load.live_ledger import (
    ACKED_NOWHERE,
    FAILED,
    INDETERMINATE,
    MASK,
    SENT,
    SHIFT,
    Control,
    LiveLedger,
    Word,
    encode_error,
)
from delivery_verifier.model import record

DeliveryCallback = Callable[[KafkaError | None, Message], None]


def delivery_callback(ledger: LiveLedger, control: Control, acks: str) -> DeliveryCallback:
    """Returns the delivery callback for records whose slots are in `ledger`.

    `acks` is the producer's setting `acks`. An error makes the attempt INDETERMINATE, because an error never proves
    that the record was not written: an earlier try of the client may have written the record (docs/adr/0004). The
    callback uses only local variables, for speed, because the client calls it for every record.
    """
    segments, words, clock = ledger.segments, control.words, time.time_ns
    # With acks=0 no broker sends an offset. librdkafka sometimes invents offsets (seen: 0, 1, 2 ... after a lost
    # connection), so with acks=0 no offset is used.
    acks_0 = acks == "0"
    sequence_slice, reported, indeterminate = record.SEQUENCE, int(Word.REPORTED), int(Word.INDETERMINATE)
    number, result, settled = -1, words, words  # the segment of the report before; -1: there is none

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        nonlocal number, result, settled
        sequence = int(message.value()[sequence_slice])  # type: ignore[index]
        if sequence >> SHIFT != number:
            number = sequence >> SHIFT
            result, _, settled, _ = segments[number]
        slot = sequence & MASK
        settled[slot] = clock()
        if error is None:
            offset = None if acks_0 else message.offset()
            if offset is not None and offset >= 0:
                result[slot] = offset + 1
            else:
                result[slot] = SENT if acks_0 else ACKED_NOWHERE
            words[reported] += 1
        else:
            result[slot] = _indeterminate(error.code())
            words[indeterminate] += 1

    return on_delivery


@cache  # a load that meets an error meets it thousands of times
def _indeterminate(librdkafka: int) -> int:
    return encode_error(INDETERMINATE, code_of(librdkafka))


def record_refusals(ledger: LiveLedger, control: Control, first: int, batch: Sequence[Mapping[str, Any]]) -> None:
    """Marks each record of `batch` that the client refused to queue as FAILED. Such a record was certainly not sent.

    `batch` holds consecutive records, and `first` is the sequence of its first record. The client's `produce_batch` has
    added an entry `_error` to each refused record. Refusals are rare, because back-pressure keeps the client's queue
    from being full.
    """
    for sequence, entry in enumerate(batch, first):
        if (error := entry.get("_error")) is not None:
            result, _, settled, _ = ledger.segments[sequence >> SHIFT]
            settled[sequence & MASK] = time.time_ns()
            result[sequence & MASK] = encode_error(FAILED, code_of(error.code()))
            control[Word.FAILED] += 1
