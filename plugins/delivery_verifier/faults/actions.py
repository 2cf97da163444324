"""The actions of a fault plan. An action that bites opens an injection; one that heals closes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.runs import now_us
from delivery_verifier.waiting import wait_until

DEADLINE_S = 10.0


class Action(Protocol):
    """What can be done to brokers."""

    @property
    def bites(self) -> bool:
        """True if it breaks something, False if it heals."""
        ...

    def do(self, cluster: Cluster, brokers: list[int]) -> int:
        """Does it, and waits until it is done. Returns the wall time (µs) just before it took effect."""
        ...

    def proof(self, cluster: Cluster, brokers: list[int]) -> dict[str, object]:
        """What shows, right afterwards, that it was done; empty if it was not."""
        ...


@dataclass(frozen=True)
class Signal:
    """Sends a signal and waits until the processes are in the state that it brings about.

    SIGKILL (exited): gone at once, nothing is handed over, nothing is flushed by the process. SIGSTOP (frozen):
    stands still with its connections open, and wakes up deposed if that outlasts its session; the signal is
    asynchronous, and one thread that still runs can still answer. SIGCONT (running): goes on.
    """

    name: str
    state: str
    bites: bool

    def do(self, cluster: Cluster, brokers: list[int]) -> int:
        """Sends the signal and waits."""
        at_us = min(cluster.send(broker, self.name) for broker in brokers)
        wait_until(lambda: bool(self.proof(cluster, brokers)), f"brokers {brokers} to be {self.state}", DEADLINE_S, every_s=0.005)
        return at_us

    def proof(self, cluster: Cluster, brokers: list[int]) -> dict[str, object]:
        """The process state of each broker, if all are in the state wanted."""
        states = cluster.states()
        return {f"broker {b}": states[b] for b in brokers} if all(states[b] == self.state for b in brokers) else {}


class Start:
    """Starts brokers that have exited."""

    bites = False

    def do(self, cluster: Cluster, brokers: list[int]) -> int:
        """Starts and waits until they serve. A restart within the old session waits for its end."""
        at_us = now_us()
        for broker in brokers:
            if cluster.states()[broker] == "exited":
                cluster.start(broker)
        cluster.wait_up(*brokers)
        return at_us

    def proof(self, cluster: Cluster, brokers: list[int]) -> dict[str, object]:
        """The process state of each broker."""
        return {f"broker {b}": cluster.states()[b] for b in brokers}


ACTIONS: dict[str, Action] = {
    "kill": Signal("SIGKILL", "exited", bites=True),
    "pause": Signal("SIGSTOP", "frozen", bites=True),
    "resume": Signal("SIGCONT", "running", bites=False),
    "start": Start(),
}
"""Every action by its name in a fault plan."""


def heal(cluster: Cluster) -> None:
    """Makes every broker run again, whatever was done to it; harmless if nothing was. Any process may call it."""
    for broker, state in cluster.states().items():
        if state == "frozen":
            ACTIONS["resume"].do(cluster, [broker])
        elif state == "exited":
            ACTIONS["start"].do(cluster, [broker])
