"""The registry of actions. It holds one object per action, which performs the action. Each module enters its own.

`model.fault_actions.ACTS` describes the actions in words and data.
"""

from __future__ import annotations

from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.faults import administration, applications, clients, outages, processes, proxied, zombies
from delivery_verifier.faults.action import Action, ActionContext, Done
from delivery_verifier.model.history import now_us

MODULES = (processes, clients, applications, zombies, administration, proxied, outages)
ACTIONS: dict[str, Action] = {name: action for module in MODULES for name, action in module.ACTIONS.items()}
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
