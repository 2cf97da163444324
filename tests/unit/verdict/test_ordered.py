"""The verdict of a run whose brokers were broken by commands of an operator: an order without proof convicts nobody."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from support.evidence import (
    EFFECT_AT,
    LAST,
    RECOVERED,
    SECOND,
    a_scenario,
    arm,
    doubts,
    evidence_of,
    judged,
    lost,
    partition,
    the_injections,
)

from delivery_verifier.model.external_cluster import ClusterAccess, ExternalCluster
from delivery_verifier.model.history import Injection, Observation
from delivery_verifier.model.operator_commands import CommandsFile
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.verdict.limits import limits
from delivery_verifier.verdict.ordered import doubts as ordered_doubts

COMMANDS = CommandsFile(name="kubectl", sha256="ab" * 32, actions=("kill", "start"))
CLUSTER = ExternalCluster(access=ClusterAccess(bootstrap_server="b:1"), cluster_id="an-id", brokers=(1, 2, 3))


def ordered(commands: CommandsFile | None = COMMANDS) -> Scenario:
    """A run on a cluster that somebody else runs, in which a command kills the leader."""
    run = a_scenario("idempotent")
    external = msgspec.structs.replace(CLUSTER, commands=commands)
    return msgspec.structs.replace(run, cluster=msgspec.structs.replace(run.cluster, external=external))


def but(run: Scenario, **changes: Any) -> list[Injection]:
    return [msgspec.structs.replace(each, **changes) for each in the_injections(run)]


def test_a_kill_that_was_seen_is_held_and_a_loss_that_it_does_not_permit_violates() -> None:
    run = ordered()
    assert judged(evidence_of(run)).verdict == "HELD"
    assert judged(evidence_of(run, lost(1, "idempotent"))).verdict == "VIOLATED"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"took_effect": False, "proof": {"failed": "it ended with exit code 3"}}, "it ended with exit code 3"),
        ({"took_effect": False}, "nothing shows that it did what was asked"),
        ({"healed_at_us": None, "recovered_at_us": None}, "was not seen to be whole again"),
    ],
)
def test_an_order_without_proof_neither_holds_nor_convicts(changes: dict[str, Any], said: str) -> None:
    run = ordered()
    for more in ((), (lost(1, "idempotent"),)):
        verdict = judged(evidence_of(run, *more, injections=but(run, **changes)))
        assert arm(verdict, "idempotent").verdict == "INCONCLUSIVE"
        assert ("checker", "command_unproven") in doubts(verdict, "idempotent")
        (detail,) = (each.detail for each in arm(verdict, "idempotent").doubts if each.name == "command_unproven")
        assert said in detail


def seen(run: Scenario, *more: Observation) -> list[Observation]:
    """What the observer wrote when broker 1, which led all partitions, was killed, and `more`."""
    of_partitions = [
        partition(run, at_us, name, number, leader, epoch, isr)
        for name in run.arm_names
        for number in range(3)
        for at_us, leader, epoch, isr in (
            (1, 1, 0, [1, 2, 3]),
            (EFFECT_AT + SECOND, 3, 1, [3] if more else [2, 3]),
            (RECOVERED, 3, 1, [1, 2, 3]),
        )
    ]
    answering = [says(1, broker, "answers") for broker in (1, 2, 3)]
    killed = [says(EFFECT_AT + SECOND // 10, 1, "refuses"), says(RECOVERED - SECOND, 1, "answers")]
    return sorted([*answering, *of_partitions, *killed, *more], key=lambda each: each.at_us)


def says(at_us: int, broker: int, state: str) -> Observation:
    return Observation(at_us=at_us, kind="answers", broker=broker, state=state, pause_us=SECOND // 10)


@pytest.mark.parametrize("state", ["refuses", "silent"])
@pytest.mark.parametrize("order", [None, "before", "at the same time"])
def test_a_broker_that_fell_silent_and_was_not_meant_neither_holds_nor_convicts(state: str, order: str | None) -> None:
    """The leader that was killed would explain the shrunken ISR, and so would leave nothing to doubt."""
    run = ordered()
    kill = but(run, hit={name: [0, 1, 2] for name in run.arm_names})
    of_other = {"before": (-60, -50), "at the same time": (0, 8)}
    if order:
        effect_s, recovered_s = of_other[order]
        times = {"effect_at_us": EFFECT_AT + effect_s * SECOND, "recovered_at_us": EFFECT_AT + recovered_s * SECOND}
        kill += [msgspec.structs.replace(kill[0], id=2, brokers=[2], **times)]
    hit = says(EFFECT_AT + SECOND // 10, 2, state), says(RECOVERED - SECOND, 2, "answers")
    assert judged(evidence_of(run, injections=kill[:1], observations=seen(run))).verdict == "HELD"
    named = order == "at the same time"
    for more in ((), (lost(1, "idempotent"),)):
        verdict = judged(evidence_of(run, *more, injections=kill, observations=seen(run, *hit)))
        unproven = [each.detail for each in arm(verdict, "idempotent").doubts if each.name == "command_unproven"]
        assert bool(unproven) != named and all("broker 2 did not answer" in each for each in unproven)
        assert named or arm(verdict, "idempotent").verdict == "INCONCLUSIVE"


@pytest.mark.parametrize(("from_us", "until_us"), [(2, EFFECT_AT - 20 * SECOND), (LAST + SECOND, LAST + 2 * SECOND)])
def test_who_was_silent_before_the_load_or_after_the_snapshot_was_not_hit(from_us: int, until_us: int) -> None:
    run = ordered()
    evidence = evidence_of(run, observations=seen(run, says(from_us, 2, "refuses"), says(until_us, 2, "answers")))
    evidence = replace(evidence, load_began_us=EFFECT_AT - 10 * SECOND)
    assert not [each for each in ordered_doubts(evidence) if "broker 2" in each[2]]


@pytest.mark.parametrize(
    ("broker", "from_s", "until_s", "blind"),
    [(1, 1, 4, False), (1, 1, 1.5, True), (1, -60, -50, True), (2, 1, 4, True)],
    ids=["the target", "only late", "at another time", "another broker"],
)
def test_a_freeze_too_brief_to_change_leaders_is_seen_by_its_silence(
    broker: int, from_s: float, until_s: float, blind: bool
) -> None:
    run = ordered()
    at_us, until_us = (int(EFFECT_AT + seconds * SECOND) for seconds in (from_s, until_s))
    whole = [partition(run, 1, name, at, at + 1, 0, [1, 2, 3]) for name in run.arm_names for at in range(3)]
    asked = [says(at_us, broker, "silent"), says(until_us, broker, "answers")]
    observed = sorted([*whole, *asked], key=lambda each: each.at_us)
    verdict = judged(evidence_of(run, injections=but(run, action="pause"), observations=observed))
    assert (("checker", "observer_blind") in doubts(verdict, "idempotent")) == blind


def test_on_a_cluster_of_the_verifiers_own_a_loss_violates_whatever_was_proven() -> None:
    run = a_scenario("idempotent")
    verdict = judged(evidence_of(run, lost(1, "idempotent"), injections=but(run, took_effect=False)))
    assert verdict.verdict == "VIOLATED"


def test_whose_commands_they_were_and_what_is_known_of_them_stands_in_the_limits() -> None:
    said = " ".join(limits(evidence_of(ordered())))
    assert "the operator's commands kubectl (SHA-256 abababababab)" in said and "A command only orders" in said
    assert "operator's commands" not in " ".join(limits(evidence_of(ordered(None))))
