"""Faults of processes: signals to brokers, and brokers that start again."""

from __future__ import annotations

from dataclasses import dataclass

from delivery_verifier.faults.action import DEADLINE_S, Moment
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.history import now_us


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
