"""The docker backend: the brokers of docker-compose.yml, which run all the time. A run gets new topics, and no new
brokers.

What happens to the containers goes through the fault door (see `docker.door`).
"""

from __future__ import annotations

import os
from pathlib import Path

from confluent_kafka import KafkaException

from delivery_verifier.cluster.backend import Backend, Lack, LeavesNothing, StartRequest
from delivery_verifier.cluster.docker import composed
from delivery_verifier.cluster.docker.cluster import DockerCluster, DockerLayout
from delivery_verifier.cluster.docker.door_client import DoorClient, DoorGone, DoorRefused, door
from delivery_verifier.cluster.docker.keeper import DockerKeeperSpec
from delivery_verifier.cluster.keeper import start_keeper
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.act import Capability
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.scenario import ClusterSpec

UP_DEADLINE_S = 120.0
"""Seconds that healed brokers may take until all of them are up."""
VARIABLES = ("KDV_DOOR_URL", "KDV_DOOR_TOKEN", "KDV_BOOTSTRAP_SERVERS")
LACKS: dict[Capability, str] = {
    "proxy": "composed brokers advertise fixed addresses, so that no proxy can stand before them: KDV_CLUSTER=embedded "
    "has one",
    "power": "the power of a volume cannot be cut from a container: KDV_CLUSTER=embedded can, as root",
}
"""Why the backend lacks a capability everywhere, with the remedy."""


class DockerBackend(LeavesNothing):
    """A backend that uses the composed brokers. The environment variables `VARIABLES` say where they are.

    What a killed run did to containers, the door heals by itself.
    """

    def lack(self, capability: Capability | None = None) -> Lack | None:
        """Returns why the capability is missing, or why there are no composed brokers; None if nothing is missing. Asks
        the door at each call."""
        if capability in LACKS:
            return Lack(LACKS[capability])
        if unset := [name for name in VARIABLES if not os.environ.get(name)]:
            return Lack(
                f"{' and '.join(unset)} not set: run it in the stack of docker-compose.yml, or without KDV_CLUSTER"
            )
        try:
            brokers = [node for node in _door().nodes() if node.broker]
        except (DoorGone, DoorRefused) as error:
            return Lack(f"{error}: look at the service fault-door", failed=True)
        if not brokers:
            return Lack("the fault door sees no container of a broker: check the labels and KDV_DOOR_PROJECT")
        uncut = [broker.container for broker in brokers if not (broker.connected or broker.cut)]
        if capability == "network" and uncut:
            return Lack(f"{', '.join(uncut)}: no network that may be cut: check the labels of docker-compose.yml")
        return None

    def misfit(self, spec: ClusterSpec) -> Lack | None:
        """Returns how the composed cluster differs from `spec`; None if it does not. `Lack.failed` is True if a broker
        or the door does not answer."""
        try:
            different = composed.differences(spec, _door().nodes())
        except (DoorGone, DoorRefused, StepFailed, KafkaException, OSError) as error:
            return Lack(f"the composed cluster cannot be looked at: {error}", failed=True)
        return Lack(f"the composed cluster is another: {'; '.join(different)}") if different else None

    def describe(self, spec: ClusterSpec) -> str:
        """Returns in words what cluster a run with `spec` gets."""
        return f"the composed Apache Kafka {spec.kafka_version}: {spec.brokers} brokers in containers; new topics"

    def start(self, request: StartRequest) -> DockerCluster:
        """Has the composed cluster healed, waits until all brokers are up, and starts the keeper. Removes the topics of
        runs whose workspace is gone.

        Raises StepFailed if the composed cluster is not as the request's spec says, DoorGone, DoorRefused (e.g. because
        another run holds the lease), KafkaException, and DeadlinePassed.
        """
        client, workspace = _door(), Path(request.workspace)
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
        spec = DockerKeeperSpec(
            run_id=request.run_id,
            workspace=request.workspace,
            deadline_s=request.deadline_s,
            layout=layout,
            owner=request.owner,
            lock_descriptor=request.lock_descriptor,
        )
        start_keeper("delivery_verifier.cluster.docker.keeper", spec)
        return DockerCluster(workspace)

    def attach(self, workspace: Path) -> DockerCluster:
        """Returns the cluster of the run in `workspace`. Raises ClusterGone if the workspace is gone."""
        return DockerCluster(workspace)


def _door() -> DoorClient:
    """Returns the client of the door. Raises StepFailed if no variable says where the door is."""
    if (client := door()) is None:
        raise StepFailed("KDV_DOOR_URL is not set: run it in the stack of docker-compose.yml, or unset KDV_CLUSTER")
    return client


BACKEND: Backend = DockerBackend()
