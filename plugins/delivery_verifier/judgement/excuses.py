"""Excuses: whether a disturbance can excuse the cases of an anomaly that the contract permits, one by one.

A permission has a time and a place. A case is a record that shows an anomaly. It is excused if a disturbance that
permits the anomaly touched its partition, and its record was acknowledged within the reach of the disturbance (see
`contract.reach`). An anomaly of transactions is excused in every partition, but only if the disturbance may have
touched the transactions of the record's producer. All functions are pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from delivery_verifier.contract.observer import OBSERVER_LAG_US
from delivery_verifier.contract.permissions import permitting
from delivery_verifier.contract.reach import Reach, reaches
from delivery_verifier.contract.settings import Settings
from delivery_verifier.judgement.attribution import Case, read_cases
from delivery_verifier.judgement.evidence import ArmEvidence
from delivery_verifier.model.anomalies import EFFECTS, TRANSACTIONAL, Anomaly, subset
from delivery_verifier.model.verdict import Excuse

CLIENT_LAG_US = 2_000_000
"""How much later (µs) than its acknowledgement a busy client may learn of it."""
CONVICTING = subset(
    "only these befall one record at one time: what is left of a transaction may get its marker late, and a client may "
    "learn of a leader late",
    (Anomaly.LOST, Anomaly.MISPLACED),
)
"""The anomalies of which a case that nothing can excuse is a violation. Of other anomalies, such a case is a doubt."""


@dataclass
class Excuses:
    """What became of the cases of an arm for which the contract permits anomalies because of disturbances.

    `excused` maps each of these anomalies to its excuses. `doubtful` counts cases by anomaly. `cases` and `hidden`
    count the unexplained cases by anomaly; of `hidden`, the record is a case of a kind of higher precedence.
    `unexplained` counts both by anomaly, producer and partition. An unexplained case is one that no disturbance can
    excuse. Of a doubtful case, nobody knows whether one can.
    """

    excused: dict[Anomaly, list[Excuse]] = field(default_factory=dict)
    doubtful: Counter[Anomaly] = field(default_factory=Counter)
    cases: Counter[Anomaly] = field(default_factory=Counter)
    hidden: Counter[Anomaly] = field(default_factory=Counter)
    unexplained: Counter[tuple[Anomaly, int | None, int | None]] = field(default_factory=Counter)


@dataclass(frozen=True)
class _Permission:
    """The disturbances that permit an anomaly (`reached`), and those of which nobody knows if they do (`possible`).

    A change of leader is possible if unclean elections permit the anomaly: if the observer missed that the ISR shrank
    just before, an unclean election looks clean.
    """

    reached: list[Reach]
    possible: list[Reach]


def excuses_of(arm: ArmEvidence) -> Excuses:
    """Returns what excuses the cases of the arm, and which cases nothing can excuse.

    Cases that were not written down are not considered. An anomaly that only unplanned disturbances permit is left out,
    because it is a doubt anyway.
    """
    permissions = _permissions(arm)
    excuses = Excuses(excused={anomaly: [] for anomaly in permissions})
    if arm.run.cases is None or not permissions:
        return excuses
    counts = {anomaly: Counter[int]() for anomaly in permissions}
    since_us = _proven_since_us(arm)
    for case in read_cases(arm.run.cases, arm.name):
        for anomaly in map(Anomaly, case.kinds):
            if anomaly not in permissions:
                continue
            nearest = excuse_of(anomaly, case, permissions[anomaly].reached)
            if nearest is not None:
                counts[anomaly][nearest] += 1
            elif _is_unexplained(anomaly, case, permissions[anomaly], since_us):
                (excuses.cases if case.kinds[0] == anomaly else excuses.hidden)[anomaly] += 1
                excuses.unexplained[anomaly, case.producer, case.partition] += 1
            else:
                excuses.doubtful[anomaly] += 1
    for anomaly, permission in permissions.items():
        excuses.excused[anomaly] = [
            Excuse(disturbance=reach.disturbance, since_us=reach.since_us, until_us=reach.until_us, count=count)
            for number, reach in enumerate(permission.reached)
            if (count := counts[anomaly][number])
        ]
    return excuses


def excuse_doubts(arm: ArmEvidence) -> Iterator[tuple[str, str]]:
    """Yields a doubt, as name and detail, for every anomaly with cases of which nobody knows what excuses them."""
    for anomaly, count in excuses_of(arm).doubtful.items():
        detail = f"{arm.name}: {count} {anomaly} of records that may have been acknowledged, or sent, at another time"
        yield "unexplained", f"{detail}: no disturbance that was seen on their partitions surely excuses them"


def excuse_of(anomaly: Anomaly, case: Case, reached: Sequence[Reach]) -> int | None:
    """Returns the index in `reached` of the disturbance that excuses the case; None if none surely excuses it.

    `reached` are the disturbances that permit the anomaly. If several excuse the case, the one nearest to the record's
    acknowledgement counts (to its sending, if it was never acknowledged).
    """
    if case.sent_us is None:
        return None
    if anomaly in EFFECTS:  # an application has a record in hand, or has applied it, long after it was acknowledged
        excuses = _before_the_end
    elif anomaly in TRANSACTIONAL:  # what befell one partition of a transaction shows in the others, too
        excuses = _in_transaction
    else:
        excuses = _acknowledged_within if anomaly in CONVICTING else _under_way
    settled_us = case.sent_us if case.settled_us is None else case.settled_us
    indexes = [index for index, reach in enumerate(reached) if reach.concerns(case.producer) and excuses(case, reach)]
    return min(indexes, key=lambda index: abs(reached[index].disturbance.at_us - settled_us), default=None)


def excuse_among(anomaly: Anomaly, case: Case, excuses: Sequence[Excuse]) -> Excuse | None:
    """Returns the excuse for which a finding on `anomaly` counts the case; None if no disturbance surely excuses it.

    `excuses` are the excuses of the finding.
    """
    index = excuse_of(anomaly, case, [Reach(each.disturbance, each.since_us, each.until_us) for each in excuses])
    return None if index is None else excuses[index]


def _permissions(arm: ArmEvidence) -> dict[Anomaly, _Permission]:
    """Maps each anomaly that disturbances permit to these disturbances with their reach."""
    if arm.is_canary:
        return {}
    permitted = permitting(Settings.of_arm(arm.run.scenario, arm.spec), arm.disturbances)
    excused = [
        anomaly
        for anomaly, ruling in arm.rulings.items()
        if ruling.because and not ruling.only_unplanned and permitted[anomaly] is not None
    ]
    every = reaches(arm.disturbances, arm.run.observations, arm.run.injections) if excused else []
    permissions = {}
    for anomaly in excused:
        causes = permitted[anomaly] or []
        reached = [reach for reach in every if any(reach.disturbance is cause for cause in causes)]
        unclean = any(cause.kind == "unclean_election" for cause in causes)
        changes = [reach for reach in every if unclean and reach.disturbance.kind == "leader_change"]
        permissions[anomaly] = _Permission(reached, changes)
    return permissions


def _is_unexplained(anomaly: Anomaly, case: Case, permission: _Permission, since_us: dict[int, int]) -> bool:
    """Whether it is certain that no disturbance can excuse the case.

    `since_us` maps a partition to the time from which on it is proven that every change of its leader was observed.
    """
    if anomaly not in CONVICTING or case.sent_us is None or case.partition is None:
        return False
    proven = case.partition in since_us and case.sent_us >= since_us[case.partition]
    here = [reach for reach in (*permission.reached, *permission.possible) if reach.touches(case.partition)]
    return proven and not any(_sent_before(case, reach) for reach in here)


def _sent_before(case: Case, reach: Reach) -> bool:
    """Whether the record was sent before the reach was over."""
    return case.sent_us is not None and _within(case.sent_us, reach)


def _before_the_end(case: Case, reach: Reach) -> bool:
    """Whether the record was sent to a partition that the disturbance touched before the reach was over."""
    return case.partition is not None and reach.touches(case.partition) and _sent_before(case, reach)


def _in_transaction(case: Case, reach: Reach) -> bool:
    """Whether the record's transaction was surely open at some time within the reach.

    A transaction is open at least from when its record was sent until the record was settled. When it ended is not
    known: a transaction may have been open within a reach that began only after its record was settled.
    """
    settled_us = case.sent_us if case.settled_us is None else case.settled_us
    begun = reach.since_us is None or (settled_us is not None and settled_us >= reach.since_us)
    return begun and _sent_before(case, reach)


def _acknowledged_within(case: Case, reach: Reach) -> bool:
    """Whether the record was surely acknowledged by its partition's brokers within the reach."""
    if case.settled_us is None or case.partition is None or not reach.touches(case.partition):
        return False
    begun = reach.since_us is None or case.settled_us >= reach.since_us
    return begun and _sent_before(case, reach) and _within(case.settled_us - CLIENT_LAG_US, reach)


