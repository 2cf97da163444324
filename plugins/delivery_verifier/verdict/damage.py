"""What the verdict says of unreadable offsets. The bytes at such an offset of the leader's log have changed on the
disk.

The records at these offsets are cases of CORRUPTED, which no rule permits. This module adds the evidence: the offsets,
and the checksums or the broker's error. The doubt about the offsets is a coverage doubt: it forbids HELD, but not
VIOLATED.
"""

from __future__ import annotations

from collections.abc import Iterator

from delivery_verifier.model.snapshot import PartitionSnapshot
from delivery_verifier.model.unreadable import count_unreadable
from delivery_verifier.verdict.evidence import ArmEvidence


def damage_doubts(arm: ArmEvidence) -> Iterator[tuple[str, str]]:
    """Yields the name and the detail of a doubt for each partition of the arm that has unreadable offsets."""
    for part in _damaged(arm):
        detail = f"{arm.name}/{part.partition}: {_evidence(part)}"
        if missing := arm.run.missing.get((arm.name, part.partition), 0):
            detail += (
                f"; {missing:,} of its reported records were not found, and are not called lost, because they may be "
                "at unreadable offsets"
            )
        yield "log_unreadable", detail


def unreadable_clause(arm: ArmEvidence) -> str:
    """Returns in words how many records of the arm cannot be read, and why. Returns "" if all records can be read."""
    parts = _damaged(arm)
    count = sum(count_unreadable(part.unreadable, part.start, part.end) for part in parts)
    return (
        f" ({count:,} of them cannot be read: in partition {parts[0].partition}, {_evidence(parts[0])})"
        if count
        else ""
    )


def _damaged(arm: ArmEvidence) -> list[PartitionSnapshot]:
    """Returns the partitions of the arm that have unreadable offsets. Partitions whose first unreadable offset is
    before the end of the snapshot come first."""
    parts = [part for part in arm.run.offsets.partitions if part.arm == arm.name and part.unreadable]
    return sorted(parts, key=lambda part: part.unreadable[0].first >= part.end)


def _evidence(part: PartitionSnapshot) -> str:
    first, count = part.unreadable[0], len(part.unreadable)
    more = f" (the first of {count} such ranges)" if count > 1 else ""
    where = f"offsets {first.first} to {first.end - 1} of the leader, broker {part.leader}"
    return f"{where}, cannot be read, because {first.detail}{more}"
