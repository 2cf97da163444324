"""A handle on the running cluster, whichever backend runs it. Methods identify a broker by its id."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from delivery_verifier.cluster import lease, watcher
from delivery_verifier.cluster.agent_client import agent_at
from delivery_verifier.cluster.agent_operations import ClusterStatus
from delivery_verifier.cluster.backend import (
    BreakableCluster,
    ObservedCluster,
    Owned,
    OwnedCluster,
    Shared,
    StartRequest,
)
from delivery_verifier.cluster.backends import backend_of
from delivery_verifier.cluster.layout import AGENT_SOCKET, AGENT_SPEC
from delivery_verifier.cluster.protocol.requests import PartitionState
from delivery_verifier.cluster.views import View, newest
from delivery_verifier.host.java.class_archive import patience_s
from delivery_verifier.host.processes import how_it_ended, identify
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.act import Capability
from delivery_verifier.model.errors import StepFailed, VerifierError
from delivery_verifier.run_directory.run_directory import RunDirectory

UP_DEADLINE_S = 90.0
END_DEADLINE_S = 40.0


class ControllerDied(VerifierError, RuntimeError):
    """The controller process has ended. Without a controller, no leader can be elected."""


class Cluster:
    """The cluster of one run. Every process of the run may create its own `Cluster` object. `backend` is the cluster
    that `Observed.attach` returned. `workspace` is needed if the backend only observes the cluster.

    * `agent`: the operations of the cluster agent, the process in charge of the run's cluster. It also renews the lease
      and records what it observes if the run does not own the cluster.
    * `requests`: the requests to single brokers in Kafka's protocol.
    * `workspace`: the folder that holds the cluster's data and logs, and the files that producers write while they run.
    * `socket`: the Unix socket at which the agent takes requests.
    * `connection`: how the verifier's own clients reach the brokers. They never use the proxy.
    * `load_connection`: how the producers under test reach the brokers: through the proxy, if the cluster has one.
    * `brokers`: the broker ids, in ascending order.
    * `owned`, `breakable`: `backend` as what it is, or None if it is not.

    Every method that sends a request to the agent raises ClusterGone if the cluster has ended, and RuntimeError with
    the reason if the request is refused.
    """

    def __init__(self, backend: ObservedCluster, workspace: Path | None = None) -> None:
        self.backend, self.requests, self.brokers = backend, backend.requests, backend.brokers
        self.owned = backend if isinstance(backend, OwnedCluster) else None
        self.breakable = backend if isinstance(backend, BreakableCluster) else None
        self.connection = backend.connection
        self.load_connection = backend.connection if self.breakable is None else self.breakable.load_connection
        if self.owned is not None:
            self.workspace, self.agent = self.owned.workspace, self.owned.agent
        elif workspace is not None:
            self.workspace, self.agent = workspace, agent_at(workspace / AGENT_SOCKET)
        else:
            raise ValueError("a cluster that is only observed needs the workspace of the run")
        self.socket = self.workspace / AGENT_SOCKET

    @classmethod
    def start(cls, request: StartRequest) -> Cluster:
        """Starts the cluster of a run. If the backend only observes, starts only the run's own agent, which watches
        the cluster.

        Raises RuntimeError with the reason if the agent ends before it answers, and BadInput if there is no such
        backend.
        """
        backend, workspace = backend_of(request.spec), Path(request.workspace)
        if isinstance(backend, Owned):
            return cls(backend.start(request))
        if isinstance(backend, Shared):
            backend.prepare(request)
        watcher.start(backend, request)
        return cls(backend.attach(workspace), workspace)

    @classmethod
    def of_run(cls, run: RunDirectory) -> Cluster:
        """Returns the cluster of a run. Raises IncompleteRun if the run has not started a cluster. Raises ClusterGone
        if the cluster's folder is gone."""
        workspace = Path(run.manifest("start_cluster").notes["workspace"])
        backend = backend_of(run.read_scenario().cluster)
        if not isinstance(backend, Owned) and not (workspace / AGENT_SPEC).is_file():
            raise lease.ClusterGone(f"the workspace {workspace} is gone: this run has ended")
        return cls(backend.attach(workspace), workspace)

    def states(self) -> dict[int, str]:
        """Returns the state of every broker by broker id. A state is running, frozen or exited. Nobody tells the states
        of processes that the run does not own: their state is running if the broker answers, and else `silent`. Raises
        ControllerDied if a controller of the run has exited."""
        status = self.agent.status()
        if self.owned is None:
            return {broker: "running" if self._answers(broker) else "silent" for broker in self.brokers}
        self._require_controllers(status, self.owned)
        return {broker: status.nodes[broker].state for broker in self.brokers}

    def _answers(self, broker: int) -> bool:
        try:
            return bool(self.requests.live_brokers(broker))
        except OSError:
            return False

    def _require_controllers(self, status: ClusterStatus, owned: OwnedCluster) -> None:
        for controller in owned.controllers:
            node = status.nodes.get(controller)
            if node is None or node.state != "exited":
                continue
            exit_code = node.exit_code if node.exit_code is not None else 0
            message = f"the controller exited unexpectedly with {how_it_ended(exit_code)}"
            if exit_code >= 0:  # a controller that was killed had no time to log a reason
                message += f": {owned.last_log(controller)}"
            raise ControllerDied(message)

    @property
    def capabilities(self) -> tuple[Capability, ...]:
        """What the cluster was started with for faults. Empty if it is not breakable."""
        return () if self.breakable is None else self.breakable.capabilities

    def release(self) -> None:
        """Removes what a killed agent left on the host, e.g. mounts. The cluster's data and logs stay."""
        if self.owned is None:
            self.socket.unlink(missing_ok=True)
        else:
            self.owned.release()

    def finish(self, keep_workspace: bool) -> None:
        """Ends the cluster, and waits until the cluster agent has ended. If `keep_workspace` is false, removes the
        workspace. Raises DeadlinePassed after `patience_s(END_DEADLINE_S)` seconds."""
        agent = identify(self.agent.status().pid)
        self.agent.finish(keep_workspace=keep_workspace)
        if agent is not None:
            wait_until(
                lambda: not agent.alive, f"the cluster agent (pid {agent.pid}) to end", patience_s(END_DEADLINE_S)
            )

    def partitions(self, topics: list[str], via: int | None = None) -> dict[tuple[str, int], PartitionState]:
        """Returns the state of every partition of `topics`, by (topic, partition). With `via`, returns what the broker
        `via` reports. Without `via`, asks all running brokers, and `views.newest` chooses among their reports. The
        result is empty if no broker answers."""
        states, views = self.states(), dict[int, View]()
        for broker in [via] if via is not None else self.brokers:
            if states[broker] == "running":
                with suppress(OSError):
                    views[broker] = self.requests.describe_partitions(broker, topics)
        return newest(views)

    def running(self) -> list[int]:
        """Returns the ids of the brokers whose process runs. A frozen process does not count."""
        return [broker for broker, state in self.states().items() if state == "running"]

    def wait_up(self, *brokers: int, deadline_s: float = UP_DEADLINE_S) -> None:
        """Waits until `brokers` (default: all brokers) are up. If the cluster has a proxy, also waits until the proxy
        takes requests. A broker is up once this broker itself reports that all of `brokers` are unfenced. Raises
        StepFailed if one of `brokers` exits, ControllerDied if the controller exits, and DeadlinePassed after
        `deadline_s` seconds."""
        expected = set(brokers or self.brokers)

        def up() -> bool:
            for broker, state in self.states().items():
                if broker in expected and state == "exited" and self.owned is not None:
                    raise StepFailed(f"broker {broker} ended while starting: {self.owned.last_log(broker)}")
            if self.breakable is not None and not self.breakable.proxy_listens():
                return False
            try:
                return all(expected <= self.requests.live_brokers(broker) for broker in expected)
            except OSError:
                return False

        wait_until(up, f"brokers {sorted(expected)} to be up", deadline_s)

    def isr_full(self, topics: list[str]) -> bool:
        """Returns whether every partition of `topics` has a leader and all of its replicas in sync. Returns True only
        if every broker runs, and every broker itself reports this state."""
        if any(state != "running" for state in self.states().values()):
            return False
        for broker in self.brokers:
            view = self.partitions(topics, via=broker)
            if {topic for topic, _ in view} != set(topics):
                return False
            if any(not _is_full(state) for state in view.values()):
                return False
        return True

    def are_led(self, topics: list[str]) -> bool:
        """Returns whether every partition of `topics` has a leader that runs, as the brokers that run report it."""
        view, running = self.partitions(topics), self.running()
        return {topic for topic, _ in view} == {*topics} and all(each.leader in running for each in view.values())

    def out_of_sync(self, topics: list[str]) -> str:
        """Returns why `isr_full` is False, as a text for a message. The text names brokers that do not run, and
        partitions that have no leader or whose ISR is not full."""
        reasons = [f"broker {broker} {state}" for broker, state in self.states().items() if state != "running"]
        reasons += [
            f"{topic}/{partition}: leader {state.leader}, ISR {list(state.isr)} of {list(state.replicas)}"
            for (topic, partition), state in self.partitions(topics).items()
            if not _is_full(state)
        ]
        return f"({'; '.join(reasons[:6]) or 'the brokers do not agree yet'})"


def _is_full(state: PartitionState) -> bool:
    return state.leader >= 0 and set(state.isr) == set(state.replicas)
