"""The keeper: the parent process of the brokers. It makes sure that no process of a run outlives the run, even if the
run was killed.

The keeper ends the cluster for one of these reasons:

* The request `finish` has arrived.
* The lease has run out, because no request `renew` came in time.
* The process that owns the run is gone.
* The run's deadline has passed.
* The proxy has ended.
* The keeper has received SIGTERM or SIGINT.

The keeper then kills its children and the processes that it has adopted. It also removes the workspace, unless the
request `finish` asks to keep it. If the keeper itself is killed, the kernel kills the keeper's children.

The keeper takes requests on a Unix socket in the workspace, one JSON object per line (see `lease.call`). The operations
are those of `backend.KeeperOperations`.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from delivery_verifier.cluster import lease
from delivery_verifier.cluster.backend import OPERATIONS, KeeperOperations
from delivery_verifier.cluster.embedded import disks
from delivery_verifier.cluster.embedded.backend import KeeperSpec
from delivery_verifier.cluster.embedded.node_processes import NodeProcesses
from delivery_verifier.cluster.layout import CONTROLLER, KEEPER_SOCKET
from delivery_verifier.cluster.observer import OBSERVATIONS, Observer
from delivery_verifier.cluster.protocol.broker_requests import RepeatedRequests
from delivery_verifier.host import folders
from delivery_verifier.host.processes import ProcessId, identify

TICK_S = 0.05
"""Seconds between two checks of the processes. At each check, the keeper also looks for a reason to end the cluster."""


class Keeper(NodeProcesses):
    """Carries out the requests that reach the keeper of one embedded cluster, and ends the cluster. Only the main
    thread does so. The threads of the observer change nothing: they read the state of the cluster."""

    def __init__(self, spec: KeeperSpec) -> None:
        workspace, layout = Path(spec.workspace), spec.layout
        observer = Observer(RepeatedRequests(layout.connection), layout.brokers, workspace / OBSERVATIONS)
        super().__init__(workspace, layout, observer)
        self.owner, self.lease_s = spec.owner, spec.lease_s
        self.guests: list[ProcessId] = []
        self.ends_at_s = time.monotonic() + spec.deadline_s
        self.lease_ends_at_s = time.monotonic() + self.lease_s
        self.end_reason = ""
        self.keep_workspace = False

    def renew(self) -> None:
        """Extends the lease: without another call, the keeper ends the cluster after `lease_s` seconds."""
        self.lease_ends_at_s = time.monotonic() + self.lease_s

    def watch(self, topics: list[str]) -> None:
        """Makes the observer poll the partitions of `topics`, and of no other topic."""
        self.observer.watch(topics)

    def adopt(self, pid: int) -> None:
        """Makes the keeper kill process `pid` when the cluster ends, so that this process does not outlive the run.
        Does nothing if there is no such process."""
        if (process := identify(pid)) is not None:
            self.guests.append(process)

    def finish(self, keep_workspace: bool = False) -> None:
        """Asks the keeper to end the cluster. Returns before the cluster has ended. The keeper removes the workspace
        unless `keep_workspace` is true."""
        self.end_reason, self.keep_workspace = "finished", keep_workspace

    def run(self, listener: socket.socket) -> None:
        """Serves the requests that arrive at `listener` until there is a reason to end the cluster (see the docstring
        of this module). Then cleans up."""
        selector = selectors.DefaultSelector()
        selector.register(listener, selectors.EVENT_READ)
        self.observer.start()
        try:
            while not self.end_reason:
                for _ in selector.select(TICK_S):
                    lease.answer(listener, self._carry_out, "keeper")
                self.observe()
                # A signal handler may set `end_reason` at any moment. Its reason must not be replaced.
                if reason := self._reason_to_end():
                    self.end_reason = self.end_reason or reason
        finally:
            self.clean_up()

    def _carry_out(self, operation: str, arguments: Mapping[str, Any]) -> object:
        if operation not in OPERATIONS:
            raise ValueError(f"unknown operation {operation!r}")
        operations: KeeperOperations = self
        return getattr(operations, operation)(**arguments)

    def _reason_to_end(self) -> str:
        now_s = time.monotonic()
        if ended := self.proxy_ended():
            return f"the proxy ended with {ended}, by no plan"
        if self.owner is not None and not self.owner.alive:
            return f"the process that owns the run (pid {self.owner.pid}) is gone"
        if now_s > self.lease_ends_at_s:
            return f"nobody renewed the lease for {self.lease_s:g} s"
        if now_s > self.ends_at_s:
            return "the run's deadline passed"
        return ""

    def clean_up(self) -> None:
        """Kills the keeper's children and the adopted processes, removes the cluster's rules from the packet filter,
        and unmounts the brokers' disks. After the request `finish`, calls `keep_class_archive` while the brokers still
        run. Removes the workspace, unless `finish` asked to keep it."""
        print(f"keeper: {self.end_reason or 'interrupted'}: cleaning up", flush=True)
        self.observer.stop()
        for guest in self.guests:
            guest.send(signal.SIGKILL)
        if self.end_reason == "finished":
            self.keep_class_archive()
        self.kill_all()
        disks.release(self.workspace)
        if not self.keep_workspace:
            folders.remove_folder(self.workspace)


def main() -> None:
    """Runs a keeper: `python -m delivery_verifier.cluster.embedded.keeper SPEC`. SPEC is a JSON file with a
    KeeperSpec."""
    spec = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=KeeperSpec)
    inherited = spec.lock_descriptor
    host_lock = lease.acquire_host(spec.run_id) if inherited is None else os.fdopen(inherited, "a+")
    lease.hand_over(host_lock, Path(spec.workspace))
    keeper = Keeper(spec)

    def stop(number: int, _frame: object) -> None:
        keeper.end_reason = f"signal {signal.Signals(number).name}"

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    with lease.listening(Path(spec.workspace) / KEEPER_SOCKET) as listener:
        for node in (CONTROLLER, *spec.layout.brokers):
            keeper.start(node)
        if spec.layout.proxy_ports:
            keeper.start_proxy()
        keeper.run(listener)
    host_lock.close()


if __name__ == "__main__":
    main()
