"""Where a lost record was cut off: which leader epoch holds its offset now, and which replicas still have the epoch in
which it was acknowledged.

The table of the replicas says which leader epochs each replica holds, and from which offsets on. The observer saw the
leader epochs while the load ran. Nothing is said where one of the two is missing.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.history import Observation
from delivery_verifier.pages.material import Material
from delivery_verifier.store.replicas import REPLICAS

Row = dict[str, Any]


class Truncations:
    """What the replicas of a run hold at the offsets of lost records."""

    def __init__(self, material: Material) -> None:
        self._replicas = defaultdict[tuple[str, int], list[Row]](list)
        table = material.table(REPLICAS)
        for row in table.to_pylist() if table is not None else []:
            if row["digest"] is not None:
                self._replicas[row["arm"], row["partition"]].append(row)
        parts = material.offsets.partitions if material.offsets is not None else []
        self._leaders = {(part.arm, part.partition): part.leader for part in parts}

    def text(self, case: Row, then: Observation | None) -> str:
        """What became of the offset at which a lost record was acknowledged, in words. Empty if that is not known.

        `case`: the row of the case in anomalies/. `then`: the last observation of its partition before the
        acknowledgement.
        """
        key, offset = (case["arm"], case["partition"]), case["acked_offset"]
        replicas = {row["broker"]: row for row in self._replicas.get(key, [])}
        leader = replicas.get(self._leaders.get(key, -1))
        if case["kind"] != Anomaly.LOST.value or offset is None or then is None or leader is None:
            return ""
        now = _epoch_at(leader, offset)
        if now is None:
            cut = f"cut off after leader epoch {then.leader_epoch}: the snapshot ends before its offset"
        elif now[0] <= then.leader_epoch:
            return ""
        else:
            cut = (
                f"cut off after leader epoch {then.leader_epoch}: now leader epoch {now[0]} begins at offset {now[1]:,}"
            )
        still = [
            f"broker {broker}"
            for broker, row in sorted(replicas.items())
            if (epoch := _epoch_at(row, offset)) is not None and epoch[0] <= then.leader_epoch
        ]
        return f"{cut}; still at its offset on {', '.join(still) or 'no replica'}"


def _epoch_at(replica: Row, offset: int) -> tuple[int, int] | None:
    """Returns the leader epoch that holds `offset` in a replica, and where this epoch begins.

    Returns None if the replica was not read as far as `offset`.
    """
    if offset >= replica["read_until"]:
        return None
    begun = [pair for pair in zip(replica["epochs"], replica["epoch_starts"], strict=True) if pair[1] <= offset]
    return begun[-1] if begun else None
