"""Doubts about the observer: reasons to believe that the observer missed changes of the cluster, or recorded wrong
times.

All of them are checker doubts, because either verdict may be wrong:

* VIOLATED is wrong if the observer missed a change that would have explained an anomaly.
* HELD is wrong if the observer saw a change too late or in part, and the contract therefore explains an anomaly by
  mistake.

All functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from delivery_verifier.contract.disturbances import fell_silent, must_be_observed, observed_during
from delivery_verifier.contract.observer import OBSERVER_LAG_US
from delivery_verifier.contract.rulings import effective
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.history import (
    DISTURBANCES,
    HEARTBEAT_US,
    LEAD_US,
    TRANSACTION_STATE,
    Disturbance,
    Injection,
    Observation,
)
from delivery_verifier.model.partition_growth import first_partitions
from delivery_verifier.model.scenario import Arm
from delivery_verifier.verdict.evidence import ArmEvidence, Evidence
from delivery_verifier.verdict.explained_by import convicting_cases, explained_cases_of

ALL = ""
"""Stands in place of an arm's name, in a doubt that concerns every arm of the run."""
LOAD_INTERVAL_US = 1_000_000
"""The greatest length (µs) of an interval in timeline/load. The table itself says only when an interval begins."""


class ObserverDoubt(NamedTuple):
    """A doubt about the observer. `arm` is the arm to which the doubt belongs, or ALL. `detail` says in words what was
    seen."""

    arm: str
    name: str
    detail: str


def observer_doubts(evidence: Evidence) -> Iterator[ObserverDoubt]:
    """Yields every reason to distrust the record of the observer. The observer must have seen

    * every partition, before the load
    * the last leader and leader epoch of every partition, as they stand in the snapshot
    * an effect of every injection that took effect, or the silence of a target broker, unless `must_be_observed`
      exempts the injection
    * the cluster at least every OBSERVER_LAG_US during an injection.

    If one of these observations is missing, others may be missing, too. The contract would then rest on an incomplete
    history. A pause of the observer outside of injections raises a doubt only about an arm that would be VIOLATED.
    """
    for arm in evidence.scenario.arms:
        yield from _first_observed(evidence, arm)
    yield from _last_observed(evidence)
    for injection in evidence.injections:
        if (
            injection.took_effect
            and must_be_observed(injection)
            and not observed_during(injection, evidence.disturbances)
            and not fell_silent(injection, evidence.observations)
        ):
            detail = f"{injection.in_words} took effect, but the observer saw nothing"
            yield ObserverDoubt(ALL, "observer_blind", detail)
    heartbeats = [observation for observation in evidence.observations if observation.kind == "heartbeat"]
    yield from _blindness(evidence, heartbeats)
    yield from _clock(evidence)


def _first_observed(evidence: Evidence, arm: Arm) -> Iterator[ObserverDoubt]:
    """Yields a doubt if the observer did not see every partition of the arm that was there before the load.

    If the arm writes transactions, also yields a doubt if the observer never saw the topic `__transaction_state`.
    (Kafka creates this topic with the first transaction.)
    """
    began_us = min(evidence.tally.values("load", "at_us", arm=arm.name), default=None)
    observed = {
        observation.partition
        for observation in evidence.observations
        if observation.topic == arm.topic_name
        and (began_us is None or observation.at_us <= began_us + LOAD_INTERVAL_US)
    }
    unobserved = sorted(set(range(first_partitions(evidence.scenario))) - observed)
    if unobserved:
        detail = f"{arm.name}: partitions {unobserved} were not observed before the load began"
        yield ObserverDoubt(arm.name, "observer_blind", detail)
    for partition in range(first_partitions(evidence.scenario), evidence.scenario.load.partitions):
        epochs = (
            each.leader_epoch
            for each in evidence.observations
            if each.kind == "partition" and (each.topic, each.partition) == (arm.topic_name, partition)
        )
        if next(epochs, 1) > 0:  # it may have been elected before anybody looked
            detail = f"{arm.name}: partition {partition} was added, and not observed in its first leader epoch"
            yield ObserverDoubt(arm.name, "observer_blind", detail)
    topics = {observation.topic for observation in evidence.observations}
    if arm.transactional_id and TRANSACTION_STATE not in topics:
        yield ObserverDoubt(arm.name, "observer_blind", f"{arm.name}: {TRANSACTION_STATE} was never observed")


def _last_observed(evidence: Evidence) -> Iterator[ObserverDoubt]:
    """Yields a doubt for each partition whose last observation has another leader or leader epoch than the snapshot.

    In such a case the observer stopped too early.
    """
    last = {
        (observation.topic, observation.partition): (observation.leader, observation.leader_epoch)
        for observation in evidence.observations
        if observation.kind == "partition"
    }
    for partition in evidence.offsets.partitions:
        observed = last.get((partition.topic, partition.partition))
        in_snapshot = (partition.leader, partition.leader_epoch)
        if partition.leader_epoch >= 0 and observed is not None and observed != in_snapshot:
            where = f"{partition.arm}/{partition.partition}"
            detail = (
                f"{where} has (leader, epoch) {in_snapshot}, the observer last saw {observed}: it missed an election"
            )
            yield ObserverDoubt(partition.arm, "observer_blind", detail)


