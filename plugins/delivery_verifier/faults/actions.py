"""The actions of a fault plan, done. What each is, in words and data, stands in `vocabulary.ACTS`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.faults import outages
from delivery_verifier.faults.action import Moment
from delivery_verifier.faults.administration import AlterTopic, ElectUnclean
from delivery_verifier.faults.clients import KillProducer, Resend, RestartProducer, load
from delivery_verifier.faults.elections import ElectPreferred
from delivery_verifier.faults.proxied import Frames, Release
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.store.run_directory import now_us

DEADLINE_S = 10.0


class Action(Protocol):
    """What can be done to a cluster."""

    def do(self, now: Moment) -> int:
        """Does it, and waits until it is done. Returns the wall time (µs) just before it took effect."""
        ...

    def proof(self, now: Moment) -> dict[str, object]:
        """What shows that it is done and still holds; empty if it does not."""
        ...


@dataclass(frozen=True)
class Signal:
    """Sends a signal and waits until the processes are in the state that it brings about.

    SIGSTOP is asynchronous, and one thread that still runs can still answer: `frozen` is every thread standing still.
    """

    name: str
    state: str
    deadline_s: float = DEADLINE_S

    def do(self, now: Moment) -> int:
        """Sends the signal and waits."""
        at_us = min(now.cluster.send(broker, self.name) for broker in now.brokers)
        wait_until(
            lambda: bool(self.proof(now)), f"brokers {now.brokers} to be {self.state}", self.deadline_s, every_s=0.005
        )
        return at_us

    def proof(self, now: Moment) -> dict[str, object]:
        """The process state of each broker, if all are in the state wanted."""
        states = now.cluster.states()
        is_so = now.brokers and all(states[broker] == self.state for broker in now.brokers)
        return {f"broker {broker}": states[broker] for broker in now.brokers} if is_so else {}


class Start:
    """Starts brokers that have exited."""

    def do(self, now: Moment) -> int:
        """Starts and waits until they serve. A restart within the old session waits for its end."""
        at_us = now_us()
        for broker in now.brokers:
            if now.cluster.states()[broker] == "exited":
                now.cluster.start(broker)
        now.cluster.wait_up(*now.brokers)
        return at_us

    def proof(self, now: Moment) -> dict[str, object]:
        """The process state of each broker."""
        return {f"broker {broker}": now.cluster.states()[broker] for broker in now.brokers}


class Send:
    """Lets the producers of a scripted load go on."""

    def do(self, now: Moment) -> int:
        """Waits until every arm has handed its records over; whether they arrive is another matter."""
        at_us = now_us()
        load(now).send(int(now.options.get("blocks", 1)))
        return at_us

    def proof(self, now: Moment) -> dict[str, object]:
        """Nothing was broken."""
        return {}


class Wait:
    """Does nothing: the step's trigger was what was wanted."""

    def do(self, now: Moment) -> int:
        """The time."""
        return now_us()

    def proof(self, now: Moment) -> dict[str, object]:
        """Nothing was broken."""
        return {}


ACTIONS: dict[str, Action] = {
    "kill": Signal("SIGKILL", "exited"),
    "stop": Signal("SIGTERM", "exited", deadline_s=60.0),
    "pause": Signal("SIGSTOP", "frozen"),
    "resume": Signal("SIGCONT", "running"),
    "start": Start(),
    "kill_producer": KillProducer(),
    "restart_producer": RestartProducer(),
    "resend": Resend(),
    "elect_preferred": ElectPreferred(),
    **{name: Frames(name) for name in ("drop", "hold", "delay", "close")},
    "release": Release(),
    "elect_unclean": ElectUnclean(),
    "alter_topic": AlterTopic(),
    "isolate": outages.Isolate(),
    "rejoin": outages.Rejoin(),
    "power_off": outages.PowerOff(),
    "sync": outages.Sync(),
    "send": Send(),
    "wait": Wait(),
}
"""Every action by its name in a fault plan."""


def heal(cluster: Cluster) -> None:
    """Makes the cluster whole again, whatever was done to it; harmless if nothing was. Any process may call it."""
    if cluster.has_proxy:
        ACTIONS["release"].do(Moment(cluster, cluster.brokers))
    cluster.rejoin(list(cluster.cut_off()))
    for broker, state in cluster.states().items():
        if state == "frozen":
            ACTIONS["resume"].do(Moment(cluster, [broker]))
        elif state == "exited":
            ACTIONS["start"].do(Moment(cluster, [broker]))
