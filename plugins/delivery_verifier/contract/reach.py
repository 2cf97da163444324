"""The reach of a disturbance: until when a record that the disturbance hurt can have been acknowledged.

The result depends on observations and injections alone. An observation is late, never early: so the reach may be too
long, which excuses too much, but it is never too short.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from delivery_verifier.contract.power import cuts_power
from delivery_verifier.contract.rules.rule import ELECTIONS
from delivery_verifier.model.history import Disturbance, Injection, Observation


@dataclass(frozen=True, slots=True)
class Reach:
    """A disturbance and its reach: no record that was acknowledged after `until_us` (µs since the epoch) can be lost by
    it. None stands for no known end."""

    disturbance: Disturbance
    until_us: int | None

    def touches(self, partition: int) -> bool:
        """Whether the disturbance may have touched `partition` of the arm's topic."""
        disturbance = self.disturbance
        return not disturbance.topic or not disturbance.partitions or partition in disturbance.partitions


def reaches(
    disturbances: Iterable[Disturbance], observations: Sequence[Observation], injections: Iterable[Injection]
) -> list[Reach]:
    """Returns each disturbance with its reach. `observations` stand in the order in which they were made.

    * Another leader, or another leader epoch: until the deposed leader can acknowledge nothing any more (see
      `_last_answers`).
    * A loss of power of all replicas: until the power was back after the last loss. At most one such disturbance stands
      for all losses of a partition.
    * Any other kind has no known end. An unclean coordinator forgets transactions that are still open; an ISR that
      shrank, or an altered topic, lets brokers refuse requests for as long as it stays so.
    """
    answers = _last_answers(observations)
    cuts = [injection for injection in injections if cuts_power(injection)]
    ends = [cut.healed_at_us for cut in cuts]
    result = []
    for disturbance in disturbances:
        until_us = None
        if disturbance.kind in ELECTIONS and len(disturbance.partitions) == 1:
            until_us = answers.get((disturbance.topic, disturbance.partitions[0], disturbance.at_us))
        elif disturbance.kind in ("isr_power_loss", "coordinator_power_loss") and None not in ends:
            until_us = max([disturbance.at_us, *(end for end in ends if end is not None)])
        result.append(Reach(disturbance, until_us))
    return result


def _last_answers(observations: Sequence[Observation]) -> dict[tuple[str, int, int], int | None]:
    """Maps each change of a leader or leader epoch to the time from which on no deposed leader can acknowledge.

    A key is (topic, partition, at_us of the change). A time of None is unknown.
    """
    replicas = _replicas(observations)
    before: dict[tuple[str, int], tuple[int, int]] = {}
    exited: set[int] = set()
    answers: dict[tuple[str, int, int], int | None] = {}
    for number, now in enumerate(observations):
        if now.kind == "process":
            exited = exited | {now.broker} if now.state == "exited" else exited - {now.broker}
        if now.kind != "partition":
            continue
        key = now.topic, now.partition
        leader, epoch = before.get(key, (now.leader, now.leader_epoch))
        if (now.leader, now.leader_epoch) != (leader, epoch):
            # An epoch that was skipped had a leader that nobody saw: it may have been any replica.
            deposed = ({leader} if now.leader_epoch <= epoch + 1 else {leader} | replicas[key]) - {now.leader}
            ends = [
                now.at_us if broker in exited else _end(broker, now, observations[number + 1 :]) for broker in deposed
            ]
            known = [end for end in ends if end is not None]
            until_us = max([now.at_us, *known]) if len(known) == len(ends) else None
            change = *key, now.at_us
            earlier = answers.get(change, now.at_us)
            answers[change] = None if until_us is None or earlier is None else max(until_us, earlier)
        if now.leader >= 0 or key in before:
            before[key] = (now.leader if now.leader >= 0 else leader), now.leader_epoch
    return answers


def _end(broker: int, change: Observation, later: Iterable[Observation]) -> int | None:
    """Returns from when on (µs since the epoch) `broker` cannot acknowledge as the leader that `change` deposed.

    A deposed leader that is frozen, cut off, or just slow goes on acknowledging until it learns of its successor. It
    has learned of the successor when it was out of the ISR and is back again, because it then has copied from the
    successor, or when it leads again. It must then not leave the ISR any more: a single observation of an ISR may be
    old. A process that has exited acknowledges nothing. Returns None if none of this was seen. A deposed leader that
    simply stays in the ISR proves nothing: the ISR may be that of the time before.
    """
    out, back_us = change.leader >= 0 and broker not in change.isr, None
    for observation in later:
        if observation.kind == "process" and observation.broker == broker and observation.state == "exited":
            return observation.at_us if back_us is None else back_us
        if (observation.topic, observation.partition) != (change.topic, change.partition) or observation.leader < 0:
            continue
        if observation.leader == broker:
            return observation.at_us if back_us is None else back_us
        if broker not in observation.isr:
            out, back_us = True, None
        elif out:
            out, back_us = False, observation.at_us
    return back_us


def _replicas(observations: Iterable[Observation]) -> dict[tuple[str, int], set[int]]:
    """Maps each partition, as (topic, partition), to the brokers that were ever seen in its ISR or as its leader."""
    replicas: dict[tuple[str, int], set[int]] = {}
    for key, broker in _members(observations):
        replicas.setdefault(key, set()).add(broker)
    return replicas


def _members(observations: Iterable[Observation]) -> Iterator[tuple[tuple[str, int], int]]:
    for observation in observations:
        for broker in (observation.leader, *observation.isr, *observation.elr):
            if broker >= 0:
                yield (observation.topic, observation.partition), broker
