"""Views. A view holds the states of partitions as one broker reports them.

If the views of several brokers differ, this module decides which state the observer and the faults believe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from delivery_verifier.cluster.protocol.requests import PartitionState

View = dict[tuple[str, int], PartitionState]
"""The states of partitions as one broker reports them, by (topic, partition)."""
PARTITIONS_SHOWN = 3
"""The greatest number of partitions that `leaders_in_words` names."""


def newest(views: Mapping[int, View]) -> View:
    """Returns, for each partition, the state that is believed. `views` holds the view of each broker, by broker id.

    1. The state with the highest leader epoch is believed. A broker that is cut off from the controller, or has just
       woken up, still reports an earlier epoch.
    2. If several states have this epoch, the state that the partition's leader itself reports is believed. The other
       brokers may not yet know the newest ISR. During an epoch, only the leader changes the ISR, with one exception:
       the controller removes a broker that it has fenced.
    3. If the leader reports no state with this epoch, the state with the smallest ISR is believed, because without the
       leader an ISR can only lose brokers.
    4. If several such states remain, the state that the largest number of brokers reports is believed. If two states
       have the same number, the state that the broker with the lowest id reports is believed.
    """
    reports: dict[tuple[str, int], list[tuple[int, PartitionState]]] = {}
    for broker, view in sorted(views.items()):
        for key, state in view.items():
            reports.setdefault(key, []).append((broker, state))
    return {key: _believed(reported) for key, reported in reports.items()}


def _believed(reported: list[tuple[int, PartitionState]]) -> PartitionState:
    """Returns the state of one partition that is believed if brokers report different states.

    The highest leader epoch counts first, then the report of the partition's leader, then the smallest ISR, and then
    the number of brokers that report the state (`newest` gives the reasons). `reported` holds pairs of a broker id and
    the state that this broker reports, sorted by broker id.
    """
    states = [state for _, state in reported]
    _, believed = max(
        reported,
        key=lambda report: (
            report[1].leader_epoch,
            report[1].leader == report[0],
            -len(report[1].isr),
            states.count(report[1]),
        ),
    )
    return believed


def leaders_in_words(view: View, states: Mapping[int, str]) -> str:
    """Returns who leads each partition of `view`, who its replicas are, and in which state these brokers are, as a text
    for a message. `states`: the state of each broker's process, by broker id."""
    shown = [f"{topic}/{number}: {_in_words(state, states)}" for (topic, number), state in sorted(view.items())]
    more = [f"and {len(shown) - PARTITIONS_SHOWN} partitions more"] if len(shown) > PARTITIONS_SHOWN else []
    return f"({'; '.join([*shown[:PARTITIONS_SHOWN], *more]) or 'no broker answers'})"


def _in_words(state: PartitionState, states: Mapping[int, str]) -> str:
    replicas = ", ".join(f"broker {broker} ({', '.join(_traits(broker, state, states))})" for broker in state.replicas)
    leader = f"broker {state.leader} leads" if state.leader >= 0 else "no leader"
    return f"{leader}, replicas: {replicas}"


def _traits(broker: int, state: PartitionState, states: Mapping[int, str]) -> Iterator[str]:
    yield states.get(broker, "unknown")
    if broker not in (*state.isr, *state.elr):
        yield "not in sync"
