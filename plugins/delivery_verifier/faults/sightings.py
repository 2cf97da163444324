"""What the observer has seen of brokers so far, while a fault plan runs.

The observer's file is read again for each look, because another process writes it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.observer import OBSERVATIONS
from delivery_verifier.contract.outside import HICCUP_US, REFUSED_US, Silence, silences
from delivery_verifier.model.history import Observation


def observations(cluster: Cluster) -> list[Observation]:
    """Returns what the observer has written so far, in its order."""
    lines = (cluster.workspace / OBSERVATIONS).read_bytes()
    return msgspec.json.Decoder(Observation).decode_lines(lines[: lines.rfind(b"\n") + 1])  # it may be writing a line


def silence_since(observed: Sequence[Observation], broker: int, since_us: int, until_us: int) -> Silence | None:
    """Returns the first silence of `broker` that was seen to begin at `since_us` or later, and has lasted long enough
    at `until_us` (see HICCUP_US and REFUSED_US). A broker that was silent before, and refuses connections since,
    counts, too: another silence begins."""
    for silence in silences(each for each in observed if each.at_us >= since_us).get(broker, ()):
        end_us = until_us if silence.until_us is None else silence.until_us
        if end_us - silence.seen_us >= (REFUSED_US if silence.refused else HICCUP_US):
            return silence
    return None


def deposed_us(observed: Sequence[Observation], broker: int, since_us: int) -> int | None:
    """Returns when, from `since_us` on, `broker` was first seen to lead a partition no more, or to leave an ISR."""
    before = dict[tuple[str, int], tuple[int, list[int]]]()
    for each in observed:
        if each.kind != "partition":
            continue
        key = each.topic, each.partition
        leader, isr = before.get(key, (-1, []))
        lost = (leader == broker != each.leader) or (broker in isr and broker not in each.isr)
        if lost and each.at_us >= since_us:
            return each.at_us
        before[key] = each.leader, each.isr
    return None
