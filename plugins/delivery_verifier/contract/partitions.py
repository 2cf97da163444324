"""The disturbances of partitions, derived from observations and injections alone: changes of leaders and ISRs.

A disturbance is planned if an injection explains it: the action, the brokers and the time of the injection fit the
disturbance. Changes count only after the first observation in which the partition has a leader, because the creation of
a topic is not a disturbance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from delivery_verifier.contract.observer import in_window
from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.model.history import TRANSACTION_STATE, Disturbance, DisturbanceKind, Injection, Observation


@dataclass(slots=True)
class _Partition:
    """The state of a partition, as far as the observer saw it.

    * `leader`: the last broker that led the partition.
    * `epoch`: the last leader epoch.
    * `isr`: the last ISR that was not empty.
    * `elr`: the eligible leader replicas.
    * `replicas`: every broker that was ever seen in the ISR or as leader.
    """

    leader: int
    epoch: int
    isr: list[int]
    elr: list[int]
    replicas: set[int] = field(default_factory=set)

    def update(self, observation: Observation) -> None:
        """Updates the state with a new observation."""
        if observation.leader >= 0:
            self.leader = observation.leader
        self.epoch = observation.leader_epoch
        if observation.isr or observation.elr:  # if both are empty, the next leader is checked against the old values
            self.isr, self.elr = observation.isr or self.isr, observation.elr
        self.replicas |= {broker for broker in (observation.leader, *observation.isr) if broker >= 0}


def partition_disturbances(ordered: list[Observation], injected: list[Injection]) -> Iterator[Disturbance]:
    """Yields a disturbance for each change of a leader or an ISR.

    `ordered`: the observations in the order in which they were made. `injected`: all injections of the run. An unclean
    election in `__transaction_state` becomes a disturbance `unclean_coordinator_election` without a topic. Such an
    election loses no record of an arm, but may disturb the transactions whose states the partition keeps.
    """
    known: dict[tuple[str, int], _Partition] = {}
    for observation in ordered:
        if observation.kind != "partition":
            continue
        key = observation.topic, observation.partition
        if key in known:
            yield from _changes(known[key], observation, injected)
        elif observation.leader < 0:
            continue  # the partition is being created
        else:
            known[key] = _Partition(observation.leader, observation.leader_epoch, observation.isr, observation.elr)
        known[key].update(observation)


def _changes(before: _Partition, now: Observation, injected: list[Injection]) -> Iterator[Disturbance]:
    """Yields the disturbances that the difference between the state `before` and the observation `now` shows."""
    causes = [injection for injection in injected if in_window(injection, now.at_us)]
    moved = now.leader != before.leader
    if moved or now.leader_epoch != before.epoch:
        planned = any(_explains_leader(cause, before, now) for cause in causes)
        detail = f"leader {before.leader} -> {now.leader}, epoch {before.epoch} -> {now.leader_epoch}"
        yield _disturbance("leader_change", now, planned, detail)
        if moved and now.leader >= 0 and now.leader not in (*before.isr, *before.elr):
            detail = f"leader {now.leader} was not in the last ISR seen, {before.isr}, nor eligible, {before.elr}"
            if now.topic == TRANSACTION_STATE:
                yield from _coordinator_election(before, now, detail)
            else:
                unclean = not _has_old_member(before, now)  # otherwise it looks like a clean one that was seen late
                yield _disturbance("unclean_election", now, planned and unclean, detail)
    gone = set(before.isr) - set(now.isr)
    if gone:
        of_others = {broker for cause in causes if _by_others(cause) for broker in cause.brokers}
        planned = gone <= of_others or any(_explains_shrink(cause, gone, before.leader) for cause in causes)
        yield _disturbance("isr_shrink", now, planned, f"ISR {before.isr} -> {now.isr}")


def _coordinator_election(before: _Partition, now: Observation, detail: str) -> Iterator[Disturbance]:
    """Yields a disturbance if the election in `__transaction_state` that `now` shows may have been unclean.

    The caller has checked two things: the new leader was not in the last ISR that was seen, and was not an eligible
    leader replica. The election may be clean all the same, because the new leader may have joined the ISR between two
    polls of the observer. `_has_old_member` says when the election counts as clean. In all other cases, nobody knows
    whether it was clean.

    The disturbance is unplanned, because no action asks for an unclean election in this topic. So every anomaly that
    the disturbance explains raises a doubt.
    """
    if not _has_old_member(before, now):
        election = _disturbance("unclean_coordinator_election", now, planned=False, detail=detail)
        yield replace(election, topic="")


def _has_old_member(before: _Partition, now: Observation) -> bool:
    """Returns whether the new ISR holds a broker of the last ISR that was seen, or an eligible leader replica.

    If so, the election counts as clean. The reason: after an unclean election, the ISR holds only the new leader
    (KIP-106). An ISR with an old member means that the new leader joined the ISR before the election, and that the
    observer missed this. This conclusion is wrong in one case: the election was unclean, and a broker of the last ISR
    joined the ISR again before the observer looked.
    """
    return bool({*before.isr, *before.elr} & set(now.isr))


def _explains_leader(cause: Injection, before: _Partition, now: Observation) -> bool:
    """Returns whether `cause` explains a new leader or leader epoch of a partition. The first of these cases that
    applies decides:

    1. `ACTS` says that the action of `cause` does not change leaders: no. (An action that `ACTS` lacks may change
       leaders.)
    2. `cause` has the proof `re_elected`: yes if the proof names the new leader and epoch.
    3. Only the epoch is new, and a target broker holds a replica: yes.
    4. The target brokers led no partition just before `cause` took effect: yes if one of them was the partition's last
       known leader.
    5. Somebody else did it: yes if the old or the new leader is the broker that was taken out. Such an injection may
       last for minutes, and other leaders that move meanwhile are not its doing.
    6. Otherwise: yes if `cause` hit the partition, or if the old or the new leader is a target broker.
    """
    act = ACTS.get(cause.action)
    if act is not None and "leader_change" not in act.observed_as:
        return False
    if "re_elected" in cause.proof:
        elections: Any = cause.proof["re_elected"]
        election = elections.get(f"{now.topic}-{now.partition}", {})
        return bool(election) and (election["leader"], election["leader_epoch"]) == (now.leader, now.leader_epoch)
    if now.leader == before.leader and before.replicas & set(cause.brokers):
        return True
    if not cause.led:
        return before.leader in cause.brokers
    leaders = {before.leader, now.leader}
    if _by_others(cause):
        return bool(leaders & set(cause.brokers))
    return now.partition in cause.hit.get(now.topic, []) or bool(leaders & set(cause.brokers))


def _explains_shrink(cause: Injection, gone: set[int], leader: int) -> bool:
    """Returns whether `cause` explains that the brokers `gone` left an ISR whose leader was `leader`.

    The result is true if two conditions hold:

    * The action of `cause` may shrink ISRs: `ACTS` says so, or lacks the action.
    * The target brokers include `leader`, or include all brokers in `gone`. If somebody else did it, only the second
      counts, and the brokers of all such injections together may include them.
    """
    act = ACTS.get(cause.action)
    if act is not None and "isr_shrink" not in act.observed_as:
        return False
    return gone <= set(cause.brokers) or (leader in cause.brokers and not _by_others(cause))


def _by_others(cause: Injection) -> bool:
    act = ACTS.get(cause.action)
    return act is not None and act.by_others


def _disturbance(kind: DisturbanceKind, now: Observation, planned: bool, detail: str) -> Disturbance:
    return Disturbance(
        kind=kind,
        at_us=now.at_us,
        planned=planned,
        brokers=[now.leader] if now.leader >= 0 else [],
        topic=now.topic,
        partitions=[now.partition],
        detail=f"{now.topic}/{now.partition}: {detail}",
    )
