"""Views: what several brokers say of the same partitions, made one."""

from __future__ import annotations

from collections.abc import Iterable

from delivery_verifier.cluster.protocol.requests import PartitionState

View = dict[tuple[str, int], PartitionState]


def newest(views: Iterable[View]) -> View:
    """Of every partition the state of the highest leader epoch, and among equals the one that most brokers tell.

    A broker that is cut off from the controller goes on telling what it knew, as one does that has just woken up.
    """
    told: dict[tuple[str, int], list[PartitionState]] = {}
    for view in views:
        for key, state in view.items():
            told.setdefault(key, []).append(state)
    return {
        key: max(states, key=lambda state: (state.leader_epoch, states.count(state))) for key, states in told.items()
    }
