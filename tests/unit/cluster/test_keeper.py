"""Tests of the keeper's loop: the keeper notices every reason to end, also a signal at an awkward moment."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.patience import PATIENCE_S

from delivery_verifier.cluster import lease
from delivery_verifier.cluster.embedded.keeper import Keeper


class SignalledOwner:
    """A living owner process. When the keeper checks it for the third time, the process in which the keeper runs
    receives a SIGTERM."""

    pid = 1

    def __init__(self) -> None:
        self.looks = 0

    @property
    def alive(self) -> bool:
        self.looks += 1
        if self.looks == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return True


@pytest.fixture
def keeper(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A keeper without nodes. On a SIGTERM it ends as a real keeper does."""
    keeper: Any = Keeper.__new__(Keeper)
    keeper.observer = SimpleNamespace(start=lambda: None)
    keeper.owner, keeper.lease_s, keeper.end_reason = SignalledOwner(), 60.0, ""
    keeper.ends_at_s = keeper.lease_ends_at_s = time.monotonic() + PATIENCE_S
    monkeypatch.setattr(Keeper, "observe", lambda self: None)
    monkeypatch.setattr(Keeper, "proxy_ended", lambda self: "")
    monkeypatch.setattr(Keeper, "clean_up", lambda self: None)
    before = signal.signal(signal.SIGTERM, lambda *_: setattr(keeper, "end_reason", "signal"))
    yield keeper
    signal.signal(signal.SIGTERM, before)


@pytest.mark.timeout(PATIENCE_S)
def test_a_signal_that_comes_while_the_keeper_looks_for_a_reason_to_end_ends_it(keeper: Any, tmp_path: Path) -> None:
    with lease.listening(tmp_path / "keeper.sock") as listener:
        keeper.run(listener)
    assert (keeper.end_reason, keeper.owner.looks) == ("signal", 3)
