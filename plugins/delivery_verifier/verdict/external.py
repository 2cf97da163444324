"""A run on a cluster that somebody else runs: what its verdict does not rest on, and what nobody watched there.

All functions are pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec.structs import replace

from delivery_verifier.contract.observer import OBSERVER_LAG_US
from delivery_verifier.contract.outages import was_over, was_silent
from delivery_verifier.contract.rulings import effective
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import Anomaly, subset
from delivery_verifier.model.application import IN_TRANSACTIONS, STORED, Discipline
from delivery_verifier.model.external_cluster import LAG, REBALANCE, SESSION
from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.model.history import TRANSACTION_STATE, Disturbance
from delivery_verifier.run_directory.group_log import Row
from delivery_verifier.verdict.evidence import ArmEvidence, Evidence
from delivery_verifier.verdict.explained_by import convicting_cases, explained_cases_of

UNKNOWN = "not known"
UNWATCHED, COMMITS_UNWATCHED = "brokers_unwatched", "commits_unwatched"
_UNLOOKED_US = 2 * OBSERVER_LAG_US
"""Settings of topics are looked at each second. In a longer time (µs), one may have been altered and set back."""
_WEAKEST = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true", "flush.messages": str(2**63 - 1)}
_SET_BACK = subset(
    "what an application may show if brokers forget a commit or the members of its group: it gets records again",
    (Anomaly.REAPPLIED, Anomaly.OVERTAKEN),
)
_FORGOTTEN = subset("and it may miss what an aborted transaction had", (Anomaly.SKIPPED, *_SET_BACK))
UNSHOWN: dict[Discipline, tuple[Anomaly, ...]] = {
    "at_handover": _SET_BACK,
    "store_after": _SET_BACK,
    **dict.fromkeys(STORED, _SET_BACK),
    **dict.fromkeys(IN_TRANSACTIONS, _FORGOTTEN),
}
"""Maps a discipline to the anomalies that the cluster may cause without a trace in a group log that is whole.

