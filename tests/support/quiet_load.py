"""A load of which nothing is ever reported, for tests that are about brokers."""

from __future__ import annotations

from delivery_verifier.load.handle import RunningLoad


class QuietLoad(RunningLoad):
    """Nothing is sent, reported or outstanding."""

    def __init__(self) -> None:
        pass

    def reported(self) -> int:
        """None."""
        return 0

    def outstanding(self) -> int:
        """None."""
        return 0
