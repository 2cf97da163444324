"""The elections of a partition: which leader can have acknowledged a record, and which election can have taken it.

A leader appends each of its records once, at one offset, in its own leader epoch. So an epoch and an offset name one
record in the history of a partition. A log consists of epochs, each from its start up to the start of the next epoch in
this log. An epoch starts at the same offset in every log that has it: at the end that the log of its leader had when
this leader was elected. These facts follow (KIP-101, KIP-279):

* A leader cuts nothing off its own log. So what the last new leader had at its election stays in the log.
* Followers cut off what their leader does not have. So what a new leader did not have is gone, unless a later leader
  has it still: one that was elected before it had learned of the leader between.
* A new leader lacks of an earlier epoch what stands at or above the start of the next later epoch in its log. If it
  has nothing of that epoch, it lacks all of it. Clean elections do that, too, if they follow each other so fast that an
  in-sync replica never fetched from the leader between.
* These facts hold for every election, also for an unclean one, and for one after a loss of power.

All functions are pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from delivery_verifier.contract.deposed import last_answers, seen_partitions
from delivery_verifier.contract.observer import OBSERVER_LAG_US
from delivery_verifier.contract.times import Span
from delivery_verifier.model.history import Injection, Observation


class Answer(NamedTuple):
    """What a new leader said of its log: the first offset of each leader epoch, up to its own epoch. `at_us` is the
    time of the answer (µs since the epoch)."""

    at_us: int
    starts: Mapping[int, int]

    @property
    def epoch(self) -> int:
        """The epoch of the leader."""
        return max(self.starts)

    def lacks(self, offset: int, epoch: int) -> bool:
        """Returns whether the log lacked the record that the leader of the earlier epoch `epoch` had appended at
        `offset`."""
        return epoch not in self.starts or offset >= min(start for later, start in self.starts.items() if later > epoch)


class Tenure(NamedTuple):
    """One leader epoch, in which a leader can have acknowledged records.

    `since_us`, `until_us`: the time in which it can have done so (µs since the epoch). Both have room for the lag of
    the observer. None: no bound is known. `silent`: periods in which the process of the leader stood still; empty if
    nobody knows the leader.
    """

    epoch: int
    since_us: int | None
    until_us: int | None
    silent: tuple[Span, ...]

    def may_acknowledge(self, sent_us: int, settled_us: int) -> bool:
        """Returns whether the leader can have acknowledged a record that was sent and settled at these times."""
        begun = self.since_us is None or settled_us >= self.since_us
        lasts = self.until_us is None or sent_us <= self.until_us
        return begun and lasts and not any(_within(sent_us, settled_us, span) for span in self.silent)


@dataclass(frozen=True)
class Elections:
    """The elections of one partition, from its first observation with a leader on.

    * `tenures`: every leader epoch, also those that nobody saw, in order.
    * `seen`: the later epochs that were seen, in order, each with the time of its first observation.
    * `answers`: what new leaders said of their logs, in the order of their epochs.
    """

    tenures: tuple[Tenure, ...]
    seen: tuple[tuple[int, int], ...]
    answers: tuple[Answer, ...]

    def epochs_of(self, offset: int, sent_us: int, settled_us: int) -> list[int]:
        """Returns the epochs in which a record can have been acknowledged at `offset`, if it was sent and settled at
        these times. An epoch that starts behind the offset is none of them."""
        return [
            tenure.epoch
            for tenure in self.tenures
            if tenure.may_acknowledge(sent_us, settled_us)
            and all(answer.starts.get(tenure.epoch, offset) <= offset for answer in self.answers)
        ]

    def taken_by(self, offset: int, epoch: int) -> Answer | None:
        """Returns the answer of the new leader by which the record at `offset` of `epoch` was gone: the first one that
        lacked it, of those without a later one that had it. None: no leader was elected later, or the last one had
        it."""
        taker = None
        for answer in reversed(self.answers):
            if answer.epoch <= epoch or not answer.lacks(offset, epoch):
                break
            taker = answer
        return taker

    @property
    def is_answered(self) -> bool:
        """Whether the leader of the last epoch that was seen has answered, if it was elected while watched."""
        return not self.seen or self.answer_of(self.seen[-1][0]) is not None

    def elected_at(self, at_us: int) -> list[int]:
        """Returns the epochs that were first seen at `at_us` (µs since the epoch)."""
        return [epoch for epoch, seen_us in self.seen if seen_us == at_us]

    def answer_of(self, epoch: int) -> Answer | None:
        """Returns the answer that speaks for the election of the leader of `epoch`: its own or, if it gave none, that
        of the next leader that answered. None: nobody answered."""
        return next((answer for answer in self.answers if answer.epoch >= epoch), None)


def elections(observations: Sequence[Observation], injections: Sequence[Injection]) -> dict[tuple[str, int], Elections]:
    """Returns the elections of each partition, by topic and number. `observations` must be in the order in which they
    were made."""
    partitions = seen_partitions(observations)
    until, answers = last_answers(observations, partitions), _answers(observations)
    silences = _silences(observations, injections)
    exits = [(now.broker, now.at_us) for now in observations if now.state == "exited"]
    result = {}
    for (topic, partition), states in partitions.items():
        first_of = _first_of_epochs([now for _, now in states])
        ends = [until[topic, partition, now.at_us] for now in first_of[1:]]
        result[topic, partition] = Elections(
            tenures=tuple(_tenures(first_of, ends, exits, silences)),
            seen=tuple((now.leader_epoch, now.at_us) for now in first_of[1:]),
            answers=tuple(answers[topic, partition]),
        )
    return result


def _within(sent_us: int, settled_us: int, span: Span) -> bool:
    begin_us, end_us = span
    return begin_us < sent_us and (end_us is None or settled_us <= end_us)


def _first_of_epochs(states: Iterable[Observation]) -> list[Observation]:
    """Returns the first observation of each leader epoch, from the first one with a leader on. If the leader of the
    epoch was seen only later, e.g. because it was booting, the observation names it all the same."""
    first_of: dict[int, Observation] = {}
    for now in states:
        if not first_of and now.leader < 0:
            continue  # the partition is being created
        first = first_of.setdefault(now.leader_epoch, now)
        if first.leader < 0 <= now.leader:
            first_of[now.leader_epoch] = replace(first, leader=now.leader)
    return list(first_of.values())


def _tenures(
    first_of: Sequence[Observation],
    ends_us: Sequence[int | None],
    exits: Sequence[tuple[int, int]],
    silences: Mapping[int, Sequence[Span]],
) -> Iterator[Tenure]:
    """Yields the tenures of a partition. `first_of`: the first observation of each epoch that was seen. `ends_us`: the
    time from which on the leaders that each of these but the first deposed acknowledge nothing. `exits`: when which
    process was seen to have exited. `silences`: periods in which the process of a broker stood still.

    A process that starts again does not lead in the same epoch. The leader of an epoch that nobody saw, or that was
    never seen with a leader, is unknown.
    """
    last_us = [*map(_late, ends_us), None]
    for number, now in enumerate(first_of):
        since_us = _early(now) if number else None
        if number:
            before = first_of[number - 1]
            for epoch in range(before.leader_epoch + 1, now.leader_epoch):
                yield Tenure(epoch, _early(before), last_us[number - 1], ())
        gone_us = [at_us for broker, at_us in exits if broker == now.leader and at_us >= now.at_us]
        ends = [end_us for end_us in (last_us[number], *gone_us) if end_us is not None]
        yield Tenure(now.leader_epoch, since_us, min(ends, default=None), tuple(silences[now.leader]))


def _early(now: Observation) -> int:
    return now.at_us - OBSERVER_LAG_US


def _late(end_us: int | None) -> int | None:
    return None if end_us is None else end_us + OBSERVER_LAG_US


def _silences(observations: Iterable[Observation], injections: Sequence[Injection]) -> Mapping[int, list[Span]]:
    """Returns, for each broker, the periods in which its process provably stood still.

    A period begins when this was seen. It ends OBSERVER_LAG_US before an injection woke the process, or never. If no
    injection did, nobody knows when the process woke: the observer may have seen it late. Then there is no period.
    """
    begun: dict[int, int] = {}
    silences: dict[int, list[Span]] = defaultdict(list)
    for now in observations:
        if now.kind != "process":
            continue
        begin_us = begun.pop(now.broker, None)
        if now.state == "frozen":
            begun[now.broker] = now.at_us if begin_us is None else begin_us
        elif begin_us is not None:
            woken = [
                each.healed_at_us
                for each in injections
                if now.broker in each.brokers and each.healed_at_us is not None and each.healed_at_us > begin_us
            ]
            if woken:
                silences[now.broker].append((begin_us, min(*woken, now.at_us) - OBSERVER_LAG_US))
    for broker, begin_us in begun.items():
        silences[broker].append((begin_us, None))
    return silences


def _answers(observations: Iterable[Observation]) -> Mapping[tuple[str, int], list[Answer]]:
    """Returns the answers of the new leaders of each partition, in the order of their epochs. An answer without an
    epoch is none."""
    answers: dict[tuple[str, int], list[Answer]] = defaultdict(list)
    for now in observations:
        if now.kind == "epochs" and now.epochs:
            starts = dict(zip(now.epochs, now.epoch_starts, strict=False))
            answers[now.topic, now.partition].append(Answer(now.at_us, starts))
    for of_partition in answers.values():
        of_partition.sort(key=lambda answer: answer.epoch)
    return answers
