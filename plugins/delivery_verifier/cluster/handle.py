"""A handle on the running cluster: what steps and faults ask of it. Brokers are addressed by id."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from delivery_verifier.cluster import layout, lease, observer
from delivery_verifier.cluster.layout import PROXY_SOCKET
from delivery_verifier.cluster.protocol import requests as wire
from delivery_verifier.cluster.protocol.requests import PartitionState
from delivery_verifier.host.processes import how_it_ended, identify
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.errors import StepFailed, VerifierError
from delivery_verifier.store.run_directory import RunDirectory

UP_DEADLINE_S = 90.0


class ControllerDied(VerifierError, RuntimeError):
    """The controller ended: nobody elects leaders any more, so that nothing that is waited for will come."""


class Cluster:
    """The cluster of one run, reached through its keeper. Any process of the run may hold one."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.socket = workspace / "keeper.sock"
        spec_file = workspace / "keeper.json"
        if not spec_file.is_file():
            raise lease.ClusterGone(f"the workspace {workspace} is gone: this run's cluster has ended")
        self.layout = msgspec.convert(json.loads(spec_file.read_text())["layout"], layout.ClusterLayout, strict=False)

    @classmethod
    def of(cls, run: RunDirectory) -> Cluster:
        """The cluster of a run. Raises IncompleteRun if it was never started, ClusterGone if it has ended."""
        return cls(Path(run.manifest("start_cluster").notes["workspace"]))

    @property
    def bootstrap_servers(self) -> str:
        """Addresses for clients."""
        return self.layout.bootstrap_servers

    @property
    def load_bootstrap_servers(self) -> str:
        """Addresses for the producers under test: the proxy's, where there is one."""
        return self.layout.load_bootstrap_servers

    @property
    def brokers(self) -> list[int]:
        """Broker ids."""
        return self.layout.brokers

    def states(self) -> dict[int, str]:
        """running, frozen or exited, per broker. Raises ControllerDied."""
        nodes = lease.call(self.socket, "status")["nodes"]
        controller = nodes.get(str(layout.CONTROLLER))
        if controller and controller["state"] == "exited":
            code = int(controller["exit_code"])
            last = f": {self.last_log(layout.CONTROLLER)}" if code >= 0 else ""
            raise ControllerDied(f"the controller ended with {how_it_ended(code)}, by no plan{last}")
        return {broker: nodes[str(broker)]["state"] for broker in self.brokers}

    def send(self, broker: int, signal_name: str) -> int:
        """Signals a broker; returns the wall time (µs) just before."""
        return int(lease.call(self.socket, "send", node=broker, signal_name=signal_name)["at_us"])

    def start(self, broker: int) -> None:
        """Starts a broker that does not run."""
        lease.call(self.socket, "start", node=broker)

    def isolate(self, brokers: list[int], links: Sequence[str]) -> int:
        """Drops the packets of `brokers` on `links`; returns the wall time (µs) just before."""
        return int(lease.call(self.socket, "isolate", nodes=brokers, links=list(links))["at_us"])

    def rejoin(self, brokers: list[int]) -> None:
        """Lets the packets of `brokers` through again."""
        lease.call(self.socket, "rejoin", nodes=brokers)

    def cut_off(self) -> dict[int, dict[str, int]]:
        """Per isolated broker and link the packets that were dropped; without the links that are not wholly cut."""
        found = lease.call(self.socket, "cut_off")["nodes"]
        return {int(broker): links for broker, links in found.items()}

    def power_off(self, brokers: list[int]) -> int:
        """Kills `brokers` and cuts the power of their disks; returns the wall time (µs) just before."""
        return int(lease.call(self.socket, "power_off", nodes=brokers)["at_us"])

    def watch(self, topics: list[str]) -> None:
        """Makes the observer look at `topics`."""
        lease.call(self.socket, "watch", topics=topics)

    def adopt(self, pid: int) -> None:
        """Makes the keeper kill `pid` when the run ends."""
        lease.call(self.socket, "adopt", pid=pid)

    def proxy(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """One order to the proxy (see `cluster.proxy`). Raises ClusterGone, RuntimeError with what it refused."""
        return lease.call(self.workspace / PROXY_SOCKET, operation, whom="proxy", **arguments)

    @property
    def has_proxy(self) -> bool:
        """Whether the producers under test reach the brokers through a proxy."""
        return bool(self.layout.proxy_ports)

    def finish(self, keep_workspace: bool) -> None:
        """Ends the cluster and waits until its keeper is gone."""
        keeper = identify(int(lease.call(self.socket, "status")["pid"]))
        lease.call(self.socket, "finish", keep_workspace=keep_workspace)
        if keeper is not None:
            wait_until(lambda: not keeper.alive, f"the keeper (pid {keeper.pid}) to end", 40)

    def partitions(self, topics: list[str], via: int | None = None) -> dict[tuple[str, int], PartitionState]:
        """State of all partitions of `topics`: the newest that running brokers tell, or what `via` tells; {} if none
        does."""
        states, seen = self.states(), []
        for broker in [via] if via is not None else self.brokers:
            if states[broker] == "running":
                with suppress(OSError, IndexError):
                    seen.append(wire.describe_partitions(self.layout.client_ports[broker], topics))
        return observer.newest(seen)

    def running(self) -> list[int]:
        """The brokers that run."""
        return [broker for broker, state in self.states().items() if state == "running"]

    def assign_replicas(self, wanted: Mapping[tuple[str, int], Sequence[int]]) -> None:
        """Gives partitions the replicas `wanted`, the preferred leader first. Raises OSError where it is refused."""
        wire.assign_replicas(self.layout.client_ports[self.running()[0]], wanted)

    def alter_topics(self, topics: list[str], setting: str, value: str) -> None:
        """Sets `setting` of every topic to `value`, through a broker that runs. Raises OSError where it is refused."""
        wire.alter_topics(self.layout.client_ports[self.running()[0]], topics, setting, value)

    def topic_setting(self, topics: list[str], setting: str) -> dict[str, str]:
        """The value of `setting` per topic, as a broker that runs knows it. Raises OSError."""
        return wire.topic_setting(self.layout.client_ports[self.running()[0]], topics, setting)

    def wait_up(self, *brokers: int, deadline_s: float = UP_DEADLINE_S) -> None:
        """Waits until each of `brokers` serves metadata that shows all of them unfenced."""
        wanted = set(brokers or self.brokers)

        def up() -> bool:
            for broker, state in self.states().items():
                if broker in wanted and state == "exited":
                    raise StepFailed(f"broker {broker} ended while starting: {self.last_log(broker)}")
            if self.has_proxy and not (self.workspace / PROXY_SOCKET).exists():
                return False
            try:
                return all(wanted <= wire.live_brokers(self.layout.client_ports[broker]) for broker in wanted)
            except OSError:
                return False

        wait_until(up, f"brokers {sorted(wanted)} to be up", deadline_s)

    def isr_full(self, topics: list[str]) -> bool:
        """Whether every partition has a leader and all of its replicas in sync, in every running broker's eyes."""
        if any(state != "running" for state in self.states().values()):
            return False
        for broker in self.brokers:
            seen = self.partitions(topics, via=broker)
            if {topic for topic, _ in seen} != set(topics):
                return False
            if any(state.leader < 0 or set(state.isr) != set(state.replicas) for state in seen.values()):
                return False
        return True

    def out_of_sync(self, topics: list[str]) -> str:
        """What `isr_full` misses, for messages: brokers that do not run, and partitions whose ISR is not full."""
        found = [f"broker {broker} {state}" for broker, state in self.states().items() if state != "running"]
        found += [
            f"{topic}/{partition}: leader {state.leader}, ISR {list(state.isr)} of {list(state.replicas)}"
            for (topic, partition), state in self.partitions(topics).items()
            if state.leader < 0 or set(state.isr) != set(state.replicas)
        ]
        return f"({'; '.join(found[:6]) or 'the brokers do not agree yet'})"

    def last_log(self, node: int) -> str:
        """The last error lines of a node's log, for messages."""
        lines = (self.workspace / f"logs/{node}.log").read_text(errors="replace").splitlines()
        return " | ".join([line for line in lines if "ERROR" in line or "Exception" in line][-3:] or lines[-3:])
