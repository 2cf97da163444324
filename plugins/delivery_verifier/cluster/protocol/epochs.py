"""Asks leaders where leader epochs end in their logs. Followers ask the same question to find out how much of their own
log the leader does not have (KIP-101).

If an epoch ends before an offset that was below the high watermark in this epoch, the log was cut off: records are gone
that every replica in the ISR had. The module sends the request OffsetForLeaderEpoch of Kafka's protocol in version 2
(`OffsetForLeaderEpochRequest.json`).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from delivery_verifier.cluster.connection import Address
from delivery_verifier.cluster.protocol.encoding import Answer, Reader, call, short_text

TIMEOUT_S = 10.0
_DEPOSED = (6, 74)
"""Kafka's error codes of a broker that does not lead. 6, NOT_LEADER_OR_FOLLOWER: in the epoch of the question, it
follows. 74, FENCED_LEADER_EPOCH: it is in a later epoch. A broker in an earlier epoch answers 76,
UNKNOWN_LEADER_EPOCH."""
ANY_EPOCH = -1
"""In place of the leader's present epoch: the leader answers in whichever epoch it leads."""
Partition = tuple[str, int]
"""The name of a topic and the number of a partition."""


class Question(NamedTuple):
    """A question to the leader of a partition: where does `epoch` end in your log?

    The leader answers only if its present epoch is `led`. If `led` is ANY_EPOCH, it answers in every epoch.
    """

    led: int
    epoch: int


class EpochEnd(NamedTuple):
    """The answer to a Question. `epoch`: the greatest epoch that the log knows, up to the epoch of the question. `end`:
    the first offset behind all records of `epoch` and earlier epochs.

    If the log knows no epoch up to that of the question, `epoch` is that of the question, and `end` is the start of the
    log. Both are -1 if the log knows no epochs at all.
    """

    epoch: int
    end: int


def epoch_ends(
    address: Address, questions: Mapping[Partition, Question], timeout_s: float = TIMEOUT_S
) -> dict[Partition, EpochEnd]:
    """Returns the answers of the broker at `address`, by partition. Leaves out a partition that the broker does not
    lead in the epoch of the question.

    Raises OSError if the broker does not answer within `timeout_s` seconds, or if the answer cannot be read.
    """
    answers = _asked(address, questions, timeout_s)
    return {partition: ends for partition, (error, ends) in answers.items() if not error}


def not_leading(address: Address, epochs: Mapping[Partition, int], timeout_s: float = TIMEOUT_S) -> set[Partition]:
    """Returns the partitions of which the broker at `address` knows that it does not lead them in these epochs. It is
    in this epoch and follows, or in a later one, so it appends nothing in an earlier epoch any more.

    Raises OSError if the broker does not answer within `timeout_s` seconds, or if the answer cannot be read.
    """
    questions = {partition: Question(epoch, epoch) for partition, epoch in epochs.items()}
    answers = _asked(address, questions, timeout_s)
    return {partition for partition, (error, _) in answers.items() if error in _DEPOSED}


def epoch_end(address: Address, topic: str, partition: int, epoch: int) -> int:
    """Returns the first offset behind all records of leader epoch `epoch` and of earlier epochs. Returns -1 if the log
    knows nothing of these epochs.

    `address`: the address of the partition's leader. Raises OSError if the broker does not answer, or does not lead the
    partition.
    """
    error, ends = _asked(address, {(topic, partition): Question(ANY_EPOCH, epoch)}, TIMEOUT_S)[topic, partition]
    if error:
        name = f"{topic}/{partition}"
        raise ConnectionError(f"the broker at {address} does not say where epoch {epoch} of {name} ends: error {error}")
    return ends.end


_Answers = dict[Partition, tuple[int, EpochEnd]]
"""Maps each partition to an error code, which is 0 without an error, and the answer."""


def _asked(address: Address, questions: Mapping[Partition, Question], timeout_s: float) -> _Answers:
    """Sends `questions` to the broker at `address`. Returns exactly one answer to each question."""
    answer = call(address, _request(questions), timeout_s)
    try:
        answers = _read(answer)
        if answers.keys() != questions.keys():
            raise ValueError(f"it is not about {', '.join(f'{topic}/{number}' for topic, number in sorted(questions))}")
    except (struct.error, IndexError, ValueError) as wrong:
        raise ConnectionError(f"the broker at {address} gave no answer that can be read: {wrong}") from None
    return answers


def _request(questions: Mapping[Partition, Question]) -> bytes:
    """Returns an OffsetForLeaderEpochRequest v2."""
    topics = sorted({topic for topic, _ in questions})
    body = struct.pack(">hhih", 23, 2, 8, 3) + b"kdv" + struct.pack(">i", len(topics))
    for name in topics:
        own = sorted((partition, question) for (topic, partition), question in questions.items() if topic == name)
        body += short_text(name) + struct.pack(">i", len(own))
        body += b"".join(struct.pack(">iii", partition, *question) for partition, question in own)
    return body


def _read(answer: Answer) -> _Answers:
    """Reads an OffsetForLeaderEpochResponse v2."""
    reader, answers = Reader(answer), _Answers()
    reader.skip(4 + 4)
    for _ in range(reader.number("i")):
        topic = reader.short_text()
        for _ in range(reader.number("i")):
            error, partition, epoch, end = (reader.number(code) for code in "hiiq")
            answers[topic, partition] = error, EpochEnd(epoch, end)
    return answers
