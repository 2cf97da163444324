"""The nodes of a composed cluster, which Docker Compose runs. A node is a container with a broker or controller, as the
fault gateway reports it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from delivery_verifier.cluster.agent_operations import ProcessState
from delivery_verifier.model.errors import VerifierError

FAULT_LABEL, ALLOWED = "kafka-delivery-verifier.fault", "allowed"
"""The name and the value of a label. The gateway may change only containers with this label. It may disconnect them
only from networks with this label."""
ALIAS_LABEL = "kafka-delivery-verifier.alias"
"""The name of a label. Its value is the container's name in the networks with `FAULT_LABEL`. The gateway never
disconnects a container without this label."""
ADDRESS_LABEL = "kafka-delivery-verifier.address"
"""The name of a label. Its value is the container's fixed IPv4 address in the networks with `FAULT_LABEL`. A container
may lack this label."""
PROJECT_LABEL = "com.docker.compose.project"
"""The name of a label. Its value is the name of the Compose project that a container or network belongs to."""
_STATES: dict[str, ProcessState] = {"running": "running", "paused": "frozen"}
_KILLED = 137
"""The exit code that the engine reports of a container whose process was killed by SIGKILL: 128 + 9."""


class Node(Struct, frozen=True, kw_only=True):
    """The state of one container with a broker or controller.

    * `container`: the name of the container.
    * `image`: the name of the container's image.
    * `image_id`: the digest of the image's content.
    * `node`: the node id in Kafka.
    * `broker`: True for a broker, False for a node that is only a controller.
    * `state`, `exit_code`: the state of the container's process, as in agent_operations.NodeStatus.
    * `fresh`: whether the container was never started.
    * `started_at`: when the container's process started, in the engine's format. The value changes with every start.
    * `connected`: the networks with the label `FAULT_LABEL` that the container is in.
    * `cut`: the networks with the label `FAULT_LABEL` that the container belongs to, but is not in.
    * `astray`: why other brokers might still reach this broker after it is disconnected from the networks in
      `connected`. An empty text if no other network leads to the broker.
    """

    container: str
    node: int
    broker: bool
    state: ProcessState
    exit_code: int | None = None
    fresh: bool = False
    started_at: str = ""
    image: str = ""
    image_id: str = ""
    connected: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()
    astray: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether the container runs, and is in all networks that it belongs to."""
        return self.state == "running" and not self.cut

    @property
    def damage(self) -> str:
        """What has to be healed, in words. An empty text if the container is whole."""
        parts = [
            *([self.state] if self.state != "running" else []),
            *(f"cut off from {network}" for network in self.cut),
        ]
        return f"{self.container} {' and '.join(parts)}" if parts else ""


class NotANode(VerifierError, RuntimeError):
    """A container has the label `FAULT_LABEL`, but its settings do not say which node of Kafka it is."""


def node_of(container: Mapping[str, Any], networks: Sequence[str]) -> Node:
    """Returns the node that runs in `container`, which is the engine's answer to ContainerInspect.

    `networks` are the names of all networks with the label `FAULT_LABEL`. Raises NotANode if the container's
    environment lacks KAFKA_NODE_ID or KAFKA_PROCESS_ROLES.
    """
    config, state = container["Config"], container["State"]
    name = container["Name"].removeprefix("/")
    settings = dict(line.partition("=")[::2] for line in config["Env"] or ())
    if not settings.get("KAFKA_NODE_ID", "").isdigit() or not settings.get("KAFKA_PROCESS_ROLES"):
        raise NotANode(f"{name} has the label {FAULT_LABEL}, but neither KAFKA_NODE_ID nor KAFKA_PROCESS_ROLES")
    current = _STATES.get(state["Status"], "exited")
    joined = container["NetworkSettings"]["Networks"] or {}
    home = networks if ALIAS_LABEL in config["Labels"] else ()
    return Node(
        container=name,
        node=int(settings["KAFKA_NODE_ID"]),
        broker="broker" in settings["KAFKA_PROCESS_ROLES"].split(","),
        state=current,
        exit_code=_exit_code(state["ExitCode"]) if current == "exited" else None,
        fresh=state["Status"] == "created",
        started_at=state["StartedAt"],
        image=config["Image"],
        image_id=container["Image"],
        connected=tuple(network for network in home if network in joined),
        cut=tuple(network for network in home if network not in joined),
        astray=_why_astray(settings, config["Labels"].get(ALIAS_LABEL, ""), joined, networks),
    )


def _why_astray(
    settings: Mapping[str, str], alias: str, joined: Mapping[str, Mapping[str, Any]], networks: Sequence[str]
) -> str:
    """Returns why the other brokers might reach this broker by another network than `networks`. Returns an empty text
    if they cannot.

    Other brokers look up the name that this broker advertises on its inter-broker listener. `alias` is the broker's
    name in `networks`. `settings` is the container's environment. `joined` are the networks that the container is in.
    """
    listener = settings.get("KAFKA_INTER_BROKER_LISTENER_NAME", "")
    pairs = (text.strip().partition("://") for text in settings.get("KAFKA_ADVERTISED_LISTENERS", "").split(","))
    host = next((address.rpartition(":")[0] for name, _, address in pairs if name == listener), "")
    if host != alias:
        return f"its listener {listener or '(none)'} advertises {host or 'no name'}, not {alias or 'its alias'}"
    for network, endpoint in joined.items():
        if network not in networks and alias in (*(endpoint.get("Aliases") or ()), *(endpoint.get("DNSNames") or ())):
            return f"its name {alias} leads to the network {network}, too"
    return ""


def _exit_code(code: int) -> int:
    """Converts an exit code of the engine to the exit code of NodeStatus.

    The code 137 becomes -9, because a JVM exits with 137 only if SIGKILL ended the JVM. All other codes stay unchanged:
    for example, a JVM that shuts down on SIGTERM exits with 143 by itself.
    """
    return -9 if code == _KILLED else code
