"""The agent of a cluster that a run only observes (see `cluster.agent`). Somebody else runs the brokers.

The agent renews the run's lease, records what it observes, and kills the run's own processes at the end. It starts,
ends and breaks no broker. It knows nothing of the brokers' processes: a broker is there as long as it answers.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

import msgspec
from confluent_kafka import KafkaException

from delivery_verifier.cluster import agent
from delivery_verifier.cluster.agent import AgentSpec, start_agent
from delivery_verifier.cluster.agent_operations import ClusterStatus
from delivery_verifier.cluster.backend import Observed, ObservedCluster, Shared, StartRequest
from delivery_verifier.cluster.observer import OBSERVATIONS, Observer
from delivery_verifier.cluster.protocol.requests import RepeatedRequests
from delivery_verifier.cluster.security import airflow_connections
from delivery_verifier.cluster.topic_settings import TopicSettings
from delivery_verifier.model.errors import VerifierError


class WatcherSpec(AgentSpec, frozen=True, kw_only=True):
    """The inputs of the agent. `backend` is the module whose constant BACKEND gives access to the cluster: addresses
    and secrets stand in no file of the run."""

    backend: str


class Watcher(agent.Agent):
    """The agent of one cluster that somebody else runs."""

    def __init__(self, spec: WatcherSpec, cluster: ObservedCluster, backend: Observed | None = None) -> None:
        requests, file = RepeatedRequests(cluster.connection), Path(spec.workspace) / OBSERVATIONS
        super().__init__(spec, Observer(requests, cluster.brokers, file, sees_processes=False))
        self._backend = backend
        self._settings = TopicSettings(requests, cluster.brokers, lambda: self.observer.topics, self.observer.record)

    def begin(self) -> None:
        """Begins to look at the settings of topics. The brokers are somebody else's."""
        self._settings.start()

    def observe(self) -> None:
        """Does nothing, because nobody tells the states of the brokers' processes."""

    def failure(self) -> str:
        """Returns an empty text: the agent itself can always go on."""
        return ""

    def end_cluster(self) -> None:
        """Removes the run's own topics and groups if others use the cluster, too. The brokers are somebody else's.

        What cannot be removed stays written down, and the run's folder with its secrets is removed all the same.
        """
        self._settings.stop()
        if not isinstance(self._backend, Shared):
            return
        try:
            removed = self._backend.remove(self.workspace.name)
            print(f"watcher: removed {', '.join(removed) or 'nothing'}", flush=True)
        except (VerifierError, OSError, KafkaException) as error:
            print(f"watcher: not removed: {error}", flush=True)

    def status(self) -> ClusterStatus:
        """Returns the pid of the agent, and no nodes."""
        return ClusterStatus(nodes={}, pid=os.getpid())


def start(backend: Observed, request: StartRequest) -> None:
    """Starts the agent of a run whose cluster is only observed, and waits until it takes requests.

    Raises StepFailed with the last line of the agent's log if the agent ends before, and DeadlinePassed.
    """
    spec = WatcherSpec(
        run_id=request.run_id,
        workspace=request.workspace,
        deadline_s=request.deadline_s,
        owner=request.owner,
        lock_descriptor=request.lock_descriptor,
        backend=type(backend).__module__,
    )
    airflow_connections.hand_over(Path(request.workspace))
    start_agent(__name__, spec)


def main() -> None:
    """Runs an agent: `python -m delivery_verifier.cluster.watcher SPEC`. SPEC is a JSON file with a WatcherSpec."""
    spec = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=WatcherSpec)
    airflow_connections.take_over(Path(spec.workspace))
    backend: Observed = import_module(spec.backend).BACKEND
    agent.keep(spec, lambda: Watcher(spec, backend.attach(Path(spec.workspace)), backend))


if __name__ == "__main__":
    main()
