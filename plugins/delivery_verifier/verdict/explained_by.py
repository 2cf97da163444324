"""Explains: decides for each single case of a permitted anomaly whether a disturbance can explain this case.

A permission has a place and a time. What lies outside of both convicts, if this is certain:

* LOST and MISPLACED: an election, or a loss of power, must have taken the acknowledged copy, by its offset and leader
  epoch (see `truncations`).
* DUPLICATED and REORDERED, and the surviving copies of MISPLACED: each copy must be possible as an attempt of one
  request (see `copies`). This holds even where the contract permits the anomaly without any disturbance.
* Every anomaly that disturbances permit: the disturbance touched the case's partition or, for an anomaly of
  transactions, the transactions of the case's producer. Its effect window (see `contract.effect_windows`) includes the
  time of the case.

All functions are pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest

from delivery_verifier.contract.delays import delays
from delivery_verifier.contract.effect_windows import EffectWindow, effect_windows
from delivery_verifier.contract.elections import Elections
from delivery_verifier.contract.permissions import permitting
from delivery_verifier.contract.rulings import Ruling
from delivery_verifier.contract.settings import Settings
from delivery_verifier.contract.times import Span
from delivery_verifier.model.anomalies import EFFECTS, TRANSACTIONAL, Anomaly, subset
from delivery_verifier.model.audit import Audit
from delivery_verifier.model.verdict import RECORDS_NAMED, ExplainedBy
from delivery_verifier.verdict.cases import Case, read_cases
from delivery_verifier.verdict.copies import Placement, placement_of
from delivery_verifier.verdict.evidence import ArmEvidence
from delivery_verifier.verdict.truncations import Causes, Fate, fate_of, has_one_log
from delivery_verifier.verdict.unproven import convicts_copies
from delivery_verifier.verdict.windows import before_the_end, in_transaction, nearest, under_way

TAKEN = subset(
    "a record is taken from the log only if it is gone, or if the acknowledged copy is",
    (Anomaly.LOST, Anomaly.MISPLACED),
)
"""The anomalies in which the acknowledged copy of a record is gone."""
COPIED = subset(
    "only these show when copies were appended, and are permitted by anything",
    (Anomaly.DUPLICATED, Anomaly.REORDERED),
)
"""The anomalies in which a client may have sent a request again."""
CONVICTING = (*TAKEN, *COPIED)
"""The anomalies for which one case without an explanation is a violation. For any other anomaly, a case without an
explanation only raises a doubt. Reason: what is left of a transaction may get its marker late, and an application works
later."""


@dataclass
class ExplainedCases:
    """The cases of an arm, for all anomalies that the contract permits.

    A case is explained, unexplained (nothing can explain it), doubtful (nobody knows whether a disturbance can explain
    it) or unseen (the run did not write down what decides it). A case that the contract permits without a disturbance
    is none of these.

    * `explained`: the explains, by anomaly.
    * `doubtful`, `unseen`: the number of such cases, by anomaly.
    * `cases`: the number of unexplained cases, by anomaly.
    * `hidden`: by anomaly, the number of unexplained records that show the anomaly, but are cases of another anomaly.
    * `records`: by anomaly, the names of unexplained records. `doubtful_records`: of doubtful and unseen ones. At most
      RECORDS_NAMED of each.
    * `unexplained`: the sum of `cases` and `hidden` for each anomaly, producer and partition.
    """

    explained: dict[Anomaly, list[ExplainedBy]] = field(default_factory=dict)
    doubtful: Counter[Anomaly] = field(default_factory=Counter)
    unseen: Counter[Anomaly] = field(default_factory=Counter)
    cases: Counter[Anomaly] = field(default_factory=Counter)
    hidden: Counter[Anomaly] = field(default_factory=Counter)
    records: dict[Anomaly, list[str]] = field(default_factory=dict)
    doubtful_records: dict[Anomaly, list[str]] = field(default_factory=dict)
    unexplained: Counter[tuple[Anomaly, int | None, int | None]] = field(default_factory=Counter)


def explained_cases_of(arm: ArmEvidence) -> ExplainedCases:
    """Sorts the cases of the arm by what explains them, and returns the result.

    Ignores cases that anomalies/ does not list. Also ignores anomalies that only unplanned disturbances permit, because
    such an anomaly raises a doubt anyway. In an audit, nobody knows when records were under way: only copies in two
    partitions are unexplained.
    """
    if (audit := arm.run.scenario.audit) is not None:
        return _audited(arm, audit)
    permissions = _permissions(arm)
    explained_by = ExplainedCases(explained={anomaly: [] for anomaly in permissions})
    if arm.run.cases is None or not permissions:
        return explained_by
    since_us, held_up = _proven_since_us(arm), delays(arm.run.observations, arm.run.injections)
    by_disturbance = defaultdict[tuple[Anomaly, int], list[Case]](list)
    unexplained, doubtful = defaultdict[Anomaly, list[Case]](list), defaultdict[Anomaly, list[Case]](list)
    for case in read_cases(arm.run.cases, arm.name):
        for anomaly in map(Anomaly, case.kinds):
            if anomaly not in permissions:
                continue
            causes = permissions[anomaly]
            fate = _fate(anomaly, case, causes, arm, held_up)
            if isinstance(fate, int):
                by_disturbance[anomaly, fate].append(case)
            elif fate is Fate.KEPT and _is_proven(anomaly, case, since_us):
                (explained_by.cases if case.kinds[0] == anomaly else explained_by.hidden)[anomaly] += 1
                explained_by.unexplained[anomaly, case.producer, case.partition] += 1
                unexplained[anomaly].append(case)
            elif fate is not None:
                (explained_by.unseen if fate is Fate.UNSEEN else explained_by.doubtful)[anomaly] += 1
                doubtful[anomaly].append(case)
    for anomaly, causes in permissions.items():
        windows = causes.windows if causes else ()
        explained_by.explained[anomaly] = [
            _explain(window, cases)
            for number, window in enumerate(windows)
            if (cases := by_disturbance[anomaly, number])
        ]
        explained_by.records[anomaly], explained_by.doubtful_records[anomaly] = (
            _names(unexplained[anomaly]),
            _names(doubtful[anomaly]),
        )
    return explained_by


def _audited(arm: ArmEvidence, audit: Audit) -> ExplainedCases:
    """Returns the unexplained cases of an audit: permitted copies of one attempt in two partitions. A client sends a
    record to one partition only."""
    ruling = None if arm.is_canary else arm.rulings.get(Anomaly.DUPLICATED)
    if ruling is None or ruling.tolerance is not None or not convicts_copies(audit, arm.run.audit_counts):
        return ExplainedCases()
    explained_by, named = ExplainedCases(explained={Anomaly.DUPLICATED: []}), list[Case]()
    for case in read_cases(arm.run.cases, arm.name) if arm.run.cases is not None else ():
        if case.kinds[0] == Anomaly.DUPLICATED and len({*(case.partitions or ())}) > 1:  # no other kind hides it
            explained_by.cases[Anomaly.DUPLICATED] += 1
            explained_by.unexplained[Anomaly.DUPLICATED, case.producer, case.partition] += 1
            named.append(case)
    explained_by.records[Anomaly.DUPLICATED] = _names(named)
    return explained_by


def _not_examined(arm: ArmEvidence, audit: Audit, explained_by: ExplainedCases) -> Iterator[tuple[str, str]]:
    """Yields a doubt for permitted copies of an audit: nobody knows whether they are attempts of one request."""
    for anomaly in COPIED if audit.settings_known else ():
        ruling = arm.rulings.get(anomaly)
        unexamined = sum(arm.cases(anomaly)) - explained_by.cases[anomaly]
        if ruling is not None and ruling.tolerance is None and not ruling.only_unplanned and unexamined > 0:
            yield (
                "copies_not_examined",
                f"{unexamined:,} {anomaly}: the settings permit that a client sends a request again, and nothing shows "
                "whether it did",
            )


def _explain(window: EffectWindow, cases: Sequence[Case]) -> ExplainedBy:
    return ExplainedBy(
        disturbance=window.disturbance,
        since_us=window.since_us,
        until_us=window.until_us,
        count=len(cases),
        records=_names(cases),
    )


def _names(cases: Iterable[Case]) -> list[str]:
    return [case.record for case in nsmallest(RECORDS_NAMED, cases, key=lambda case: case.sort_key)]


def convicting_cases(
    arm: ArmEvidence, anomaly: Anomaly, ruling: Ruling, explained_by: ExplainedCases
) -> tuple[int, int]:
    """Returns how many cases of `anomaly` would convict the arm: all if it is forbidden, and else those that nothing
    explains. The second number is that of attempts that show it, and are cases of another anomaly."""
    if ruling.ruling == "FORBIDDEN":
        return arm.cases(anomaly)
    return explained_by.cases[anomaly], explained_by.hidden[anomaly]


def unexplained_doubts(arm: ArmEvidence) -> Iterator[tuple[str, str]]:
    """Yields the name and the detail of a doubt for every anomaly with doubtful cases, and with unseen ones."""
    explained_by = explained_cases_of(arm)
    if (audit := arm.run.scenario.audit) is not None:
        yield from _not_examined(arm, audit, explained_by)
    for anomaly, count in explained_by.doubtful.items():
        detail = f"{arm.name}: {count} {anomaly} of records that may have been acknowledged, or sent, at another time"
        yield "unexplained", f"{detail}: no disturbance that was seen on their partitions surely explains them"
    for anomaly, count in explained_by.unseen.items():
        what = "how far the logs of new leaders reached" if anomaly in TAKEN else "when their copies were appended"
        yield "bound_unseen", f"{arm.name}: {count} {anomaly} of records of which the run does not say {what}"


def explained_by_which(anomaly: Anomaly, case: Case, causes: Causes, elections: Mapping[int, Elections]) -> int | Fate:
    """Returns the index in `causes.windows` of the disturbance that explains the case, or the Fate of its record.

    `elections` maps a partition of the arm to its elections. If several disturbances explain the case, the nearest in
    time counts.
    """
    if case.sent_us is None:
        return Fate.UNKNOWN
    if anomaly in TAKEN:
        return fate_of(case, causes, elections)
    if anomaly in EFFECTS:  # an application has a record in progress, or has applied it, long after it was acknowledged
        explained_by = before_the_end
    elif anomaly in TRANSACTIONAL:  # what befell one partition of a transaction shows in the others, too
        explained_by = in_transaction
    else:
        explained_by = under_way
    windows = causes.windows
    indexes = [
        index for index, window in enumerate(windows) if window.concerns(case.producer) and explained_by(case, window)
    ]
    index = nearest(case, windows, indexes)
    return Fate.UNKNOWN if index is None else index


def _fate(
    anomaly: Anomaly, case: Case, causes: Causes | None, arm: ArmEvidence, held_up: Sequence[Span]
) -> int | Fate | None:
    """Returns what explains the case (see `explained_by_which`), after its copies were looked at. KEPT: nothing can
    explain it.

    `causes` is None if the contract permits the anomaly without a disturbance. The result is then None, if the copies
    do not contradict this. `held_up`: when requests may have been held up.
    """
    if anomaly in COPIED or (anomaly is Anomaly.MISPLACED and case.partitions is not None):
        placement = placement_of(case, held_up, one_log=has_one_log(case, arm.elections))
        if placement is not Placement.POSSIBLE:
            return _OF_COPIES[placement]
    return None if causes is None else explained_by_which(anomaly, case, causes, arm.elections)


_OF_COPIES = {Placement.IMPOSSIBLE: Fate.KEPT, Placement.UNSEEN: Fate.UNSEEN, Placement.UNKNOWN: Fate.UNKNOWN}


def _permissions(arm: ArmEvidence) -> dict[Anomaly, Causes | None]:
    """Maps each permitted anomaly to the disturbances that permit it, with their reach. The value is None if the
    anomaly is in COPIED, and is permitted without a disturbance.

    Other anomalies that need no disturbance are left out: no case of them can be outside of anything.
    """
    if arm.is_canary:
        return {}
    permitted = permitting(Settings.of_arm(arm.run.scenario, arm.spec), arm.disturbances)
    rulings = {anomaly: ruling for anomaly, ruling in arm.rulings.items() if ruling.tolerance is None}
    explained = [anomaly for anomaly, ruling in rulings.items() if ruling.because and not ruling.only_unplanned]
    every = effect_windows(arm.disturbances, arm.run.observations, arm.run.injections) if explained else []
    permissions: dict[Anomaly, Causes | None] = {}
    for anomaly in rulings:
        causes = permitted[anomaly]
        if causes is None and anomaly in COPIED:
            permissions[anomaly] = None
        elif causes is not None and anomaly in explained:
            windows = [window for window in every if any(window.disturbance is cause for cause in causes)]
            unclean = any(cause.kind == "unclean_election" for cause in causes)
            changes = [window for window in every if unclean and window.disturbance.kind == "leader_change"]
            permissions[anomaly] = Causes(windows, changes)
    return permissions


def _is_proven(anomaly: Anomaly, case: Case, since_us: Mapping[int, int]) -> bool:
    """Returns whether a case that nothing explains is certainly a violation.

    `since_us` maps a partition to a time (µs since the epoch). From this time on, the observer provably saw every
    change of the partition's leader.
    """
    if anomaly in COPIED:
        return True
    if anomaly not in TAKEN or case.sent_us is None or case.partition is None:
        return False
    return case.partition in since_us and case.sent_us >= since_us[case.partition]


def _proven_since_us(arm: ArmEvidence) -> dict[int, int]:
    """Maps a partition of the arm to the time (µs since the epoch) from which on the observer missed no leader.

    This is the time of the partition's first observation. A partition is left out if its last observation and the
    snapshot differ in the leader or in the leader epoch. If they do not differ, no leader was missed, because every new
    leader has a new epoch.

    The result is empty if the observer wrote no heartbeats: nothing proves then that the clock was not set back.
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
