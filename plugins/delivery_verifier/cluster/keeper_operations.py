"""The operations of a keeper, and the keeper's report on the state of its cluster.

A keeper is a process that outlives the steps of a run, and ends the run's cluster.
"""

from __future__ import annotations

from typing import Literal, Protocol

from msgspec import Struct

from delivery_verifier.model.step_options import Link

ProcessState = Literal["running", "frozen", "exited"]


class NodeStatus(Struct, frozen=True, kw_only=True):
    """The state of the process of one node. A node is a broker or a controller.

    * `exit_code`: None while the process lives. If signal number N killed the process, the exit code is -N.
    * `pid`: 0 if the node is not a process of this host.
    """

    state: ProcessState
    exit_code: int | None = None
    pid: int = 0


class ClusterStatus(Struct, frozen=True, kw_only=True):
    """A keeper's report on its cluster.

    * `nodes`: the state of every broker and controller, by node id.
    * `pid`: the pid of the keeper.
    * `proxy`: the pid of the proxy. None if the cluster has no proxy.
    """

    nodes: dict[int, NodeStatus]
    pid: int = 0
    proxy: int | None = None


class KeeperOperations(Protocol):
    """The operations that a keeper carries out on request. The keeper is the process in charge of a cluster.

    If the keeper refuses an operation, the method raises RuntimeError with the reason. Parameters name nodes by their
    ids. Wall times are in µs.
    """

    def renew(self) -> None:
        """Extends the lease by `lease.LEASE_S` seconds from now. When the lease ends, the keeper ends the cluster."""
        ...

    def status(self) -> ClusterStatus:
        """Returns the state of every node."""
        ...

    def start(self, node: int) -> None:
        """Starts a node that does not run. If the node's disk has no power, first switches the power on."""
        ...

    def send(self, node: int, signal_name: str) -> int:
        """Sends SIGKILL, SIGTERM, SIGSTOP or SIGCONT to a node. Returns the wall time just before the signal is
        sent."""
        ...

    def isolate(self, nodes: list[int], links: list[Link]) -> int:
        """Drops packets between the brokers `nodes` and the peers that `links` names (see step_options.LINKS). Returns
        the wall time just before the first packet was dropped. Needs the capability `network`."""
        ...

    def rejoin(self, nodes: list[int]) -> None:
        """Lets the packets of the brokers `nodes` through again. Does nothing to a broker that is not isolated."""
        ...

    def cut_off(self) -> dict[int, dict[str, int]]:
        """Returns how many packets were dropped on each link that `isolate` cut: {broker id: {link: packets}}.

        Leaves out a link that lets some packets through again. The docker backend drops no packets, because it
        disconnects a broker from its network. Instead of packets, the docker backend counts how often it saw that the
        broker was disconnected.
        """
        ...

    def power_off(self, nodes: list[int]) -> int:
        """Kills the brokers `nodes` and cuts the power of their disks. Returns the wall time just before the first
        kill. Needs the capability `power`."""
        ...

    def watch(self, topics: list[str]) -> None:
        """Makes the observer (`cluster.observer`) poll `topics`. The observer then polls no other topic. With an empty
        list, it polls nothing.

        A topic need not exist yet.
        """
        ...

    def adopt(self, pid: int) -> None:
        """Makes the keeper kill process `pid` when the cluster ends. So process `pid` does not outlive the run."""
        ...

    def finish(self, keep_workspace: bool = False) -> None:
        """Asks the keeper to end the cluster. Returns before the cluster has ended. If `keep_workspace` is false, the
        keeper then removes the workspace."""
        ...


OPERATIONS = tuple(name for name in vars(KeeperOperations) if not name.startswith("_"))
"""The names of all operations of a keeper. A keeper refuses requests with any other name."""