A commit by a timer is in no journal, so nobody misses it. The offsets of a database are not in the group log, and a
coordinator that forgets a member may give its partitions away while it still works. A transaction coordinator that
forgets how a transaction ended may abort its records and keep its offsets, or the other way round. In every other
discipline, each commit that was accepted is in the journal, and must be in the group log.
"""


def doubts(evidence: Evidence) -> Iterator[tuple[str, str, str]]:
    """Yields (arm, name, detail) of a checker doubt for each arm whose partitions were disturbed, unplanned, by a
    cluster that somebody else runs, and for each application whose commits nobody can account for.

    From outside, a crash, a restart and a loss of power look the same, and the last may take acknowledged records that
    the settings do not promise to keep. So nothing that was found then convicts. (That HELD is forbidden, too, follows
    from the coverage doubt `unplanned_disturbance`.) The same doubt stands for an anomaly that would convict, if
    something that nobody could see may explain it: then nothing but this anomaly is in question.
    """
    if evidence.scenario.cluster.external is None:
        return
    for arm in evidence.arms:
        kinds = Counter(disturbance.kind for disturbance in arm.disturbances if not disturbance.planned)
        if kinds:
            said = ", ".join(f"{count} x {kind.replace('_', ' ')}" for kind, count in kinds.items())
            detail = f"{arm.name}: {said}, and nobody saw what happened to the brokers: a loss of power looks the same"
            yield arm.name, UNWATCHED, detail
        yield from ((arm.name, UNWATCHED, f"{arm.name}: {detail}") for detail in _unseen(arm))
        yield from ((arm.name, COMMITS_UNWATCHED, f"{arm.name}: {detail}") for detail in _commits(arm))


def _looks(run: Evidence) -> str:
    unlooked_us = _unlooked_us(run)
    if unlooked_us is None:
        return "Nobody could look at their settings, so it is not known whether they were altered and set back."
    return (
        "Their settings were looked at each second, and not for "
        f"{unlooked_us / 1e6:.1f} s at the longest: what was altered and set back meanwhile was not seen."
    )


def _watched(evidence: Evidence) -> Iterator[str]:
    """Yields sentences about what somebody else did to brokers."""
    if not evidence.scenario.fault.by_others:
        return
    yield (
        "Somebody else broke the brokers, and nobody saw how. Who it was, and when, follows from who answered, who led "
        "and who was in sync, by the clock of this host: the clocks of the brokers were not read. A crash, a restart, "
        "a freeze, a cut network and a loss of power may look the same."
    )
    assumed = next((each.proof["assumed"] for each in evidence.injections if "assumed" in each.proof), None)
    if isinstance(assumed, dict):
        waited = "" if assumed["leaders_return"] else "not "
        counts = "" if assumed["silence_counts"] else ": several brokers have one address, so silence said nothing"
        yield (
            f"Assumed of the brokers: {SESSION}={assumed['session_ms']}, {LAG}={assumed['lag_ms']}, and leaders do "
            f"{waited}move back by themselves{counts}. What could not be read was "
            "taken to be so."
        )


def _unseen(arm: ArmEvidence) -> Iterator[str]:
    """Yields a text for everything that nobody could see, and that may explain an anomaly which would convict."""
    if arm.is_canary:
        return
    settings, explained = Settings.of_arm(arm.run.scenario, arm.spec), explained_cases_of(arm)
    elections = [each for each in arm.disturbances if each.kind == "unclean_election"]
    for text, unseen in _possible(arm):
        possible = effective(settings, arm.spec.claim, [*elections, *unseen])
        named = [
            f"{sum(cases):,} {anomaly}"
            for anomaly, ruling in arm.rulings.items()
            if any(cases := convicting_cases(arm, anomaly, ruling, explained))
            and possible[anomaly].tolerance is None
            and possible[anomaly].because
        ]
        if named:
            yield f"{', '.join(named)}, and {text}"


def _possible(arm: ArmEvidence) -> Iterator[tuple[str, list[Disturbance]]]:
    """Yields pairs: what may have happened to the arm without being seen, in words and as disturbances."""
    run, is_transactional = arm.run, bool(arm.spec.transactional_id)
    of_topic = [each for each in arm.disturbances if each.kind == "outage" and _may_matter(each, run)]
    losses = [replace(each, kind="isr_power_loss") for each in of_topic]
    if losses:
        yield f"{of_topic[0].detail}: nobody saw whether they did", losses
    of_coordinators = [
        each
        for each in run.disturbances
        if (each.kind, each.topic) == ("outage", TRANSACTION_STATE) and _may_matter(each, run)
    ]
    if of_coordinators and is_transactional:
        losses = [replace(each, kind="coordinator_power_loss", topic="") for each in of_coordinators]
        yield f"{of_coordinators[0].detail}: nobody saw whether they did", losses
    unclean = next((each for each in arm.disturbances if each.kind == "unclean_election"), None)
    if unclean is not None:
        yield (
            f"nobody saw who asked for the unclean election ({unclean.detail})",
            [replace(unclean, kind="unclean_request", planned=True)],
        )
    unlooked_us = _unlooked_us(run)
    if unlooked_us is None or unlooked_us > _UNLOOKED_US:
        altered = [
            Disturbance(
                kind="topic_altered",
                at_us=run.load_began_us,
                planned=True,
                topic=arm.spec.topic_name,
                setting=setting,
                value=value,
                weakens_since_us=0,
            )
            for setting, value in _WEAKEST.items()
        ]
        looked = "never" if unlooked_us is None else f"not for {unlooked_us / 1e6:.1f} s"
        text = f"the settings of its topic were {looked} looked at: they may have been altered, and set back"
        yield text, [*arm.disturbances, *losses, *altered]
    out = {broker for each in run.injections if ACTS[each.action].by_others for broker in each.brokers}
    silent = sorted(out.union(was_silent(run.observations, run.load_began_us))) if is_transactional else []
    if silent:
        brokers = ", ".join(map(str, silent))
        text = (
            f"requests that end transactions may have come late to brokers that did not answer, or were out ({brokers})"
        )
        yield text, [Disturbance(kind="late_end", at_us=run.load_began_us, planned=True, topic=arm.spec.topic_name)]


def _may_matter(outage: Disturbance, run: Evidence) -> bool:
    return not was_over(outage, run.observations, run.load_began_us)


def _unlooked_us(run: Evidence) -> int | None:
    """Returns the longest time (µs) between the begin of the load and the snapshot in which nobody looked at the
    settings of topics; None if nobody ever did."""
    looks = [(each.at_us - each.pause_us, each.at_us) for each in run.observations if each.kind == "look"]
    if not looks:
        return None
    taken_us = run.offsets.taken_at_us
    times = [(0, looks[0][1]), *looks[1:], (looks[-1][1], taken_us)]
    return max(0, *(min(to_us, taken_us) - max(from_us, run.load_began_us) for from_us, to_us in times))


def _commits(arm: ArmEvidence) -> Iterator[str]:
    """Yields a text if nobody can show that the cluster has kept what the group of the arm's application committed.

    Nobody observes `__consumer_offsets`. An outage of brokers may take an accepted commit from it, and the application
    then gets records again. The group log shows that only if the cluster has not compacted it.
    """
    application = arm.spec.application
    if application is None:
        return
    if removed := max((row["removed"] for row in _positions(arm)), default=0):
        yield (
            f"{removed} records of its group's log were compacted away, so it is not known whether the cluster has "
            "kept every commit that it accepted"
        )
        return
    for anomaly in UNSHOWN.get(application.discipline, ()):
        ruling = arm.rulings.get(anomaly)
        count = sum(arm.cases(anomaly))
        if ruling is not None and ruling.tolerance is not None and count > ruling.tolerance:
            yield (
                f"{count} {anomaly.value}, and nobody watched the coordinators of this application: one that forgets a "
                "commit, a member or a transaction has the same effect"
            )


def _positions(arm: ArmEvidence) -> list[Row]:
    return [row for row in arm.run.group_log.positions if row["arm"] == arm.name] if arm.run.group_log else []


def limits(evidence: Evidence) -> Iterator[str]:
    """Yields sentences about what was not watched on a cluster that somebody else runs, and what was assumed of it."""
    scenario = evidence.scenario
    if (external := scenario.cluster.external) is None:
        return
    yield (
        f"Somebody else runs the cluster {external.cluster_id}. Its leaders and in-sync replicas were observed from "
        "outside, at the topics of this run alone. The processes, hosts, disks and controllers of its brokers were "
        "not, and neither were its other topics and clients: a restart that changed no leader and no in-sync replica "
        "was not seen."
    )
    yield (
        "The ids and replicas of the run's topics were compared when they had been created and at the end. "
        f"{_looks(evidence)} The settings of brokers were read before the run, not again."
    )
    unknown = [name for name, value in external.assumed.items() if UNKNOWN in value]
    assumed = "; ".join(f"{name}: {value}" for name, value in external.assumed.items())
    yield f"Assumed of the cluster: {assumed}." + (
        " What is not known counts as the weaker value, so more is permitted than the cluster may promise."
        if unknown
        else ""
    )
    yield from _watched(evidence)
    settings = external.settings
    if settings is None:
        yield (
            "The settings of the brokers are not known, because this client may not read them, e.g. whether "
            f"leaders move back by themselves ({REBALANCE})."
        )
    elif settings.get(REBALANCE, "true") == "true":
        yield (
            f"{REBALANCE} is {settings.get(REBALANCE, UNKNOWN)} there: leaders may move by themselves, which counts as "
            "a disturbance that was not planned, unless they move back to a broker that somebody else had taken out."
        )
    if scenario.applied:
        yield (
            "The partitions that keep the offsets of groups were read at the end, and not observed. What stands there "
            "has the times of the brokers' clocks, which were not compared with that of this host. So where this log "
            "was compacted, and where a coordinator's loss leaves no trace in it, no application is called VIOLATED "
            f"({COMMITS_UNWATCHED})."
        )
    if scenario.transactional or any(arm.application and arm.application.producer for arm in scenario.loaded):
        yield (
            "The transactional.ids of the run stay registered at the cluster until it lets them expire "
            "(transactional.id.expiration.ms): nobody can remove them."
        )
