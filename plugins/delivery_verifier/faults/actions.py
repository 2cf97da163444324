"""The actions of a fault plan. An action that bites opens an injection; one that heals closes it."""

from __future__ import annotations

from typing import Protocol

from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.waiting import wait_until

FREEZE_DEADLINE_S = 5.0


class Action(Protocol):
    """What can be done to brokers. `bites`: True if it breaks, False if it heals."""

    bites: bool

    def do(self, cluster: Cluster, brokers: list[int]) -> int:
        """Does it, and waits until it is done. Returns the wall time (µs) just before it took effect."""
        ...

    def proof(self, cluster: Cluster, brokers: list[int]) -> dict[str, object]:
        """What shows, right afterwards, that it was done; empty if it was not."""
        ...


class Kill:
    """SIGKILL: the broker is gone at once, nothing is handed over, nothing is flushed by the process."""

    bites = True

    def do(self, cluster: Cluster, brokers: list[int]) -> int:
        """Kills and waits until the processes are gone."""
        at_us = min(cluster.send(broker, "SIGKILL") for broker in brokers)
        wait_until(lambda: all(cluster.states()[b] == "exited" for b in brokers), f"brokers {brokers} to be gone", 10)
        return at_us

    def proof(self, cluster: Cluster, brokers: list[int]) -> dict[str, object]:
        """The process state of each broker."""
        states = cluster.states()
        return {f"broker {b}": states[b] for b in brokers} if all(states[b] == "exited" for b in brokers) else {}


class Pause:
    """SIGSTOP: the broker stands still with its connections open; after its session it wakes up deposed."""

    bites = True

    def do(self, cluster: Cluster, brokers: list[int]) -> int:
        """Freezes and waits until every thread stands still: SIGSTOP is asynchronous."""
        at_us = min(cluster.send(broker, "SIGSTOP") for broker in brokers)
        wait_until(
            lambda: all(cluster.states()[b] == "frozen" for b in brokers),
            f"every thread of brokers {brokers} to stand still", FREEZE_DEADLINE_S, every_s=0.005,
        )  # fmt: skip
        return at_us

    def proof(self, cluster: Cluster, brokers: list[int]) -> dict[str, object]:
        """The process state of each broker."""
        states = cluster.states()
        return {f"broker {b}": states[b] for b in brokers} if all(states[b] == "frozen" for b in brokers) else {}


class Start:
    """Starts brokers that have exited."""

    bites = False

    def do(self, cluster: Cluster, brokers: list[int]) -> int:
        """Starts and waits until they serve. A restart within the old session waits for its end."""
        from delivery_verifier.runs import now_us

        at_us = now_us()
        for broker in brokers:
            if cluster.states()[broker] == "exited":
                cluster.start(broker)
        cluster.wait_up(*brokers)
        return at_us

    def proof(self, cluster: Cluster, brokers: list[int]) -> dict[str, object]:
        """The process state of each broker."""
        return {f"broker {b}": cluster.states()[b] for b in brokers}


class Resume:
    """SIGCONT: frozen brokers go on."""

    bites = False

    def do(self, cluster: Cluster, brokers: list[int]) -> int:
        """Resumes and waits until they run."""
        at_us = min(cluster.send(broker, "SIGCONT") for broker in brokers)
        wait_until(lambda: all(cluster.states()[b] == "running" for b in brokers), f"brokers {brokers} to go on", 10)
        return at_us

    def proof(self, cluster: Cluster, brokers: list[int]) -> dict[str, object]:
        """The process state of each broker."""
        return {f"broker {b}": cluster.states()[b] for b in brokers}


ACTIONS: dict[str, Action] = {"kill": Kill(), "pause": Pause(), "start": Start(), "resume": Resume()}
"""Every action by its name in a fault plan."""


def heal(cluster: Cluster) -> None:
    """Makes every broker run again, whatever was done to it; harmless if nothing was. Any process may call it."""
    for broker, state in cluster.states().items():
        if state == "frozen":
            ACTIONS["resume"].do(cluster, [broker])
        elif state == "exited":
            ACTIONS["start"].do(cluster, [broker])
