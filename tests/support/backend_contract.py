"""What every backend (a way to a cluster) must do, by what it is: observed, owned, breakable. The same checks apply to
the fake (tests/unit/cluster) and to real brokers (tests/kafka).

Each check takes a cluster whose three brokers run. After the check, the three brokers run again.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from delivery_verifier.cluster.backend import OwnedCluster
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.protocol.fetch import Fetched
from delivery_verifier.host.waiting import wait_until
from support.patience import PATIENCE_S


def all_brokers_run_and_have_an_address(cluster: Cluster, topic: str) -> None:
    assert cluster.states() == dict.fromkeys(cluster.brokers, "running")
    assert len({cluster.connection.address(broker) for broker in cluster.brokers}) == len(cluster.brokers) == 3
    assert cluster.connection.bootstrap_servers == ",".join(
        str(cluster.connection.address(broker)) for broker in cluster.brokers
    )


def every_broker_says_who_is_there_and_who_leads(cluster: Cluster, topic: str) -> None:
    states = [cluster.partitions([topic], via=broker)[topic, 0] for broker in cluster.brokers]
    assert {(state.leader, state.leader_epoch, frozenset(state.isr)) for state in states} == {
        (states[0].leader, states[0].leader_epoch, frozenset(cluster.brokers))
    }
    assert all(cluster.requests.live_brokers(broker) == set(cluster.brokers) for broker in cluster.brokers)
    assert cluster.isr_full([topic])


def every_replica_answers_a_fetch(cluster: Cluster, topic: str) -> None:
    """A follower answers as the leader does."""
    for broker in cluster.brokers:
        assert cluster.requests.fetch(broker, topic, 0, 0, 1000) == Fetched(0, b"")


def the_agent_names_itself_and_every_node(cluster: Cluster, topic: str) -> None:
    assert cluster.owned is not None and cluster.workspace == cluster.owned.workspace
    assert set(cluster.agent.status().nodes) >= {*cluster.brokers, *cluster.owned.controllers}
    assert all(cluster.owned.last_log(node) for node in cluster.brokers)


def a_killed_broker_leads_no_more_and_starts_again(cluster: Cluster, topic: str) -> None:
    before = cluster.partitions([topic])[topic, 0]
    assert cluster.agent.apply("process", [before.leader], {"signal": "SIGKILL"}) > 0
    wait_until(lambda: cluster.states()[before.leader] == "exited", "the broker to exit", PATIENCE_S)
    wait_until(
        lambda: cluster.partitions([topic])[topic, 0].leader not in (-1, before.leader), "a new leader", PATIENCE_S
    )
    after = cluster.partitions([topic])[topic, 0]
    assert after.leader_epoch > before.leader_epoch and before.leader not in after.isr
    assert not cluster.isr_full([topic]) and f"broker {before.leader} exited" in cluster.out_of_sync([topic])
    with pytest.raises(RuntimeError, match=f"broker {before.leader} is not running"):
        cluster.agent.apply("process", [before.leader], {"signal": "SIGCONT"})
    cluster.agent.undo("process", [before.leader])
    _whole_again(cluster, topic)


def a_paused_broker_is_frozen_and_resumes(cluster: Cluster, topic: str) -> None:
    broker = cluster.brokers[-1]
    cluster.agent.apply("process", [broker], {"signal": "SIGSTOP"})
    wait_until(lambda: cluster.states()[broker] == "frozen", "the broker to freeze", PATIENCE_S)
    assert cluster.agent.is_in_force("process", cluster.brokers) == {broker: {"state": "frozen"}}
    assert broker not in cluster.running() and cluster.partitions([topic], via=broker) == {}
    cluster.agent.undo("process", [broker])
    assert cluster.agent.is_in_force("process", cluster.brokers) == {}
    _whole_again(cluster, topic)


def a_broker_that_runs_is_not_started(cluster: Cluster, topic: str) -> None:
    before = cluster.agent.status().nodes[1]
    cluster.agent.undo("process", [1])
    assert cluster.agent.status().nodes[1] == before


def what_it_was_not_started_with_is_refused_with_the_reason(cluster: Cluster, topic: str) -> None:
    broken = cluster.breakable
    assert broken is not None and broken.capabilities == ()
    for capability, ask in {
        "network": lambda: cluster.agent.apply("network", [1], {"links": ["controller"]}),
        "power": lambda: cluster.agent.apply("power", [1]),
        "proxy": lambda: cluster.agent.undo("proxy", [1]),
    }.items():
        with pytest.raises(RuntimeError, match=f"without the capability {capability}"):
            ask()
        with pytest.raises(RuntimeError, match=f"without the capability {capability}"):
            cluster.agent.is_in_force(capability, [1])
    assert cluster.states()[1] == "running"


def a_broker_that_does_not_run_answers_no_fetch(cluster: Cluster, topic: str) -> None:
    broker = cluster.brokers[-1]
    cluster.agent.apply("process", [broker], {"signal": "SIGKILL"})
    wait_until(lambda: cluster.states()[broker] == "exited", "the broker to exit", PATIENCE_S)
    with pytest.raises(OSError):
        cluster.requests.fetch(broker, topic, 0, 0, 1000)
    cluster.agent.undo("process", [broker])
    _whole_again(cluster, topic)


Check = Callable[[Cluster, str], None]
OBSERVED: list[Check] = [
    all_brokers_run_and_have_an_address,
    every_broker_says_who_is_there_and_who_leads,
    every_replica_answers_a_fetch,
]
OWNED: list[Check] = [the_agent_names_itself_and_every_node]
BREAKABLE: list[Check] = [
    a_killed_broker_leads_no_more_and_starts_again,
    a_paused_broker_is_frozen_and_resumes,
    a_broker_that_runs_is_not_started,
    a_broker_that_does_not_run_answers_no_fetch,
    what_it_was_not_started_with_is_refused_with_the_reason,
]
CHECKS = [*OBSERVED, *OWNED, *BREAKABLE]
"""All checks, for a backend that is all three."""


def stop_leaves_nothing(running: OwnedCluster) -> None:
    """Checks that the end of a cluster leaves nothing behind. This is the last check, because it ends the cluster."""
    Cluster(running).finish(keep_workspace=False)
    with pytest.raises(RuntimeError):
        Cluster(running).states()
    assert not running.workspace.exists()


def _whole_again(cluster: Cluster, topic: str) -> None:
    cluster.wait_up()
    wait_until(lambda: cluster.isr_full([topic]), "all replicas to be in sync", PATIENCE_S)
