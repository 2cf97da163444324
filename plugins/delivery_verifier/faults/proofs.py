"""Proofs: what must be seen of the cluster, just before an injection is healed, for it to have bitten."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from delivery_verifier.cluster import coordinators
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.protocol.requests import PartitionState
from delivery_verifier.model.fault_actions import Proof
from delivery_verifier.model.history import now_us
from delivery_verifier.model.scenario import Scenario

States = dict[tuple[str, int], PartitionState]
BRIEF = 0.8
"""Share of the session within which an injection goes unnoticed."""


def prove(
    cluster: Cluster, scenario: Scenario, injection: Mapping[str, Any], wanted: Sequence[Proof] | None = None
) -> dict[str, dict[str, object]]:
    """What was seen of each proof that the injection asks for, by name; empty where it was not seen."""
    names: Sequence[Proof] = injection["proof"]["wanted"] if wanted is None else wanted
    seen = cluster.partitions([arm.topic_name for arm in scenario.arms]) if names else {}
    hit = [(topic, partition) for topic, partitions in injection["hit"].items() for partition in partitions]
    known = {key: seen[key] for key in hit if key in seen}
    complete = bool(hit) and len(known) == len(hit)
    found: dict[str, dict[str, object]] = {}
    for name in names:
        if name == "brief":
            found[name] = _brief(scenario, injection)
        elif name == "coordinator_moved":
            found[name] = _coordinator_moved(cluster, scenario, injection)
        elif name == "elected":
            found[name] = _elected(known, scenario, injection)
        else:
            shown = _re_elected(known, injection) if name == "re_elected" else _shown(name, known, injection)
            found[name] = _told(known) if complete and shown else {}
    return found


def _shown(name: Proof, known: States, injection: Mapping[str, Any]) -> bool:
    shown = all(_SHOWN[name](state, injection["brokers"]) for state in known.values())
    if name in ("leader_moved", "deposed"):  # who led nothing can have lost no lead
        led = {state["leader"] for state in injection["proof"]["before"].values()}
        shown = shown and led <= set(injection["brokers"])
    return shown


def _re_elected(known: States, injection: Mapping[str, Any]) -> bool:
    """Whether each partition is led by another broker than just before the bite, in a later epoch."""
    before = injection["proof"]["before"]
    return all(
        state.leader not in (-1, was["leader"]) and state.leader_epoch > was["leader_epoch"]
        for (topic, partition), state in known.items()
        for was in [before[f"{topic}-{partition}"]]
    )


_SHOWN: dict[str, Callable[[PartitionState, list[int]], bool]] = {
    "leader_moved": lambda state, brokers: state.leader not in (-1, *brokers),
    "deposed": lambda state, brokers: state.leader not in brokers,
    "leaderless": lambda state, brokers: state.leader < 0,
    "isr_shrunk": lambda state, brokers: not set(state.isr) & set(brokers),
}


def _elected(known: States, scenario: Scenario, injection: Mapping[str, Any]) -> dict[str, object]:
    """The partitions of subject arms that had no leader just before the bite, if there are any and all have one now."""
    topics, before = {arm.topic_name for arm in scenario.subjects}, injection["proof"]["before"]
    offline = {
        (topic, partition): state
        for (topic, partition), state in known.items()
        if topic in topics and before[f"{topic}-{partition}"]["leader"] < 0
    }
    return _told(offline) if all(state.leader >= 0 for state in offline.values()) else {}


def coordinated(cluster: Cluster, scenario: Scenario, brokers: Sequence[int]) -> list[int]:
    """The partitions of `__transaction_state` that keep transactions of the load, and that one of `brokers` leads
    now."""
    return sorted(
        at for at, state in coordinators.states(cluster, scenario.transactional_ids).items() if state.leader in brokers
    )


def _coordinator_moved(cluster: Cluster, scenario: Scenario, injection: Mapping[str, Any]) -> dict[str, object]:
    """Who coordinates now what the targets coordinated just before the bite, if there was such and it is none of
    them."""
    kept, seen = injection["proof"].get("coordinated", []), coordinators.states(cluster, scenario.transactional_ids)
    moved = all(at in seen and seen[at].leader not in (-1, *injection["brokers"]) for at in kept)
    return _told({(coordinators.TOPIC, at): seen[at] for at in kept}) if moved else {}


def _brief(scenario: Scenario, injection: Mapping[str, Any]) -> dict[str, object]:
    passed_ms, session_ms = (now_us() - injection["bite_at_us"]) // 1000, scenario.cluster.session_timeout_ms
    return {"passed_ms": passed_ms, "session_ms": session_ms} if passed_ms < BRIEF * session_ms else {}


def _told(states: States) -> dict[str, object]:
    return {
        f"{topic}-{partition}": {"leader": state.leader, "leader_epoch": state.leader_epoch, "isr": list(state.isr)}
        for (topic, partition), state in states.items()
    }
