"""The seam for backends: what runs the cluster under test, and what the rest of the verifier may ask of a cluster.

A backend is one folder beside this file and one line in `cluster.backends.BACKENDS`. It provides three things:

* `Backend`: names its capabilities on this host, starts clusters, and clears away what dead runs left behind.
* `RunningCluster`: a cluster that the backend has started, as any process of the run sees it.
* `KeeperOperations`: what the keeper of that cluster does on request. The keeper is a process of the backend's own that
  outlives the steps of a run. `OPERATIONS` is derived from this protocol, and so are the requests to the keeper
  (`cluster.keeper_client`).

Tests of every backend: `tests/support/backend_contract.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from msgspec import Struct

from delivery_verifier.cluster.connection import Connection
from delivery_verifier.cluster.protocol.interface import BrokerRequests
from delivery_verifier.host.processes import ProcessId
from delivery_verifier.model.act import Capability
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.scenario import ClusterSpec
from delivery_verifier.model.step_options import Link

ProcessState = Literal["running", "frozen", "exited"]


class Lack(NamedTuple):
    """Why this host cannot be relied on for a capability or a backend, with the remedy. `failed`: a trial went wrong,
    which says nothing about the host."""

    why: str
    failed: bool = False


class CapabilityMissing(VerifierError, RuntimeError):
    """A cluster was asked for something that it was not started with."""

    def __init__(self, capability: Capability) -> None:
        super().__init__(f"this cluster was started without the capability {capability}")


class NodeStatus(Struct, frozen=True, kw_only=True):
    """The process of one node. `exit_code`: None while the process lives; a negative one is the number of the signal
    that killed the process. `pid`: 0 where the backend has no process on this host."""

    state: ProcessState
    exit_code: int | None = None
    pid: int = 0


class ClusterStatus(Struct, frozen=True, kw_only=True):
    """What a keeper says of its cluster: its nodes by id (brokers and controllers), its own pid, and its proxy's."""

    nodes: dict[int, NodeStatus]
    pid: int = 0
    proxy: int | None = None


class StartRequest(Struct, frozen=True, kw_only=True):
    """What `start_cluster` asks of a backend.

    `workspace`: an empty folder for the cluster's data, logs and sockets. `deadline_s`: seconds after which the keeper
    ends the cluster. `owner`: the process with which the cluster ends, if any. `lock_descriptor`: the host's lock,
    which the keeper inherits, so that no other start can sweep its workspace in between.
    """

    run_id: str
    workspace: str
    deadline_s: float
    spec: ClusterSpec
    owner: ProcessId | None = None
    lock_descriptor: int | None = None


class KeeperOperations(Protocol):
    """What the keeper of a running cluster does on request. Nodes are addressed by id.

    A request that is refused raises RuntimeError with the reason. Times are wall times in µs.
    """

    def renew(self) -> None:
        """Extends the lease."""
        ...

    def status(self) -> ClusterStatus:
        """The state of every node."""
        ...

    def start(self, node: int) -> None:
        """Starts a node that does not run."""
        ...

    def send(self, node: int, signal_name: str) -> int:
        """Signals a node: SIGKILL, SIGTERM, SIGSTOP or SIGCONT. Returns the time just before."""
        ...

    def isolate(self, nodes: list[int], links: list[Link]) -> int:
        """Drops the packets of brokers on `links`. Returns the time just before. Needs the capability network."""
        ...

    def rejoin(self, nodes: list[int]) -> None:
        """Lets the packets of brokers through again; harmless for brokers that are not isolated."""
        ...

    def cut_off(self) -> dict[int, dict[str, int]]:
        """Per isolated broker and link the packets dropped so far; without the links that are not wholly cut."""
        ...

    def power_off(self, nodes: list[int]) -> int:
        """Kills brokers and cuts the power of their disks. Returns the time just before. Needs the capability power."""
        ...

    def watch(self, topics: list[str]) -> None:
        """Makes the observer look at `topics`."""
        ...

    def adopt(self, pid: int) -> None:
        """Makes the keeper kill process `pid` when the cluster ends."""
        ...

    def finish(self, keep_workspace: bool = False) -> None:
        """Ends the cluster and, unless `keep_workspace`, removes its workspace. Returns before that is done."""
        ...


OPERATIONS = tuple(name for name in vars(KeeperOperations) if not name.startswith("_"))
"""The names of all requests to a keeper. A keeper refuses any other request."""


class RunningCluster(Protocol):
    """One cluster, from any process of its run."""

    @property
    def workspace(self) -> Path:
        """The folder of the cluster's data and logs, and of the load's scratch files."""
        ...

    @property
    def socket(self) -> Path:
        """The Unix socket of the keeper, at which the lease is renewed."""
        ...

    @property
    def brokers(self) -> list[int]:
        """Broker ids, in ascending order."""
        ...

    @property
    def controllers(self) -> list[int]:
        """Ids of the nodes that are controllers only; empty where the backend does not show them."""
        ...

    @property
    def capabilities(self) -> tuple[Capability, ...]:
        """What this cluster was started with beside its brokers."""
        ...

    @property
    def connection(self) -> Connection:
        """How the verifier's own clients reach the brokers."""
        ...

    @property
    def load_connection(self) -> Connection:
        """How the producers under test reach the brokers: through the proxy, where there is one."""
        ...

    @property
    def keeper(self) -> KeeperOperations:
        """The keeper."""
        ...

    @property
    def requests(self) -> BrokerRequests:
        """Requests to single brokers."""
        ...

    def proxy(self, operation: str, **arguments: Any) -> Any:
        """One request to the proxy (see `cluster.proxy`). Raises RuntimeError with what it refused,
        CapabilityMissing."""
        ...

    def proxy_listens(self) -> bool:
        """Whether the proxy takes requests yet. True where there is none."""
        ...

    def sync(self, brokers: Sequence[int]) -> None:
        """Flushes the disks of brokers. Raises OSError, CapabilityMissing."""
        ...

    def is_off(self, broker: int) -> bool:
        """Whether the disk of a broker has no power."""
        ...

    def last_log(self, node: int) -> str:
        """The last error lines of a node's log, for messages."""
        ...

    def release(self) -> None:
        """Removes what a killed keeper left on the host. Data and logs stay. Harmless after `finish`."""
        ...


class Backend(Protocol):
    """A way to run clusters on this host."""

    def lack(self, capability: Capability | None = None) -> Lack | None:
        """Why this host lacks `capability`, or, with None, why the backend cannot run on this host. None if nothing
        lacks. The host is tried once per process."""
        ...

    def start(self, request: StartRequest) -> RunningCluster:
        """Starts a cluster and waits until its keeper answers; brokers may still be booting. Raises RuntimeError."""
        ...

    def attach(self, workspace: Path) -> RunningCluster:
        """The cluster in `workspace`, which another process has started. Raises ClusterGone if it has ended."""
        ...

    def is_mounted(self, workspace: Path) -> bool:
        """Whether anything of the host is still bound to a workspace, so that the workspace cannot simply be
        removed."""
        ...

    def release(self, workspace: Path) -> None:
        """Unbinds from the host whatever is bound to a workspace. The data stay. Raises DeadlinePassed if it is in
        use."""
        ...

    def leftovers(self) -> list[str]:
        """Names of what dead runs left on this host, outside workspaces."""
        ...

    def sweep(self) -> list[str]:
        """Removes the leftovers. Returns what was removed."""
        ...
