"""Tests of the actions on processes of brokers. tests/kafka/shared_cluster/test_faults.py has those on real brokers."""

from __future__ import annotations

from typing import Any

import pytest
from support.fake_cluster import FakeCluster

from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.faults import processes
from delivery_verifier.faults.action import ActionContext
from delivery_verifier.faults.actions import ACTIONS


@pytest.mark.parametrize(
    ("options", "signals", "pauses"),
    [
        ({}, ["SIGSTOP"], []),
        ({"thaw_after_ms": 2000, "thaw_ms": 40}, ["SIGSTOP", "SIGCONT", "SIGSTOP"], [2.0, 0.04]),
        ({"thaw_after_ms": 500}, ["SIGSTOP", "SIGCONT", "SIGSTOP"], [0.5, 0.03]),
    ],
)
def test_a_broker_that_is_thawed_for_a_moment_is_frozen_again(
    options: dict[str, Any], signals: list[str], pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = list[float]()
    monkeypatch.setattr(processes, "pause", waited.append)
    fake = FakeCluster()
    context = ActionContext(Cluster(fake), [1], options)
    done = ACTIONS["pause"].do(context)
    sent = [request for request in fake.requested if "process" in request]
    assert [next(each["signal"] for each in request if isinstance(each, dict)) for request in sent] == signals
    assert waited == pauses and ACTIONS["pause"].proof(context, done) == {"broker 1": "frozen"}
