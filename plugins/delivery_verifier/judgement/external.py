"""A run on a cluster that somebody else runs: what its verdict does not rest on, and what nobody watched there.

All functions are pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from delivery_verifier.judgement.evidence import Evidence

REBALANCE, UNKNOWN = "auto.leader.rebalance.enable", "not known"
UNWATCHED = "brokers_unwatched"


def doubts(evidence: Evidence) -> Iterator[tuple[str, str, str]]:
    """Yields (arm, name, detail) of a checker doubt for each arm whose partitions were disturbed, unplanned, by a
    cluster that somebody else runs.

    From outside, a crash, a restart and a loss of power look the same, and the last may take acknowledged records that
    the settings do not promise to keep. So nothing that was found then convicts. (That HELD is forbidden, too, follows
    from the coverage doubt `unplanned_disturbance`.)
    """
    if evidence.scenario.cluster.external is None:
        return
    for arm in evidence.arms:
        kinds = Counter(disturbance.kind for disturbance in arm.disturbances if not disturbance.planned)
        if kinds:
            said = ", ".join(f"{count} x {kind.replace('_', ' ')}" for kind, count in kinds.items())
            detail = f"{arm.name}: {said}, and nobody saw what happened to the brokers: a loss of power looks the same"
            yield arm.name, UNWATCHED, detail


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
        "The ids, settings and replicas of the run's topics were compared when they had been created and at the end, "
        "not in between. The settings of brokers were read before the run, not again."
    )
    unknown = [name for name, value in external.assumed.items() if UNKNOWN in value]
    assumed = "; ".join(f"{name}: {value}" for name, value in external.assumed.items())
    yield f"Assumed of the cluster: {assumed}." + (
        " What is not known counts as the weaker value, so more is permitted than the cluster may promise."
        if unknown
        else ""
    )
    settings = external.settings
    if settings is None:
        yield (
            "The settings of the brokers are not known, because this client may not read them: nobody knows e.g. "
            f"whether leaders move back by themselves ({REBALANCE})."
        )
    elif settings.get(REBALANCE, "true") == "true":
        yield (
            f"{REBALANCE} is {settings.get(REBALANCE, UNKNOWN)} there: leaders may move by themselves, which counts as "
            "a disturbance that was not planned."
        )
    if scenario.applied:
        yield (
            "The partitions that keep the offsets of groups were read at the end, and not observed. What stands there "
            "has the times of the brokers' clocks, which were not compared with that of this host."
        )
    if scenario.transactional or any(arm.application and arm.application.producer for arm in scenario.loaded):
        yield (
            "The transactional.ids of the run stay registered at the cluster until it lets them expire "
            "(transactional.id.expiration.ms): nobody can remove them."
        )
