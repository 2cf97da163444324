"""The docker backend: the brokers of docker-compose.yml are the cluster under test. These brokers run all the time. A
run gets new topics, but no new brokers.

Only the fault gateway changes the brokers' containers. The fault gateway is a small service (see `docker.gateway`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from confluent_kafka import KafkaException

from delivery_verifier.cluster import means
from delivery_verifier.cluster.agent import start_agent
from delivery_verifier.cluster.backend import Breakable, Owned, StartRequest, Unavailability
from delivery_verifier.cluster.docker import composed
from delivery_verifier.cluster.docker.agent import PACKAGE, DockerAgentSpec
from delivery_verifier.cluster.docker.cluster import DockerCluster, DockerLayout
from delivery_verifier.cluster.docker.gateway_client import GatewayClient, GatewayGone, GatewayRefused, gateway
from delivery_verifier.cluster.docker.means.network import LINKS_OF_THE_NETWORK
from delivery_verifier.cluster.docker.nodes import Node
from delivery_verifier.host.waiting import DeadlinePassed, wait_until
from delivery_verifier.model.act import Capability, links_cut
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.scenario import ClusterSpec

UP_DEADLINE_S = 120.0
"""Seconds in which all brokers must be up after the gateway has healed them."""
VARIABLES = ("KDV_GATEWAY_URL", "KDV_GATEWAY_TOKEN", "KDV_BOOTSTRAP_SERVERS")
UNAVAILABLE_HERE: dict[Capability, str] = {
    "proxy": "composed brokers advertise fixed addresses, so that no proxy can stand before them: KDV_CLUSTER=embedded "
    "has one",
    "power": "the power of a volume cannot be cut from a container: KDV_CLUSTER=embedded can, as root",
}
"""Maps each capability that this backend always lacks to the reason and the remedy."""


class DockerBackend(Owned, Breakable):
    """A backend that uses the brokers that Docker Compose runs. The environment variables in `VARIABLES` say where
    these brokers and the fault gateway are.

    If a killed run damaged containers, the fault gateway heals the containers by itself.
    """

    def unavailable(self, capability: Capability | None = None) -> Unavailability | None:
        """Returns why `capability` is missing, or why no brokers of Docker Compose can be used. Returns None if nothing
        is missing.

        Asks the fault gateway anew at each call.
        """
        if capability is not None and capability not in self.means():
            return Unavailability(UNAVAILABLE_HERE.get(capability) or means.absence(PACKAGE, capability))
        if unset := [name for name in VARIABLES if not os.environ.get(name)]:
            return Unavailability(
                f"{' and '.join(unset)} not set: run it in the stack of docker-compose.yml, or without KDV_CLUSTER"
            )
        try:
            brokers = [node for node in _gateway().nodes() if node.broker]
        except (GatewayGone, GatewayRefused) as error:
            return Unavailability(f"{error}: look at the service fault-gateway", failed=True)
        if not brokers:
            return Unavailability(
                "the fault gateway sees no container of a broker: check the labels and KDV_GATEWAY_PROJECT"
            )
        return _unavailable_network(brokers) if capability == "network" else None

    def unsupported(self, spec: ClusterSpec, plan: FaultPlan | None = None) -> Unavailability | None:
        """Returns how the cluster that Docker Compose runs differs from `spec`, or which links of `plan` cannot be cut
        there. Returns None if the cluster fits.

        First asks the fault gateway to heal the containers. `Unavailability.failed` is True if a broker stays down, or
        if the fault gateway does not answer.
        """
        try:
            different = composed.differences(spec, _healed_nodes(_gateway()))
        except (GatewayGone, GatewayRefused, StepFailed, KafkaException, OSError) as error:
            return Unavailability(f"the composed cluster cannot be looked at: {error}", failed=True)
        different += _uncuttable(plan) if plan else []
        return Unavailability(f"the composed cluster is another: {'; '.join(different)}") if different else None

    def means(self) -> tuple[str, ...]:
        """Returns the names of the means."""
        return means.names(PACKAGE)

    def versions(self) -> dict[str, str]:
        """Returns the digest of the brokers' image. Raises GatewayGone or GatewayRefused."""
        return {"kafka-image": ", ".join(sorted({node.image_id for node in _gateway().nodes() if node.broker}))}

    def describe(self, spec: ClusterSpec) -> str:
        """Describes, in words, the cluster that a run with `spec` gets."""
        return f"the composed Apache Kafka {spec.kafka_version}: {spec.brokers} brokers in containers; new topics"

    def start(self, request: StartRequest) -> DockerCluster:
        """Asks the fault gateway to heal the containers, waits until all brokers are up, and starts the cluster agent.
        Also removes the topics of runs whose workspace is gone.

        Raises StepFailed if the cluster that Docker Compose runs differs from the spec in `request`. Raises
        GatewayGone, GatewayRefused (e.g. because another run holds the lease), KafkaException and DeadlinePassed.
        """
        client, workspace = _gateway(), Path(request.workspace)
        client.heal()
        nodes = client.nodes()
        wait_until(lambda: composed.lists_all(nodes), "all composed brokers to be up", UP_DEADLINE_S)
        if different := composed.differences(request.spec, nodes):
            raise StepFailed(f"the composed cluster is another than the scenario's: {'; '.join(different)}")
        connection = composed.connection()
        composed.remove_old_topics(connection, workspace.parent)
        layout = DockerLayout(
            spec=request.spec,
            containers={node.node: node.container for node in nodes},
            addresses={broker: (address.host, address.port) for broker, address in connection.brokers.items()},
        )
        spec = DockerAgentSpec(
            run_id=request.run_id,
            workspace=request.workspace,
            deadline_s=request.deadline_s,
            layout=layout,
            owner=request.owner,
            lock_descriptor=request.lock_descriptor,
        )
        start_agent("delivery_verifier.cluster.docker.agent", spec)
        return DockerCluster(workspace)

    def attach(self, workspace: Path) -> DockerCluster:
        """Returns the cluster of the run in `workspace`. Raises ClusterGone if the workspace is gone."""
        return DockerCluster(workspace)


