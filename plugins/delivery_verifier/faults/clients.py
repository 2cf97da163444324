"""Actions on clients. They end producers, start producers again, and make producers send records again or send more
records."""

from __future__ import annotations

import signal
from collections import Counter
from dataclasses import dataclass

from delivery_verifier.faults.action import Action, ActionContext, ActionProof, Done, Harmless
from delivery_verifier.host.processes import how_it_ended
from delivery_verifier.load.handle import RunningLoad
from delivery_verifier.model.anomalies import subset
from delivery_verifier.model.history import left_key, now_us


@dataclass(frozen=True)
class KillProducer:
    """Kills the producers of all arms at the same moment. The action `restart_producer` heals the injection.

    Proof: SIGKILL ended every producer, and none was started again.
    """

    def do(self, context: ActionContext) -> Done:
        """Kills the producers, and waits until all of them have ended. Raises DeadlinePassed."""
        at_us = now_us()
        _load(context).kill()
        return Done(at_us)

    def proof(self, context: ActionContext, done: Done) -> ActionProof:
        """Returns a text for each producer that says how the producer ended. The keys are `producer <name>`.

        If a producer ended in another way, or was started again, the result is empty.
        """
        load = _load(context)
        exits = load.exits()
        killed = len(exits) == load.producers and set(exits.values()) == {-signal.SIGKILL}
        return {f"producer {name}": how_it_ended(code) for name, code in exits.items()} if killed else {}


@dataclass(frozen=True)
class TerminateProducer:
    """Sends SIGTERM to the producers of all arms at the same moment. The action `restart_producer` heals the injection.

    Each producer ends as its arm says: with flush(), or at once. Proof: SIGTERM reached every producer while it had at
    least one record without a delivery report in progress, every producer then exited with 0, and none was started
    again.
    """

    def do(self, context: ActionContext) -> Done:
        """Terminates the producers, and waits until all of them have ended. Raises DeadlinePassed."""
        at_us = now_us()
        _load(context).terminate()
        return Done(at_us)

    def proof(self, context: ActionContext, done: Done) -> ActionProof:
        """Returns a text for each producer that says what it had in progress and how it ended. The keys are `producer
        <name>`. Also returns how many records the producers of each arm left unreported. The keys are `left_key(arm)`.

        If a producer had nothing in progress, ended in another way, or was started again, the result is empty.
        """
        load = _load(context)
        ends = load.terminations()
        as_ordered = all(end.exit_code == 0 and end.at_sigterm > 0 for end in ends.values())
        if len(ends) != load.producers or not as_ordered:
            return {}
        texts: dict[str, str | int] = {
            f"producer {name}": f"{end.at_sigterm} records in progress when SIGTERM came, {end.at_exit} when it ended; "
            f"{how_it_ended(end.exit_code)}"
            for name, end in ends.items()
        }
        unreported = Counter[str]()
        for name, end in ends.items():
            unreported[left_key(name.split("/")[0])] += end.at_exit
        return texts | unreported


@dataclass(frozen=True)
class RestartProducer(Harmless):
    """Starts again the producers that the action `kill_producer` or `terminate_producer` ended. This action has no
    proof."""

    def do(self, context: ActionContext) -> Done:
        """Starts the ended producers again.

        Each producer that was killed sends the records whose outcome is unknown once more. Waits until all of them have
        done so. Raises DeadlinePassed.
        """
        at_us = now_us()
        _load(context).restart()
        return Done(at_us)


@dataclass(frozen=True)
class Resend:
    """Makes every producer send some records again, as an application might do.

    These are the records whose last attempt is INDETERMINATE, i.e. nobody knows whether they were written. Proof: every
    subject arm sent at least one record again. The action ends at once, so nothing has to be healed.
    """

    def do(self, context: ActionContext) -> Done:
        """Makes every producer send again the records whose last attempt is INDETERMINATE.

        Waits until the producers have handed these records to their Kafka clients. Does not wait until the records are
        delivered. Raises DeadlinePassed.
        """
        at_us = now_us()
        _load(context).resend()
        return Done(at_us)

    def proof(self, context: ActionContext, done: Done) -> ActionProof:
        """Returns how many records each arm sent again. The keys are `resent by <arm>`.

        If a subject arm sent no record again, the result is empty.
        """
        if context.scenario is None:
            return {}
        counts = _load(context).resent()
        if not all(counts[arm.name] for arm in context.scenario.subjects):
            return {}
        return {f"resent by {arm}": count for arm, count in counts.items()}


@dataclass(frozen=True)
class Send(Harmless):
    """Makes the producers of a scripted load send more records. The action breaks nothing and has no proof.

    In a scripted load, producers send only when a step of the fault plan makes them send. The option `blocks` says how
    many blocks every producer sends to each partition. A block is a fixed number of consecutive records.
    """

    def do(self, context: ActionContext) -> Done:
        """Makes every producer send the number of blocks that the option `blocks` gives.

        Waits until the producers have handed the records to their Kafka clients. Does not wait until the records are
        delivered. Raises DeadlinePassed.
        """
        at_us = now_us()
        _load(context).send(int(context.options.get("blocks", 1)))
        return Done(at_us)


@dataclass(frozen=True)
class Wait(Harmless):
    """Does nothing. A fault plan uses this action in a step that only waits for its trigger. It has no proof."""

    def do(self, context: ActionContext) -> Done:
        """Returns the current time at once."""
        return Done(now_us())


def _load(context: ActionContext) -> RunningLoad:
    if context.load is None:
        raise ValueError("an action on clients needs a load")
    return context.load


ACTIONS: dict[str, Action] = subset(
    "the actions on producers; faults.actions has all",
    {
        "kill_producer": KillProducer(),
        "terminate_producer": TerminateProducer(),
        "restart_producer": RestartProducer(),
        "resend": Resend(),
        "send": Send(),
        "wait": Wait(),
    },
)
