"""A handle on the running cluster, whichever backend runs it. Methods identify a broker by its id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from delivery_verifier.cluster.backend import RunningCluster
from delivery_verifier.cluster.backends import backend_of
from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.cluster.keeper_operations import ClusterStatus
from delivery_verifier.cluster.protocol.requests import PartitionState
from delivery_verifier.cluster.views import View, newest
from delivery_verifier.host.java.class_archive import patience_s
from delivery_verifier.host.processes import how_it_ended, identify
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.errors import StepFailed, VerifierError
from delivery_verifier.model.step_options import Link
from delivery_verifier.store.run_directory import RunDirectory

UP_DEADLINE_S = 90.0
END_DEADLINE_S = 40.0


class ControllerDied(VerifierError, RuntimeError):
    """The controller process has ended. Without a controller, no leader can be elected."""


class Cluster:
    """The cluster of one run. Every process of the run may create its own `Cluster` object. `backend` is the running
    cluster that `Backend.start` or `Backend.attach` returned.

    Every method that sends a request to the keeper or to the proxy raises ClusterGone if the cluster has ended, and
    RuntimeError with the reason if the request is refused.
    """

    def __init__(self, backend: RunningCluster) -> None:
        self.backend = backend

    @classmethod
    def of_run(cls, run: RunDirectory) -> Cluster:
        """Returns the cluster of a run. Raises IncompleteRun if the run has not started a cluster. Raises ClusterGone
        if the cluster's folder is gone."""
        workspace = Path(run.manifest("start_cluster").notes["workspace"])
        return cls(backend_of(run.read_scenario().cluster).attach(workspace))

    @property
    def workspace(self) -> Path:
        """The folder that holds the cluster's data and logs, and the files that producers write while they run."""
        return self.backend.workspace

    @property
    def socket(self) -> Path:
        """The Unix socket at which the keeper (the process in charge of the cluster) takes requests."""
        return self.backend.socket

    @property
    def connection(self) -> Connection:
        """The addresses and security settings for the verifier's own clients. These clients never use the proxy."""
        return self.backend.connection

    @property
    def load_connection(self) -> Connection:
        """The addresses and security settings for the producers under test. If the cluster has a proxy, these are the
        addresses of the proxy."""
        return self.backend.load_connection

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of the brokers for the verifier's own clients, in the form host:port, separated by commas."""
        return self.connection.bootstrap_servers

    def address(self, broker: int) -> Address:
        """Returns the address of a broker. The requests of `cluster.protocol` connect to this address. Raises
        UnsupportedSecurity if the connection is not plain TCP."""
        return self.connection.address(broker)

    @property
    def brokers(self) -> list[int]:
        """The broker ids, in ascending order."""
        return self.backend.brokers

    def states(self) -> dict[int, str]:
        """Returns the state of every broker by broker id. A state is running, frozen or exited. Raises ControllerDied
        if a controller has exited."""
        status = self.backend.keeper.status()
        self._require_controllers(status)
        return {broker: status.nodes[broker].state for broker in self.brokers}

    def _require_controllers(self, status: ClusterStatus) -> None:
        for controller in self.backend.controllers:
            node = status.nodes.get(controller)
            if node is None or node.state != "exited":
                continue
            exit_code = node.exit_code if node.exit_code is not None else 0
            message = f"the controller exited unexpectedly with {how_it_ended(exit_code)}"
            if exit_code >= 0:  # a controller that was killed had no time to log a reason
                message += f": {self.last_log(controller)}"
            raise ControllerDied(message)

    def send(self, broker: int, signal_name: str) -> int:
        """Sends the signal `signal_name`, e.g. SIGKILL, to a broker. Returns the wall time just before, in µs."""
        return self.backend.keeper.send(broker, signal_name)

    def start(self, broker: int) -> None:
        """Starts a broker that does not run. If the broker's disk has no power, first switches the power on."""
        self.backend.keeper.start(broker)

    def isolate(self, brokers: list[int], links: Sequence[Link]) -> int:
        """Drops packets between `brokers` and the peers that `links` names (see step_options.LINKS). Returns the wall
        time (µs) just before the first packet was dropped."""
        return self.backend.keeper.isolate(brokers, list(links))

    def rejoin(self, brokers: list[int]) -> None:
        """Lets the packets of `brokers` through again. Does nothing to a broker that is not isolated."""
        self.backend.keeper.rejoin(brokers)

    def cut_off(self) -> dict[int, dict[str, int]]:
        """Returns how many packets were dropped on each cut link so far: {broker id: {link: packets}}. `isolate` cuts
        the links. Leaves out a link that lets some packets through again. The docker backend counts checks instead of
        packets (see `KeeperOperations.cut_off`)."""
        return self.backend.keeper.cut_off()

    def power_off(self, brokers: list[int]) -> int:
        """Kills `brokers` and cuts the power of their disks. Returns the wall time (µs) just before the first kill."""
        return self.backend.keeper.power_off(brokers)

    def is_off(self, broker: int) -> bool:
        """Returns whether the disk of a broker has no power."""
        return self.backend.is_off(broker)

    def sync(self, brokers: Sequence[int]) -> None:
        """Flushes the disks of `brokers`. A later power cut then loses nothing that was written before this call.
        Raises OSError if a disk cannot be flushed, and CapabilityMissing if the cluster lacks the capability `power`.
        """
        self.backend.sync(brokers)

    def watch(self, topics: list[str]) -> None:
        """Makes the observer (see `cluster.observer`) poll the partitions of `topics`. The observer then polls no other
        topic."""
        self.backend.keeper.watch(topics)

    def adopt(self, pid: int) -> None:
        """Makes the keeper kill process `pid` when the cluster ends, because `pid` must not outlive the run."""
        self.backend.keeper.adopt(pid)

    def proxy(self, operation: str, **arguments: Any) -> Any:
        """Sends one request to the proxy (see `cluster.proxy.server`), and returns the proxy's answer."""
        return self.backend.proxy(operation, **arguments)

    @property
    def has_proxy(self) -> bool:
        """Whether the producers under test reach the brokers through a proxy."""
        return "proxy" in self.backend.capabilities

    def finish(self, keep_workspace: bool) -> None:
        """Ends the cluster, and waits until the keeper has ended. If `keep_workspace` is false, removes the workspace.
        Raises DeadlinePassed after `patience_s(END_DEADLINE_S)` seconds."""
        keeper = identify(self.backend.keeper.status().pid)
        self.backend.keeper.finish(keep_workspace=keep_workspace)
        if keeper is not None:
            wait_until(lambda: not keeper.alive, f"the keeper (pid {keeper.pid}) to end", patience_s(END_DEADLINE_S))

    def release(self) -> None:
        """Removes what a killed keeper left on the host, e.g. mounts. The cluster's data and logs stay."""
        self.backend.release()

    def partitions(self, topics: list[str], via: int | None = None) -> dict[tuple[str, int], PartitionState]:
        """Returns the state of every partition of `topics`, by (topic, partition). With `via`, returns what the broker
        `via` reports. Without `via`, asks all running brokers, and `views.newest` chooses among their reports. The
        result is empty if no broker answers."""
        states, views = self.states(), dict[int, View]()
        for broker in [via] if via is not None else self.brokers:
            if states[broker] == "running":
                with suppress(OSError, IndexError):
                    views[broker] = self.backend.requests.describe_partitions(broker, topics)
        return newest(views)

    def running(self) -> list[int]:
        """Returns the ids of the brokers whose process runs. A frozen process does not count."""
        return [broker for broker, state in self.states().items() if state == "running"]

    def assign_replicas(self, replicas: Mapping[tuple[str, int], Sequence[int]]) -> None:
        """Assigns replicas to partitions. Raises OSError if the request is refused. `replicas` maps (topic, partition)
        to the ids of the brokers that get a replica. The preferred leader stands first."""
        self.backend.requests.assign_replicas(self.running()[0], replicas)

    def alter_topics(self, topics: list[str], setting: str, value: str) -> None:
        """Sets `setting` of every topic to `value`. Sends the request to a running broker. Raises OSError if the
        request is refused."""
        self.backend.requests.alter_topics(self.running()[0], topics, setting, value)

    def topic_setting(self, topics: list[str], setting: str) -> dict[str, str]:
        """Returns the value of `setting` by topic, as one running broker reports it. Raises OSError if this broker does
        not answer."""
        return self.backend.requests.topic_setting(self.running()[0], topics, setting)

    def wait_up(self, *brokers: int, deadline_s: float = UP_DEADLINE_S) -> None:
        """Waits until `brokers` (default: all brokers) are up. If the cluster has a proxy, also waits until the proxy
        takes requests. A broker is up once this broker itself reports that all of `brokers` are unfenced. Raises
        StepFailed if one of `brokers` exits, ControllerDied if the controller exits, and DeadlinePassed after
        `deadline_s` seconds."""
        expected = set(brokers or self.brokers)

        def up() -> bool:
            for broker, state in self.states().items():
                if broker in expected and state == "exited":
                    raise StepFailed(f"broker {broker} ended while starting: {self.last_log(broker)}")
            if not self.backend.proxy_listens():
                return False
            try:
                return all(expected <= self.backend.requests.live_brokers(broker) for broker in expected)
            except OSError:
                return False

        wait_until(up, f"brokers {sorted(expected)} to be up", deadline_s)

    def isr_full(self, topics: list[str]) -> bool:
        """Returns whether every partition of `topics` has a leader and all of its replicas in sync. Returns True only
        if every broker runs, and every broker itself reports this state."""
        if any(state != "running" for state in self.states().values()):
            return False
        for broker in self.brokers:
            view = self.partitions(topics, via=broker)
            if {topic for topic, _ in view} != set(topics):
                return False
            if any(not _is_full(state) for state in view.values()):
                return False
        return True

    def out_of_sync(self, topics: list[str]) -> str:
        """Returns why `isr_full` is False, as a text for a message. The text names brokers that do not run, and
        partitions that have no leader or whose ISR is not full."""
        reasons = [f"broker {broker} {state}" for broker, state in self.states().items() if state != "running"]
        reasons += [
            f"{topic}/{partition}: leader {state.leader}, ISR {list(state.isr)} of {list(state.replicas)}"
            for (topic, partition), state in self.partitions(topics).items()
            if not _is_full(state)
        ]
        return f"({'; '.join(reasons[:6]) or 'the brokers do not agree yet'})"

    def last_log(self, node: int) -> str:
        """Returns the last error lines of a node's log, for error messages."""
        return self.backend.last_log(node)


def _is_full(state: PartitionState) -> bool:
    return state.leader >= 0 and set(state.isr) == set(state.replicas)
