"""The step create_topics: creates the topic of each arm, and waits until all replicas of the topics are in sync.

All topics have the same replica assignment.
"""

from __future__ import annotations

from pathlib import Path

from delivery_verifier.cluster import lease, topics
from delivery_verifier.cluster.backend import Shared
from delivery_verifier.cluster.backends import backend_of
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.observer import OBSERVATIONS
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.history import TRANSACTION_STATE
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.store.run_directory import RunDirectory


def create_topics(run_dir: Path) -> None:
    """Creates the topics, and waits until every broker says that all replicas of all partitions are in sync.

    From then on, the cluster's observer records each change of a leader or of in-sync replicas. Raises DeadlinePassed
    if the replicas are not in sync in time. If others use the cluster, too, also raises what `Shared` says.
    """
    run = RunDirectory(run_dir)
    scenario = run.read_scenario()
    scenario.fail_if_asked("create_topics")
    cluster = Cluster.of_run(run)
    names = [*(arm.topic_name for arm in scenario.arms), *topics.output_topics(scenario)]
    with run.writing("create_topics") as output, lease.renewed(cluster.socket):
        backend = backend_of(scenario.cluster)
        if isinstance(backend, Shared):
            backend.create_topics(scenario, cluster.workspace)
        else:
            topics.create(scenario, cluster.connection)
        wait_until(
            lambda: cluster.isr_full(names),
            "all replicas of the new topics to be in sync",
            60,
            detail=lambda: cluster.out_of_sync(names),
        )
        if isinstance(backend, Shared):
            backend.require_unchanged(scenario, cluster.workspace)  # a policy may give other settings than was asked
        cluster.agent.watch(watched_topics(scenario))
        observations = cluster.workspace / OBSERVATIONS
        wait_until(
            lambda: b'"heartbeat"' in observations.read_bytes(), "the observer to see the topics before the load", 60
        )
        output.counts["topics"] = len(names)


def watched_topics(scenario: Scenario) -> list[str]:
    """Returns the topics that the observer must watch: the topics of all arms, the output topics of applications, and
    `__transaction_state` if it is needed.

    Kafka creates `__transaction_state` when the first such arm starts.
    """
    internal = [TRANSACTION_STATE] if scenario.transactional_ids else []
    return [*(arm.topic_name for arm in scenario.arms), *topics.output_topics(scenario), *internal]
