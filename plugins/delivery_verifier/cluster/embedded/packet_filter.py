"""The packet filter: rules of iptables that cut brokers off.

Every process that adds rules has a chain of its own, so that the rules of a killed process can be recognised and
removed. A rule recognises the packets that a broker sends by the group id of the broker's process. Address and port are
not enough: all brokers on a host have the same address, and a connection that a broker opens has no fixed port.

This module reads and changes the packet filter only with iptables, and caches nothing.
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
"""The brokers' group ids start after this number: broker 1 has the group id 22001, broker 2 has 22002, and so on. These
groups need not exist on the host."""


class FilterError(VerifierError, RuntimeError):
    """The packet filter could not be read or changed. The message contains the error message of the tool."""


class FilterRule(NamedTuple):
    """A rule that drops packets. `match` selects the packets, in the syntax of iptables. The dropped packets are
    counted under `name`."""

    name: str
    match: str

    def __str__(self) -> str:
        return f"-p tcp {self.match} -m comment --comment {self.name} -j DROP"


class Chain(NamedTuple):
    """A chain of rules in iptables.

    `name` contains a label, and the pid and start time of the process that made the chain. The pid and the start time
    show whether that process still runs.
    """

    name: str

    @classmethod
    def own(cls, label: str) -> Chain:
        """Returns the chain of this process. `label` is a text of up to eight characters, e.g. the name of a run's
        workspace."""
        me = myself()
        return cls(f"{PREFIX}-{label}-{me.pid:x}-{_short(me):x}")

    @property
    def alive(self) -> bool:
        """Whether the process that made the chain still runs."""
        pid, started = (int(part, 16) for part in self.name.rsplit("-", 2)[1:])
        process = identify(pid)
        return process is not None and process.alive and _short(process) == started

    def add(self, rules: Iterable[FilterRule]) -> None:
        """Adds `rules` to the chain. All rules take effect at the same time. If the kernel does not have the chain yet,
        adds the chain, too.

        Raises FilterError if the packet filter cannot be changed.
        """
        table = _save()
        if f":{self.name} " not in table:
            _call("iptables", "-w", "-N", self.name)
        jump = [] if self._jump in table else [f"-I OUTPUT 1 -o lo -p tcp -j {self.name}"]
        commands = "\n".join(["*filter", *(f"-A {self.name} {rule}" for rule in rules), *jump, "COMMIT", ""])
        _call("iptables-restore", "-w", "--noflush", stdin=commands)

    def remove(self, rules: Iterable[FilterRule]) -> None:
        """Removes `rules` from the chain. If the chain holds several copies of a rule, removes only one copy.

        Ignores rules that are not in the chain. Raises FilterError if iptables cannot be run.
        """
        for rule in rules:
            _run("iptables", "-w", "-D", self.name, *str(rule).split())

    def dropped(self) -> list[tuple[str, int]]:
        """Returns the name and the number of dropped packets of every rule that the kernel now has in this chain.

        The result is empty if no rule of the chain OUTPUT jumps to this chain, because then no packet reaches this
        chain. Raises FilterError if the packet filter cannot be read.
        """
        table = _save()
        if self._jump not in table:
            return []
        line = re.compile(rf'^\[(\d+):\d+\] -A {self.name} .*--comment "?([\w.]+)"?.* -j DROP$', re.MULTILINE)
        return [(name, int(packets)) for packets, name in line.findall(table)]

    def destroy(self) -> None:
        """Removes the chain with all its rules. Does nothing if there is no such chain."""
        while _run("iptables", "-w", "-D", "OUTPUT", "-o", "lo", "-p", "tcp", "-j", self.name).returncode == 0:
            continue
        for option in ("-F", "-X"):
            _run("iptables", "-w", option, self.name)

    @property
    def _jump(self) -> str:
        """The rule of the chain OUTPUT that jumps to this chain, as `iptables-save` prints the rule."""
        return f" -A OUTPUT -o lo -p tcp -j {self.name}\n"


def abandoned() -> list[Chain]:
    """Returns the chains that ended processes left in the packet filter. The result is empty if the packet filter
    cannot be read, e.g. because this process is not root."""
    try:
        table = _save()
    except FilterError:
        return []
    names = re.findall(rf"^:({PREFIX}-\w+-[0-9a-f]+-[0-9a-f]+) ", table, re.MULTILINE)
    return [chain for chain in map(Chain, names) if not chain.alive]


def sweep() -> list[str]:
    """Removes the chains that ended processes left in the packet filter. Returns the names of these chains."""
    chains = abandoned()
    for chain in chains:
        chain.destroy()
    return [chain.name for chain in chains]


def _short(process: ProcessId) -> int:
    """Returns the low 32 bits of the process's start time. The name of a chain has at most 28 characters. That is too
    short for all bits of the start time."""
    return process.started & 0xFFFF_FFFF


def _save() -> str:
    """Returns the rules and counters of the packet filter's table `filter`, in the format of `iptables-save`."""
    return _call("iptables-save", "-c", "-t", "filter")


def _call(*command: str, stdin: str | None = None) -> str:
    done = _run(*command, stdin=stdin)
    if done.returncode:
        raise FilterError(f"{command[0]}: {done.stderr.strip() or f'exit code {done.returncode}'}")
    return done.stdout


def _run(*command: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a command. Returns the completed process, even if the exit code is not 0.

    Raises FilterError if the command cannot be run, or if it takes longer than 30 s.
    """
    try:
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise FilterError(f"{command[0]}: {error}") from None
