"""Tests of the action `await_assignment`: the coordinators of the groups show that the members have all partitions."""

from __future__ import annotations

from typing import Any

import pytest
from support.fake_cluster import FakeCluster

from delivery_verifier.applications.pool import group_of
from delivery_verifier.catalogue import ENTRIES, build
from delivery_verifier.cluster import groups, topics
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.protocol.requests import PartitionState
from delivery_verifier.faults import applications
from delivery_verifier.faults.action import ActionContext
from delivery_verifier.host.waiting import DeadlinePassed

GROWTH = build(ENTRIES["consumer.partition_growth"], "r")


@pytest.fixture
def wait(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Returns a function that performs the action. Its arguments are what the coordinators show of each group."""
    fake = FakeCluster()
    state = PartitionState(1, 0, (1, 2, 3), (1, 2, 3), (), 0)
    fake.partition_states = {(arm.topic_name, number): state for arm in GROWTH.loaded for number in range(6)}
    monkeypatch.setattr(applications, "ASSIGNMENT_DEADLINE_S", 0.1)
    monkeypatch.setattr(topics, "admin", lambda connection: None)

    def act(*shown: dict[str, int]) -> None:
        members = dict(zip((group_of(GROWTH, arm) for arm in GROWTH.loaded), shown, strict=True))
        monkeypatch.setattr(groups, "assignments", lambda client, group: members[group])
        applications.ACTIONS["await_assignment"].do(ActionContext(Cluster(fake), [], {}, GROWTH))

    return act


@pytest.mark.parametrize("first", [{"a": 6}, {"a": 4, "another": 2}])
def test_the_plan_goes_on_once_each_group_has_all_partitions_that_are_there_now(first: Any, wait: Any) -> None:
    wait(first, {"b": 6})


@pytest.mark.parametrize("second", [{"b": 3}, {}])
def test_the_plan_waits_while_a_group_lacks_partitions(second: Any, wait: Any) -> None:
    with pytest.raises(DeadlinePassed, match="the members of applications to have all partitions"):
        wait({"a": 6}, second)
