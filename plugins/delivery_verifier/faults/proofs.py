"""Checks which effects of an injection are seen in the cluster. `Proof` in `model/act.py` explains each effect.

An injection takes effect only if every required effect is seen. `FaultStep.proofs` names the required effects. If the
step names none, `Act.proofs` names them. `Injections.prove` says when each effect must be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from delivery_verifier.cluster import coordinators
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.protocol.requests import PartitionState
from delivery_verifier.faults.open_injection import Effect, LeaderAfter, LeaderBefore, OpenInjection, partition_name
from delivery_verifier.model.act import Proof
from delivery_verifier.model.history import TRANSACTION_STATE, now_us
from delivery_verifier.model.scenario import Scenario

PartitionStates = Mapping[tuple[str, int], PartitionState]
"""Maps (topic, partition) to the state of the partition."""
BRIEF = 0.8
"""The greatest length of an injection with the effect `brief`, as a share of broker.session.timeout.ms. The controller
does not notice such a short injection."""

_HOLDS_FOR_PARTITION: dict[Proof, Callable[[PartitionState, list[int]], bool]] = {
    "leader_moved": lambda state, brokers: state.leader not in (-1, *brokers),
    "deposed": lambda state, brokers: state.leader not in brokers,
    "leaderless": lambda state, brokers: state.leader < 0,
    "isr_shrunk": lambda state, brokers: not set(state.isr) & set(brokers),
}
"""Maps an effect to a function that says whether one partition shows the effect. The arguments of the function are the
state of the partition and the target brokers."""


def prove(
    cluster: Cluster, scenario: Scenario, injection: OpenInjection, proofs: Sequence[Proof]
) -> dict[Proof, Effect]:
    """Maps each effect in `proofs` to the evidence that is seen now. The evidence is empty if the effect is not seen.

    The effects `brief`, `coordinator_moved` and `transactions_open` do not depend on the hit partitions (see
    `Injection.hit`). Every other effect needs two conditions to be seen: partitions were hit, and the state of each hit
    partition is known.
    """
    brief = _brief(scenario, injection)  # first, because a silent broker takes time
    asked = any(proof != "brief" for proof in proofs)
    partitions = cluster.partitions([arm.topic_name for arm in scenario.arms]) if asked else {}
    hit = [(topic, partition) for topic, numbers in injection.hit.items() for partition in numbers]
    states = {key: partitions[key] for key in hit if key in partitions}
    complete = bool(hit) and len(states) == len(hit)
    effects: dict[Proof, Effect] = {}
    for proof in proofs:
        if proof == "brief":
            effects[proof] = brief
        elif proof == "coordinator_moved":
            effects[proof] = _coordinator_moved(cluster, scenario, injection)
        elif proof == "transactions_open":
            effects[proof] = _transactions_open(cluster, scenario, injection)
        elif proof == "elected":
            effects[proof] = _elected(states, scenario, injection) if complete else {}
        else:
            effects[proof] = _leaders(states) if complete and _holds(proof, states, injection) else {}
    return effects


def _holds(proof: Proof, states: PartitionStates, injection: OpenInjection) -> bool:
    """Returns whether the effect `proof` holds for every partition in `states`.

    The effects `leader_moved` and `deposed` also require that target brokers led every hit partition before the fault.
    """
    before = injection.proofs.before
    if proof == "re_elected":
        return all(_has_new_leader(state, before[partition_name(*key)]) for key, state in states.items())
    if not all(_HOLDS_FOR_PARTITION[proof](state, injection.brokers) for state in states.values()):
        return False
    if proof in ("leader_moved", "deposed"):  # only a target that led can have lost its leadership
        return {state.leader for state in before.values()} <= set(injection.brokers)
    return True


def _has_new_leader(state: PartitionState, before: LeaderBefore) -> bool:
    """Returns whether the partition has a different leader than before the fault, in a later leader epoch."""
    return state.leader not in (-1, before.leader) and state.leader_epoch > before.leader_epoch


def _elected(states: PartitionStates, scenario: Scenario, injection: OpenInjection) -> Effect:
    """Maps each hit partition of the subject arms that had no leader before the fault to its present leader.

    The result is empty if there is no such partition, or if one of these partitions still has no leader.
    """
    topics, before = {arm.topic_name for arm in scenario.subjects}, injection.proofs.before
    offline = {
        (topic, partition): state
        for (topic, partition), state in states.items()
        if topic in topics and before[partition_name(topic, partition)].leader < 0
    }
    return _leaders(offline) if all(state.leader >= 0 for state in offline.values()) else {}


def coordinated_partitions(cluster: Cluster, scenario: Scenario, brokers: Sequence[int]) -> list[int]:
    """Returns those partitions of `__transaction_state` that hold transactions of the load and have one of `brokers` as
    their leader."""
    states = coordinators.states(cluster, scenario.transactional_ids)
    return sorted(partition for partition, state in states.items() if state.leader in brokers)


def _coordinator_moved(cluster: Cluster, scenario: Scenario, injection: OpenInjection) -> Effect:
    """Maps each partition in `injection.proofs.coordinated` to its present leader.

    The result is empty if there is no such partition. It is also empty if one of these partitions has no leader, or has
    a target broker as its leader.
    """
    partitions = injection.proofs.coordinated or []
    states = coordinators.states(cluster, scenario.transactional_ids)
    if any(partition not in states for partition in partitions):
        return {}
    led = {(TRANSACTION_STATE, partition): states[partition] for partition in partitions}
    moved = all(state.leader not in (-1, *injection.brokers) for state in led.values())
    return _leaders(led) if moved else {}


def _transactions_open(cluster: Cluster, scenario: Scenario, injection: OpenInjection) -> Effect:
    """Maps each transactional.id of the load to the time at which its open transaction began, in ms since the epoch.

    The result is empty in each of these cases: there is no transactional.id, one of them has no open transaction, an
    open transaction began after the effect, or a coordinator does not answer.
    """
    names = scenario.transactional_ids
    try:
        began_ms = coordinators.open_transactions(cluster, names)
    except OSError:
        return {}  # without an answer the effect is not seen
    are_open = set(began_ms) == set(names) and all(ms * 1000 <= injection.effect_at_us for ms in began_ms.values())
    return began_ms if are_open else {}


def _brief(scenario: Scenario, injection: OpenInjection) -> Effect:
    """Returns the time since the fault took effect, and the timeout of the broker session, both in ms.

    If the time is not less than BRIEF times the timeout, the result is empty.
    """
    passed_ms, session_ms = (now_us() - injection.effect_at_us) // 1000, scenario.cluster.session_timeout_ms
    return {"passed_ms": passed_ms, "session_ms": session_ms} if passed_ms < BRIEF * session_ms else {}


def _leaders(states: PartitionStates) -> dict[str, LeaderAfter]:
    return {
        partition_name(*key): LeaderAfter(state.leader, state.leader_epoch, list(state.isr))
        for key, state in states.items()
    }
