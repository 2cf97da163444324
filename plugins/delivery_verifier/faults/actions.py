"""The registry of actions. It holds one object per action, which performs the action.

`model.fault_actions.ACTS` describes the actions in words and data.
"""

from __future__ import annotations

from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.faults import outages
from delivery_verifier.faults.action import Action, ActionContext, Done
from delivery_verifier.faults.administration import AlterTopic, ElectPreferred, ElectUnclean
from delivery_verifier.faults.applications import KillApplication, Park, RestartApplication, Rewind
from delivery_verifier.faults.clients import KillProducer, Resend, RestartProducer, Send, TerminateProducer, Wait
from delivery_verifier.faults.processes import Signal, Start
from delivery_verifier.faults.proxied import DelayEnd, Frames, Release
from delivery_verifier.faults.zombies import FreezeApplication, ThawApplication
from delivery_verifier.model.history import now_us

ACTIONS: dict[str, Action] = {
    "kill": Signal("SIGKILL", "exited"),
    "stop": Signal("SIGTERM", "exited", deadline_s=60.0),
    "pause": Signal("SIGSTOP", "frozen"),
    "resume": Signal("SIGCONT", "running"),
    "start": Start(),
    "kill_producer": KillProducer(),
    "terminate_producer": TerminateProducer(),
    "restart_producer": RestartProducer(),
    "resend": Resend(),
    "park": Park(),
    "kill_application": KillApplication(),
    "restart_application": RestartApplication(),
    "freeze_application": FreezeApplication(),
    "thaw_application": ThawApplication(),
    "rewind": Rewind(),
    "elect_preferred": ElectPreferred(),
    "drop": Frames("drop"),
    "hold": Frames("hold"),
    "delay": Frames("delay"),
    "close": Frames("close"),
    "delay_end": DelayEnd("delay"),
    "release": Release(),
    "elect_unclean": ElectUnclean(),
    "alter_topic": AlterTopic(),
    "isolate": outages.Isolate(),
    "rejoin": outages.Rejoin(),
    "power_off": outages.PowerOff(),
    "sync": outages.Sync(),
    "send": Send(),
    "wait": Wait(),
}
"""Maps the name of each action in a fault plan to the object that performs the action. The objects keep nothing: what
was done is in the `Done` of each injection."""
REMEDIES = {"frozen": "resume", "exited": "start"}
"""Maps the state of a broker that a fault has stopped to the action that ends this state."""


def heal(cluster: Cluster) -> Done:
    """Undoes what actions did to the brokers, by whichever means. If there is nothing to undo, does no harm. Returns
    when it began, and which brokers it made run again.

    Afterwards, the proxy forwards everything again, isolated brokers have rejoined, frozen brokers have resumed, and
    brokers that had exited run again. Killed producers and members of applications stay dead, and altered topics stay
    altered. Nothing of a cluster that the run only observes is touched. Any process may call this function.
    """
    at_us, healed = now_us(), dict[str, str]()
    if cluster.breakable is None:
        return Done(at_us)
    for means in cluster.capabilities:
        cluster.agent.undo(means, cluster.brokers)
    for broker, state in cluster.states().items():
        if state in REMEDIES:
            ACTIONS[REMEDIES[state]].do(ActionContext(cluster, [broker]))
            healed[f"broker {broker}"] = "running"
    return Done(at_us, healed)
