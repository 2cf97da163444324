"""What somebody else did to brokers, derived from observations alone.

From outside, nobody sees processes. What is seen is whether a broker answers, who leads, and who is in sync. From these
follow the injections of the fault plan `observe`, whoever broke the brokers.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from delivery_verifier.contract.observer import OBSERVER_LAG_US
from delivery_verifier.model.fault_actions import OBSERVE
from delivery_verifier.model.history import Injection, Observation

HICCUP_US = 2_000_000
"""A silence that is shorter (µs) is no sign of anything: on a busy host, a request of the observer comes late."""
REFUSED_US = 500_000
"""A broker that refuses connections for a shorter time (µs) was not taken out: a kept connection may be closed."""
Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Outside:
    """What is known of the cluster and the load beside the observations. All times are in µs.

    * `replicas`: the brokers with a replica of each partition that carries load.
    * `load_us`: when the load began, and until when it is looked at (µs since the epoch).
    * `session_us`, `lag_us`: broker.session.timeout.ms, after which the cluster deposes a broker that is silent, and
      replica.lag.time.max.ms, after which a leader drops a replica that does not follow.
    * `leaders_return`: whether leaders move back by themselves (auto.leader.rebalance.enable). An injection then lasts
      until they have.
    * `silence_counts`: whether a broker that does not answer says anything about itself. Not if several brokers have
      one address, e.g. that of a load balancer.
    """

    replicas: Mapping[Partition, frozenset[int]]
    load_us: tuple[int, int]
    session_us: int = 60_000_000
    lag_us: int = 30_000_000
    leaders_return: bool = True
    silence_counts: bool = True


@dataclass(frozen=True, slots=True)
class Silence:
    """A time in which a broker did not answer. `since_us`: the last question that it answered before. `seen_us`: when
    it was noticed. `until_us`: when it answered again; None: never. `refused`, `timed_out`: how it did not answer."""

    since_us: int
    seen_us: int
    until_us: int | None
    refused: bool
    timed_out: bool

    @property
    def counts(self) -> bool:
        """Whether it is more than a request that came late. Then it may have been anything, and convicts nobody."""
        return self.refused or self.until_us is None or self.until_us - self.since_us >= HICCUP_US

    @property
    def is_sign(self) -> bool:
        """Whether it shows that the broker was out. A single connection that was closed shows nothing."""
        if self.until_us is None:
            return True
        refused_long = self.refused and self.until_us - self.seen_us >= REFUSED_US
        return refused_long or self.until_us - self.since_us >= HICCUP_US

    def reaches(self, at_us: int) -> bool:
        """Returns whether the broker did not answer from before `at_us` until about then, or longer."""
        return self.since_us <= at_us and (self.until_us is None or self.until_us + OBSERVER_LAG_US >= at_us)


@dataclass(slots=True)
class _Outage:
    """A time in which a broker was out. `led`: the leader epochs of the partitions that it led, and no more. `left`:
    those of whose ISR it is no member. `signs`: what was seen, in words, with its time."""

    broker: int
    deposed_us: int
    led: dict[Partition, int] = field(default_factory=dict)
    left: dict[Partition, tuple[int, int]] = field(default_factory=dict)
    missing: set[Partition] = field(default_factory=set)
    signs: dict[str, int] = field(default_factory=dict)
    back_us: int | None = None
    recovered_us: int | None = None


def injections_from_outside(
    observations: Sequence[Observation], outside: Outside, action: str = OBSERVE, first_id: int = 0
) -> list[Injection]:
    """Returns an injection for each time that a broker was taken out while the load flowed, in the order in which they
    began. `observations` must be in the order in which they were made.

    A broker is taken out when it leaves an ISR, or leads no more and nobody leads instead, and it did not answer then,
    or from then on (OBSERVER_LAG_US). A broker that led a partition until then, and answered throughout, is taken out
    if it left all its ISRs: it may have been cut off from the others. A leader that moves, a replica that lags, or
    one that is assigned to another broker, takes no broker out. If silence does not count, every broker that has left
    all its ISRs is out. A broker that was taken out again after it was back in all its ISRs gives another injection.
    Brokers that are out at the same time give injections of the same cycle.

    * `brokers`: the one broker that was taken out. `hit`, `led`: as of every injection (see `Injection`).
    * `effect_at_us`: when the first sign was seen: the last question that the broker answered, or the change in which
      it was deposed, whichever is earlier. If it answered until it was deposed, and refused no connection then, it may
      have been cut off from others before: the time is then earlier by `session_us` or, of a follower, `lag_us`, and
      may be earlier than the load. `seen_at_us` is the time of the first sign all the same.
    * `healed_at_us`: when it was back in all its ISRs. `recovered_at_us`: when every partition had all its replicas
      in sync and, if `leaders_return`, the leader that it had when the load began, and stayed so for OBSERVER_LAG_US.
      Both are None if this was not seen.
    * `proof`: `before` as of every injection; `observed`: each sign in words, with its time; and `assumed`: what of
      `outside` decided it.

    Nothing is returned of what was first seen before the load, or after the time until which it is looked at. `action`
    is the action of each injection, and `first_id` the id of the first one.
    """
    silent = silences(observations) if outside.silence_counts else {}
    begun = [
        (*begin_us, outage)
        for outage in _outages(observations, outside)
        if _is_taken_out(outage, outside, silent.get(outage.broker, ()))
        and (begin_us := _begin_us(outage, outside, silent.get(outage.broker, ()))) is not None
    ]
    begun.sort(key=lambda each: (each[0], each[2].broker))
    return list(_injections(begun, silent, outside, action, first_id))


def silences(observations: Iterable[Observation]) -> dict[int, list[Silence]]:
    """Returns the times in which each broker did not answer, by broker id."""
    open_of: dict[int, Silence] = {}
    ended: dict[int, list[Silence]] = defaultdict(list)
    for now in observations:
        if now.kind != "answers":
            continue
        before = open_of.pop(now.broker, None)
        if now.state != "answers":
            fresh = Silence(now.at_us - now.pause_us, now.at_us, None, False, False)
            refused = now.state == "refuses"
            known = before or fresh
            open_of[now.broker] = replace(
                known, refused=known.refused or refused, timed_out=known.timed_out or not refused
            )
        elif before is not None:
            ended[now.broker].append(replace(before, until_us=now.at_us))
    for broker, silence in open_of.items():
        ended[broker].append(silence)
    return ended


def _outages(observations: Iterable[Observation], outside: Outside) -> list[_Outage]:
    """Returns the times in which brokers were out of an ISR, in the order in which they were deposed."""
    states: dict[Partition, Observation] = {}
    first: dict[Partition, int] = {}
    handed_over: dict[tuple[int, Partition], tuple[int, int]] = {}
    outages, open_of = list[_Outage](), dict[int, _Outage]()
    for now in observations:
        key = now.topic, now.partition
        if now.kind != "partition" or key not in outside.replicas:
            continue
        before = states.get(key)
        states[key] = now
        if before is not None:
            if before.leader not in (-1, now.leader):
                handed_over[before.leader, key] = now.at_us, before.leader_epoch
            lost = {before.leader} if now.leader < 0 <= before.leader else set[int]()
            assigned = outside.replicas[key] & set(now.replicas or outside.replicas[key])
            for broker in sorted(((set(before.isr) - set(now.isr)) | lost) & assigned):
                if broker not in open_of:
                    open_of[broker] = _Outage(broker, now.at_us)
                    outages.append(open_of[broker])
                _note(open_of[broker], key, before, now, handed_over.get((broker, key)))
        if now.leader >= 0:
            if now.at_us <= outside.load_us[0] or key not in first:
                first[key] = now.leader
            _note_return(open_of, key, now)
        whole = len(states) == len(outside.replicas) and _is_whole(states, first, outside)
        for outage in outages:
            if whole and outage.back_us is not None and outage.recovered_us is None:
                outage.recovered_us = now.at_us
            elif not whole and outage.recovered_us is not None and now.at_us - outage.recovered_us < OBSERVER_LAG_US:
                outage.recovered_us = None  # one of several changes that were seen one after the other
    return outages


def _note(
    outage: _Outage, key: Partition, before: Observation, now: Observation, handed_over: tuple[int, int] | None
) -> None:
    """Notes in `outage` that its broker left the ISR of the partition `key`, or left it without a leader.

    `handed_over`: when another broker followed it as the leader, and its own epoch, or None. Long before, it was an
    election that has nothing to do with the outage: the cluster takes a broker that ends from ISRs and leadership at
    once.
    """
    topic, partition = key
    outage.missing.add(key)
    outage.left.setdefault(key, (before.leader, before.leader_epoch))
    outage.signs.setdefault(f"left the ISR of {topic}-{partition}", now.at_us)
    if handed_over is not None and key not in outage.led:
        at_us, epoch = handed_over
        if now.at_us - at_us <= OBSERVER_LAG_US:
            outage.led[key] = epoch
            outage.deposed_us = min(outage.deposed_us, at_us)
            outage.signs.setdefault(f"leads {topic}-{partition} no more", at_us)


def _note_return(open_of: dict[int, _Outage], key: Partition, now: Observation) -> None:
    """Notes which brokers are back in the ISR of a partition that has a leader."""
    for broker in now.isr:
        outage = open_of.get(broker)
        if outage is not None:
            outage.missing.discard(key)
            if not outage.missing:
                outage.back_us = now.at_us
                del open_of[broker]


def _is_whole(states: Mapping[Partition, Observation], first: Mapping[Partition, int], outside: Outside) -> bool:
    return all(
        now.leader >= 0
        and outside.replicas[key] <= set(now.isr)
        and (now.leader == first[key] or not outside.leaders_return)
        for key, now in states.items()
    )


def _is_taken_out(outage: _Outage, outside: Outside, silent: Iterable[Silence]) -> bool:
    held = {key for key, replicas in outside.replicas.items() if outage.broker in replicas}
    return any(_shows(each, outage) for each in silent) or (
        held <= outage.left.keys() and (bool(outage.led) or not outside.silence_counts)
    )


def _shows(silence: Silence, outage: _Outage) -> bool:
    """Returns whether the broker was silent when it was deposed, or fell silent at once after that, as in an orderly
    stop. A silence that begins later has another reason, e.g. of a broker that merely lagged."""
    is_soon = silence.since_us - outage.deposed_us <= OBSERVER_LAG_US
    return silence.is_sign and is_soon and silence.reaches(max(outage.deposed_us, silence.since_us))


def _begin_us(outage: _Outage, outside: Outside, silent: Sequence[Silence]) -> tuple[int, int] | None:
    """Returns when `outage` may have begun, and its first sign (µs since the epoch); None if the load did not flow.

    The first sign must be later than the begin of the load, and seen before its end. What nobody saw may be earlier.
    A broker that was out at that very moment was out before: the leaders that it left are those of the begin.
    """
    usual_us = outside.session_us if outage.led else max(outside.session_us, outside.lag_us)
    early_us = outage.deposed_us - usual_us - OBSERVER_LAG_US
    signs = _first_signs(outage, silent)
    sign_us = min([each.since_us for each in signs], default=outage.deposed_us)
    seen_us = min([outage.deposed_us, *(each.seen_us for each in signs)])
    began_us, ended_us = outside.load_us
    if sign_us < began_us or outage.deposed_us <= began_us or seen_us > ended_us:
        return None
    if signs or any(each.refused and _shows(each, outage) for each in silent):
        return max(sign_us, early_us), max(sign_us, early_us)
    return early_us, sign_us


def _first_signs(outage: _Outage, silent: Sequence[Silence]) -> list[Silence]:
    """Returns the silence that lasted until the broker was deposed, and those after which it answered for a moment
    only. A silence that was over before says nothing of this outage."""
    signs, until_us = list[Silence](), outage.deposed_us
    for silence in reversed(silent):
        if silence.is_sign and silence.reaches(until_us):
            signs.append(silence)
            until_us = silence.since_us
    return signs


def _injections(
    begun: Iterable[tuple[int, int, _Outage]],
    silent: Mapping[int, Sequence[Silence]],
    outside: Outside,
    action: str,
    first_id: int,
) -> Iterator[Injection]:
    cycle, until_us = -1, -1
    for number, (begin_us, seen_us, outage) in enumerate(begun):
        cycle += begin_us > until_us
        until_us = max(until_us, sys.maxsize if outage.recovered_us is None else outage.recovered_us)
        hit = outage.led or {key: epoch for key, (_, epoch) in outage.left.items()}
        yield Injection(
            id=first_id + number,
            cycle=cycle,
            action=action,
            brokers=[outage.broker],
            hit=_by_topic(hit),
            requested_at_us=begin_us,
            effect_at_us=begin_us,
            seen_at_us=seen_us,
            healed_at_us=outage.back_us,
            recovered_at_us=outage.recovered_us,
            took_effect=True,
            led=bool(outage.led),
            proof={
                "before": {
                    f"{topic}-{partition}": {
                        "leader": outage.broker if outage.led else outage.left[topic, partition][0],
                        "leader_epoch": epoch,
                    }
                    for (topic, partition), epoch in sorted(hit.items())
                },
                "observed": _signs(begin_us, outage, silent.get(outage.broker, ())),
                "assumed": {
                    "session_ms": outside.session_us // 1000,
                    "lag_ms": outside.lag_us // 1000,
                    "leaders_return": outside.leaders_return,
                    "silence_counts": outside.silence_counts,
                },
            },
        )


def _by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    result: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        result.setdefault(topic, []).append(partition)
    return result


def _signs(begin_us: int, outage: _Outage, silent: Iterable[Silence]) -> dict[str, dict[str, int]]:
    """Returns what was seen of `outage`, in words, in order of time. `after_ms`: ms since its begin."""
    signs = {**outage.signs}
    for silence in silent:
        if _shows(silence, outage):
            signs.setdefault("refused connections" if silence.refused else "did not answer", silence.seen_us)
            if silence.until_us is not None:
                signs["answered again"] = silence.until_us
    in_order = sorted(signs.items(), key=lambda sign: sign[1])
    return {words: {"after_ms": (at_us - begin_us) // 1000} for words, at_us in in_order}
