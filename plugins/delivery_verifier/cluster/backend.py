"""The interfaces between a backend, which gives access to the cluster under test, and the code that uses this cluster.

Each backend has one folder beside this file and one entry in `cluster.backends.NAMES`. It implements only what it is:

* *Observed*: every backend is. `Observed` says whether the cluster can be used, and gives access to it. An
  `ObservedCluster` has addresses, and answers requests for metadata and logs.
* *Owned*: the run starts and ends the cluster. `Owned` starts it in a workspace, and removes what killed runs left on
  the host. An `OwnedCluster` knows its workspace and its agent, the process that outlives the steps of a run.
* *Breakable*: faults can be done to the brokers. `Breakable` says by which means, and a `BreakableCluster` has them.
* *Shared*: others use the cluster, too. `Shared` says what on it is the run's own, and removes only that.

A cluster that is only observed is started by somebody else. Its run still has a workspace and an agent of its own
(`cluster.watcher`), which the backend need not know.

Every backend has to pass the tests in `tests/support/backend_contract.py` for the parts that it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from msgspec import Struct

from delivery_verifier.cluster.connection import Connection
from delivery_verifier.cluster.keeper_operations import KeeperOperations
from delivery_verifier.cluster.protocol.requests import BrokerRequests
from delivery_verifier.host.processes import ProcessId
from delivery_verifier.model.act import Capability
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.scenario import ClusterSpec, Scenario


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
    """The input of `Owned.start`.

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


@runtime_checkable
class ObservedCluster(Protocol):
    """Access to a cluster that runs, whoever started it. Every process of the run can get such an object from
    `Observed.attach`."""

    @property
    def brokers(self) -> list[int]:
        """The broker ids, in ascending order."""
        ...

    @property
    def connection(self) -> Connection:
        """The addresses and security settings for the verifier's own clients. These clients never use the proxy."""
        ...

    @property
    def requests(self) -> BrokerRequests:
        """The object that sends requests of Kafka's protocol to single brokers."""
        ...


@runtime_checkable
class OwnedCluster(ObservedCluster, Protocol):
    """Access to a cluster that the run has started, and will end."""

    @property
    def workspace(self) -> Path:
        """The folder that holds the cluster's data and logs, and the files that producers write while they run."""
        ...

    @property
    def agent(self) -> KeeperOperations:
        """The operations of the cluster agent, the process in charge of this cluster."""
        ...

    @property
    def controllers(self) -> list[int]:
        """The ids of the nodes that are controllers but not brokers. The list is empty if the backend does not report
        the states of such nodes."""
        ...

    def last_log(self, node: int) -> str:
        """Returns the last error lines of a node's log, for error messages of the verifier."""
        ...

    def release(self) -> None:
        """Removes what a killed keeper left on the host, e.g. mounts. The cluster's data and logs stay.

        A call is harmless if the keeper ended in the normal way.
        """
        ...


@runtime_checkable
class BreakableCluster(ObservedCluster, Protocol):
    """Access to a cluster to whose brokers faults can be done."""

    @property
    def capabilities(self) -> tuple[Capability, ...]:
        """The capabilities that this cluster was started with."""
        ...

    @property
    def load_connection(self) -> Connection:
        """The addresses and security settings for the producers under test. If the cluster has a proxy, these are the
        addresses of the proxy."""
        ...

    def proxy_listens(self) -> bool:
        """Returns whether the proxy takes requests yet. Returns True if the cluster has no proxy."""
        ...

    def sync(self, brokers: Sequence[int]) -> None:
        """Flushes the disks of `brokers`. Raises OSError if a disk cannot be flushed, and CapabilityMissing if the
        cluster was started without the capability `power`."""
        ...


