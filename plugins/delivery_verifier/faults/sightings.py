"""What the observer has seen of brokers so far, while a fault plan runs: which have not answered, since when, and how.

The observer's file is read again for each look, because another process writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.observer import OBSERVATIONS
from delivery_verifier.model.history import Observation

OUT_US = 2_000_000
"""A broker is out if it has answered nothing for this long (µs). A single answer may be late on a busy host."""


class Silence(NamedTuple):
    """A time in which a broker answered nothing. All times are in µs since the epoch.

    * `answered_us`: the last question before that it answered. `seen_us`: the first that it did not.
    * `refused_us`: when it first refused connections; None if it never did.
    * `until_us`: when it answered again; None if it has not.
    """

    answered_us: int
    seen_us: int
    refused_us: int | None
    until_us: int | None

    def lasted_us(self, since_us: int, now_us: int) -> int:
        """Returns how long it has lasted, counted from `since_us`."""
        return (now_us if self.until_us is None else self.until_us) - max(since_us, self.seen_us)


def observations(cluster: Cluster) -> list[Observation]:
    """Returns what the observer has written so far, in its order."""
    lines = (cluster.workspace / OBSERVATIONS).read_bytes()
    return msgspec.json.Decoder(Observation).decode_lines(lines[: lines.rfind(b"\n") + 1])  # it may be writing a line


def silences(observed: Sequence[Observation], broker: int) -> list[Silence]:
    """Returns each time in which `broker` answered nothing, in order."""
    result, is_silent = list[Silence](), False
    for each in observed:
        if each.kind != "answers" or each.broker != broker:
            continue
        if each.state == "answers":
            if is_silent:
                result[-1] = result[-1]._replace(until_us=each.at_us)
            is_silent = False
            continue
        if not is_silent:
            result.append(Silence(each.at_us - each.pause_us, each.at_us, None, None))
            is_silent = True
        if each.state == "refuses" and result[-1].refused_us is None:
            result[-1] = result[-1]._replace(refused_us=each.at_us)
    return result


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
