"""Outages: actions that cut brokers off from the network or cut the power of their disks, and actions that undo these
cuts.

These actions need a cluster with the capability `network` or `power` (see act.Capability).
"""

from __future__ import annotations

from dataclasses import dataclass

from delivery_verifier.faults.action import Action, ActionContext, ActionProof, Done, Harmless, breakable_in
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.act import Link, links_cut
from delivery_verifier.model.anomalies import subset
from delivery_verifier.model.history import now_us

DEADLINE_S = 10.0


@dataclass(frozen=True)
class Isolate:
    """Cuts brokers off on some of their links. The peers get no error, but their connections hang.

    A link is the traffic of a broker with the controller, with the other brokers, or with clients. The option `links`
    names the links to cut. Proof: the packet filter has every rule that the action sets, and has dropped packets on
    every cut link of every target broker. The docker backend has no packet filter, and instead disconnects the broker
    from its Docker network. The proof is then that the backend has seen the broker disconnected. The action `rejoin`
    heals the injection.
    """

    def do(self, context: ActionContext) -> Done:
        """Cuts the links. Waits until the packet filter has dropped a packet on each cut link. Raises
        DeadlinePassed."""
        done = Done(context.cluster.agent.apply("network", context.brokers, _links(context)))
        message = f"packets of brokers {context.brokers} to be dropped"
        wait_until(lambda: bool(self.proof(context, done)), message, DEADLINE_S)
        return done

    def proof(self, context: ActionContext, done: Done) -> ActionProof:
        """Returns how many packets were dropped so far. The outer keys are `broker <id>`, the inner keys are the links.

        If the packet filter lacks a rule that the action sets, or has dropped no packet on one of the cut links, the
        result is empty. With the docker backend, the numbers say how often the cluster agent process of the cluster has
        seen the broker disconnected.
        """
        dropped = context.cluster.agent.is_in_force("network", context.brokers, _links(context))
        links = links_cut(context.options)
        counts: dict[int, dict[str, int]] = {
            broker: {link: dropped.get(broker, {}).get(link, 0) for link in links} for broker in context.brokers
        }
        if not all(all(packets.values()) for packets in counts.values()):
            return {}
        return {f"broker {broker}": packets for broker, packets in counts.items()}


def _links(context: ActionContext) -> dict[str, list[Link]]:
    return {"links": list(links_cut(context.options))}


@dataclass(frozen=True)
class Rejoin:
    """Lets the packets of brokers through again. This heals what the action `isolate` did."""

    def do(self, context: ActionContext) -> Done:
        """Ends the isolation of the target brokers. After that, TCP may take seconds until it sends the dropped data
        again."""
        at_us = now_us()
        context.cluster.agent.undo("network", context.brokers)
        return Done(at_us)

    def proof(self, context: ActionContext, done: Done) -> ActionProof:
        """Returns the text `reachable` for each target broker that is not isolated now. The keys are `broker <id>`."""
        cut_off = context.cluster.agent.is_in_force("network", context.brokers)
        return {f"broker {broker}": "reachable" for broker in context.brokers if broker not in cut_off}


@dataclass(frozen=True)
class PowerOff:
    """Kills brokers and cuts the power of their disks. Data that was not flushed is lost.

    Proof: every target broker's process has exited, and its disk answers with an I/O error. The action `start` heals
    the injection.
    """

    def do(self, context: ActionContext) -> Done:
        """Cuts the power of all target brokers at once, and waits until the power is off. Raises DeadlinePassed."""
        done = Done(context.cluster.agent.apply("power", context.brokers))
        message = f"brokers {context.brokers} to be without power"
        wait_until(lambda: bool(self.proof(context, done)), message, DEADLINE_S, every_s=0.005)
        return done

    def proof(self, context: ActionContext, done: Done) -> ActionProof:
        """Returns the text `exited, its disk is off` for each target broker. The keys are `broker <id>`.

        If a process still runs, or a disk does not answer with I/O errors, the result is empty.
        """
        off = context.cluster.agent.is_in_force("power", context.brokers)
        return {f"broker {broker}": "exited, its disk is off" for broker in off} if {*off} == {*context.brokers} else {}


@dataclass(frozen=True)
class Sync(Harmless):
    """Flushes the disks of brokers, so that a later power cut does not lose the data written so far. The action breaks
    nothing."""

    def do(self, context: ActionContext) -> Done:
        """Flushes the disks. Waits until the disks hold all earlier writes of the brokers. Raises OSError."""
        at_us = now_us()
        breakable_in(context).sync(context.brokers)
        return Done(at_us)


ACTIONS: dict[str, Action] = subset(
    "the actions on network and power; faults.actions has all",
    {
        "isolate": Isolate(),
        "rejoin": Rejoin(),
        "power_off": PowerOff(),
        "sync": Sync(),
    },
)
