"""Excuses: decides for each single case of a permitted anomaly whether a disturbance can excuse this case.

A disturbance can excuse a case only if all of these conditions hold:

* The disturbance permits the anomaly.
* It touched the case's partition or, for an anomaly of transactions, the transactions of the case's producer.
* Its reach (see `contract.reach`) includes the time of the case. For LOST and MISPLACED, this is the time of the
  acknowledgement.

All functions are pure.
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
"""The longest time (µs) from a broker's acknowledgement until a busy client learns of the acknowledgement."""
CONVICTING = subset(
    "only these befall one record at one time: what is left of a transaction may get its marker late, and a client may "
    "learn of a leader late",
    (Anomaly.LOST, Anomaly.MISPLACED),
)
"""The anomalies for which one case without an excuse is a violation. For any other anomaly, a case without an excuse
only raises a doubt."""


@dataclass
class Excuses:
    """The cases of an arm, for all anomalies that the contract permits because of disturbances.

    A case is excused, unexplained (no disturbance can excuse it) or doubtful (nobody knows whether a disturbance can
    excuse it).

    * `excused`: the excuses, by anomaly.
    * `doubtful`: the number of doubtful cases, by anomaly.
    * `cases`: the number of unexplained cases, by anomaly.
    * `hidden`: by anomaly, the number of unexplained records that show the anomaly, but are cases of another anomaly.
    * `unexplained`: the sum of `cases` and `hidden` for each anomaly, producer and partition.
    """

    excused: dict[Anomaly, list[Excuse]] = field(default_factory=dict)
    doubtful: Counter[Anomaly] = field(default_factory=Counter)
    cases: Counter[Anomaly] = field(default_factory=Counter)
    hidden: Counter[Anomaly] = field(default_factory=Counter)
    unexplained: Counter[tuple[Anomaly, int | None, int | None]] = field(default_factory=Counter)


@dataclass(frozen=True)
class _Permission:
    """The disturbances that permit an anomaly (`reached`), and further disturbances that may permit it (`possible`).

    If an unclean election permits the anomaly, `possible` holds every change of leader. Each of these changes may have
    been an unclean election, because the observer may have missed that the ISR shrank just before. Otherwise `possible`
    is empty.
    """

    reached: list[Reach]
    possible: list[Reach]


def excuses_of(arm: ArmEvidence) -> Excuses:
    """Sorts the cases of the arm into excused, unexplained and doubtful cases, and returns the result.

    Ignores cases that anomalies/ does not list. Also ignores anomalies that only unplanned disturbances permit, because
    such an anomaly raises a doubt anyway.
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
    """Yields the name and the detail of a doubt for every anomaly with doubtful cases.

    A case is doubtful if nobody knows whether a disturbance can excuse it.
    """
    for anomaly, count in excuses_of(arm).doubtful.items():
        detail = f"{arm.name}: {count} {anomaly} of records that may have been acknowledged, or sent, at another time"
        yield "unexplained", f"{detail}: no disturbance that was seen on their partitions surely excuses them"


def excuse_of(anomaly: Anomaly, case: Case, reached: Sequence[Reach]) -> int | None:
    """Returns the index in `reached` of the disturbance that excuses the case. None: no disturbance surely excuses the
    case.

    `reached` are the disturbances that permit the anomaly, each with its reach. If several excuse the case, the
    disturbance nearest in time counts. The time of the case is when its record was settled or, if it was never settled,
    when it was sent.
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
    """Returns the excuse that covers the case, or None if no excuse surely covers it.

    `excuses` are the excuses of the finding on `anomaly`.
    """
    index = excuse_of(anomaly, case, [Reach(each.disturbance, each.since_us, each.until_us) for each in excuses])
    return None if index is None else excuses[index]


def _permissions(arm: ArmEvidence) -> dict[Anomaly, _Permission]:
    """Maps each anomaly that disturbances permit to a _Permission: these disturbances with their reach."""
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
    """Returns whether no disturbance can excuse the case, and this is certain.

    `since_us` maps a partition to a time (µs since the epoch). From this time on, the observer provably saw every
    change of the partition's leader.
    """
    if anomaly not in CONVICTING or case.sent_us is None or case.partition is None:
        return False
    proven = case.partition in since_us and case.sent_us >= since_us[case.partition]
    here = [reach for reach in (*permission.reached, *permission.possible) if reach.touches(case.partition)]
    return proven and not any(_sent_before(case, reach) for reach in here)


def _sent_before(case: Case, reach: Reach) -> bool:
    """Returns whether the record was sent before the end of `reach`. The disturbance hurts no record that is sent
    later."""
    return case.sent_us is not None and _within(case.sent_us, reach)


def _before_the_end(case: Case, reach: Reach) -> bool:
    """Returns whether the disturbance touched the record's partition, and the record was sent before the end of
    `reach`."""
    return case.partition is not None and reach.touches(case.partition) and _sent_before(case, reach)


def _in_transaction(case: Case, reach: Reach) -> bool:
    """Returns whether the record's transaction was surely open at some time within `reach`.

    The transaction is open at least from the time when the record is sent until the record is settled. If `reach` began
    after the record was settled, the result is False: the transaction may still have been open then, but nobody knows
    when it ended.
    """
    settled_us = case.sent_us if case.settled_us is None else case.settled_us
    begun = reach.since_us is None or (settled_us is not None and settled_us >= reach.since_us)
    return begun and _sent_before(case, reach)


def _acknowledged_within(case: Case, reach: Reach) -> bool:
    """Returns whether the brokers of the record's partition surely acknowledged the record within `reach`."""
    if case.settled_us is None or case.partition is None or not reach.touches(case.partition):
        return False
    begun = reach.since_us is None or case.settled_us >= reach.since_us
    return begun and _sent_before(case, reach) and _within(case.settled_us - CLIENT_LAG_US, reach)


def _under_way(case: Case, reach: Reach) -> bool:
    """Returns whether the record was under way at some time between the disturbance and the end of `reach`."""
    if case.sent_us is None or case.partition is None or not reach.touches(case.partition):
        return False
    begun = case.settled_us is None or case.settled_us >= reach.disturbance.at_us - OBSERVER_LAG_US
    return begun and _within(case.sent_us - CLIENT_LAG_US, reach)


def _within(at_us: int, reach: Reach) -> bool:
    return reach.until_us is None or at_us <= reach.until_us + OBSERVER_LAG_US


def _proven_since_us(arm: ArmEvidence) -> dict[int, int]:
    """Maps a partition of the arm to the time (µs since the epoch) from which on the observer missed no leader.

    This is the time of the partition's first observation. A partition is left out if its last observation and the
    snapshot differ in the leader or in the leader epoch. If they do not differ, no leader was missed, because every new
    leader has a new epoch.

    The result is empty if the observer wrote no heartbeats, as in older runs. Without heartbeats, nothing proves that
    the clock was not set back.
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
