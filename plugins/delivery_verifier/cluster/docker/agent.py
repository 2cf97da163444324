"""The cluster agent of a composed cluster, which Docker Compose runs (see `cluster.agent`). The cluster agent is a
process in the container that runs the tasks of the run.

During the run, the cluster agent holds the lease at the fault gateway. The cluster agent ends the run's cluster if the
fault gateway does not answer, has been restarted, or reports other containers than at the start. When the cluster agent
ends or is killed, the fault gateway heals the containers.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import msgspec

from delivery_verifier.cluster import agent
from delivery_verifier.cluster.agent import AgentSpec
from delivery_verifier.cluster.agent_operations import ClusterStatus, NodeStatus
from delivery_verifier.cluster.docker.cluster import DockerLayout
from delivery_verifier.cluster.docker.gateway_client import GatewayClient, GatewayGone, GatewayRefused, gateway
from delivery_verifier.cluster.docker.nodes import Node
from delivery_verifier.cluster.observer import OBSERVATIONS, Observer
from delivery_verifier.cluster.protocol.requests import BrokerRequests, RepeatedRequests
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.errors import StepFailed, VerifierError
from delivery_verifier.model.history import now_us

PACKAGE = "delivery_verifier.cluster.docker"
GATEWAY_LEASE_S = 30.0
"""Seconds after the cluster agent's death until the gateway heals the containers. The cluster agent renews its lease
each time it asks for the states of the nodes."""
NOT_FROZEN = "unable to freeze"
"""The engine's reason if the kernel did not freeze a container. With cgroup v1, this happens on a very slow system. The
container then runs on, and another attempt may succeed. Source: runc, libcontainer/cgroups/fs/freezer.go."""
FREEZES_WITHIN_S = 5.0
"""How long the cluster agent goes on asking for the freeze of a container, in seconds."""
_OPERATIONS = {
    "SIGKILL": ("kill", {"signal": "SIGKILL"}),
    "SIGTERM": ("kill", {"signal": "SIGTERM"}),
    "SIGSTOP": ("pause", {}),
    "SIGCONT": ("unpause", {}),
}
"""Maps each signal to the operation of the gateway, and the options of this operation."""


class DockerAgentSpec(AgentSpec, frozen=True, kw_only=True):
    """The inputs of the cluster agent of a cluster that Docker Compose runs."""

    layout: DockerLayout


class Agent(agent.Agent):
    """The cluster agent of a cluster that Docker Compose runs.

    The constructor takes the lease at the fault gateway. It raises GatewayGone or GatewayRefused if the fault gateway
    does not give the lease.
    """

    package = PACKAGE
    tick_s = 0.1

    def __init__(self, spec: DockerAgentSpec, client: GatewayClient) -> None:
        self.layout = spec.layout
        file = Path(spec.workspace) / OBSERVATIONS
        super().__init__(spec, Observer(RepeatedRequests(self.layout.connection), self.layout.brokers, file))
        self._gateway, self._lease = client, client.begin(spec.run_id, GATEWAY_LEASE_S)
        self._failure: VerifierError | None = None
        self.capabilities = self.layout.spec.capabilities
        self.nodes: dict[int, Node] = {}
        self.looks: dict[int, int] = {}
        """How often each broker that is cut off now was seen so."""
        self.cut_since_s: dict[int, float] = {}
        """Since when, on the monotonic clock."""
        self.requests = BrokerRequests(self.layout.connection)

    def begin(self) -> None:
        """Does nothing, because the containers are already running."""

    def observe(self) -> None:
        """Renews the lease at the fault gateway, and reports the states of the nodes to the observer."""
        try:
            self.look()
        except (GatewayGone, GatewayRefused, StepFailed) as error:
            self._failure = error

    def failure(self) -> str:
        """Returns why the cluster agent can no longer see or change the cluster's containers. Returns an empty text if
        the cluster agent still can."""
        return str(self._failure or "")

    def end_cluster(self) -> None:
        """Ends the lease at the fault gateway. The fault gateway then heals the containers.

        If the fault gateway does not answer, it heals the containers later: when it starts again, or when it finds that
        the lease has run out.
        """
        if isinstance(self._failure, GatewayGone):
            return
        try:
            for line in self._gateway.end(self._lease):
                print(f"cluster agent: healed: {line}", flush=True)
        except (GatewayGone, GatewayRefused) as error:
            print(f"cluster agent: {error}", flush=True)

    def status(self) -> ClusterStatus:
        """Returns the state of every node, and the pid of the cluster agent."""
        statuses = {node.node: NodeStatus(state=node.state, exit_code=node.exit_code) for node in self.look().values()}
        return ClusterStatus(nodes=statuses, pid=os.getpid())

    def start(self, node: int) -> None:
        """Starts the container of a node. Raises ValueError if the container has not exited."""
        container = self.look()[node]
        if container.state != "exited":
            raise ValueError(f"broker {node} is already running")
        self.carry_out(node, "start")

    def carry_out(self, node: int, operation: str, **options: str) -> None:
        """Asks the fault gateway to carry out an operation on the container of a node. Raises GatewayGone and
        GatewayRefused."""
        self._gateway.carry_out(self._lease, self.layout.containers[node], operation, **options)

    def send(self, node: int, signal_name: str) -> int:
        """Sends a signal to a node. SIGKILL and SIGTERM go to the node's process. SIGSTOP freezes and SIGCONT resumes
        the node's container.

        Returns the wall time (µs) just before the operation. Raises ValueError if the node does not run, and for a
        SIGTERM to a frozen node, because the engine would resume the node. Raises DeadlinePassed if the kernel does not
        freeze the container within FREEZES_WITHIN_S.
        """
        container = self.look()[node]
        if container.state == "exited":
            raise ValueError(f"broker {node} is not running")
        if signal_name == "SIGTERM" and container.state == "frozen":
            raise ValueError(f"broker {node} is frozen: it cannot be stopped before it is resumed")
        operation, options = _OPERATIONS[signal_name]
        is_done = (operation, container.state) in (("pause", "frozen"), ("unpause", "running"))
        if is_done:
            return now_us()
        refusals = list[str]()

        def carried_out() -> int | None:
            at_us = now_us()  # of this attempt: during an earlier attempt, the fault has not taken effect
            try:
                self.carry_out(node, operation, **options)
                return at_us
            except GatewayRefused as error:
                if NOT_FROZEN not in str(error):
                    raise
                refusals.append(str(error))
                return None

        return wait_until(carried_out, f"{operation} of broker {node}:", FREEZES_WITHIN_S, detail=lambda: refusals[-1])

    def look(self) -> dict[int, Node]:
        """Renews the lease at the fault gateway, and reports the states of the nodes to the observer. Returns the nodes
        by id.

        Raises GatewayGone and GatewayRefused. Raises StepFailed if the cluster has other containers than at the start.
        """
        nodes = {node.node: node for node in self._gateway.renew(self._lease)}
        if {number: node.container for number, node in nodes.items()} != self.layout.containers:
            raise StepFailed(f"the containers of the cluster are others now: {sorted(nodes)}")
        for number, node in nodes.items():
            before = self.nodes.get(number)
            if before is not None and before.state != "exited" and before.started_at != node.started_at:
                self.observer.process(number, "exited")  # it ended and began again between two looks
            self.observer.process(number, node.state, node.exit_code)
            if node.cut:
                self.looks[number] = self.looks.get(number, 0) + 1
                self.cut_since_s.setdefault(number, time.monotonic())
            else:
                self.looks.pop(number, None)
                self.cut_since_s.pop(number, None)
        self.nodes = nodes
        return nodes


def main() -> None:
    """Runs a cluster agent: `python -m delivery_verifier.cluster.docker.agent SPEC`. SPEC is a JSON file with a
    DockerAgentSpec."""
    spec = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=DockerAgentSpec)
    client = gateway()
    if client is None:
        sys.exit("cluster agent: KDV_GATEWAY_URL is not set")
    agent.keep(spec, lambda: Agent(spec, client))


if __name__ == "__main__":
    main()
