"""The interface between a backend, which runs the cluster under test, and the code that uses this cluster.

A backend is one folder beside this file and one line in `cluster.backends.NAMES`. A backend implements three
protocols:

* `Backend`: tells which `Capability` this host has, starts clusters, and removes what killed runs left on the host.
* `RunningCluster`: gives any process of a run access to the run's cluster.
* `keeper_operations.KeeperOperations`: the operations of the cluster's keeper, a process that outlives the steps of a
  run.

Every backend has to pass the tests in `tests/support/backend_contract.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

from delivery_verifier.cluster.connection import Connection
from delivery_verifier.cluster.keeper_operations import KeeperOperations
from delivery_verifier.cluster.protocol.interface import BrokerRequests
from delivery_verifier.host.processes import ProcessId
from delivery_verifier.model.act import Capability
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.scenario import ClusterSpec


class Lack(NamedTuple):
    """Why this host lacks a backend or a capability (proxy, network or power). `why`: the reason and its remedy, in
    words. `failed`: True if the check proved nothing, so that the host may have the backend or capability."""

    why: str
    failed: bool = False


class CapabilityMissing(VerifierError, RuntimeError):
    """A request needs a capability (proxy, network or power) that the cluster was started without."""

    def __init__(self, capability: Capability) -> None:
        super().__init__(f"this cluster was started without the capability {capability}")


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

    def misfit(self, spec: ClusterSpec) -> Lack | None:
        """Returns why this backend cannot give a run the cluster that `spec` describes, e.g. because its brokers have
        other settings; None if it can. Does not look at capabilities."""
        ...

    def describe(self, spec: ClusterSpec) -> str:
        """Returns in words what cluster a run with `spec` gets."""
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


class LeavesNothing:
    """The part of a backend that mounts nothing, and leaves nothing on the host."""

    def is_mounted(self, workspace: Path) -> bool:
        """Returns False."""
        return False

    def release(self, workspace: Path) -> None:
        """Does nothing."""

    def leftovers(self) -> list[str]:
        """Returns an empty list."""
        return []

    def sweep(self) -> list[str]:
        """Returns an empty list."""
        return []
