"""Faults of processes: signals to brokers, and brokers that start again."""

from __future__ import annotations

from dataclasses import dataclass

from delivery_verifier.faults.action import DEADLINE_S, ActionContext
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

    def do(self, context: ActionContext) -> int:
        """Sends the signal and waits."""
        at_us = min(context.cluster.send(broker, self.name) for broker in context.brokers)
        wait_until(
            lambda: bool(self.proof(context)),
            f"brokers {context.brokers} to be {self.state}",
            self.deadline_s,
            every_s=0.005,
        )
        return at_us

    def proof(self, context: ActionContext) -> dict[str, object]:
        """The process state of each broker, if all are in the state wanted."""
        states = context.cluster.states()
        is_so = context.brokers and all(states[broker] == self.state for broker in context.brokers)
        return {f"broker {broker}": states[broker] for broker in context.brokers} if is_so else {}


class Start:
    """Starts brokers that have exited."""

    def do(self, context: ActionContext) -> int:
        """Starts and waits until they serve. A restart within the old session waits for its end."""
        at_us = now_us()
        for broker in context.brokers:
            if context.cluster.states()[broker] == "exited":
                context.cluster.start(broker)
        context.cluster.wait_up(*context.brokers)
        return at_us

    def proof(self, context: ActionContext) -> dict[str, object]:
        """The process state of each broker."""
        return {f"broker {broker}": context.cluster.states()[broker] for broker in context.brokers}
