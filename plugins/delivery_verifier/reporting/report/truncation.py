"""Describes how lost records were removed when logs were truncated, as far as the replicas show it.

Each new leader of a partition begins a leader epoch. The other replicas then remove the records of earlier leaders,
from the first offset of the new epoch on. The table REPLICAS has two facts about the log of each replica: the leader
epochs in this log, and the offset at which each epoch begins. So the table shows which epoch replaced the records at
the offset of a lost record. It also shows which replicas still hold records of an earlier epoch at this offset.

The epoch of the lost record itself is not known. Reason: a leader that was frozen may still acknowledge records under
its old epoch, long after another leader was elected.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.reporting.material import Material
from delivery_verifier.run_directory.replicas import REPLICAS

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

    def text(self, case: Row) -> str:
        """Describes how the log changed at the offset at which a lost record was acknowledged.

        `case`: the row of the case in anomalies/. Returns an empty text if

        * the case is not a lost record, or has no acknowledged offset
        * the replica of the partition's leader was not read
        * fewer than two leader epochs of this replica begin at or before the offset. Then no later leader can have
          replaced the record.
        """
        key, offset = (case["arm"], case["partition"]), case["acked_offset"]
        replicas = {row["broker"]: row for row in self._replicas.get(key, [])}
        leader = replicas.get(self._leaders.get(key, -1))
        if case["kind"] != Anomaly.LOST.value or offset is None or leader is None:
            return ""
        begun = _epochs_until(leader, offset)
        if len(begun) < 2:
            return ""
        epoch, start = begun[-1]
        cut = f"leader epoch {epoch} begins at offset {start:,}: what earlier leaders had from there on was cut off"
        if offset >= leader["read_until"]:  # no replica was read as far as that
            return f"{cut}, and the snapshot ends before its offset"
        still = [
            f"broker {broker}"
            for broker, row in sorted(replicas.items())
            if offset < row["read_until"] and max(_epochs_until(row, offset), default=begun[-1])[0] < epoch
        ]
        return f"{cut}; still at its offset on {', '.join(still) or 'no replica'}"


def _epochs_until(replica: Row, offset: int) -> list[tuple[int, int]]:
    """Returns the leader epochs of a replica that begin at or before `offset`, each with its first offset."""
    return [pair for pair in zip(replica["epochs"], replica["epoch_starts"], strict=True) if pair[1] <= offset]
