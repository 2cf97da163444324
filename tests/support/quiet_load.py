"""A load that never sends a record, for tests that are only about brokers."""

from __future__ import annotations

from delivery_verifier.load.handle import RunningLoad


class QuietLoad(RunningLoad):
    """A load in which nothing is sent, reported or outstanding."""

    def __init__(self) -> None:
        pass

    def reported(self) -> int:
        """Returns 0, because no record is reported."""
        return 0

    def outstanding(self) -> int:
        """Returns 0, because no attempt is outstanding."""
        return 0
