"""Outages: actions that cut a broker off its network or its power, for which the host must have the means."""

from __future__ import annotations

from typing import cast

from delivery_verifier.faults.action import ActionContext, ActionProof
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.history import now_us
from delivery_verifier.model.step_options import Link

DEADLINE_S = 10.0


class Isolate:
    """Drops the packets of brokers on some of their links. Their peers get no error: connections hang.

    Proof: the kernel has every rule, and every link of every target has dropped packets. `rejoin` heals the injection.
    """

    def do(self, context: ActionContext) -> int:
        """Sets the rules, and waits until each link has dropped a packet. Raises DeadlinePassed."""
        at_us = context.cluster.isolate(context.brokers, _links(context))
        wait_until(lambda: bool(self.proof(context)), f"packets of brokers {context.brokers} to be dropped", DEADLINE_S)
        return at_us

    def proof(self, context: ActionContext) -> ActionProof:
        """Packets dropped so far, per broker and link, if the kernel has every rule and every link dropped some."""
        dropped, links = context.cluster.cut_off(), _links(context)
        counts: dict[int, dict[str, int]] = {
            broker: {link: dropped.get(broker, {}).get(link, 0) for link in links} for broker in context.brokers
        }
        if not all(all(packets.values()) for packets in counts.values()):
            return {}
        return {f"broker {broker}": packets for broker, packets in counts.items()}


class Rejoin:
    """Lets the packets of brokers through again: heals `isolate`."""

    def do(self, context: ActionContext) -> int:
        """Removes the rules. TCP takes seconds until it sends again what was dropped."""
        at_us = now_us()
        context.cluster.rejoin(context.brokers)
        return at_us

    def proof(self, context: ActionContext) -> ActionProof:
        """The brokers that are not cut off any more."""
        cut_off = context.cluster.cut_off()
        return {f"broker {broker}": "reachable" for broker in context.brokers if broker not in cut_off}


class PowerOff:
    """Ends brokers together with the power of their disks: what was not flushed is gone.

    Proof: every target's process has exited, and its disk answers with an I/O error. `start` heals the injection.
    """

    def do(self, context: ActionContext) -> int:
        """Cuts the power of all targets at once, and waits until it is off. Raises DeadlinePassed."""
        at_us = context.cluster.power_off(context.brokers)
        wait_until(
            lambda: bool(self.proof(context)),
            f"brokers {context.brokers} to be without power",
            DEADLINE_S,
            every_s=0.005,
        )
        return at_us

    def proof(self, context: ActionContext) -> ActionProof:
        """That the processes have exited and their disks answer with an I/O error."""
        states = context.cluster.states()
        off = all(states[broker] == "exited" and context.cluster.is_off(broker) for broker in context.brokers)
        return {f"broker {broker}": "exited, its disk is off" for broker in context.brokers} if off else {}


class Sync:
    """Flushes the disks of brokers, so that it is known what a loss of power spares. It breaks nothing."""

    def do(self, context: ActionContext) -> int:
        """Waits until everything that was written to the disks before is on them. Raises OSError."""
        at_us = now_us()
        context.cluster.sync(context.brokers)
        return at_us

    def proof(self, context: ActionContext) -> ActionProof:
        """None: nothing was broken."""
        return {}


def _links(context: ActionContext) -> list[Link]:
    """The links in the step's option `links`; without the option all links except those to clients."""
    names = str(context.options.get("links", "controller,replication")).split(",")
    return [cast(Link, name.strip()) for name in names]  # the options of a plan are checked before it starts
