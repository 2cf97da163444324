"""A load that never sends a record, for tests that are only about brokers."""

from __future__ import annotations

from collections.abc import Iterable

from delivery_verifier.load.handle import RunningLoad
from delivery_verifier.model.scenario import Arm


class QuietLoad(RunningLoad):
    """A load in which nothing is sent, reported or outstanding."""

    def __init__(self) -> None:
        pass

    def reported(self) -> int:
        """Returns 0, because no record is reported."""
        return 0

    def ended_early(self) -> str:
        """Returns an empty text, because no load ends before its time."""
        return ""

    def outstanding(self, arms: Iterable[Arm] | None = None) -> int:
        """Returns 0, because no attempt is outstanding."""
        return 0