@runtime_checkable
class Observed(Protocol):
    """A way to clusters. A backend that only implements this protocol has a cluster that somebody else runs."""

    def lack(self, capability: Capability | None = None) -> Lack | None:
        """Returns why this host lacks `capability`, or None if the host has it. A backend that is not breakable lacks
        every capability.

        Without `capability`, returns why the backend cannot be used on this host, or None if it can be used.
        """
        ...

    def misfit(self, spec: ClusterSpec, plan: FaultPlan | None = None) -> Lack | None:
        """Returns why this backend cannot give a run the cluster that `spec` describes, or None if the backend can give
        it.

        Two examples of reasons: the backend's brokers have other settings, or the backend cannot cut the links that
        `plan` cuts. A missing capability does not count here (see `lack`). A backend that is not breakable can do no
        action to brokers.
        """
        undone = [] if plan is None or isinstance(self, Breakable) else list(dict.fromkeys(actions_on_brokers(plan)))
        if not undone:
            return None
        why = f"the fault {plan.name if plan else ''} does {', '.join(undone)} to brokers"
        return Lack(f"{why}, and the backend {spec.backend} only observes them: choose another fault, or none")

    def versions(self) -> dict[str, str]:
        """Returns the versions that a run records beside `ClusterSpec.kafka_version`, e.g. the digest of an image."""
        return {}

    def describe(self, spec: ClusterSpec) -> str:
        """Describes, in words, the cluster that a run with `spec` gets."""
        ...

    def attach(self, workspace: Path) -> ObservedCluster:
        """Returns the cluster of the run whose workspace is `workspace`. The backend of an owned cluster raises
        ClusterGone if the workspace is gone."""
        ...


@runtime_checkable
class Owned(Observed, Protocol):
    """A way to start clusters on this host."""

    def start(self, request: StartRequest) -> OwnedCluster:
        """Starts a cluster, and returns it once the cluster's keeper answers. Some brokers may still be booting then.

        Raises RuntimeError with the reason if the keeper ends before it answers.
        """
        ...

    def is_mounted(self, workspace: Path) -> bool:
        """Returns whether the host still uses a workspace (the folder of one cluster), e.g. because a disk is mounted
        there.

        If so, the caller must call `release` before it removes the folder.
        """
        return False

    def release(self, workspace: Path) -> None:
        """Makes the host stop using a workspace (the folder of one cluster), e.g. unmounts the disks there. The data
        stay.

        Raises DeadlinePassed if a process does not stop using the workspace in time.
        """
        return

    def leftovers(self) -> list[str]:
        """Returns the names of things that killed processes have left on this host outside workspaces, e.g. filter
        rules."""
        return []

    def sweep(self) -> list[str]:
        """Removes everything that `leftovers` names. Returns what was removed, in words."""
        return []


@runtime_checkable
class Breakable(Observed, Protocol):
    """A way to break the brokers of a cluster."""

    def means(self) -> tuple[str, ...]:
        """Returns the names of the means by which this backend breaks brokers (see `Act.means`), in the order of the
        alphabet."""
        ...


@runtime_checkable
class Shared(Observed, Protocol):
    """A way to clusters that others use, too. What a run creates there is written down before, and only that is
    removed."""

    def prepare(self, request: StartRequest) -> None:
        """Prepares a run: removes what dead runs of this home left on the cluster, and makes `attach` work in the
        workspace.

        Raises ClusterTaken if another run is there, and StepFailed if what a dead run left cannot be removed.
        """
        ...

    def create_topics(self, scenario: Scenario, workspace: Path) -> None:
        """Creates the topics of a run, and writes down which they are. Raises ClusterTaken if another run came to the
        cluster meanwhile, and KafkaException if a topic cannot be created."""
        ...

    def require_unchanged(self, scenario: Scenario, workspace: Path) -> None:
        """Raises StepFailed if a topic of the run is not the one that the run created, or has other settings or
        replicas than the run gave it."""
        ...

    def remove(self, token: str) -> list[str]:
        """Removes from the cluster what the run with this token created, and returns the names. Raises StepFailed if
        something is left; it stays written down."""
        ...

    def dead_runs(self) -> list[str]:
        """Returns the tokens of the runs of this home that have ended, and whose topics or groups are not known to be
        removed."""
        ...


def actions_on_brokers(plan: FaultPlan) -> list[str]:
    """Returns the actions of `plan` that are done to brokers by some means, in their order."""
    return [step.action for step in plan.steps if step.act.means]
