"""Access to a cluster that somebody else runs: it is found again, and never mistaken for another."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from delivery_verifier.catalogue import FAULTS
from delivery_verifier.cluster.check import facts
from delivery_verifier.cluster.check.cluster_check import Unreachable
from delivery_verifier.cluster.check.facts import Broker, Members
from delivery_verifier.cluster.connection import Address
from delivery_verifier.cluster.external.backend import BACKEND
from delivery_verifier.cluster.external.cluster import OtherCluster, SharedCluster
from delivery_verifier.cluster.protocol.asking import Asking
from delivery_verifier.model.external_cluster import ClusterAccess, ExternalCluster
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.scenario import ClusterSpec

ACCESS = ClusterAccess(bootstrap_server="first:1,second:2")
KNOWN = {11: Address("old", 11), 12: Address("gone", 12)}


def answering(monkeypatch: pytest.MonkeyPatch, cluster_ids: Mapping[int, str]) -> list[int]:
    """Lets servers answer: maps the place of a server to the id of its cluster. The others refuse. Returns whom was
    asked."""
    asked = list[int]()

    def members(asking: Asking, number: int) -> Members:
        asked.append(number)
        if number not in cluster_ids:
            raise ConnectionRefusedError("refused")
        return Members(cluster_ids[number], (Broker(11, Address("new", 1), None), Broker(13, Address("b", 3), None)))

    monkeypatch.setattr(facts, "members", members)
    return asked


def test_a_broker_is_where_the_cluster_says_and_one_that_it_does_not_name_is_where_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answering(monkeypatch, {0: "an-id"})
    cluster = SharedCluster(ACCESS, "an-id", KNOWN, (13, 11))
    assert cluster.connection.brokers == {11: Address("new", 1), 12: Address("gone", 12), 13: Address("b", 3)}
    assert cluster.brokers == [11, 13], "only those with replicas of the run"


def test_a_broker_of_before_is_asked_if_no_bootstrap_server_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answering(monkeypatch, {3: "an-id"})
    assert SharedCluster(ACCESS, "an-id", KNOWN, (11,)).connection and asked == [0, 1, 2, 3]


def test_servers_of_another_cluster_are_never_taken_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, {0: "another", 1: "an-id"})
    with pytest.raises(OtherCluster, match="belong to the cluster another now, and the run began on an-id"):
        _ = SharedCluster(ACCESS, "an-id", KNOWN).connection


def test_a_cluster_that_does_not_answer_is_named_with_every_server(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, {})
    with pytest.raises(Unreachable, match="first:1: refused; second:2: refused; old:11: refused; gone:12"):
        _ = SharedCluster(ACCESS, "an-id", KNOWN).connection


SPEC = ClusterSpec(backend="external", external=ExternalCluster(access=ACCESS, cluster_id="an-id", brokers=(11, 13)))


@pytest.mark.parametrize("plan", FAULTS.values(), ids=lambda plan: plan.name)
def test_what_is_done_to_brokers_is_refused_and_what_is_done_to_clients_is_not(plan: FaultPlan) -> None:
    misfit = BACKEND.misfit(SPEC, plan)
    assert (misfit is not None) == any(step.act.means for step in plan.steps)
    assert misfit is None or "these are somebody else's" in misfit.why


def test_a_run_that_names_no_cluster_does_not_fit_and_nothing_can_be_done_to_brokers() -> None:
    misfit, lack = BACKEND.misfit(ClusterSpec(backend="external")), BACKEND.lack("network")
    assert misfit is not None and "--bootstrap-server" in misfit.why
    assert lack is not None and BACKEND.lack() is None
    assert "an-id, which somebody else runs; replicas on the brokers 11, 13" in BACKEND.describe(SPEC)
