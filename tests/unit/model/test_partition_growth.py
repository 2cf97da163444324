"""Tests of the growth of topics: with how many partitions they begin, how much is sent until there are more, and which
plans are refused."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from delivery_verifier.catalogue import APPLICATIONS, ENTRIES, build
from delivery_verifier.catalogue.parts import AT_ONCE, step
from delivery_verifier.load import layout
from delivery_verifier.model.external_cluster import ClusterAccess, ExternalCluster
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.partition_growth import Growth, first_partitions, growth_of
from delivery_verifier.model.scenario import ClusterSpec, Load
from delivery_verifier.model.scenario_checks import check

GROWS = "consumer.partition_growth"
LOAD = Load(partitions=6, pacing="scripted", block=10)
SEND, GROW = step(AT_ONCE, "send", "none", blocks=2), step(AT_ONCE, "add_partitions", "none", count=4)


def plan(*steps: FaultStep, cycles: int = 1) -> FaultPlan:
    return FaultPlan(name="planned", summary="Planned.", steps=steps, cycles=cycles)


def refused(**changes: Any) -> str:
    """Returns why the scenario with `changes` is refused."""
    with pytest.raises(BadInput) as raised:
        check(replace(build(ENTRIES[GROWS], "r"), **changes))
    return str(raised.value)


@pytest.mark.parametrize(
    ("steps", "growth"),
    [
        ((SEND,), Growth(6, 0)),
        ((GROW, SEND), Growth(2, 1)),
        ((SEND, SEND, GROW, SEND), Growth(2, 5)),
    ],
)
def test_what_is_sent_before_partitions_are_added_goes_to_the_first_ones(
    steps: tuple[FaultStep, ...], growth: Growth
) -> None:
    assert growth_of(LOAD, plan(*steps)) == growth


def test_an_entry_plans_as_many_records_as_its_layout_gives_to_each_partition() -> None:
    of = build(ENTRIES[GROWS], "r")
    for arm in of.loaded:
        laid_out = layout.of_arm(of.load, arm, of.fault)
        counts = [laid_out.count_in(partition, arm.records) for partition in range(of.load.partitions)]
        assert counts == [300, 300, 300, 200, 200, 200] and sum(counts) == arm.records
    assert first_partitions(of) == 3


def test_a_plan_that_the_load_cannot_follow_is_refused() -> None:
    of = build(ENTRIES[GROWS], "r")
    steps = of.fault.steps
    assert "2 times; allowed: once" in refused(fault=replace(of.fault, cycles=2))
    assert "2 times; allowed: once" in refused(fault=replace(of.fault, steps=(*steps, GROW)))
    assert "load.pacing is spread" in refused(load=replace(of.load, pacing="spread"))
    assert "count 3, and load.partitions, the number at the end, is 3" in refused(load=replace(of.load, partitions=3))
    assert "no send behind it" in refused(fault=replace(of.fault, steps=steps[:2]))
    rewind = step(AT_ONCE, "rewind", "none")
    assert "and rewind; allowed: without" in refused(fault=replace(of.fault, steps=(*steps, rewind)))
    external = ExternalCluster(access=ClusterAccess(bootstrap_server="b:1"), cluster_id="an-id", brokers=(1, 2, 3))
    assert "the cluster is external" in refused(cluster=ClusterSpec(external=external))


def test_members_that_assign_partitions_to_themselves_never_get_new_ones() -> None:
    of = build(ENTRIES[GROWS], "r")
    arms = tuple(
        replace(arm, application=APPLICATIONS["transform_assigned"]) if arm.role == "subject" else arm
        for arm in of.arms
    )
    assert "assigns the partitions to itself" in refused(arms=arms)
