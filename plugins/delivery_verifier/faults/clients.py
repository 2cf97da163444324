"""Faults of clients: producers that are killed and live again, and applications that send again."""

from __future__ import annotations

import signal

from delivery_verifier.faults.action import ActionContext
from delivery_verifier.host.processes import how_it_ended
from delivery_verifier.load.handle import RunningLoad
from delivery_verifier.model.history import now_us


class KillProducer:
    """Kills the producers of all arms at the same moment."""

    def do(self, context: ActionContext) -> int:
        """Waits until none of them runs."""
        at_us = now_us()
        load(context).kill()
        return at_us

    def proof(self, context: ActionContext) -> dict[str, object]:
        """What ended each producer, if it was SIGKILL for all, and none runs again."""
        ended = load(context).exits()
        killed = len(ended) == load(context).producers and set(ended.values()) == {-signal.SIGKILL}
        return {f"producer {name}": how_it_ended(code) for name, code in ended.items()} if killed else {}


class RestartProducer:
    """Starts the producers again."""

    def do(self, context: ActionContext) -> int:
        """Waits until each has handed over what it sends again."""
        at_us = now_us()
        load(context).restart()
        return at_us

    def proof(self, context: ActionContext) -> dict[str, object]:
        """Nothing was broken."""
        return {}


class Resend:
    """Makes the applications send again what they know nothing certain about."""

    def do(self, context: ActionContext) -> int:
        """Waits until it is handed over; whether it arrives is another matter."""
        at_us = now_us()
        load(context).resend()
        return at_us

    def proof(self, context: ActionContext) -> dict[str, object]:
        """How much every arm sent again, if every subject did."""
        if context.scenario is None:
            return {}
        sent = load(context).resent()
        told: dict[str, object] = {f"resent by {arm}": count for arm, count in sent.items()}
        return told if all(sent[arm.name] for arm in context.scenario.subjects) else {}


def load(context: ActionContext) -> RunningLoad:
    """The load of the moment. Raises ValueError if there is none."""
    if context.valve is None:
        raise ValueError("there is no load to do this to")
    return context.valve


class Send:
    """Lets the producers of a scripted load go on."""

    def do(self, context: ActionContext) -> int:
        """Waits until every arm has handed its records over; whether they arrive is another matter."""
        at_us = now_us()
        load(context).send(int(context.options.get("blocks", 1)))
        return at_us

    def proof(self, context: ActionContext) -> dict[str, object]:
        """Nothing was broken."""
        return {}


class Wait:
    """Does nothing: the step's trigger was what was wanted."""

    def do(self, context: ActionContext) -> int:
        """The time."""
        return now_us()

    def proof(self, context: ActionContext) -> dict[str, object]:
        """Nothing was broken."""
        return {}
