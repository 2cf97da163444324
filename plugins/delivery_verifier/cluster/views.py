"""Views: the states of partitions as single brokers report them, and which of several views is believed."""

from __future__ import annotations

from collections.abc import Mapping

from delivery_verifier.cluster.protocol.requests import PartitionState

View = dict[tuple[str, int], PartitionState]
"""The state of partitions as one broker reports it, by (topic, partition)."""


def newest(views: Mapping[int, View]) -> View:
    """Returns, for each partition, the state that is believed. `views`: the view of each broker, by broker id.

    The state with the highest leader epoch is believed. A broker that is cut off from the controller goes on to report
    the last state that it knew, and so does a broker that has just woken up. Within one leader epoch, such a broker
    may report an ISR that has changed since. So among states of the highest epoch the state that the partition's leader
    itself reports is believed: the leader waits for the replicas of its own ISR, and no ISR changes without the leader
    while the epoch lasts, except that the controller removes a broker that it has fenced. If the leader does not
    report, or if there is none, the state that most brokers report is believed; of several such states, the state of
    the broker with the lowest id.
    """
    reports: dict[tuple[str, int], list[tuple[int, PartitionState]]] = {}
    for broker, view in sorted(views.items()):
        for key, state in view.items():
            reports.setdefault(key, []).append((broker, state))
    return {key: _believed(reported) for key, reported in reports.items()}


def _believed(reported: list[tuple[int, PartitionState]]) -> PartitionState:
    """Returns the state that is believed of the states (broker, state) that brokers report of one partition."""
    states = [state for _, state in reported]
    _, believed = max(
        reported,
        key=lambda report: (report[1].leader_epoch, report[1].leader == report[0], states.count(report[1])),
    )
    return believed
