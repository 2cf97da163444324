"""What the patterns of all anomalies share: one case with its evidence, and a pattern of cases with one cause."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from delivery_verifier.verdict.causes.group import Group


class Applied(NamedTuple):
    """One case of an anomaly of effects. `offsets`: where the record stands in the view of the arm. `applied`: how it
    was applied, in words; empty if it never was. `sent_us`: None if nobody sent the record."""

    producer: int | None
    sequence: int | None
    partition: int | None
    offsets: tuple[int, ...]
    sent_us: int | None
    applied: str

    @property
    def in_words(self) -> str:
        """Which record it is, and where it stands."""
        name = "A record that was never sent" if self.sequence is None else f"Record {self.sequence:,}"
        name += f" of producer {self.producer}" if self.sequence is not None and self.producer is not None else ""
        if not self.offsets:
            return f"{name} stands at no offset that consumers see"
        places = ", ".join(f"{offset:,}" for offset in self.offsets[:3])
        return f"{name} stands in partition {self.partition} at offset {places}"


class Pattern(NamedTuple):
    """A pattern of cases with one cause. `what` and `look_for`: see `verdict.Cause`. `evidence` returns the sentences
    about one case."""

    what: str
    evidence: Callable[[Group, Applied], list[str]]
    look_for: Callable[[Group], list[str]]
