"""Tests of the cluster agent's loop: the cluster agent notices every reason to end, also a signal at an awkward
moment."""

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
from delivery_verifier.cluster.embedded.agent import Agent


class SignalledOwner:
    """A living owner process. When the cluster agent checks it for the third time, the process in which the cluster
    agent runs receives a SIGTERM."""

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
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A cluster agent without nodes. On a SIGTERM it ends as a real cluster agent does."""
    agent: Any = Agent.__new__(Agent)
    agent.observer = SimpleNamespace(start=lambda: None)
    agent.owner, agent.lease_s, agent.end_reason = SignalledOwner(), 60.0, ""
    agent.ends_at_s = agent.lease_ends_at_s = time.monotonic() + PATIENCE_S
    monkeypatch.setattr(Agent, "observe", lambda self: None)
    monkeypatch.setattr(Agent, "proxy_ended", lambda self: "")
    monkeypatch.setattr(Agent, "clean_up", lambda self: None)
    before = signal.signal(signal.SIGTERM, lambda *_: setattr(agent, "end_reason", "signal"))
    yield agent
    signal.signal(signal.SIGTERM, before)


@pytest.mark.timeout(PATIENCE_S)
def test_a_signal_that_comes_while_the_agent_looks_for_a_reason_to_end_ends_it(agent: Any, tmp_path: Path) -> None:
    with lease.listening(tmp_path / "agent.sock") as listener:
        agent.run(listener)
    assert (agent.end_reason, agent.owner.looks) == ("signal", 3)
