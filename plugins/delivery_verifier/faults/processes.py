"""Faults of processes: signals to brokers, and brokers that start again."""

from __future__ import annotations

from dataclasses import dataclass

from delivery_verifier.faults.action import ActionContext, ActionProof
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.history import now_us

DEADLINE_S = 10.0


@dataclass(frozen=True)
class Signal:
    """Sends the signal `name` to brokers and waits until their processes are in the `state` that it brings about.

    Proof: every target's process is in that state. SIGSTOP is asynchronous, and one thread that still runs can still
    answer: `frozen` means that every thread stands still. `resume`, which is SIGCONT, heals a frozen process, and
    `start` heals one that has exited.
    """

    name: str
    state: str
    deadline_s: float = DEADLINE_S

    def do(self, context: ActionContext) -> int:
        """Sends the signal, and waits for the state. Raises DeadlinePassed."""
        at_us = min(context.cluster.send(broker, self.name) for broker in context.brokers)
        wait_until(
            lambda: bool(self.proof(context)),
            f"brokers {context.brokers} to be {self.state}",
            self.deadline_s,
            every_s=0.005,
        )
        return at_us

    def proof(self, context: ActionContext) -> ActionProof:
        """The process state of each target, if all are in the state that the signal brings about."""
        states = context.cluster.states()
        reached = all(states[broker] == self.state for broker in context.brokers)
        return {f"broker {broker}": states[broker] for broker in context.brokers} if reached else {}


class Start:
    """Starts brokers that have exited: heals `kill`, `stop` and `power_off`."""

    def do(self, context: ActionContext) -> int:
        """Starts the brokers, and waits until they serve. Raises DeadlinePassed.

        A broker that starts within its old session waits for the end of that session.
        """
        at_us = now_us()
        for broker in context.brokers:
            if context.cluster.states()[broker] == "exited":
                context.cluster.start(broker)
        context.cluster.wait_up(*context.brokers)
        return at_us

    def proof(self, context: ActionContext) -> ActionProof:
        """The process state of each broker."""
        return {f"broker {broker}": context.cluster.states()[broker] for broker in context.brokers}
