"""The renewals of a lease, as a test counts them."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from delivery_verifier.cluster import lease
from delivery_verifier.host.waiting import wait_until
from support.kept_clusters import Kept
from support.patience import PATIENCE_S

RENEWED_EVERY_S = 0.1


class Renewals:
    """Counts the renewals that cluster agents have answered. From now on, `lease.renewed` renews every RENEWED_EVERY_S
    seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answered, self._call = 0, lease.call
        monkeypatch.setattr(lease, "call", self._counted)
        monkeypatch.setattr(lease, "RENEW_EVERY_S", RENEWED_EVERY_S)

    def wait_for_another(self, kept: Kept) -> None:
        """Waits for a renewal that begins after this call, or until the cluster agent has ended."""
        before = self.answered  # one renewal may be under way
        wait_until(
            lambda: self.answered >= before + 2 or kept.process.poll() is not None, "the lease renewed", PATIENCE_S
        )

    def wait_for_the_last(self) -> None:
        """Waits until no thread renews a lease any more. Call this after the block of `lease.renewed`."""
        for thread in threading.enumerate():
            if thread.name == "lease":
                thread.join(PATIENCE_S)

    def _counted(self, *arguments: Any, **more: Any) -> Any:
        answer = self._call(*arguments, **more)
        self.answered += "renew" in arguments
        return answer
