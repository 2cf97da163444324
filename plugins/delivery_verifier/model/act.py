"""The form of an action: what must be known of each, without the means to perform it (these are in `faults`)."""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

from delivery_verifier.model.history import DisturbanceKind
from delivery_verifier.model.step_options import Option

Capability = Literal["proxy", "network", "power"]
"""What an action needs of its cluster. proxy: a proxy before every broker's listener. network: brokers that the packet
filter can distinguish (root, iptables). power: data on file systems of their own (root, loop devices)."""

CAPABILITIES: tuple[Capability, ...] = get_args(Capability)

Proof = Literal[
    "leader_moved", "re_elected", "deposed", "leaderless", "isr_shrunk", "elected", "brief", "coordinator_moved"
]
"""An effect that must be seen, just before an injection is healed, for the injection to have bitten. Beside
these effects every action has its own proof: the state of processes, counts of requests and the like.

leader_moved: every partition that was hit is led by a broker that is no target. re_elected: every such partition is led
by a new broker, in a later epoch. deposed: the targets lead none of these partitions. leaderless: none of them has a
leader. isr_shrunk: the targets are out of the ISR of all of them. elected: subjects had leaderless partitions, and all
of these have a leader now. brief: less than 0.8 of `broker.session.timeout.ms` passed, so that the controller noticed
nothing. coordinator_moved: the targets coordinated transactions of the load, and others coordinate all of them now."""


class Act(Struct, frozen=True, kw_only=True):
    """One action of a fault plan: all that is said of the action, without the means to perform it."""

    name: str
    """The action's name in a fault plan."""
    summary: str
    """What the action does, in one sentence for people."""
    done: str = ""
    """The predicate of a sentence about the action, e.g. `was killed`. Only an action that bites has one."""
    whom: Literal["broker", "leader", "partition", "topic", "producer"] = "broker"
    """What the action is done to: the subject of a sentence about the action."""
    bites: bool = False
    """Whether the action opens an injection, which must be proven to have bitten."""
    heals: tuple[str, ...] = ()
    """The actions whose injections this action closes. An action that neither bites nor heals drives the load."""
    momentary: bool = False
    """Whether the action leaves nothing that needs healing."""
    only_subject_topics: bool = False
    """Whether the action is done to the topics of subjects alone. Controls then show what happens without the
    action."""
    proof_only_before_heal: bool = False
    """Whether the effect shows only on later requests. The action's own proof then counts only just before healing."""
    does: Literal["exited", "frozen", ""] = ""
    """The state into which the action brings a broker process."""
    observed_as: tuple[DisturbanceKind, ...] = ()
    """The disturbances that the action is expected to cause, and that the observer must see."""
    counts_as: tuple[DisturbanceKind, ...] = ()
    """Disturbances of kinds that no observer sees. Every injection of the action counts as these: planned, if it bit.
    An action that counts as `topic_altered` has the options `setting` and `value`."""
    proofs: tuple[Proof, ...] = ()
    """The effects that must be seen before healing, unless a plan names others."""
    needs: tuple[Capability, ...] = ()
    """What the action needs of the cluster."""
    options: tuple[Option, ...] = ()
    """The options that a step of a plan may set."""

    @property
    def clients(self) -> bool:
        """Whether the action is done to the producers of all arms at once, not to brokers."""
        return self.whom == "producer"

    @property
    def all_partitions(self) -> bool:
        """Whether the action touches every partition that carries load, whichever brokers lead."""
        return self.clients or "topic_altered" in self.counts_as
