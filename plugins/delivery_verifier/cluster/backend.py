"""The interface between a backend, which runs the cluster under test, and the code that uses this cluster.

A backend is one folder beside this file and one line in `cluster.backends.NAMES`. A backend implements three
protocols:

* `Backend`: tells which `Capability` this host has, starts clusters, and removes what killed runs left on the host.
* `RunningCluster`: gives any process of a run access to the run's cluster.
* `KeeperOperations`: the operations of the cluster's keeper, a process that outlives the steps of a run.

Every backend has to pass the tests in `tests/support/backend_contract.py`.
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
    """Why this host lacks a backend or a capability (proxy, network or power). `why`: the reason and its remedy, in
    words. `failed`: True if the check proved nothing, so that the host may have the backend or capability."""

    why: str
    failed: bool = False


class CapabilityMissing(VerifierError, RuntimeError):
    """A request needs a capability (proxy, network or power) that the cluster was started without."""

    def __init__(self, capability: Capability) -> None:
        super().__init__(f"this cluster was started without the capability {capability}")


class NodeStatus(Struct, frozen=True, kw_only=True):
    """The state of the process of one node, a broker or controller. `exit_code`: None while the process lives. If
    signal number N killed the process, the exit code is -N. `pid`: 0 if the node is no process on this host."""

    state: ProcessState
    exit_code: int | None = None
    pid: int = 0


class ClusterStatus(Struct, frozen=True, kw_only=True):
    """A keeper's report on its cluster. `nodes`: the state of every broker and controller, by node id. `pid`: the
    keeper's pid. `proxy`: the proxy's pid; None if the cluster has no proxy."""

    nodes: dict[int, NodeStatus]
    pid: int = 0
    proxy: int | None = None


class StartRequest(Struct, frozen=True, kw_only=True):
    """The input of `Backend.start`.

    `workspace`: the folder for the cluster's data, logs and sockets. It is empty, or holds only an empty file with the
    name `keeper.json`. `deadline_s`: seconds after which the keeper ends the cluster. `owner`: a process whose end
    makes the keeper end the cluster; None if there is no such process. `lock_descriptor`: the descriptor of the open
    file that holds the host's lock. The keeper inherits this file, and so holds the lock until the keeper ends.
    """

    run_id: str
    workspace: str
    deadline_s: float
    spec: ClusterSpec
    owner: ProcessId | None = None
    lock_descriptor: int | None = None


class KeeperOperations(Protocol):
    """The operations that a keeper (the parent process of the brokers) carries out on request.

    A refused operation raises RuntimeError with the reason. Nodes are given by their ids. Wall times are in µs.
    """

    def renew(self) -> None:
        """Extends the lease: without another call, the keeper ends the cluster after `lease.LEASE_S` seconds."""
        ...

    def status(self) -> ClusterStatus:
        """Returns the state of every node."""
        ...

    def start(self, node: int) -> None:
        """Starts a node that does not run. If the power of the node's disk is off, first switches the power on."""
        ...

    def send(self, node: int, signal_name: str) -> int:
        """Sends SIGKILL, SIGTERM, SIGSTOP or SIGCONT to a node. Returns the wall time just before the signal."""
        ...

    def isolate(self, nodes: list[int], links: list[Link]) -> int:
        """Drops packets between the brokers `nodes` and the peers that `links` names (see step_options.LINKS). Returns
        the wall time just before the first packet was dropped. Needs the capability `network`."""
        ...

    def rejoin(self, nodes: list[int]) -> None:
        """Lets the packets of the brokers `nodes` through again. Does no harm to brokers that are not isolated."""
        ...

    def cut_off(self) -> dict[int, dict[str, int]]:
        """Returns how many packets each cut link (see `isolate`) has dropped so far: {broker id: {link: packets}}.
        Leaves out a link that lets some packets through again."""
        ...

    def power_off(self, nodes: list[int]) -> int:
        """Kills the brokers `nodes` and cuts the power of their disks. Returns the wall time just before the first
        kill. Needs the capability `power`."""
        ...

    def watch(self, topics: list[str]) -> None:
        """Makes the observer (`cluster.observer`) poll `topics` alone. A topic need not exist yet. With an empty list,
        the observer polls nothing."""
        ...

    def adopt(self, pid: int) -> None:
        """Makes the keeper kill process `pid` when the cluster ends, so that this process does not outlive the run."""
        ...

    def finish(self, keep_workspace: bool = False) -> None:
        """Ends the cluster, and removes its workspace unless `keep_workspace` is true. Does not wait for the end."""
        ...


