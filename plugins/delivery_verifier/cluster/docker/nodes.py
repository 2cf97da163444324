"""The nodes of a composed cluster: what the fault door reports of the containers with brokers and controllers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from delivery_verifier.cluster.keeper_operations import ProcessState
from delivery_verifier.model.errors import VerifierError

FAULT_LABEL, ALLOWED = "kafka-delivery-verifier.fault", "allowed"
"""The label, and its value, of containers to which the door may do something. Networks from which the door may
disconnect these containers have it, too."""
ALIAS_LABEL = "kafka-delivery-verifier.alias"
"""The label with the name of a container in the network with `FAULT_LABEL`. Without it, the door does not disconnect
the container."""
ADDRESS_LABEL = "kafka-delivery-verifier.address"
"""The label with the fixed IPv4 address of a container in the network with `FAULT_LABEL`. May be missing."""
PROJECT_LABEL = "com.docker.compose.project"
"""The label in which Compose writes the name of the project that a container or network belongs to."""
_STATES: dict[str, ProcessState] = {"running": "running", "paused": "frozen"}
_KILLED = 137
"""The exit code that the engine reports of a container whose process was killed by SIGKILL: 128 + 9."""


class Node(Struct, frozen=True, kw_only=True):
    """The state of one container with a broker or controller.

    `container`: the container's name. `node`: the node id in Kafka. `broker`: whether the node is a broker, and not
    only a controller. `state`, `exit_code`: as in backend.NodeStatus. `fresh`: whether the container was never started.
    `started_at`: the start of the container's process, as the engine writes it; it changes with every start. `image`:
    the name of the container's image. `connected`, `cut`: the networks with `FAULT_LABEL` that the container is in, and
    those that it belongs to and is not in.
    """

    container: str
    node: int
    broker: bool
    state: ProcessState
    exit_code: int | None = None
    fresh: bool = False
    started_at: str = ""
    image: str = ""
    connected: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether the container runs, and is in all networks that it belongs to."""
        return self.state == "running" and not self.cut

    @property
    def damage(self) -> str:
        """What has to be healed, in words; an empty text if the container is whole."""
        parts = [
            *([self.state] if self.state != "running" else []),
            *(f"cut off from {network}" for network in self.cut),
        ]
        return f"{self.container} {' and '.join(parts)}" if parts else ""


class NotANode(VerifierError, RuntimeError):
    """A container has the label `FAULT_LABEL`, and does not say which node of Kafka it is."""


def node_of(container: Mapping[str, Any], networks: Sequence[str]) -> Node:
    """Returns the node in `container`, an answer of the engine's ContainerInspect. `networks`: the names of all
    networks with `FAULT_LABEL`. Raises NotANode if the container has no KAFKA_NODE_ID, or no KAFKA_PROCESS_ROLES."""
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
        connected=tuple(network for network in home if network in joined),
        cut=tuple(network for network in home if network not in joined),
    )


def _exit_code(code: int) -> int:
    """Returns the exit code in the form of NodeStatus: -9 if SIGKILL ended the process. No JVM exits with 137 by
    itself. Other signals leave the engine's code, because a JVM that shuts down on SIGTERM exits with 143 by itself."""
    return -9 if code == _KILLED else code
