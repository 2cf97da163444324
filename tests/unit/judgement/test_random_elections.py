"""Random histories with elections: what the logs of leaders really lost is permitted, and what was removed is not.

The oracle is the history itself (`support.leader_logs`), which knows the log of every leader. `make campaign
PART=random_histories` plays further rounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from support.leader_logs import SECOND, TOPIC, Partition, Record
from support.seeds import in_this_round

from delivery_verifier.contract.disturbances import disturbances
from delivery_verifier.contract.elections import Elections, elections
from delivery_verifier.contract.reach import Reach, reaches
from delivery_verifier.contract.rules.rule import ELECTIONS
from delivery_verifier.judgement.cases import Case
from delivery_verifier.judgement.shared_offsets import Origin, origin_of
from delivery_verifier.judgement.truncations import Causes, Fate, fate_of

pytestmark = pytest.mark.slow
HISTORIES, CHUNK = 1000, 100
Log = list[tuple[int, int]]


@dataclass
class Played:
    """A history that was played, and what is judged of it."""

    history: Partition
    place: Elections
    reached: list[Reach]
    lost: list[Record] = field(default_factory=list)
    placed: list[Record] = field(default_factory=list)

    def fate(self, record: Record, log: Log) -> int | Fate:
        """Returns what the judge says of a record that `log` lacks."""
        evidence = (record.sent_us, record.settled_us, "ACKED", record.offset, (), (), self._overwritten(record, log))
        return fate_of(Case("a", ("LOST",), 0, 0, *evidence), Causes(self.reached), {0: self.place})

    def _overwritten(self, record: Record, log: Log) -> bool:
        assert record.offset is not None and record.settled_us is not None
        at = min(record.offset, len(log))
        for offset, (_, number) in enumerate(log):
            other = self.history.records[number]
            if other is record or other.offset != offset or other.settled_us is None:
                continue
            if offset == record.offset or (offset < at and other.sent_us > record.settled_us):
                return True
            if offset > at and other.settled_us < record.sent_us:
                return True
        return False


def play(seed: int) -> Played:
    """Plays one history. In one of five, no new leader answers. In one of four, unclean elections are possible. In one
    of two, the observer misses elections."""
    unclean, deaf = seed % 4 == 3, 1.0 if seed % 5 == 4 else 0.3
    history = Partition(seed, unclean=unclean, missed=seed % 2 == 1, deaf=deaf, unrest=0.1 if unclean else 0.04)
    history.play(120)
    seen, log = history.observations, history.log
    reached = [reach for reach in reaches(disturbances(seen, []), seen, []) if reach.disturbance.kind in ELECTIONS]
    played = Played(history, elections(seen, history.injections)[TOPIC, 0], reached)
    for record in history.records:
        if record.offset is not None:
            stands = log[record.offset : record.offset + 1] == [(record.epoch, record.number)]
            (played.placed if stands else played.lost).append(record)
    return played


def histories(chunk: int) -> Iterator[Played]:
    first = in_this_round(chunk * CHUNK)
    return map(play, range(first, first + CHUNK))


def removed(played: Played, count: int = 8) -> Iterator[tuple[Record, Log]]:
    """Yields records of the log, and the log in which a copy of another record stands in place of each."""
    dice = played.history.dice
    for record in dice.sample(played.placed, min(count, len(played.placed))):
        log, other = list(played.history.log), dice.choice(played.placed)
        if other is not record:
            assert record.offset is not None
            log[record.offset] = (record.epoch or 0, other.number)
            yield record, log


@pytest.mark.parametrize("chunk", range(HISTORIES // CHUNK))
def test_what_leaders_lost_is_permitted_and_what_was_removed_is_not(chunk: int) -> None:
    fates: Counter[str] = Counter()
    for played in histories(chunk):
        history, place = played.history, played.place
        deaf = not place.is_answered
        for record in played.lost:
            fate = played.fate(record, history.log)
            assert isinstance(fate, int) or (deaf and fate is Fate.UNSEEN), (history.seed, record, fate)
            fates["lost, " + ("unseen" if deaf else "permitted")] += 1
        for record, log in removed(played):
            fate = played.fate(record, log)
            assert isinstance(fate, Fate), (history.seed, record, "permitted")
            every = {answer.epoch for answer in place.answers} == {*history.elected} - {0}
            must = every and history.is_below_all_elections(record)
            must = must or history.is_of_the_last_leader_alone(record)
            assert fate is Fate.KEPT or not must, (history.seed, record, fate)
            fates["removed, " + ("must convict" if must else fate.name)] += 1
    assert min(fates[f"lost, {of}"] for of in ("permitted", "unseen")) > 50, fates
    assert min(fates[f"removed, {of}"] for of in ("must convict", "KEPT", "UNKNOWN", "UNSEEN")) > 5, fates


def acks(*records: Record) -> list[dict[str, int | None]]:
    return [
        {"sent_at": record.sent_us, "settled_at": record.settled_us}
        for record in sorted(records, key=lambda record: record.settled_us or 0)
    ]


@pytest.mark.parametrize("chunk", range(2))
def test_two_acknowledgements_of_one_offset_are_explained_where_a_leader_lost_one_and_not_in_one_epoch(
    chunk: int,
) -> None:
    origins: Counter[str] = Counter()
    for played in histories(chunk):
        of_offset: dict[int, list[Record]] = {}
        for record in played.history.records:
            if record.offset is not None and record.settled_us is not None:
                of_offset.setdefault(record.offset, []).append(record)
        for offset, records in of_offset.items():
            if len(records) > 1:
                origin = origin_of(acks(*records), offset, played.place)
                assert origin is not Origin.WRONG, (played.history.seed, offset)
                origins[f"lost, {origin.name}"] += 1
        for record, other in pairwise(played.placed):
            if record.epoch == other.epoch and record.offset is not None:
                origins[f"one epoch, {origin_of(acks(record, other), record.offset, played.place).name}"] += 1
    assert origins["lost, TRUNCATED"] > 500 and origins["one epoch, WRONG"] > 500, origins


def test_the_election_that_took_a_record_is_named_where_only_one_can_have_taken_it() -> None:
    named = 0
    for played in map(play, range(0, 400, 10)):  # no epoch is missed, and every leader answers
        history, place = played.history, played.place
        for record in played.lost:
            assert record.offset is not None and record.settled_us is not None
            epochs = place.epochs_of(record.offset, record.sent_us, record.settled_us)
            assert record.epoch in epochs, "the epoch in which it was really acknowledged"
            if epochs == [record.epoch]:
                fate, taker = played.fate(record, history.log), history.taker(record)
                assert isinstance(fate, int)
                elected = place.elected_at(played.reached[fate].disturbance.at_us)
                assert taker is not None and place.answer_of(taker) in map(place.answer_of, elected)
                named += 1
    assert named > 100


def test_a_history_has_what_it_is_to_have() -> None:
    made = [play(seed) for seed in range(60)]
    kinds = {reach.disturbance.kind for played in made for reach in played.reached}
    states = {seen.state for played in made for seen in played.history.observations if seen.kind == "process"}
    assert kinds == set(ELECTIONS) and states == {"running", "frozen", "exited"}
    late = [r.settled_us - r.sent_us for played in made for r in played.lost if r.settled_us is not None]
    assert max(late) > 5 * SECOND, "what waited in the sockets of a frozen leader, and was acknowledged afterwards"
