"""The disturbances of the cluster, derived from observations and injections alone.

An observation is a change that an independent observer of the cluster saw. Some disturbances cannot be observed, e.g. a
loss of power or of connections. They are known only from the injection that caused them.

A disturbance is *planned* if an injection explains it: the injection's action has such effects, and its brokers and its
time fit the disturbance. This also holds if the injection is not proven to have taken effect. The missing proof is a
doubt of its own, which forbids HELD.

The observer starts only when every broker process already runs. So even the first observation of a process is a
disturbance if the process has exited or is frozen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from delivery_verifier.contract.alterations import altered_by_others
from delivery_verifier.contract.observer import SIGTERM_EXITS, in_window, unrecovered_since_us
from delivery_verifier.contract.outages import outages
from delivery_verifier.contract.outside import silences
from delivery_verifier.contract.partitions import partition_disturbances
from delivery_verifier.contract.power import isr_power_losses
from delivery_verifier.model.act import Act
from delivery_verifier.model.coordinators import OF_COORDINATORS, partition_of
from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.model.history import (
    INJECTED,
    ON_TOPICS,
    TRANSACTION_STATE,
    Disturbance,
    DisturbanceKind,
    Injection,
    Observation,
)
from delivery_verifier.model.late_ends import answered_ends, has_late_end, kinds_of
from delivery_verifier.model.scenario import Arm


def disturbances(observations: Iterable[Observation], injections: Iterable[Injection]) -> list[Disturbance]:
    """Returns every disturbance of the cluster, in order of time.

    `observations` must be in the order in which they were made. (If a clock was set back, their times do not show this
    order.)
    """
    ordered, injected = list(observations), list(injections)
    return sorted(
        [
            *(disturbance for injection in injected for disturbance in _injected_disturbances(injection, injected)),
            *isr_power_losses(ordered, injected),
            *outages(ordered),
            *altered_by_others(ordered, injected),
            *_process_disturbances(ordered, injected),
            *partition_disturbances(ordered, injected),
        ],
        key=lambda disturbance: disturbance.at_us,
    )


def disturbances_of_topic(topic: str, disturbances: Iterable[Disturbance]) -> list[Disturbance]:
    """Returns the disturbances that may explain an anomaly on `topic`.

    These are the disturbances of this topic, and all disturbances without a topic, which may have touched every topic.
    """
    return [disturbance for disturbance in disturbances if disturbance.topic in ("", topic)]


def disturbances_of_arm(
    arm: Arm, disturbances: Iterable[Disturbance], coordinators: int, injections: Sequence[Injection] = ()
) -> list[Disturbance]:
    """Returns the disturbances that may explain an anomaly of `arm`.

    * A disturbance of another topic is left out (see `disturbances_of_topic`).
    * A disturbance of a transaction coordinator is returned only if it disturbed a partition of `__transaction_state`
      that keeps a transactional.id of the arm. Its field `producers` then lists the producers with such ids.
    * A late end of a transaction (`late_end`) is returned only if it hurt, or may have hurt, a producer of the arm.

    `coordinators`: the number of partitions of `__transaction_state`; 0 if it is unknown. Then every partition may keep
    every transactional.id, and a disturbance of a coordinator counts as unplanned.
    """
    result: list[Disturbance] = []
    for disturbance in disturbances_of_topic(arm.topic_name, disturbances):
        if disturbance.kind == "late_end":
            result += _late_ends(arm, disturbance, injections)
        elif disturbance.kind not in OF_COORDINATORS:
            result.append(disturbance)
        elif producers := _producers_of(arm, disturbance, coordinators):
            planned = disturbance.planned and coordinators > 0
            result.append(replace(disturbance, producers=producers, planned=planned))
    return result


def _producers_of(arm: Arm, disturbance: Disturbance, coordinators: int) -> list[int]:
    """Returns the producers of `arm` whose transactional.id is kept in a partition of `__transaction_state` that
    `disturbance` touched."""
    return [
        number
        for number, name in enumerate(arm.transactional_ids)
        if not coordinators or partition_of(name, coordinators) in disturbance.partitions
    ]


def _late_ends(arm: Arm, disturbance: Disturbance, injections: Iterable[Injection]) -> Iterator[Disturbance]:
    """Yields at most two copies of `disturbance`. The field `producers` of one copy lists the producers that were hurt.
    The other copy is unplanned, and lists the producers that may have been hurt.

    The proof of an injection names each late end that a broker answered, and says whether this late end hurt its
    producer. The proof does not name late ends that got no answer. So each producer that the proof does not name may
    have been hurt.
    """
    ends = [end for cause in injections if has_late_end(cause, disturbance) for end in answered_ends(cause)]
    hurt, answered = {end.transactional_id for end in ends if end.hurts}, {end.transactional_id for end in ends}
    ids = list(enumerate(arm.transactional_ids))
    if producers := [number for number, name in ids if name in hurt]:
        yield replace(disturbance, producers=producers)
    if producers := [number for number, name in ids if name not in answered]:
        yield replace(disturbance, producers=producers, planned=False)


def coordinator_partitions(observations: Iterable[Observation]) -> int:
    """Returns the number of partitions of `__transaction_state`; 0 if the observer did not see all of them."""
    numbers = {observation.partition for observation in observations if observation.topic == TRANSACTION_STATE}
    return len(numbers) if numbers == set(range(len(numbers))) else 0


def observed_during(injection: Injection, disturbances: Iterable[Disturbance]) -> list[Disturbance]:
    """Returns the disturbances that the observer saw when `injection` may have caused them (see `in_window`).

    If the result is empty although the injection took effect and `must_be_observed` is true, the observer missed the
    injection, and may have missed other changes, too.
    """
    return [
        disturbance
        for disturbance in disturbances
        if disturbance.kind not in INJECTED and in_window(injection, disturbance.at_us)
    ]


def fell_silent(injection: Injection, observations: Iterable[Observation]) -> bool:
    """Returns whether the observer saw a target broker of `injection` answer nothing when `injection` may have caused
    that. It sees it only where nobody tells the states of processes. A freeze may be too brief to change anything else.
    """
    times = silences(observations)
    return any(
        each.counts and in_window(injection, each.seen_us)
        for broker in injection.brokers
        for each in times.get(broker, ())
    )


def must_be_observed(injection: Injection) -> bool:
    """Returns whether the observer must have seen an effect of `injection`, if the injection took effect.

    This depends on the action, e.g. the observer sees that a broker ends, but not that a connection is delayed. If
    `ACTS` lacks the action, its effects are unknown, and the result is True.
    """
    act = ACTS.get(injection.action)
    return act is None or bool(act.observed_as)


def _injected_disturbances(injection: Injection, injected: list[Injection]) -> Iterator[Disturbance]:
    """Yields the disturbances that the action of `injection` causes, and that no observer can see. An alteration of a
    topic counts as planned only if it is proven: otherwise nobody knows whether the topic got the new value.

    `injected`: all injections of the run.
    """
    act = ACTS.get(injection.action)
    for kind in kinds_of(act, injection.options) if act else ():
        for topic, partitions in _scope(injection, kind).items():
            yield Disturbance(
                kind=kind,
                at_us=injection.effect_at_us,
                planned=injection.took_effect or kind != "topic_altered",
                brokers=injection.brokers,
                topic=topic,
                partitions=partitions,
                setting=str(injection.options.get("setting", "")),
                value=str(injection.options.get("value", "")).lower(),
                detail=_detail(injection, topic),
                weakens_since_us=(
                    unrecovered_since_us(injected, injection.effect_at_us) if kind == "topic_altered" else 0
                ),
            )


def _scope(injection: Injection, kind: DisturbanceKind) -> dict[str, list[int]]:
    """Maps each topic to the partitions that `injection` touched with a disturbance of the kind `kind`. The topic ''
    stands for any topic."""
    if kind not in ON_TOPICS or not injection.hit:
        return {"": []}
    elected: Any = injection.proof.get("elected")
    if kind != "unclean_request" or not elected:
        return injection.hit
    # The proof names the partitions for which an unclean election was really requested.
    asked = {
        topic: [partition for partition in partitions if f"{topic}-{partition}" in elected]
        for topic, partitions in injection.hit.items()
    }
    return {topic: partitions for topic, partitions in asked.items() if partitions}


def _detail(injection: Injection, topic: str) -> str:
    """Returns a text on `injection`, e.g. `isolate of broker 1` or, with options, `alter topic of t: value=1`."""
    plural = "s" if len(injection.brokers) > 1 else ""
    brokers = f"broker{plural} {', '.join(map(str, injection.brokers))}" if injection.brokers else "the run"
    options = ", ".join(f"{name}={value}" for name, value in sorted(injection.options.items()))
    return f"{injection.action.replace('_', ' ')} of {topic or brokers}" + (f": {options}" if options else "")


def _process_disturbances(ordered: list[Observation], injected: list[Injection]) -> Iterator[Disturbance]:
    """Yields a disturbance for each time that a broker process exited or was frozen.

    `ordered`: the observations in the order in which they were made. `injected`: all injections of the run.
    """
    states: dict[int, str] = {}
    targets = {broker for injection in injected for broker in injection.brokers}
    causes = {broker: [injection for injection in injected if broker in injection.brokers] for broker in targets}
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
                planned=_take_cause(causes.get(broker, []), observation),
                brokers=[broker],
                detail=f"broker {broker} {state}{exit_code}",
            )


def _process_kind(observation: Observation) -> DisturbanceKind:
    """Returns the kind of disturbance of a broker process that was seen frozen or exited."""
    if observation.state == "frozen":
        return "broker_freeze"
    return "broker_stop" if observation.exit_code in SIGTERM_EXITS else "broker_crash"


def _take_cause(causes: list[Injection], observation: Observation) -> bool:
    """Returns whether one of the injections `causes` explains that the broker's process has exited or is frozen.
    Removes this injection from `causes`.

    An injection explains only one end, or one freeze, of each target broker. It does not explain a second crash of the
    broker after its restart, or a crash of a frozen broker.
    """
    for cause in causes:
        act = ACTS.get(cause.action)
        if act is not None and _does(act, observation) and in_window(cause, observation.at_us):
            causes.remove(cause)
            return True
    return False


def _does(act: Act, observation: Observation) -> bool:
    """Returns whether the action `act` brings a broker process into the observed state.

    An action that shuts brokers down in an orderly way (`broker_stop`) does not explain a crash.
    """
    must_be_orderly = "broker_stop" in act.observed_as
    return act.does == observation.state and (not must_be_orderly or observation.exit_code in SIGTERM_EXITS)
