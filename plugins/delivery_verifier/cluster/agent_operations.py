"""The operations of a cluster agent, and the cluster agent's report on the state of its cluster.

A cluster agent is a process that outlives the steps of a run, and ends the run's cluster.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

from msgspec import Struct

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
    """A cluster agent's report on its cluster.

    * `nodes`: the state of every broker and controller, by node id.
    * `pid`: the pid of the cluster agent.
    * `proxy`: the pid of the proxy. None if the cluster has no proxy.
    """

    nodes: dict[int, NodeStatus]
    pid: int = 0
    proxy: int | None = None


class AgentOperations(Protocol):
    """The operations that a cluster agent carries out on request. The cluster agent is the process in charge of a
    cluster. They are the same for every backend.

    If the cluster agent refuses an operation, the method raises RuntimeError with the reason. Parameters name nodes by
    their ids. Wall times are in µs.
    """

    def renew(self) -> None:
        """Extends the lease by `lease.LEASE_S` seconds from now. When the lease ends, the cluster agent ends the
        cluster."""
        ...

    def status(self) -> ClusterStatus:
        """Returns the state of every node."""
        ...

    def apply(self, means: str, nodes: list[int], options: dict[str, Any] | None = None) -> int:
        """Breaks the brokers `nodes` by the means of this name (see `cluster.means`). Returns the wall time just before
        the first of them could be affected. Refused if the cluster was started without this capability."""
        ...

    def undo(self, means: str, nodes: list[int]) -> None:
        """Ends what `apply` did to the brokers `nodes`. Does nothing to the others."""
        ...

    def is_in_force(
        self, means: str, nodes: list[int], options: dict[str, Any] | None = None
    ) -> dict[int, dict[str, Any]]:
        """Returns what shows now that the means is in force, by broker. Leaves out a broker on which nothing shows
        it."""
        ...

    def watch(self, topics: list[str]) -> None:
        """Makes the observer (`cluster.observer`) poll `topics`. The observer then polls no other topic. With an empty
        list, it polls nothing.

        A topic need not exist yet.
        """
        ...

    def adopt(self, pid: int) -> None:
        """Makes the cluster agent kill process `pid` when the cluster ends. So process `pid` does not outlive the
        run."""
        ...

    def finish(self, keep_workspace: bool = False) -> None:
        """Asks the cluster agent to end the cluster. Returns before the cluster has ended. If `keep_workspace` is
        false, the cluster agent then removes the workspace."""
        ...


OPERATIONS = tuple(name for name in vars(AgentOperations) if not name.startswith("_"))
"""The names of all operations of a cluster agent. A cluster agent refuses requests with any other name."""
