"""The packet filter: rules that cut brokers off, in a chain of their own for every process that sets any.

The filter recognises a broker's packets by the group of its process: brokers on one host share their address, and
connections from a broker have no port of their own. All reading and writing goes through iptables. Every reading asks
the kernel.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from typing import NamedTuple

from delivery_verifier.host.processes import ProcessId, identify, myself
from delivery_verifier.model.errors import VerifierError

PREFIX = "kdv"
GROUPS = 22_000
"""The group of broker 1 is 22001, and so on. No such group need exist on the host."""


class FilterError(VerifierError, RuntimeError):
    """The packet filter could not be read or changed; the message has the tool's own words."""


class FilterRule(NamedTuple):
    """Packets that are dropped: `match` in iptables' words, `name` under which they are counted."""

    name: str
    match: str

    def __str__(self) -> str:
        return f"-p tcp {self.match} -m comment --comment {self.name} -j DROP"


class Chain(NamedTuple):
    """A chain of rules. Its `name` has the label of the run, and the pid and start of the process that set it, so that
    a chain whose process has ended can be recognised."""

    name: str

    @classmethod
    def own(cls, label: str) -> Chain:
        """The chain of this process, for a run's token or another label of up to eight characters."""
        me = myself()
        return cls(f"{PREFIX}-{label}-{me.pid:x}-{_short(me):x}")

    @property
    def alive(self) -> bool:
        """Whether the process that set the chain still runs."""
        pid, started = (int(part, 16) for part in self.name.rsplit("-", 2)[1:])
        process = identify(pid)
        return process is not None and process.alive and _short(process) == started

    def add(self, rules: Iterable[FilterRule]) -> None:
        """Sets all of `rules` in one transaction of the kernel. Raises FilterError."""
        table = _save()
        if f":{self.name} " not in table:
            _call("iptables", "-w", "-N", self.name)
        jump = [] if self._jump in table else [f"-I OUTPUT 1 -o lo -p tcp -j {self.name}"]
        commands = "\n".join(["*filter", *(f"-A {self.name} {rule}" for rule in rules), *jump, "COMMIT", ""])
        _call("iptables-restore", "-w", "--noflush", stdin=commands)

    def remove(self, rules: Iterable[FilterRule]) -> None:
        """Removes each of `rules` once. A rule that is not there is no error."""
        for rule in rules:
            _run("iptables", "-w", "-D", self.name, *str(rule).split())

    def dropped(self) -> list[tuple[str, int]]:
        """The name of every rule that the kernel has now, and the packets that it dropped. Empty if no rule of OUTPUT
        leads to the chain."""
        table = _save()
        if self._jump not in table:
            return []
        line = re.compile(rf'^\[(\d+):\d+\] -A {self.name} .*--comment "?([\w.]+)"?.* -j DROP$', re.MULTILINE)
        return [(name, int(packets)) for packets, name in line.findall(table)]

    def destroy(self) -> None:
        """Removes the chain with all its rules; harmless if there is no such chain."""
        while _run("iptables", "-w", "-D", "OUTPUT", "-o", "lo", "-p", "tcp", "-j", self.name).returncode == 0:
            continue
        for option in ("-F", "-X"):
            _run("iptables", "-w", option, self.name)

    @property
    def _jump(self) -> str:
        return f" -A OUTPUT -o lo -p tcp -j {self.name}\n"


def abandoned() -> list[Chain]:
    """Chains whose process has ended. Empty where the packet filter cannot be read."""
    try:
        table = _save()
    except FilterError:
        return []
    names = re.findall(rf"^:({PREFIX}-\w+-[0-9a-f]+-[0-9a-f]+) ", table, re.MULTILINE)
    return [chain for chain in map(Chain, names) if not chain.alive]


def sweep() -> list[str]:
    """Removes what dead processes left in the packet filter. Returns the chains' names."""
    chains = abandoned()
    for chain in chains:
        chain.destroy()
    return [chain.name for chain in chains]


def _short(process: ProcessId) -> int:
    """The low 32 bits of the start time: a chain's name has at most 28 characters."""
    return process.started & 0xFFFF_FFFF


def _save() -> str:
    return _call("iptables-save", "-c", "-t", "filter")


def _call(*command: str, stdin: str | None = None) -> str:
    done = _run(*command, stdin=stdin)
    if done.returncode:
        raise FilterError(f"{command[0]}: {done.stderr.strip() or f'exit code {done.returncode}'}")
    return done.stdout


def _run(*command: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise FilterError(f"{command[0]}: {error}") from None
