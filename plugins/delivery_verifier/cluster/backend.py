"""The interface between a backend, which runs the cluster under test, and the code that uses this cluster.

Each backend has one folder beside this file and one entry in `cluster.backends.NAMES`. A backend implements three
protocols:

* `Backend`: says which capabilities (`Capability`) this host has, starts clusters, and removes what killed runs left on
  the host.
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
from delivery_verifier.cluster.protocol.requests import BrokerRequests
from delivery_verifier.host.processes import ProcessId
from delivery_verifier.model.act import Capability
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.scenario import ClusterSpec


class Lack(NamedTuple):
    """A backend or a capability (proxy, network or power) that this host lacks.

    * `why`: the reason and its remedy, in words.
    * `failed`: True if the check could not find out whether the host has the backend or the capability.
    """

    why: str
    failed: bool = False


class CapabilityMissing(VerifierError, RuntimeError):
    """A request needs a capability (proxy, network or power) that the cluster does not have."""

    def __init__(self, capability: Capability) -> None:
        super().__init__(f"this cluster was started without the capability {capability}")


class StartRequest(Struct, frozen=True, kw_only=True):
    """The input of `Backend.start`.

    * `workspace`: the folder for the cluster's data, logs and sockets. At the start, the folder is empty, or holds only
      an empty file with the name `keeper.json`.
    * `deadline_s`: the number of seconds after which the keeper ends the cluster.
    * `owner`: the process that started the run. When this process ends, the keeper ends the cluster. None: the run has
      no such process.
    * `lock_descriptor`: the descriptor of the open file that holds the host's lock. The keeper inherits this file, and
      so holds the lock until the keeper ends.
    """

    run_id: str
    workspace: str
    deadline_s: float
    spec: ClusterSpec
    owner: ProcessId | None = None
    lock_descriptor: int | None = None


class RunningCluster(Protocol):
    """Access to a running cluster. Every process of the run can get such an object from `Backend.attach`."""

    @property
    def workspace(self) -> Path:
        """The folder that holds the cluster's data and logs, and the files that producers write while they run."""
        ...

    @property
    def socket(self) -> Path:
        """The path of the Unix socket at which the keeper (the process in charge of the cluster) takes requests."""
        ...

    @property
    def brokers(self) -> list[int]:
        """The broker ids, in ascending order."""
        ...

    @property
    def controllers(self) -> list[int]:
        """The ids of the nodes that are controllers but not brokers. The list is empty if the backend does not report
        the states of such nodes."""
        ...

    @property
    def capabilities(self) -> tuple[Capability, ...]:
        """The capabilities that this cluster was started with."""
        ...

    @property
    def connection(self) -> Connection:
        """The addresses and security settings for the verifier's own clients. These clients never use the proxy."""
        ...

    @property
    def load_connection(self) -> Connection:
        """The addresses and security settings for the producers under test. If the cluster has a proxy, these are the
        addresses of the proxy."""
        ...

    @property
    def agent(self) -> KeeperOperations:
        """The operations of the cluster agent, the process in charge of this cluster."""
        ...

    @property
    def requests(self) -> BrokerRequests:
        """The object that sends requests of Kafka's protocol to single brokers."""
        ...

    def proxy(self, operation: str, **arguments: Any) -> Any:
        """Sends one request to the proxy (see `cluster.proxy.server`), and returns the proxy's answer.

        Raises RuntimeError with the reason if the proxy refuses, and CapabilityMissing if the cluster has no proxy.
        """
        ...

    def proxy_listens(self) -> bool:
        """Returns whether the proxy takes requests yet. Returns True if the cluster has no proxy."""
        ...

    def sync(self, brokers: Sequence[int]) -> None:
        """Flushes the disks of `brokers`. Raises OSError if a disk cannot be flushed, and CapabilityMissing if the
        cluster was started without the capability `power`."""
        ...

    def is_off(self, broker: int) -> bool:
        """Returns whether the disk of a broker has no power."""
        ...

    def last_log(self, node: int) -> str:
        """Returns the last error lines of a node's log, for error messages of the verifier."""
        ...

    def release(self) -> None:
        """Removes what a killed keeper left on the host, e.g. mounts. The cluster's data and logs stay.

        A call is harmless if the keeper ended in the normal way.
        """
        ...


class Backend(Protocol):
    """A way to run clusters on this host."""

    def lack(self, capability: Capability | None = None) -> Lack | None:
        """Returns why this host lacks `capability`, or None if the host has it.

        Without `capability`, returns why the backend cannot run on this host, or None if the backend can run.
        """
        ...

    def misfit(self, spec: ClusterSpec, plan: FaultPlan | None = None) -> Lack | None:
        """Returns why this backend cannot give a run the cluster that `spec` describes, or None if the backend can give
        it.

        Two examples of reasons: the backend's brokers have other settings, or the backend cannot cut the links that
        `plan` cuts. A missing capability does not count here (see `lack`).
        """
        ...

    def versions(self) -> dict[str, str]:
        """Returns the versions that a run records beside `ClusterSpec.kafka_version`, e.g. the digest of an image."""
        ...

    def describe(self, spec: ClusterSpec) -> str:
        """Describes, in words, the cluster that a run with `spec` gets."""
        ...

    def start(self, request: StartRequest) -> RunningCluster:
        """Starts a cluster, and returns it once the cluster's keeper answers. Some brokers may still be booting then.

        Raises RuntimeError with the reason if the keeper ends before it answers.
        """
        ...

    def attach(self, workspace: Path) -> RunningCluster:
        """Returns the cluster that was started in `workspace`. Raises ClusterGone if the workspace is gone."""
        ...

    def is_mounted(self, workspace: Path) -> bool:
        """Returns whether the host still uses a workspace (the folder of one cluster), e.g. because a disk is mounted
        there.

        If so, the caller must call `release` before it removes the folder.
        """
        ...

    def release(self, workspace: Path) -> None:
        """Makes the host stop using a workspace (the folder of one cluster), e.g. unmounts the disks there. The data
        stay.

        Raises DeadlinePassed if a process does not stop using the workspace in time.
        """
        ...

    def leftovers(self) -> list[str]:
        """Returns the names of things that killed processes have left on this host outside workspaces, e.g. filter
        rules."""
        ...

    def sweep(self) -> list[str]:
        """Removes everything that `leftovers` names. Returns what was removed, in words."""
        ...


class LeavesNothing:
    """Implements four methods of `Backend` for a backend that mounts no disks and leaves nothing on the host."""

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
