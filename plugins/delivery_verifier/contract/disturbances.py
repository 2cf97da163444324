"""Disturbances: what the observer saw happen to the cluster, and whether an injection that bit explains it.

Pure. What no observer can see (a loss of power, of connections ...) is known only from the injection that caused it.

The first observation of a broker process is no baseline: the process runs before anything is observed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from delivery_verifier.contract.observer import SIGTERM_EXITS, in_window
from delivery_verifier.contract.partitions import partition_disturbances
from delivery_verifier.contract.power import isr_power_losses
from delivery_verifier.model.act import Act
from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.model.history import INJECTED, ON_TOPICS, Disturbance, DisturbanceKind, Injection, Observation


def disturbances(observations: Iterable[Observation], injections: Iterable[Injection]) -> list[Disturbance]:
    """Everything that disturbed the cluster, in order of time; `planned` iff an injection that bit explains it.

    An injection that is not proven to have bitten may still have bitten: its own disturbances are unplanned.
    """
    ordered, injected = sorted(observations, key=lambda observation: observation.at_us), list(injections)
    biting = [injection for injection in injected if injection.bit]
    return sorted(
        [
            *(disturbance for injection in injected for disturbance in _injected_disturbances(injection)),
            *isr_power_losses(ordered, injected),
            *_process_disturbances(ordered, biting),
            *partition_disturbances(ordered, biting),
        ],
        key=lambda disturbance: disturbance.at_us,
    )


def disturbances_of_topic(topic: str, disturbances: Iterable[Disturbance]) -> list[Disturbance]:
    """The disturbances that could excuse something on `topic`: of its own partitions, and of broker processes."""
    return [disturbance for disturbance in disturbances if disturbance.topic in ("", topic)]


def observed_during(injection: Injection, disturbances: Iterable[Disturbance]) -> list[Disturbance]:
    """The disturbances that the observer saw within the window of `injection`.

    If there are none, and the injection bit and `must_be_observed`, then the observer is blind.
    """
    return [
        disturbance
        for disturbance in disturbances
        if disturbance.kind not in INJECTED and in_window(injection, disturbance.at_us)
    ]


def must_be_observed(injection: Injection) -> bool:
    """Whether the observer must have seen something of `injection` if it bit. An unknown action must be observed."""
    act = ACTS.get(injection.action)
    return act is None or bool(act.observed_as)


def _injected_disturbances(injection: Injection) -> Iterator[Disturbance]:
    """The disturbances that the injection itself counts as, of kinds that no observer can see."""
    act = ACTS.get(injection.action)
    for kind in act.counts_as if act else ():
        for topic, partitions in _scope(injection, kind).items():
            yield Disturbance(
                kind=kind,
                at_us=injection.bite_at_us,
                planned=injection.bit,
                brokers=injection.brokers,
                topic=topic,
                partitions=partitions,
                setting=str(injection.options.get("setting", "")),
                value=str(injection.options.get("value", "")).lower(),
                detail=_detail(injection, topic),
            )


def _scope(injection: Injection, kind: DisturbanceKind) -> dict[str, list[int]]:
    """The partitions that the disturbance touched, per topic. An empty topic stands for any topic."""
    if kind not in ON_TOPICS or not injection.hit:
        return {"": []}
    elected: Any = injection.proof.get("elected")
    if kind != "unclean_request" or not elected:
        return injection.hit
    # The proof names the partitions for which an unclean election was really asked.
    asked = {
        topic: [partition for partition in partitions if f"{topic}-{partition}" in elected]
        for topic, partitions in injection.hit.items()
    }
    return {topic: partitions for topic, partitions in asked.items() if partitions}


def _detail(injection: Injection, topic: str) -> str:
    """E.g. `isolate of brokers 1`, `alter of t: setting=min.insync.replicas, value=1`."""
    brokers = f"brokers {', '.join(map(str, injection.brokers))}" if injection.brokers else "the run"
    options = ", ".join(f"{name}={value}" for name, value in sorted(injection.options.items()))
    return f"{injection.action} of {topic or brokers}" + (f": {options}" if options else "")


def _process_disturbances(ordered: list[Observation], biting: list[Injection]) -> Iterator[Disturbance]:
    """Broker processes that ended or stood still."""
    states: dict[int, str] = {}
    targets = {broker for injection in biting for broker in injection.brokers}
    causes = {broker: [injection for injection in biting if broker in injection.brokers] for broker in targets}
    for observation in ordered:
        if observation.kind != "process":
            continue
        broker, state = observation.broker, observation.state
        changed = states.get(broker) != state
        states[broker] = state
        if changed and state in ("exited", "frozen"):
            exit_code = f" with code {observation.exit_code}" if state == "exited" else ""
            yield Disturbance(
                kind=_process_kind(observation),
                at_us=observation.at_us,
                planned=_use_up_cause(causes.get(broker, []), observation),
                brokers=[broker],
                detail=f"broker {broker} {state}{exit_code}",
            )


def _process_kind(observation: Observation) -> DisturbanceKind:
    if observation.state == "frozen":
        return "broker_freeze"
    return "broker_stop" if observation.exit_code in SIGTERM_EXITS else "broker_crash"


def _use_up_cause(causes: list[Injection], observation: Observation) -> bool:
    """Whether one of `causes` explains what happened to the broker. Removes the cause that does.

    An injection does to a broker once what its action does. It does not explain that the broker crashes again after
    its restart, or crashes while it is frozen.
    """
    for cause in causes:
        act = ACTS.get(cause.action)
        if act is not None and _does(act, observation) and in_window(cause, observation.at_us):
            causes.remove(cause)
            return True
    return False


def _does(act: Act, observation: Observation) -> bool:
    """Whether the action brings a process into this state. A broker that was told to stop must end in order."""
    must_be_orderly = "broker_stop" in act.observed_as
    return act.does == observation.state and (not must_be_orderly or observation.exit_code in SIGTERM_EXITS)
