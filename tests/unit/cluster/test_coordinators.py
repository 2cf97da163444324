"""Tests of transaction coordinators. The partition of a transactional.id is the partition that Java would compute. Only
a plan with transactions has a coordinator."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from support.evidence import RUN

from delivery_verifier.catalogue import ENTRIES, build
from delivery_verifier.cluster.protocol.requests import PartitionState
from delivery_verifier.faults.open_injection import OpenInjection, Proofs
from delivery_verifier.faults.proofs import coordinated_partitions, prove
from delivery_verifier.model.coordinators import partition_of
from delivery_verifier.model.fault_plan import Trigger
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.scenario_checks import check

MODULUS = 2**31


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("Hello, World!", 1498789909),
        ("kdv-transactional-0", 546215076),
        ("polygenelubricants", 0),
        ("ä", 228),
        ("😀", 1772899),
    ],
)
def test_the_code_of_a_text_is_javas_without_its_sign_and_the_smallest_number_has_none(text: str, code: int) -> None:
    assert partition_of(text, MODULUS) == code


MADE = build(ENTRIES["transactional.coordinator_killed"], "run-1")


def refused(scenario: Scenario) -> str:
    with pytest.raises(BadInput) as error:
        check(scenario)
    return str(error.value)


def with_steps(*changes: dict[str, Any]) -> Scenario:
    """Returns the scenario with changes to the steps of its plan (kill, wait, start). `changes` are in the order of the
    steps."""
    steps = tuple(replace(step, **change) for step, change in zip(MADE.fault.steps, changes, strict=False))
    return replace(MADE, fault=replace(MADE.fault, steps=(*steps, *MADE.fault.steps[len(steps) :])))


def test_a_plan_that_aims_at_a_coordinator_needs_the_one_producer_that_it_is_about() -> None:
    check(MADE)
    assert "got 0" in refused(replace(RUN, fault=MADE.fault))
    two = tuple(replace(arm, producers=2) if arm.transactional_id else arm for arm in MADE.arms)
    assert "got 2" in refused(replace(MADE, arms=two))


def test_who_aims_at_a_coordinator_or_waits_for_another_one_must_have_it_proven() -> None:
    assert "fault.steps[0]" in refused(with_steps({"proofs": None}))
    assert "fault.steps[2]" in refused(with_steps({"proofs": None, "target": "leader"}))
    assert "fault.steps[0]" in refused(with_steps({"trigger": Trigger(kind="coordinator_moved")}))
    hidden = {"action": "wait", "proofs": None}, {"action": "kill", "target": "same", "proofs": None}
    assert "fault.steps[1]" in refused(with_steps(*hidden))
    assert "fault.steps[1]" in refused(with_steps({}, {"action": "kill", "target": "transaction_coordinator"}))


class Kept:
    """A stand-in for a cluster in which broker `leader` leads all partitions of the transaction log."""

    def __init__(self, leader: int) -> None:
        self.leader = leader

    def partitions(self, names: list[str]) -> dict[tuple[str, int], PartitionState]:
        state = PartitionState(leader=self.leader, leader_epoch=1, replicas=(1, 2, 3), isr=(1, 2, 3), elr=(), error=0)
        return {(name, at): state for name in names for at in range(3)}


def moved(from_leader: int, to_leader: int, hit: int = 1) -> bool:
    before: Any = Kept(from_leader)
    after: Any = Kept(to_leader)
    kept = coordinated_partitions(before, MADE, [hit])
    return bool(prove(after, MADE, injection(hit, kept), ["coordinator_moved"])["coordinator_moved"])


def injection(hit: int, partitions: list[int] | None) -> OpenInjection:
    """Returns an injection that killed broker `hit`, which coordinated `partitions`. None means that nobody looked
    before the kill."""
    return OpenInjection(
        id=0,
        cycle=0,
        action="kill",
        brokers=[hit],
        hit={},
        led=True,
        options={},
        requested_at_us=0,
        effect_at_us=0,
        proofs=Proofs(process={}, before={}, required=["coordinator_moved"], coordinated=partitions),
    )


def test_a_coordinator_has_moved_if_it_was_hit_and_another_leads_now() -> None:
    assert moved(1, 2)
    assert not moved(1, 1) and not moved(1, -1), "nobody took over"
    assert not moved(2, 3), "who was hit coordinated nothing"
    cluster: Any = Kept(2)
    unseen = prove(cluster, MADE, injection(1, None), ["coordinator_moved"])
    assert not unseen["coordinator_moved"], "nobody looked before the effect"
