"""Faults of clients: producers that are killed and start again, and applications that send again."""

from __future__ import annotations

import signal

from delivery_verifier.faults.action import ActionContext, ActionProof
from delivery_verifier.host.processes import how_it_ended
from delivery_verifier.load.handle import RunningLoad
from delivery_verifier.model.history import now_us


class KillProducer:
    """Kills the producers of all arms at the same moment.

    Proof: every producer was ended by SIGKILL, and none runs again. `restart_producer` heals the injection.
    """

    def do(self, context: ActionContext) -> int:
        """Kills, and waits until no producer runs. Raises DeadlinePassed."""
        at_us = now_us()
        _load(context).kill()
        return at_us

    def proof(self, context: ActionContext) -> ActionProof:
        """What ended each producer, if it was SIGKILL for all, and none runs again."""
        load = _load(context)
        exits = load.exits()
        killed = len(exits) == load.producers and set(exits.values()) == {-signal.SIGKILL}
        return {f"producer {name}": how_it_ended(code) for name, code in exits.items()} if killed else {}


class RestartProducer:
    """Starts the producers again: heals `kill_producer`. It breaks nothing and has no proof."""

    def do(self, context: ActionContext) -> int:
        """Starts the producers, and waits until each has sent its unanswered records again. Raises DeadlinePassed."""
        at_us = now_us()
        _load(context).restart()
        return at_us

    def proof(self, context: ActionContext) -> ActionProof:
        """None: nothing was broken."""
        return {}


class Resend:
    """Makes the applications send every record again that may or may not have been written, as far as they know.

    Proof: every subject arm sent something again. The action is momentary, and nothing needs healing.
    """

    def do(self, context: ActionContext) -> int:
        """Waits until the records are handed over; whether they arrive is another matter. Raises DeadlinePassed."""
        at_us = now_us()
        _load(context).resend()
        return at_us

    def proof(self, context: ActionContext) -> ActionProof:
        """How many records every arm sent again, if every subject arm sent any."""
        if context.scenario is None:
            return {}
        counts = _load(context).resent()
        if not all(counts[arm.name] for arm in context.scenario.subjects):
            return {}
        return {f"resent by {arm}": count for arm, count in counts.items()}


class Send:
    """Lets the producers of a scripted load send more. It breaks nothing and has no proof."""

    def do(self, context: ActionContext) -> int:
        """Waits until every arm has handed its records over; whether they arrive is another matter.

        Raises DeadlinePassed.
        """
        at_us = now_us()
        _load(context).send(int(context.options.get("blocks", 1)))
        return at_us

    def proof(self, context: ActionContext) -> ActionProof:
        """None: nothing was broken."""
        return {}


class Wait:
    """Does nothing: the plan needs only the trigger of the step. It breaks nothing and has no proof."""

    def do(self, context: ActionContext) -> int:
        """Returns the time at once."""
        return now_us()

    def proof(self, context: ActionContext) -> ActionProof:
        """None: nothing was broken."""
        return {}


def _load(context: ActionContext) -> RunningLoad:
    """The load of the run. Raises ValueError if there is none."""
    if context.load is None:
        raise ValueError("an action on clients needs a load")
    return context.load
