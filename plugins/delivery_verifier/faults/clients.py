"""Actions on clients: producers are killed and started again, and applications send records again, or more records."""

from __future__ import annotations

import signal

from delivery_verifier.faults.action import ActionContext, ActionProof
from delivery_verifier.host.processes import how_it_ended
from delivery_verifier.load.handle import RunningLoad
from delivery_verifier.model.history import now_us


class KillProducer:
    """Kills the producers of all arms at the same moment.

    Proof: every producer was ended by SIGKILL, and no producer runs again. `restart_producer` heals the injection.
    """

    def do(self, context: ActionContext) -> int:
        """Kills the producers, and waits until no producer runs. Raises DeadlinePassed."""
        at_us = now_us()
        _load(context).kill()
        return at_us

    def proof(self, context: ActionContext) -> ActionProof:
        """Returns what ended each producer; empty unless SIGKILL ended all producers, and no producer runs again."""
        load = _load(context)
        exits = load.exits()
        killed = len(exits) == load.producers and set(exits.values()) == {-signal.SIGKILL}
        return {f"producer {name}": how_it_ended(code) for name, code in exits.items()} if killed else {}


class RestartProducer:
    """Starts the producers again, which heals `kill_producer`. The action breaks nothing and has no proof."""

    def do(self, context: ActionContext) -> int:
        """Starts the producers, and waits until each producer has sent its unanswered records again.

        Raises DeadlinePassed.
        """
        at_us = now_us()
        _load(context).restart()
        return at_us

    def proof(self, context: ActionContext) -> ActionProof:
        """Returns an empty proof, because the action breaks nothing."""
        return {}


class Resend:
    """Makes the applications send again every record of which they do not know whether it was written.

    Proof: every subject arm sent at least one record again. The action is momentary: nothing needs healing.
    """

    def do(self, context: ActionContext) -> int:
        """Waits until the records are handed to the clients, but not for their delivery. Raises DeadlinePassed."""
        at_us = now_us()
        _load(context).resend()
        return at_us

    def proof(self, context: ActionContext) -> ActionProof:
        """Returns how many records every arm sent again; empty unless every subject arm sent records again."""
        if context.scenario is None:
            return {}
        counts = _load(context).resent()
        if not all(counts[arm.name] for arm in context.scenario.subjects):
            return {}
        return {f"resent by {arm}": count for arm, count in counts.items()}


class Send:
    """Lets the producers of a scripted load send more records. The action breaks nothing and has no proof.

    The step's option `blocks` is the number of blocks to send.
    """

    def do(self, context: ActionContext) -> int:
        """Waits until every arm has handed its records to its clients, but not for their delivery.

        Raises DeadlinePassed.
        """
        at_us = now_us()
        _load(context).send(int(context.options.get("blocks", 1)))
        return at_us

    def proof(self, context: ActionContext) -> ActionProof:
        """Returns an empty proof, because the action breaks nothing."""
        return {}


class Wait:
    """Does nothing. A plan uses this action for the trigger of its step. The action breaks nothing and has no proof."""

    def do(self, context: ActionContext) -> int:
        """Returns the current time at once."""
        return now_us()

    def proof(self, context: ActionContext) -> ActionProof:
        """Returns an empty proof, because the action breaks nothing."""
        return {}


def _load(context: ActionContext) -> RunningLoad:
    """Returns the load of the run. Raises ValueError if the context has no load."""
    if context.load is None:
        raise ValueError("an action on clients needs a load")
    return context.load