def _blindness(evidence: Evidence, heartbeats: list[Observation]) -> Iterator[ObserverDoubt]:
    """Yields a doubt for each injection during which the observer did not see the cluster for some time.

    Also yields a doubt for each arm that is convicted of an anomaly, if the observer may have missed a disturbance that
    permits this anomaly. If there are no heartbeats, yields only a doubt about this.
    """
    if not heartbeats:
        yield ObserverDoubt(ALL, "observer_blind", "the observations have no heartbeat")
        return
    blind = list(_blind_times(heartbeats, evidence.offsets.taken_at_us))
    for injection in evidence.injections:
        begin_us, end_us = _window(injection, evidence)
        longest_us = max((min(to_us, end_us) - max(from_us, begin_us) for from_us, to_us in blind), default=0)
        if longest_us > 0:
            detail = (
                f"in the time of {injection.in_words} the observer did not see the cluster for {longest_us / 1e6:.1f} s"
            )
            yield ObserverDoubt(ALL, "observer_blind", detail)
    for arm in evidence.loaded:
        yield from _blind_conviction(arm, blind)


def _blind_conviction(arm: ArmEvidence, blind: list[tuple[int, int]]) -> Iterator[ObserverDoubt]:
    """Yields a doubt if the arm is convicted of an anomaly, but the observer may have missed a disturbance that permits
    this anomaly.

    `blind` are the pauses in which the observer did not see the cluster. A pause is a pair: begin and end (µs since the
    epoch). Only the time between the begin of the load and the snapshot counts. There is no doubt in two cases: under
    the arm's settings, no disturbance can permit the anomaly, or the arm's claim forbids the anomaly.

    Only a conviction is doubted. An unplanned disturbance can happen in any pause, also outside of injections, and
    could make VIOLATED wrong. HELD cannot become wrong, because a disturbance never forbids anything. So an arm without
    a conviction may have pauses, which are common on a busy host.
    """
    began_us = min(arm.run.tally.values("load", "at_us", arm=arm.name), default=0)
    longest_us = max((to_us - max(from_us, began_us) for from_us, to_us in blind), default=0)
    convicted = _convicted_unless_missed(arm) if longest_us > 0 else []
    if convicted:
        detail = (
            f"{arm.name}: between the begin of the load and the snapshot the observer did not see the cluster for "
            f"{longest_us / 1e6:.1f} s; a disturbance that it missed then may explain {', '.join(convicted)}"
        )
        yield ObserverDoubt(arm.name, "observer_blind", detail)


def _convicted_unless_missed(arm: ArmEvidence) -> list[Anomaly]:
    """Returns each anomaly that convicts the arm, if a disturbance that the observer missed could permit the anomaly.

    The disturbance can be of any kind that only the observer sees.
    """
    explained_by, settings = explained_cases_of(arm), Settings.of_arm(arm.run.scenario, arm.spec)
    missed = [
        Disturbance(kind=name, at_us=arm.run.offsets.taken_at_us, planned=True)  # no alteration of a topic is later
        for name, kind in DISTURBANCES.items()
        if kind.seen_by == "observer"
    ]
    possible = effective(settings, arm.spec.claim, [*arm.disturbances, *missed])
    return [
        anomaly
        for anomaly, ruling in arm.rulings.items()
        if any(convicting_cases(arm, anomaly, ruling, explained_by)) and possible[anomaly].ruling == "PERMITTED"
    ]


def _window(injection: Injection, evidence: Evidence) -> tuple[int, int]:
    """Returns the begin and the end (µs since the epoch) of the time in which the observer must see the cluster.

    During this time, a disturbance may be due to the injection (see `contract.observer.in_window`). The time ends no
    later than the snapshot. It begins no earlier than the load, because a disturbance that was over before the load
    hurts no record. A disturbance that lasted into the load shows in the first observation.
    """
    recovered_us, taken_at_us = injection.recovered_at_us, evidence.offsets.taken_at_us
    end_us = taken_at_us if recovered_us is None else min(recovered_us + OBSERVER_LAG_US, taken_at_us)
    return max(injection.effect_at_us - LEAD_US, evidence.load_began_us), end_us


def _blind_times(heartbeats: list[Observation], taken_at_us: int) -> Iterator[tuple[int, int]]:
    """Yields the begin and the end (µs since the epoch) of each pause. In a pause the observer did not see the cluster.

    The first pause begins at 0 and ends at the first heartbeat. Every later heartbeat ends one pause, which is yielded
    only if it is longer than OBSERVER_LAG_US. The length of this pause is the greater of two times:

    * the heartbeat's `pause_us`: the longest time since the previous heartbeat in which the observer saw nothing
    * the time since the previous heartbeat, minus HEARTBEAT_US. (This is greater if heartbeats are missing.)

    The snapshot, which was taken at `taken_at_us`, counts as a last heartbeat with a `pause_us` of 0.
    """
    beats = [(heartbeat.at_us, heartbeat.pause_us) for heartbeat in heartbeats]
    yield 0, beats[0][0]
    for (before_us, _), (at_us, pause_us) in pairwise([*beats, (taken_at_us, 0)]):
        blind_us = max(pause_us, at_us - before_us - HEARTBEAT_US)
        if blind_us > OBSERVER_LAG_US:
            yield at_us - blind_us, at_us


def _clock(evidence: Evidence) -> Iterator[ObserverDoubt]:
    """Yields a doubt, which forbids HELD and VIOLATED, if the clock was set back while the observer watched.

    The observations are still in the right order. But their times cannot be compared any more with the times of
    injections, of records and of the snapshot, which come from the same clock (`now_us`). The verifier needs this
    comparison to find out which disturbance explains which case.
    """
    steps_us = [before.at_us - now.at_us for before, now in pairwise(evidence.observations)]
    steps_us += [-observation.pause_us for observation in evidence.observations]
    if max(steps_us, default=0) > 0:
        detail = f"the clock of this host was set back by {max(steps_us) / 1e6:.6f} s or more during the run"
        yield ObserverDoubt(ALL, "clock_stepped_back", detail)