def _under_way(case: Case, reach: Reach) -> bool:
    """Whether the record was under way at some time from the disturbance on until its reach was over."""
    if case.sent_us is None or case.partition is None or not reach.touches(case.partition):
        return False
    begun = case.settled_us is None or case.settled_us >= reach.disturbance.at_us - OBSERVER_LAG_US
    return begun and _within(case.sent_us - CLIENT_LAG_US, reach)


def _within(at_us: int, reach: Reach) -> bool:
    return reach.until_us is None or at_us <= reach.until_us + OBSERVER_LAG_US


def _proven_since_us(arm: ArmEvidence) -> dict[int, int]:
    """Maps a partition of the arm to the time (µs since the epoch) of its first observation.

    A partition is left out unless its last observation has the leader and the leader epoch of the snapshot. Every new
    leader has a new epoch. So the observer then missed no leader between these observations. The result is empty if the
    observer wrote no heartbeats, as in older runs: then nothing proves that the clock was not set back.
    """
    if not any(observation.kind == "heartbeat" for observation in arm.run.observations):
        return {}
    first: dict[int, int] = {}
    last: dict[int, tuple[int, int]] = {}
    for observation in arm.run.observations:
        if observation.kind == "partition" and observation.topic == arm.spec.topic_name:
            first.setdefault(observation.partition, observation.at_us)
            last[observation.partition] = observation.leader, observation.leader_epoch
    snapshot = {
        part.partition: (part.leader, part.leader_epoch)
        for part in arm.run.offsets.partitions
        if part.topic == arm.spec.topic_name and part.leader_epoch >= 0
    }
    return {partition: at_us for partition, at_us in first.items() if snapshot.get(partition) == last[partition]}
