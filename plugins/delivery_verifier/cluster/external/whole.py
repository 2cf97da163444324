"""Whether a broker that was broken is back, as the brokers themselves say it."""

from __future__ import annotations

from contextlib import suppress

from delivery_verifier.cluster.backend import ObservedCluster


def answers(cluster: ObservedCluster, broker: int) -> bool:
    """Returns whether `broker` answers now."""
    try:
        return bool(cluster.requests.live_brokers(broker))
    except OSError:
        return False


def is_whole(cluster: ObservedCluster, broker: int) -> bool:
    """Returns whether `broker` answers, and every broker that answers knows it as one that lives. A broker that is cut
    off from the controller may still believe it of itself."""
    known = dict[int, set[int]]()
    for each in cluster.connection.brokers:
        with suppress(OSError):
            known[each] = set(cluster.requests.live_brokers(each))
    return broker in known and all(broker in living for living in known.values())


def is_cut_off(cluster: ObservedCluster, broker: int) -> bool:
    """Returns whether `broker` answers, and no other broker that answers knows it as one that lives."""
    others = [each for each in cluster.connection.brokers if each != broker]
    known = list[set[int]]()
    for each in others:
        with suppress(OSError):
            known.append(set(cluster.requests.live_brokers(each)))
    return answers(cluster, broker) and bool(known) and all(broker not in living for living in known)
