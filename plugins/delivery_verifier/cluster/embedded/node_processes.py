"""The processes of an embedded cluster, and the operations on these processes. This code runs in the cluster agent,
which is the parent process of all of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from delivery_verifier.cluster.agent_operations import ClusterStatus, NodeStatus, ProcessState
from delivery_verifier.cluster.embedded import nodes
from delivery_verifier.cluster.embedded.disks import Disk
from delivery_verifier.cluster.embedded.packet_filter import GROUPS
from delivery_verifier.cluster.layout import AGENT_SPEC, ClusterLayout
from delivery_verifier.cluster.observer import Observer
from delivery_verifier.host.java.class_archive import are_written, patience_s
from delivery_verifier.host.processes import dies_with_parent, how_it_ended, is_frozen
from delivery_verifier.model.act import Capability
from delivery_verifier.model.history import now_us

Process = subprocess.Popen[bytes]


class NodeProcesses:
    """The controller, the brokers and the proxy of one cluster. Reports every change of a process's state to
    `observer`.

    Only one thread at a time may use this object.
    """

    def __init__(self, workspace: Path, layout: ClusterLayout, observer: Observer) -> None:
        self.workspace, self.layout, self.observer = workspace, layout, observer
        self.processes: dict[int, Process] = {}
        self.proxy: Process | None = None

    def start(self, node: int) -> None:
        """Starts the process of a node. If the node's disk has no power, first switches the power on.

        Raises ValueError if the node already runs.
        """
        running = self.processes.get(node)
        if running is not None and running.poll() is None:
            raise ValueError(f"broker {node} is already running")
        if node in self.layout.brokers and self._has("power"):
            Disk.of_broker(self.workspace, node).remount()
        with (self.workspace / f"logs/{node}.log").open("ab") as log:
            self.processes[node] = subprocess.Popen(
                nodes.command(self.layout, node),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=dies_with_parent(),
                group=self._group(node),
            )
        self.observer.process(node, "running")

    def start_proxy(self) -> None:
        """Starts the process of the proxy between the producers under test and the brokers."""
        with (self.workspace / "logs/proxy.log").open("ab") as log:
            self.proxy = subprocess.Popen(
                [sys.executable, "-m", "delivery_verifier.cluster.proxy.server", str(self.workspace / AGENT_SPEC)],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=dies_with_parent(),
            )

    def _has(self, capability: Capability) -> bool:
        return capability in self.layout.spec.capabilities

    def _group(self, node: int) -> int | None:
        """Returns the group id (gid) for the process of a broker. The packet filter recognises the broker's packets by
        this gid.

        Returns None if `node` is the controller, or if the cluster lacks the capability `network`.
        """
        return GROUPS + node if node in self.layout.brokers and self._has("network") else None

    def send(self, node: int, signal_name: str) -> int:
        """Sends SIGKILL, SIGTERM, SIGSTOP or SIGCONT to a node. Returns the wall time (µs) just before the signal is
        sent.

        Raises ValueError if the node does not run.
        """
        process = self.processes[node]
        if process.poll() is not None:
            raise ValueError(f"broker {node} is not running")
        at_us = now_us()
        os.kill(process.pid, signal.Signals[signal_name])
        return at_us

    def status(self) -> ClusterStatus:
        """Returns the state of every node, and the pids of the cluster agent and the proxy."""
        statuses = {}
        for node, process in self.processes.items():
            state, exit_code = _state(process)
            statuses[node] = NodeStatus(state=state, exit_code=exit_code, pid=process.pid)
        proxy = self.proxy.pid if self.proxy is not None else None
        return ClusterStatus(nodes=statuses, pid=os.getpid(), proxy=proxy)

    def observe(self) -> None:
        """Reports the state of every node's process to the observer."""
        for node, process in self.processes.items():
            state, exit_code = _state(process)
            self.observer.process(node, state, exit_code)

    def proxy_ended(self) -> str:
        """Returns, in words, how the proxy ended. Returns an empty text if the proxy runs, or if the cluster has no
        proxy.

        No fault ends a proxy. So a run whose proxy has ended cannot go on.
        """
        exit_code = self.proxy.poll() if self.proxy is not None else None
        return "" if exit_code is None else how_it_ended(exit_code)

    def kill_all(self) -> None:
        """Kills all processes of the cluster, even frozen ones."""
        children = [*self.processes.values(), *([self.proxy] if self.proxy is not None else [])]
        for process in children:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
        for process in children:
            process.wait()

    def keep_class_archive(self) -> None:
        """Makes the class data archive of the brokers: a file of loaded classes that makes later clusters boot faster.

        A JVM writes the archive when the JVM exits. So this method sends SIGTERM to the broker with the highest id, and
        waits until this broker has ended. Does nothing if no archive is to be written (`class_archive.are_written`), if
        the archive exists already, or if this broker does not run.
        """
        last, archive = self.processes.get(max(self.layout.brokers)), nodes.archive(self.layout)
        if not are_written() or last is None or last.poll() is not None or archive.file.exists():
            return
        os.kill(last.pid, signal.SIGCONT)
        os.kill(last.pid, signal.SIGTERM)
        try:
            last.wait(timeout=patience_s(0))
            archive.keep()
        except (subprocess.TimeoutExpired, OSError) as error:
            print(f"cluster agent: no class data archive this time: {error}", flush=True)


def _state(process: Process) -> tuple[ProcessState, int | None]:
    exit_code = process.poll()
    if exit_code is not None:
        return "exited", exit_code
    return ("frozen" if is_frozen(process.pid) else "running"), None
