"""Doubts about transactions that stay open in a partition: the last stable offset stands still, and behind it a
read_committed consumer gets nothing.

This is a finding about the cluster, or about a foreign writer's producer. It is a coverage doubt, which forbids HELD,
but not VIOLATED: the raw view is judged as ever, and the committed view up to the last stable offset.
"""

from __future__ import annotations

from collections.abc import Iterator

from delivery_verifier.model.held_back import HeldBack
from delivery_verifier.model.snapshot import PartitionSnapshot
from delivery_verifier.verdict.evidence import ArmEvidence


def open_transaction_doubts(arm: ArmEvidence) -> Iterator[tuple[str, str]]:
    """Yields the name and the detail of a doubt for each partition of the arm that an open transaction holds back."""
    for part in arm.run.offsets.partitions:
        if part.arm == arm.name and part.held_back is not None:
            yield "open_transaction", f"{arm.name}/{part.partition}: {_detail(part, part.held_back)}"


def _detail(part: PartitionSnapshot, held: HeldBack) -> str:
    behind = part.end - part.visible_end
    return (
        f"{held.in_words}. A consumer with read_committed gets none of the {behind:,} offsets from there to the end of "
        "the snapshot. What it would see of them was not judged"
    )
