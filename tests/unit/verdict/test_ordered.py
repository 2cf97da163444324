"""The verdict of a run whose brokers were broken by commands of an operator: an order without proof convicts nobody."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from support.evidence import a_scenario, arm, doubts, evidence_of, judged, lost, the_injections

from delivery_verifier.model.external_cluster import ClusterAccess, ExternalCluster
from delivery_verifier.model.history import Injection
from delivery_verifier.model.operator_commands import CommandsFile
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.verdict.limits import limits

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


def test_on_a_cluster_of_the_verifiers_own_a_loss_violates_whatever_was_proven() -> None:
    run = a_scenario("idempotent")
    verdict = judged(evidence_of(run, lost(1, "idempotent"), injections=but(run, took_effect=False)))
    assert verdict.verdict == "VIOLATED"


def test_whose_commands_they_were_and_what_is_known_of_them_stands_in_the_limits() -> None:
    said = " ".join(limits(evidence_of(ordered())))
    assert "the operator's commands kubectl (SHA-256 abababababab)" in said and "A command only orders" in said
    assert "operator's commands" not in " ".join(limits(evidence_of(ordered(None))))
