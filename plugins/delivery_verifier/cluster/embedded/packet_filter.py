"""The packet filter: rules that cut brokers off, in a chain of their own for every process that sets any.

A broker's packets are told from its clients' by its group: brokers on one host share their address, and connections
from a broker have no port of their own. Reading and writing go through iptables, the reading always through the kernel.
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
"""The group of broker 1 is 22001, and so on. They need not exist anywhere."""


class FilterError(VerifierError, RuntimeError):
    """The packet filter could not be read or changed; the message has the tool's own words."""


class FilterRule(NamedTuple):
    """Packets that are dropped: `match` in iptables' words, `name` under which they are counted."""

    name: str
    match: str

    def __str__(self) -> str:
        return f"-p tcp {self.match} -m comment --comment {self.name} -j DROP"


class Chain(NamedTuple):
    """A chain of rules; `name` tells of which run and process it is, so that it is known for dead once they are."""

    name: str

    @classmethod
    def own(cls, label: str) -> Chain:
        """The chain of this process, for a run's token or another label of up to eight characters."""
        me = myself()
        return cls(f"{PREFIX}-{label}-{me.pid:x}-{_short(me):x}")

    @property
    def alive(self) -> bool:
        """Whether the process that set it still runs."""
        pid, started = (int(part, 16) for part in self.name.rsplit("-", 2)[1:])
        found = identify(pid)
        return found is not None and found.alive and _short(found) == started

    def add(self, rules: Iterable[FilterRule]) -> None:
        """Sets all of `rules` at one stroke. Raises FilterError."""
        table = _save()
        if f":{self.name} " not in table:
            _call("iptables", "-w", "-N", self.name)
        jump = [] if self._jump in table else [f"-I OUTPUT 1 -o lo -p tcp -j {self.name}"]
        commands = "\n".join(["*filter", *(f"-A {self.name} {rule}" for rule in rules), *jump, "COMMIT", ""])
        _call("iptables-restore", "-w", "--noflush", given=commands)

    def remove(self, rules: Iterable[FilterRule]) -> None:
        """Takes each of `rules` away once; those that are not there any more are none the worse for it."""
        for rule in rules:
            _run("iptables", "-w", "-D", self.name, *str(rule).split())

    def dropped(self) -> list[tuple[str, int]]:
        """Name of every rule that the kernel has now, and the packets it dropped; none if nothing leads to the
        chain."""
        table = _save()
        if self._jump not in table:
            return []
        line = re.compile(rf'^\[(\d+):\d+\] -A {self.name} .*--comment "?([\w.]+)"?.* -j DROP$', re.MULTILINE)
        return [(name, int(packets)) for packets, name in line.findall(table)]

    def destroy(self) -> None:
        """Removes it with all its rules; harmless if it is not there."""
        while _run("iptables", "-w", "-D", "OUTPUT", "-o", "lo", "-p", "tcp", "-j", self.name).returncode == 0:
            continue
        for option in ("-F", "-X"):
            _run("iptables", "-w", option, self.name)

    @property
    def _jump(self) -> str:
        return f" -A OUTPUT -o lo -p tcp -j {self.name}\n"


def abandoned() -> list[Chain]:
    """Chains whose process has ended. None where there is no packet filter that could be read."""
    try:
        table = _save()
    except FilterError:
        return []
    names = re.findall(rf"^:({PREFIX}-\w+-[0-9a-f]+-[0-9a-f]+) ", table, re.MULTILINE)
    return [chain for chain in map(Chain, names) if not chain.alive]


def sweep() -> list[str]:
    """Removes what dead processes left in the packet filter. Returns the chains' names."""
    left = abandoned()
    for chain in left:
        chain.destroy()
    return [chain.name for chain in left]


def _short(process: ProcessId) -> int:
    """A chain's name has 28 characters at most."""
    return process.started & 0xFFFF_FFFF


def _save() -> str:
    return _call("iptables-save", "-c", "-t", "filter")


def _call(*command: str, given: str | None = None) -> str:
    done = _run(*command, given=given)
    if done.returncode:
        raise FilterError(f"{command[0]}: {done.stderr.strip() or f'exit code {done.returncode}'}")
    return done.stdout


def _run(*command: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, input=given, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise FilterError(f"{command[0]}: {error}") from None
