"""Excuses: whether a disturbance can excuse the cases of an anomaly that the contract permits, one by one.

A permission has a time and a place. A case is a record that shows an anomaly. It is excused if a disturbance that
permits the anomaly touched its partition, and its record was acknowledged before the reach of the disturbance was over
(see `contract.reach`). All functions are pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from delivery_verifier.contract.observer import OBSERVER_LAG_US
from delivery_verifier.contract.permissions import permitting
from delivery_verifier.contract.reach import Reach, reaches
from delivery_verifier.contract.settings import Settings
from delivery_verifier.judgement.attribution import Case, read_cases
from delivery_verifier.judgement.evidence import ArmEvidence
from delivery_verifier.model.anomalies import TRANSACTIONAL, Anomaly, subset

CLIENT_LAG_US = 2_000_000
"""How much later (µs) than its acknowledgement a busy client may learn of it."""
CONVICTING = subset(
    "only these befall one record at one time: what is left of a transaction may get its marker late, and a client may "
    "learn of a leader late",
    (Anomaly.LOST, Anomaly.MISPLACED),
)
"""The anomalies of which a case that nothing can excuse is a violation. Of other anomalies, such a case is a doubt."""
Judged = Literal["excused", "doubtful", "unexplained"]
"""unexplained: no disturbance can excuse the case. doubtful: nobody knows whether one can."""


@dataclass
class Excuses:
    """What became of the cases of an arm for which the contract permits anomalies because of disturbances.

    `doubtful` counts cases by anomaly. `cases` and `hidden` count the unexplained cases by anomaly; of `hidden`, the
    record is a case of a kind of higher precedence.
    """

    doubtful: Counter[Anomaly] = field(default_factory=Counter)
    cases: Counter[Anomaly] = field(default_factory=Counter)
    hidden: Counter[Anomaly] = field(default_factory=Counter)


def excuses_of(arm: ArmEvidence) -> Excuses:
    """Returns which cases of the arm no disturbance can excuse. Cases that were not written down are not considered.

    An anomaly that only unplanned disturbances permit is left out, because it is a doubt anyway.
    """
    excuses, reached = Excuses(), _reached(arm)
    if arm.run.cases is None or not reached:
        return excuses
    since_us = _proven_since_us(arm)
    for case in read_cases(arm.run.cases, arm.name):
        for anomaly in map(Anomaly, case.kinds):
            if anomaly not in reached:
                continue
            judged = _judged(anomaly, case, reached[anomaly], since_us)
            if judged == "doubtful":
                excuses.doubtful[anomaly] += 1
            elif judged == "unexplained":
                (excuses.cases if case.kinds[0] == anomaly else excuses.hidden)[anomaly] += 1
    return excuses


def excuse_doubts(arm: ArmEvidence) -> Iterator[tuple[str, str]]:
    """Yields a doubt, as name and detail, for every anomaly with cases of which nobody knows what excuses them."""
    for anomaly, count in excuses_of(arm).doubtful.items():
        detail = f"{arm.name}: {count} {anomaly} of records that may have been acknowledged, or sent, only afterwards"
        yield "unexplained", f"{detail}: no disturbance that was seen on their partitions surely excuses them"


def _reached(arm: ArmEvidence) -> dict[Anomaly, list[Reach]]:
    """Maps each anomaly that disturbances permit to these disturbances with their reach."""
    if arm.is_canary:
        return {}
    permitted = permitting(Settings.of_arm(arm.run.scenario, arm.spec), arm.disturbances)
    return {
        anomaly: reaches(permitted[anomaly] or [], arm.run.observations, arm.run.injections)
        for anomaly, ruling in arm.rulings.items()
        if ruling.because and not ruling.only_unplanned and permitted[anomaly] is not None
    }


def _judged(anomaly: Anomaly, case: Case, reached: list[Reach], since_us: dict[int, int]) -> Judged:
    """Returns whether one of the disturbances `reached` excuses the case.

    `since_us` maps a partition to the time from which on it is proven that every change of its leader was observed.
    """
    if anomaly in TRANSACTIONAL:  # what befell one partition of a transaction shows in the others, too
        return "excused" if case.sent_us is not None and _sent_before(case.sent_us, reached) else "doubtful"
    here = [reach for reach in reached if case.partition is not None and reach.touches(case.partition)]
    if case.sent_us is None:
        return "doubtful"
    if anomaly not in CONVICTING:
        return "excused" if any(_under_way(case, reach) for reach in here) else "doubtful"
    if not _sent_before(case.sent_us, here):
        proven = case.partition in since_us and case.sent_us >= since_us[case.partition]
        return "unexplained" if proven else "doubtful"
    if case.settled_us is None:
        return "doubtful"
    return "excused" if _sent_before(case.settled_us - CLIENT_LAG_US, here) else "doubtful"


def _sent_before(at_us: int, reached: list[Reach]) -> bool:
    """Whether one of the disturbances `reached` reaches to the time `at_us`."""
    return any(reach.until_us is None or at_us <= reach.until_us + OBSERVER_LAG_US for reach in reached)


def _under_way(case: Case, reach: Reach) -> bool:
    """Whether the record was under way at some time from the disturbance on until its reach was over."""
    begun = case.settled_us is None or case.settled_us >= reach.disturbance.at_us - OBSERVER_LAG_US
    return begun and case.sent_us is not None and _sent_before(case.sent_us - CLIENT_LAG_US, [reach])


def _proven_since_us(arm: ArmEvidence) -> dict[int, int]:
    """Maps a partition of the arm to the time (µs since the epoch) of its first observation.

    A partition is left out unless its last observation has the leader and the leader epoch of the snapshot. Every new
    leader has a new epoch. So the observer then missed no leader between these observations.
    """
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
