"""Outages: actions that need the host, to cut a broker off its network or its power."""

from __future__ import annotations

from typing import cast

from delivery_verifier.faults.action import ActionContext
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.history import now_us
from delivery_verifier.model.step_options import Link

DEADLINE_S = 10.0


def links_of(context: ActionContext) -> list[Link]:
    """The links named in the step's option `links`; all but the clients' where it says nothing."""
    return cast(
        "list[Link]", [link.strip() for link in str(context.options.get("links", "controller,replication")).split(",")]
    )


class Isolate:
    """Drops the packets of brokers on some of their links. Nobody is told: connections hang."""

    def do(self, context: ActionContext) -> int:
        """Sets the rules, and waits until each link has dropped a packet."""
        at_us = context.cluster.isolate(context.brokers, links_of(context))
        wait_until(lambda: bool(self.proof(context)), f"packets of brokers {context.brokers} to be dropped", DEADLINE_S)
        return at_us

    def proof(self, context: ActionContext) -> dict[str, object]:
        """Packets dropped so far, if the kernel has every rule and every link dropped some."""
        dropped, links = context.cluster.cut_off(), links_of(context)
        counts = {broker: {link: dropped.get(broker, {}).get(link, 0) for link in links} for broker in context.brokers}
        whole = counts and all(all(count.values()) for count in counts.values())
        return {f"broker {broker}": count for broker, count in counts.items()} if whole else {}


class Rejoin:
    """Lets the packets of brokers through again."""

    def do(self, context: ActionContext) -> int:
        """Removes the rules. TCP takes seconds until it tries again what was dropped."""
        at_us = now_us()
        context.cluster.rejoin(context.brokers)
        return at_us

    def proof(self, context: ActionContext) -> dict[str, object]:
        """Which of them are cut off no more."""
        cut = context.cluster.cut_off()
        return {f"broker {broker}": "reachable" for broker in context.brokers if broker not in cut}


class PowerOff:
    """Ends brokers together with the power of their disks: what was not flushed is gone."""

    def do(self, context: ActionContext) -> int:
        """Does it to all of them at once, and waits until it is done."""
        at_us = context.cluster.power_off(context.brokers)
        wait_until(
            lambda: bool(self.proof(context)),
            f"brokers {context.brokers} to be without power",
            DEADLINE_S,
            every_s=0.005,
        )
        return at_us

    def proof(self, context: ActionContext) -> dict[str, object]:
        """That the processes have exited and their disks answer with an I/O error."""
        states = context.cluster.states()
        off = [states[broker] == "exited" and context.cluster.is_off(broker) for broker in context.brokers]
        return {f"broker {broker}": "exited, its disk is off" for broker in context.brokers} if off and all(off) else {}


class Sync:
    """Flushes disks, so that what a loss of power spares is known."""

    def do(self, context: ActionContext) -> int:
        """All that was written to the disks before is on them afterwards. Raises OSError."""
        at_us = now_us()
        context.cluster.sync(context.brokers)
        return at_us

    def proof(self, context: ActionContext) -> dict[str, object]:
        """Nothing was broken."""
        return {}
