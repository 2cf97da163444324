"""Disturbances: what the observer saw happen to the cluster, and whether an injection that bit explains it.

Pure. What no observer can see (a loss of power, of connections ...) is known from its injection alone. The first
observation of a partition that has a leader is its baseline, so that the creation of a topic is no disturbance. A
broker process has no such grace: it runs before anything is observed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from delivery_verifier.contract import power
from delivery_verifier.contract.power import OBSERVER_LAG_US, SIGTERM_EXITS
from delivery_verifier.model.fault_actions import ACTS, Act
from delivery_verifier.model.history import INJECTED, LEAD_US, Disturbance, DisturbanceKind, Injection, Observation


def disturbances(observations: Iterable[Observation], injections: Iterable[Injection]) -> list[Disturbance]:
    """Everything that disturbed the cluster, in order of time; `planned` iff an injection that bit explains it.

    An injection without proof that it bit may have bitten all the same: what it is counts as unplanned.
    """
    ordered, made = sorted(observations, key=lambda seen: seen.at_us), list(injections)
    biting = [injection for injection in made if injection.bit]
    own = [found for injection in made for found in _of_injection(injection)]
    seen = [*_of_processes(ordered, biting), *_of_partitions(ordered, biting)]
    return sorted([*own, *power.isr_power_losses(ordered, made), *seen], key=lambda found: found.at_us)


def concerning(topic: str, found: Iterable[Disturbance]) -> list[Disturbance]:
    """The disturbances that could excuse something on `topic`: of its own partitions, and of broker processes."""
    return [disturbance for disturbance in found if disturbance.topic in ("", topic)]


def explained(injection: Injection, found: Iterable[Disturbance]) -> list[Disturbance]:
    """The disturbances that the observer saw within the window of `injection`.

    None for an injection that bit, of an action that has something to be seen (`visible`): the observer is blind.
    """
    return [it for it in found if it.kind not in INJECTED and _in_window(injection, it.at_us)]


def visible(injection: Injection) -> bool:
    """Whether the observer must have seen something of an injection that bit."""
    act = ACTS.get(injection.action)
    return act is None or bool(act.observed_as)


ON_TOPICS: frozenset[DisturbanceKind] = frozenset(
    ("unclean_request", "topic_altered", "client_crash", "application_resend")
)
"""Kinds that touch only the topics that were hit. What is done to a broker may touch every topic."""


def _of_injection(cause: Injection) -> Iterator[Disturbance]:
    """What the injection itself is, as far as no observer can see it."""
    act = ACTS.get(cause.action)
    for kind in act.counts_as if act else ():
        where = _hit_by(cause, kind).items() if kind in ON_TOPICS and cause.hit else [("", list[int]())]
        for topic, partitions in where:
            yield Disturbance(
                kind=kind,
                at_us=cause.bite_at_us,
                planned=cause.bit,
                brokers=cause.brokers,
                topic=topic,
                partitions=partitions,
                setting=str(cause.options.get("setting", "")),
                value=str(cause.options.get("value", "")).lower(),
                detail=_told(cause, topic),
            )


def _hit_by(cause: Injection, kind: DisturbanceKind) -> dict[str, list[int]]:
    """What was hit; of a request for unclean elections only that which was asked for, where the proof says so."""
    asked: Any = cause.proof.get("elected")
    if kind != "unclean_request" or not asked:
        return cause.hit
    hit = {topic: [part for part in parts if f"{topic}-{part}" in asked] for topic, parts in cause.hit.items()}
    return {topic: parts for topic, parts in hit.items() if parts}


def _told(cause: Injection, topic: str) -> str:
    """E.g. `isolate of brokers 1`, `alter of t: setting=min.insync.replicas, value=1`."""
    whom = topic or (f"brokers {', '.join(map(str, cause.brokers))}" if cause.brokers else "the run")
    options = ", ".join(f"{name}={value}" for name, value in sorted(cause.options.items()))
    return f"{cause.action} of {whom}" + (f": {options}" if options else "")


def _in_window(injection: Injection, at_us: int) -> bool:
    end = injection.recovered_at_us
    return injection.bite_at_us - LEAD_US <= at_us and (end is None or at_us <= end + OBSERVER_LAG_US)


def _of_processes(ordered: list[Observation], biting: list[Injection]) -> Iterator[Disturbance]:
    states: dict[int, str] = {}
    targets = {broker for cause in biting for broker in cause.brokers}
    causes = {broker: [cause for cause in biting if broker in cause.brokers] for broker in targets}
    for seen in ordered:
        if seen.kind != "process":
            continue
        changed = states.get(seen.broker) != seen.state
        states[seen.broker] = seen.state
        if changed and seen.state in ("exited", "frozen"):
            orderly = seen.exit_code in SIGTERM_EXITS
            yield Disturbance(
                kind="broker_freeze" if seen.state == "frozen" else "broker_stop" if orderly else "broker_crash",
                at_us=seen.at_us,
                planned=_spent(causes.get(seen.broker, []), seen),
                brokers=[seen.broker],
                detail=f"broker {seen.broker} {seen.state}"
                + (f" with code {seen.exit_code}" if seen.state == "exited" else ""),
            )


def _spent(causes: list[Injection], seen: Observation) -> bool:
    """Whether one of `causes` explains what happened to the broker: then it is spent, and removed.

    An injection does to a broker once what its action does. That the broker crashes again after its restart, or
    crashes while it is frozen, is nobody's plan.
    """
    for cause in causes:
        act = ACTS.get(cause.action)
        if act is not None and act.does == seen.state and _orderly(act, seen) and _in_window(cause, seen.at_us):
            causes.remove(cause)
            return True
    return False


def _orderly(act: Act, seen: Observation) -> bool:
    """A broker that is told to stop and crashes instead did not do as planned."""
    return "broker_stop" not in act.observed_as or seen.exit_code in SIGTERM_EXITS


@dataclass(slots=True)
class _Partition:
    """What is known of a partition so far. `leader` and `isr` are the last real ones (a leader; a non-empty ISR)."""

    leader: int
    epoch: int
    isr: list[int]
    elr: list[int]
    replicas: set[int] = field(default_factory=set)
    """Every broker ever seen in the ISR or as leader."""

    def learn(self, seen: Observation) -> None:
        """Takes `seen` as the new state."""
        self.leader = seen.leader if seen.leader >= 0 else self.leader
        self.epoch = seen.leader_epoch
        if seen.isr or seen.elr:  # without either, who was in sync last is the standard for the next leader
            self.isr, self.elr = seen.isr or self.isr, seen.elr
        self.replicas |= {broker for broker in (seen.leader, *seen.isr) if broker >= 0}


def _of_partitions(ordered: list[Observation], biting: list[Injection]) -> Iterator[Disturbance]:
    known: dict[tuple[str, int], _Partition] = {}
    for seen in ordered:
        if seen.kind != "partition":
            continue
        before = known.get((seen.topic, seen.partition))
        if before is None:
            if seen.leader < 0:
                continue  # being created
            before = known[seen.topic, seen.partition] = _Partition(seen.leader, seen.leader_epoch, seen.isr, seen.elr)
        else:
            yield from _changes(before, seen, biting)
        before.learn(seen)


def _changes(before: _Partition, seen: Observation, biting: list[Injection]) -> Iterator[Disturbance]:
    causes = [cause for cause in biting if _in_window(cause, seen.at_us)]
    moved = seen.leader != before.leader
    if moved or seen.leader_epoch != before.epoch:
        planned = any(_moves_leaders(cause, before, seen) for cause in causes)
        told = f"leader {before.leader} -> {seen.leader}, epoch {before.epoch} -> {seen.leader_epoch}"
        yield _disturbance("leader_change", seen, planned, told)
        if moved and seen.leader >= 0 and seen.leader not in (*before.isr, *before.elr):
            told = f"leader {seen.leader} was not in the last ISR seen, {before.isr}, nor eligible, {before.elr}"
            yield _disturbance("unclean_election", seen, planned, told)
    gone = set(before.isr) - set(seen.isr)
    if gone:
        planned = any(_shrinks(cause, gone, before.leader) for cause in causes)
        yield _disturbance("isr_shrink", seen, planned, f"ISR {before.isr} -> {seen.isr}")


def _moves_leaders(cause: Injection, before: _Partition, seen: Observation) -> bool:
    """Whether `cause` explains a new leader or epoch of a partition.

    What was done to a follower is no reason for another leader, until it leads itself. An election explains the one
    leader and epoch that it is proven by.
    """
    act = ACTS.get(cause.action)
    if act is not None and "leader_change" not in act.observed_as:
        return False
    if "re_elected" in cause.proof:
        elected: Any = cause.proof["re_elected"]
        told = elected.get(f"{seen.topic}-{seen.partition}", {})
        return bool(told) and (told["leader"], told["leader_epoch"]) == (seen.leader, seen.leader_epoch)
    if seen.leader == before.leader and before.replicas & set(cause.brokers):
        return True
    if not cause.led:
        return before.leader in cause.brokers
    concerned = {before.leader, seen.leader}
    return seen.partition in cause.hit.get(seen.topic, []) or bool(concerned & set(cause.brokers))


def _shrinks(cause: Injection, gone: set[int], leader: int) -> bool:
    """Whether `cause` explains that brokers left an ISR: not if its action does nothing of the kind."""
    act = ACTS.get(cause.action)
    return (act is None or "isr_shrink" in act.observed_as) and (gone <= set(cause.brokers) or leader in cause.brokers)


def _disturbance(kind: DisturbanceKind, seen: Observation, planned: bool, detail: str) -> Disturbance:
    brokers = sorted(broker for broker in {seen.leader} if broker >= 0)
    return Disturbance(
        kind=kind,
        at_us=seen.at_us,
        planned=planned,
        brokers=brokers,
        topic=seen.topic,
        partitions=[seen.partition],
        detail=f"{seen.topic}/{seen.partition}: {detail}",
    )
