"""The doubts of a verdict, grouped by kind and name. Each group has the arms that it concerns.

A doubt of the kind `checker` says that the check itself may be wrong. A doubt of the kind `coverage` says that too
little was tested.
"""

from __future__ import annotations

from dataclasses import dataclass

from delivery_verifier.model.verdict import RunVerdict

DETAILS_SHOWN = 5
"""The greatest number of details that are shown for a doubt."""


@dataclass(frozen=True)
class DoubtGroup:
    """All doubts of one kind and name.

    `remedy`: what to do about them, as the verdict says it. `arms`: the names of the arms with such a doubt. `details`:
    the texts of these doubts, each text once.
    """

    kind: str
    name: str
    remedy: str
    arms: list[str]
    details: list[str]

    @property
    def shown(self) -> list[str]:
        """The first DETAILS_SHOWN details, and how many more there are."""
        more = len(self.details) - DETAILS_SHOWN
        return [*self.details[:DETAILS_SHOWN], *([f"and {more} more, in verdict.json"] if more > 0 else [])]


def doubt_groups(verdict: RunVerdict) -> list[DoubtGroup]:
    """Returns the doubts of a verdict, grouped by kind, name and remedy. Groups of checker doubts come first."""
    by_name: dict[tuple[str, str, str], DoubtGroup] = {}
    for arm in verdict.arms:
        for doubt in arm.doubts:
            key = doubt.kind, doubt.name, doubt.remedy
            group = by_name.setdefault(key, DoubtGroup(*key, [], []))
            group.arms.extend([arm.arm] if arm.arm not in group.arms else [])
            group.details.extend([doubt.detail] if doubt.detail not in group.details else [])
    return sorted(by_name.values(), key=lambda group: group.kind != "checker")
