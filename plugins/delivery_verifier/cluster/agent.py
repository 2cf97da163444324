"""What every cluster agent does, whichever backend runs the cluster.

A cluster agent is a process that outlives the steps of a run. The cluster agent makes sure that nothing of the run
outlives the run, even if the run was killed.

The cluster agent ends the cluster for one of these reasons:

* The request `finish` has arrived.
* The lease has run out, because no request `renew` came in time.
* The process that owns the run is gone.
* The run's deadline has passed.
* The cluster cannot go on (see `Agent.failure`).
* The cluster agent has received SIGTERM or SIGINT.

The cluster agent takes requests on a Unix socket in the workspace, one JSON object per line (see `lease.call`). There
is one request for each method of `agent_operations.AgentOperations`.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from delivery_verifier.cluster import lease
from delivery_verifier.cluster import means as means_of
from delivery_verifier.cluster.agent_operations import OPERATIONS
from delivery_verifier.cluster.backend import CapabilityMissing
from delivery_verifier.cluster.layout import AGENT_SOCKET, AGENT_SPEC
from delivery_verifier.cluster.observer import Observer
from delivery_verifier.host import folders
from delivery_verifier.host.processes import ProcessId, identify
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.act import CAPABILITIES, Capability
from delivery_verifier.model.errors import StepFailed

ANSWER_DEADLINE_S = 60.0


class AgentSpec(Struct, frozen=True, kw_only=True):
    """The inputs of a cluster agent. The file `agent.json` in the workspace, the folder of the cluster, holds these
    inputs. A backend's own class adds the layout of its clusters.

    * `run_id`, `workspace`, `deadline_s`, `owner`: the values of the `StartRequest`.
    * `lock_descriptor`: the descriptor of an open file that holds the host's lock. None: the cluster agent takes the
      lock itself.
    * `lease_s`: the number of seconds that the cluster lives after the last renewal of its lease.
    """

    run_id: str
    workspace: str
    deadline_s: float
    owner: ProcessId | None = None
    lock_descriptor: int | None = None
    lease_s: float = lease.LEASE_S


class Agent:
    """Carries out the requests that reach a cluster agent, and ends the cluster.

    Only the main thread changes the cluster. The observer's threads only read the state of the cluster. The cluster
    agent class of a backend adds the methods `status`, `begin`, `observe`, `failure` and `end_cluster`, and names the
    package whose folder `means` has the means of faults.
    """

    package = ""
    """The package of the backend, if its brokers can be broken."""
    capabilities: tuple[Capability, ...] = ()
    """What the cluster was started with."""
    tick_s = 0.05
    """Seconds between two checks of the nodes. At each check, the cluster agent also looks for a reason to end the
    cluster."""

    def __init__(self, spec: AgentSpec, observer: Observer) -> None:
        self.workspace, self.observer = Path(spec.workspace), observer
        self.owner, self.lease_s = spec.owner, spec.lease_s
        self.guests: list[ProcessId] = []
        self.ends_at_s = time.monotonic() + spec.deadline_s
        self.lease_ends_at_s = time.monotonic() + self.lease_s
        self.end_reason = ""
        self.keep_workspace = False
        self._used: dict[str, means_of.Means] = {}

    def begin(self) -> None:
        """Starts the cluster."""
        raise NotImplementedError

    def observe(self) -> None:
        """Reports the state of every node to the observer."""
        raise NotImplementedError

    def failure(self) -> str:
        """Returns why the cluster cannot go on. Returns an empty text if the cluster can go on."""
        raise NotImplementedError

    def end_cluster(self) -> None:
        """Ends the cluster, and heals what the run has damaged outside the workspace, e.g. removes filter rules."""
        raise NotImplementedError

    def renew(self) -> None:
        """Extends the lease by `lease_s` seconds from now. When the lease ends, the cluster agent ends the cluster."""
        self.lease_ends_at_s = time.monotonic() + self.lease_s

    def watch(self, topics: list[str]) -> None:
        """Makes the observer poll the partitions of `topics`. The observer then polls no other topic."""
        self.observer.watch(topics)

    def adopt(self, pid: int) -> None:
        """Makes the cluster agent kill process `pid` when the cluster ends. So process `pid` does not outlive the run.

        If process `pid` leads a process group, the cluster agent kills the whole group. Does nothing if there is no
        such process.
        """
        if (process := identify(pid)) is not None:
            self.guests.append(process)

    def finish(self, keep_workspace: bool = False) -> None:
        """Asks the cluster agent to end the cluster. Returns before the cluster has ended.

        If `keep_workspace` is false, the cluster agent then removes the workspace.
        """
        self.end_reason, self.keep_workspace = "finished", keep_workspace

    def apply(self, means: str, nodes: list[int], options: dict[str, Any] | None = None) -> int:
        """Breaks the brokers `nodes` by a means. Returns the wall time (µs) just before.

        Raises CapabilityMissing if the cluster was started without it, and ValueError if there is no such means or it
        cannot do this.
        """
        return self._means(means).apply(nodes, options or {})

    def undo(self, means: str, nodes: list[int]) -> None:
        """Ends what `apply` did to the brokers `nodes`."""
        self._means(means).undo(nodes)

    def is_in_force(
        self, means: str, nodes: list[int], options: dict[str, Any] | None = None
    ) -> dict[int, dict[str, Any]]:
        """Returns what shows now that a means is in force, by broker."""
        return self._means(means).is_in_force(nodes, options or {})

    def _means(self, name: str) -> means_of.Means:
        if not self.package:
            raise ValueError(f"this run only observes its cluster: it has no means {name}")
        missing = [capability for capability in CAPABILITIES if capability == name not in self.capabilities]
        if missing:
            raise CapabilityMissing(missing[0])
        if name not in self._used:
            self._used[name] = means_of.module(self.package, name).BrokerMeans(self)
        return self._used[name]

    def run(self, listener: socket.socket) -> None:
        """Serves the requests that arrive at `listener` until there is a reason to end the cluster, e.g. the request
        `finish` or the end of the lease. Then cleans up."""
        selector = selectors.DefaultSelector()
        selector.register(listener, selectors.EVENT_READ)
        self.observer.start()
        try:
            while not self.end_reason:
                for _ in selector.select(self.tick_s):
                    lease.answer(listener, self._carry_out, "agent")
                self.observe()
                # A signal handler may set `end_reason` at any moment. Its reason must not be replaced.
                if reason := self._reason_to_end():
                    self.end_reason = self.end_reason or reason
        finally:
            self.clean_up()

    def _carry_out(self, operation: str, arguments: Mapping[str, Any]) -> object:
        if operation not in OPERATIONS:
            raise ValueError(f"unknown operation {operation!r}")
        return getattr(self, operation)(**arguments)

    def _reason_to_end(self) -> str:
        """Returns why the cluster has to end now. Returns an empty text if the cluster goes on."""
        now_s = time.monotonic()
        if failure := self.failure():
            return failure
        if self.owner is not None and not self.owner.alive:
            return f"the process that owns the run (pid {self.owner.pid}) is gone"
        if now_s > self.lease_ends_at_s:
            return f"nobody renewed the lease for {self.lease_s:g} s"
        if now_s > self.ends_at_s:
            return "the run's deadline passed"
        return ""

    def clean_up(self) -> None:
        """Kills the adopted processes, ends the cluster, and ends the means that were used. Then removes the workspace,
        except if `finish` asked to keep it."""
        print(f"cluster agent: {self.end_reason or 'interrupted'}: cleaning up", flush=True)
        self.observer.stop()
        for guest in self.guests:
            guest.kill()
        try:
            self.end_cluster()
        finally:
            for means in self._used.values():
                means.end()
        if not self.keep_workspace:
            folders.remove_folder(self.workspace)


def start_agent(module: str, spec: AgentSpec) -> None:
    """Writes `spec` into a file, starts the cluster agent as `python -m <module> <file>`, and waits until the cluster
    agent takes requests.

    If the cluster agent ends earlier, raises StepFailed with the last line of the cluster agent's log. Raises
    DeadlinePassed after `ANSWER_DEADLINE_S` seconds.
    """
    workspace = Path(spec.workspace)
    spec_file, log = workspace / AGENT_SPEC, workspace / "agent.log"
    spec_file.write_bytes(msgspec.json.encode(spec))
    with log.open("wb") as out:
        agent = subprocess.Popen(
            [sys.executable, "-m", module, str(spec_file)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            pass_fds=() if spec.lock_descriptor is None else (spec.lock_descriptor,),
        )

    def answers() -> bool:
        if agent.poll() is not None:
            lines = log.read_text(errors="replace").strip().splitlines()
            raise StepFailed(f"the cluster agent ended with exit code {agent.returncode}: {lines[-1] if lines else ''}")
        return (workspace / AGENT_SOCKET).exists()

    wait_until(answers, "the cluster agent to answer", ANSWER_DEADLINE_S)


def keep(spec: AgentSpec, new_agent: Callable[[], Agent]) -> None:
    """Runs the cluster agent that `new_agent` returns, in this process, until the cluster has ended.

    Inherits or takes the host's lock before the call of `new_agent`, and holds the lock until the end.
    """
    inherited = spec.lock_descriptor
    host_lock = lease.acquire_host(spec.run_id) if inherited is None else os.fdopen(inherited, "a+")
    lease.hand_over(host_lock, Path(spec.workspace))
    agent = new_agent()

    def stop(number: int, _frame: object) -> None:
        agent.end_reason = f"signal {signal.Signals(number).name}"

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    with lease.listening(Path(spec.workspace) / AGENT_SOCKET) as listener:
        agent.begin()
        agent.run(listener)
    host_lock.close()