OPERATIONS = tuple(name for name in vars(KeeperOperations) if not name.startswith("_"))
"""The names of all operations of a keeper. A keeper refuses requests with any other name."""


class RunningCluster(Protocol):
    """Access to a running cluster. Any process of the run can have such an object (see `Backend.attach`)."""

    @property
    def workspace(self) -> Path:
        """The folder of the cluster's data and logs, and of the files that producers write while they run."""
        ...

    @property
    def socket(self) -> Path:
        """The path of the Unix socket at which the keeper (the parent process of the brokers) takes requests."""
        ...

    @property
    def brokers(self) -> list[int]:
        """Broker ids, in ascending order."""
        ...

    @property
    def controllers(self) -> list[int]:
        """The ids of the controllers that are no brokers; empty if the backend does not report their states."""
        ...

    @property
    def capabilities(self) -> tuple[Capability, ...]:
        """The capabilities that this cluster was started with."""
        ...

    @property
    def connection(self) -> Connection:
        """Addresses and security settings for the verifier's own clients. These clients never use the proxy."""
        ...

    @property
    def load_connection(self) -> Connection:
        """Like `connection`, but for the producers under test. If there is a proxy, the addresses are the proxy's."""
        ...

    @property
    def keeper(self) -> KeeperOperations:
        """The object that sends requests to the keeper (the parent process of the brokers) of this cluster."""
        ...

    @property
    def requests(self) -> BrokerRequests:
        """The object that sends requests of Kafka's protocol to single brokers."""
        ...

    def proxy(self, operation: str, **arguments: Any) -> Any:
        """Sends one request to the proxy (see `cluster.proxy.server`). Returns the answer. Raises RuntimeError with the
        reason if the proxy refuses, and CapabilityMissing if the cluster has no proxy."""
        ...

    def proxy_listens(self) -> bool:
        """Whether the proxy is ready for requests of the method `proxy`. True if the cluster has no proxy."""
        ...

    def sync(self, brokers: Sequence[int]) -> None:
        """Flushes the disks of `brokers`. Raises OSError if a disk cannot be flushed, and CapabilityMissing if the
        cluster was started without the capability `power`."""
        ...

    def is_off(self, broker: int) -> bool:
        """Whether the disk of a broker has no power."""
        ...

    def last_log(self, node: int) -> str:
        """Returns the last error lines of a node's log. Error messages of the verifier quote these lines."""
        ...

    def release(self) -> None:
        """Removes what a killed keeper left on the host, e.g. mounts. The cluster's data and logs stay. After `finish`,
        the call does no harm."""
        ...


class Backend(Protocol):
    """A way to run clusters on this host."""

    def lack(self, capability: Capability | None = None) -> Lack | None:
        """Returns why this host lacks `capability`; None if the host has it. If no capability is given, returns why the
        backend cannot run on this host; None if it can. Tries each capability only once per process."""
        ...

    def start(self, request: StartRequest) -> RunningCluster:
        """Starts a cluster, and returns it once its keeper answers. Brokers may still be booting then. Raises
        RuntimeError with the reason if the keeper ends before it answers."""
        ...

    def attach(self, workspace: Path) -> RunningCluster:
        """Returns the cluster that was started in `workspace`. Raises ClusterGone if the workspace is gone."""
        ...

    def is_mounted(self, workspace: Path) -> bool:
        """Whether something still uses a workspace (the folder of one cluster), e.g. a disk is mounted there. If so,
        the caller must call `release` before it removes the folder."""
        ...

    def release(self, workspace: Path) -> None:
        """Ends every use of a workspace (the folder of one cluster), e.g. unmounts the disks there. The data stay.
        Raises DeadlinePassed if a process uses the workspace for too long."""
        ...

    def leftovers(self) -> list[str]:
        """Returns names of things that killed processes left on this host outside workspaces, e.g. filter rules."""
        ...

    def sweep(self) -> list[str]:
        """Removes what `leftovers` names. Returns what was removed, in words."""
        ...