def _gateway() -> GatewayClient:
    """Returns a client of the fault gateway. Raises StepFailed if KDV_GATEWAY_URL is not set."""
    if (client := gateway()) is None:
        raise StepFailed("KDV_GATEWAY_URL is not set: run it in the stack of docker-compose.yml, or unset KDV_CLUSTER")
    return client


def _unavailable_network(brokers: Sequence[Node]) -> Unavailability | None:
    """Returns why these brokers cannot be cut off from each other and from the controllers. Returns None if they can be
    cut off."""
    if uncut := [broker.container for broker in brokers if not (broker.connected or broker.cut)]:
        return Unavailability(f"{', '.join(uncut)}: no network that may be cut: check the labels of docker-compose.yml")
    if astray := [f"{broker.container}: {broker.astray}" for broker in brokers if broker.astray]:
        return Unavailability(f"a cut would not cut replication, compare docker-compose.yml: {'; '.join(astray)}")
    return None


def _uncuttable(plan: FaultPlan) -> list[str]:
    """Returns a text for each set of links that a step of `plan` cuts but that this backend cannot cut.

    This backend can only cut both of the links LINKS_OF_THE_NETWORK (controller and replication) together.
    """
    cuts = {links_cut(step.options) for step in plan.steps if step.action == "isolate"}
    return [
        f"its brokers lose the links {' and '.join(LINKS_OF_THE_NETWORK)} together, not {' and '.join(links)}"
        for links in sorted(cuts)
        if set(links) != set(LINKS_OF_THE_NETWORK)
    ]


def _healed_nodes(client: GatewayClient) -> list[Node]:
    """Asks the fault gateway to heal the containers, and returns the nodes.

    If something was healed, first waits until one of three things happens: all brokers are up, a container has exited
    again, or `UP_DEADLINE_S` seconds have passed.
    """
    try:
        damage = client.heal()
    except GatewayRefused:  # a run holds the lease, or the engine cannot start a container: the nodes show what is down
        return client.nodes()

    def settled() -> bool:
        nodes = client.nodes()
        return composed.lists_all(nodes) or any(node.state == "exited" for node in nodes)

    if damage:
        with suppress(DeadlinePassed):  # the check below names brokers that are still down
            wait_until(settled, "all composed brokers to be up", UP_DEADLINE_S, every_s=0.5)
    return client.nodes()


BACKEND = DockerBackend()
