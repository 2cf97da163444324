"""The keeper: parent of the brokers and holder of the heal list, so that nothing outlives a run that was cut short.

It ends, killing what is alive and removing the workspace, when it is told to, when its lease runs out, when the
process that owns the run is gone, or when the run's deadline passes. If it is killed itself, the kernel kills its
children. Protocol: one JSON object per line on a Unix socket in the workspace (see `lease.call`).
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from delivery_verifier.cluster import lease
from delivery_verifier.cluster.embedded import disks
from delivery_verifier.cluster.embedded import nodes as embedded
from delivery_verifier.cluster.embedded.disks import Disk
from delivery_verifier.cluster.embedded.isolation import Isolation
from delivery_verifier.cluster.embedded.packet_filter import GROUPS
from delivery_verifier.cluster.layout import CONTROLLER, ClusterLayout
from delivery_verifier.cluster.observer import Observer
from delivery_verifier.host.processes import ProcessId, dies_with_parent, how_it_ended, identify, is_frozen
from delivery_verifier.model.step_options import Link

TICK_S = 0.05
OPERATIONS = (
    "renew",
    "start",
    "send",
    "status",
    "watch",
    "adopt",
    "isolate",
    "rejoin",
    "cut_off",
    "power_off",
    "finish",
)


class Keeper:
    """Owns one embedded cluster. Single-threaded but for the observer, which only looks."""

    def __init__(
        self, workspace: Path, layout: ClusterLayout, deadline_s: float, owner: ProcessId | None, lease_s: float
    ) -> None:
        self.workspace, self.layout, self.owner, self.lease_s = workspace, layout, owner, lease_s
        self.nodes: dict[int, subprocess.Popen[bytes]] = {}
        self.proxy: subprocess.Popen[bytes] | None = None
        self.expected_exits: set[int] = set()
        self.guests: list[ProcessId] = []
        self.ends_at = time.monotonic() + deadline_s
        self.lease_ends_at = time.monotonic() + self.lease_s
        self.end: str | None = None
        self.keep_workspace = False
        self.isolation = Isolation(layout, workspace.name[:8])
        self.observer = Observer(layout, workspace / "observations.jsonl")

    # ---- operations: each takes and returns JSON values ----

    def renew(self) -> dict[str, Any]:
        """Extends the lease."""
        self.lease_ends_at = time.monotonic() + self.lease_s
        return {}

    def start(self, node: int) -> dict[str, Any]:
        """Starts a node that does not run."""
        running = self.nodes.get(node)
        if running is not None and running.poll() is None:
            raise ValueError(f"broker {node} is already running")
        if node in self.layout.brokers and "power" in self.layout.spec.equipment:
            Disk.of(self.workspace, node).remount()
        log = (self.workspace / f"logs/{node}.log").open("ab")
        self.nodes[node] = subprocess.Popen(
            embedded.command(self.layout, node),
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=dies_with_parent(),
            group=self._group(node),
        )
        log.close()
        self.observer.process(node, "running")
        return {"pid": self.nodes[node].pid}

    def start_proxy(self) -> None:
        """Starts the proxy before the brokers."""
        with (self.workspace / "logs/proxy.log").open("ab") as log:
            self.proxy = subprocess.Popen(
                [sys.executable, "-m", "delivery_verifier.cluster.proxy.server", str(self.workspace / "keeper.json")],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=dies_with_parent(),
            )

    def _group(self, node: int) -> int | None:
        """The group by which the packet filter tells a broker's connections from others'."""
        told_apart = node in self.layout.brokers and "network" in self.layout.spec.equipment
        return GROUPS + node if told_apart else None

    def send(self, node: int, signal_name: str) -> dict[str, Any]:
        """Signals a node: SIGKILL, SIGTERM, SIGSTOP, SIGCONT. Returns the wall time (µs) just before."""
        process = self.nodes[node]
        if process.poll() is not None:
            raise ValueError(f"broker {node} is not running")
        at_us = time.time_ns() // 1000
        os.kill(process.pid, signal.Signals[signal_name])
        return {"at_us": at_us, "pid": process.pid}

    def status(self) -> dict[str, Any]:
        """State of every node: running, frozen, or exited with its code."""
        nodes = {}
        for node, process in self.nodes.items():
            code = process.poll()
            state = "exited" if code is not None else "frozen" if is_frozen(process.pid) else "running"
            nodes[str(node)] = {"state": state, "exit_code": code, "pid": process.pid}
        proxy = self.proxy.pid if self.proxy is not None else None
        return {"nodes": nodes, "pid": os.getpid(), "proxy": proxy}

    def isolate(self, nodes: list[int], links: list[Link]) -> dict[str, Any]:
        """Cuts brokers off. Returns the wall time (µs) just before."""
        at_us = time.time_ns() // 1000
        for node in nodes:
            self.isolation.cut(node, links)
        return {"at_us": at_us}

    def rejoin(self, nodes: list[int]) -> dict[str, Any]:
        """Lets brokers' packets through again; harmless for those that are not cut off."""
        for node in nodes:
            self.isolation.mend(node)
        return {}

    def cut_off(self) -> dict[str, Any]:
        """Packets dropped per broker that is cut off, and link."""
        return {"nodes": {str(node): links for node, links in self.isolation.dropped().items()}}

    def power_off(self, nodes: list[int]) -> dict[str, Any]:
        """Ends brokers and the power of their disks. Returns the wall time (µs) just before."""
        at_us = min(self.send(node, "SIGKILL")["at_us"] for node in nodes)
        for node in nodes:
            Disk.of(self.workspace, node).cut_power()
        return {"at_us": at_us}

    def watch(self, topics: list[str]) -> dict[str, Any]:
        """Tells the observer which topics to look at."""
        self.observer.watch(topics)
        return {}

    def adopt(self, pid: int) -> dict[str, Any]:
        """Registers a process of the run that must not outlive it."""
        if (found := identify(pid)) is not None:
            self.guests.append(found)
        return {}

    def finish(self, keep_workspace: bool = False) -> dict[str, Any]:
        """Ends the cluster."""
        self.end, self.keep_workspace = "finished", keep_workspace
        return {"pid": os.getpid()}

    # ---- life ----

    def run(self, listener: socket.socket) -> None:
        """Serves until the end, whatever its reason, and then cleans up."""
        selector = selectors.DefaultSelector()
        selector.register(listener, selectors.EVENT_READ)
        self.observer.start()
        try:
            while self.end is None:
                for _ in selector.select(TICK_S):
                    self._serve(listener)
                self._look()
        finally:
            self.clean_up()

    def _serve(self, listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(5)
            try:
                with connection.makefile("r") as stream:
                    request = json.loads(stream.readline())
                operation = request.pop("operation")
                if operation not in OPERATIONS:
                    raise ValueError(f"unknown operation {operation!r}")
                answer = getattr(self, operation)(**request)
            except (OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            try:
                connection.sendall(json.dumps(answer).encode() + b"\n")
            except OSError:
                print("keeper: the caller hung up before the answer", flush=True)

    def _look(self) -> None:
        for node, process in self.nodes.items():
            code = process.poll()
            if code is not None:
                self.observer.process(node, "exited", code)
            else:
                self.observer.process(node, "frozen" if is_frozen(process.pid) else "running")
        now = time.monotonic()
        if self.proxy is not None and (code := self.proxy.poll()) is not None:
            self.end = f"the proxy ended with {how_it_ended(code)}, by no plan"
        elif self.owner is not None and not self.owner.alive:
            self.end = f"the process that owns the run (pid {self.owner.pid}) is gone"
        elif now > self.lease_ends_at:
            self.end = f"nobody renewed the lease for {self.lease_s:g} s"
        elif now > self.ends_at:
            self.end = "the run's deadline passed"

    def clean_up(self) -> None:
        """Kills everything of the run; SIGKILL works on frozen processes too."""
        print(f"keeper: {self.end or 'interrupted'}: cleaning up", flush=True)
        self.observer.stop()
        for guest in self.guests:
            guest.send(signal.SIGKILL)
        last, archive = self.nodes.get(max(self.layout.brokers)), embedded.archive(self.layout)
        if self.end == "finished" and last is not None and last.poll() is None and not archive.file.exists():
            os.kill(last.pid, signal.SIGCONT)
            os.kill(last.pid, signal.SIGTERM)
            try:
                last.wait(timeout=20)
                archive.keep()
            except subprocess.TimeoutExpired:
                print("keeper: no class data archive this time", flush=True)
        children = [*self.nodes.values(), *([self.proxy] if self.proxy is not None else [])]
        for process in children:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
        for process in children:
            process.wait()
        self.isolation.end()
        disks.release(self.workspace)
        if not self.keep_workspace:
            shutil.rmtree(self.workspace, ignore_errors=True)


def main() -> None:
    """`python -m delivery_verifier.cluster.embedded.keeper SPEC`: SPEC is a JSON file (see `start_cluster`)."""
    spec = json.loads(Path(sys.argv[1]).read_text())
    workspace = Path(spec["workspace"])
    layout = msgspec.convert(spec["layout"], ClusterLayout, strict=False)
    owner = ProcessId(**spec["owner"]) if spec.get("owner") else None
    handed_over = spec.get("lock_descriptor")
    host = lease.acquire_host(spec["run_id"]) if handed_over is None else os.fdopen(handed_over, "a+")
    lease.sign(host, f"run {spec['run_id']}, keeper pid {os.getpid()}")
    keeper = Keeper(workspace, layout, spec["deadline_s"], owner, spec.get("lease_s", lease.LEASE_S))

    def stop(number: int, _frame: object) -> None:
        keeper.end = f"signal {signal.Signals(number).name}"

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    with lease.listening(workspace / "keeper.sock") as listener:
        for node in (CONTROLLER, *layout.brokers):
            keeper.start(node)
        if layout.proxy_ports:
            keeper.start_proxy()
        keeper.run(listener)
    host.close()


if __name__ == "__main__":
    main()
