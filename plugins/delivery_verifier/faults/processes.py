"""Actions on broker processes: they send signals to brokers, or start brokers that have exited."""

from __future__ import annotations

from dataclasses import dataclass

from delivery_verifier.faults.action import Action, ActionContext, ActionProof, Done
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.anomalies import subset
from delivery_verifier.model.history import now_us

DEADLINE_S = 10.0


@dataclass(frozen=True)
class Signal:
    """Sends the signal `name` to the target brokers, and waits until their processes are in `state`.

    The wait lasts at most `deadline_s` seconds. Proof: every target broker's process is in `state`. The state `frozen`
    means that every thread of the process is stopped, because a broker with one running thread can still answer.

    The action `resume` heals a frozen process with SIGCONT. The action `start` heals a process that has exited.
    """

    name: str
    state: str
    deadline_s: float = DEADLINE_S

    def do(self, context: ActionContext) -> Done:
        """Sends the signal, and waits for the state. Raises DeadlinePassed."""
        agent, signal = context.cluster.agent, {"signal": self.name}
        # One request per broker: an engine may need seconds for each, and the agent must answer others meanwhile.
        done = Done(min(agent.apply("process", [broker], signal) for broker in context.brokers))
        message = f"brokers {context.brokers} to be {self.state}"
        wait_until(lambda: bool(self.proof(context, done)), message, self.deadline_s, every_s=0.005)
        return done

    def proof(self, context: ActionContext, done: Done) -> ActionProof:
        """Returns the process state of each target broker. If one of them is not in `state`, the result is empty."""
        states = context.cluster.states()
        reached = all(states[broker] == self.state for broker in context.brokers)
        return {f"broker {broker}": states[broker] for broker in context.brokers} if reached else {}


@dataclass(frozen=True)
class Start:
    """Starts brokers that have exited. This heals what the actions `kill`, `stop` and `power_off` did."""

    def do(self, context: ActionContext) -> Done:
        """Starts the brokers that have exited, and waits until all target brokers serve requests.

        This can take a while, because the controller accepts a broker only after the broker's old session has ended
        (broker.session.timeout.ms). Raises StepFailed if a broker ends while it starts, and DeadlinePassed if a broker
        does not serve requests in time.
        """
        at_us = now_us()
        for broker in context.brokers:
            if context.cluster.states()[broker] == "exited":
                context.cluster.agent.undo("process", [broker])
        context.cluster.wait_up(*context.brokers)
        return Done(at_us)

    def proof(self, context: ActionContext, done: Done) -> ActionProof:
        """Returns the process state of each target broker, whatever it is."""
        return {f"broker {broker}": context.cluster.states()[broker] for broker in context.brokers}


ACTIONS: dict[str, Action] = subset(
    "the actions on the processes of brokers; faults.actions has all",
    {
        "kill": Signal("SIGKILL", "exited"),
        "stop": Signal("SIGTERM", "exited", deadline_s=60.0),
        "pause": Signal("SIGSTOP", "frozen"),
        "resume": Signal("SIGCONT", "running"),
        "start": Start(),
    },
)
