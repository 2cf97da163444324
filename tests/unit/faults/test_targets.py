"""Tests of targets: the record of an injection names all partitions that the action touched, also partitions that
another broker leads."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from support.evidence import RUN, SUBJECT, WEAK

from delivery_verifier.catalogue.parts import AT_ONCE, step
from delivery_verifier.cluster.protocol.requests import PartitionState
from delivery_verifier.faults.targets import touched_partitions
from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.model.fault_plan import FaultPlan


class Led:
    """A stand-in for a cluster. Broker 1 leads partition 0 of the subject, and broker 2 leads all other partitions."""

    def partitions(self, names: list[str]) -> dict[tuple[str, int], PartitionState]:
        found = {(name, at): _led(2) for name in names for at in range(3)}
        return found | {(RUN.arm(SUBJECT).topic_name, 0): _led(1)}


def _led(leader: int) -> PartitionState:
    return PartitionState(leader=leader, leader_epoch=0, replicas=(1, 2, 3), isr=(1, 2, 3), elr=(), error=0)


def of(action: str, *brokers: int) -> dict[str, list[int]]:
    cluster: Any = Led()
    return touched_partitions(ACTS[action], cluster, RUN, list(brokers))


def test_who_is_killed_hits_what_it_leads_or_if_nothing_what_it_holds() -> None:
    assert of("kill", 1) == {RUN.arm(SUBJECT).topic_name: [0]}
    assert of("kill", 3) == {one.topic_name: [0, 1, 2] for one in RUN.arms}


def test_what_adds_partitions_hits_those_that_it_adds_of_every_arm_with_load() -> None:
    cluster: Any = Led()
    steps = (step(AT_ONCE, "send", "none"), step(AT_ONCE, "add_partitions", "none", count=2))
    run = replace(RUN, fault=FaultPlan(name="grows", summary="Grows.", steps=steps))
    hit = touched_partitions(ACTS["add_partitions"], cluster, run, [])
    assert hit == {RUN.arm(name).topic_name: [1, 2] for name in (SUBJECT, WEAK)}


@pytest.mark.parametrize("action", ["alter_topic", "kill_producer", "terminate_producer", "resend"])
def test_what_is_done_to_topics_or_clients_hits_every_partition_that_carries_load_whoever_leads_it(action: str) -> None:
    assert of(action, 1) == {RUN.arm(name).topic_name: [0, 1, 2] for name in (SUBJECT, WEAK)}
