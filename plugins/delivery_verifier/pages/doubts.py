"""The doubts: those of one name together, with all arms that they touch."""

from __future__ import annotations

from dataclasses import dataclass

from delivery_verifier.model.verdict import RunVerdict


@dataclass(frozen=True)
class DoubtGroup:
    """All doubts of one name: which arms they touch, and each different detail once."""

    kind: str
    name: str
    arms: list[str]
    details: list[str]


def doubt_groups(verdict: RunVerdict | None) -> list[DoubtGroup]:
    """Doubts by name, checker doubts first."""
    found: dict[tuple[str, str], DoubtGroup] = {}
    for arm in verdict.arms if verdict else []:
        for doubt in arm.doubts:
            same = found.setdefault((doubt.kind, doubt.name), DoubtGroup(doubt.kind, doubt.name, [], []))
            same.arms.extend([arm.arm] if arm.arm not in same.arms else [])
            same.details.extend([doubt.detail] if doubt.detail not in same.details else [])
    return sorted(found.values(), key=lambda one: one.kind != "checker")
