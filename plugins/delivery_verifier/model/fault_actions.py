"""The vocabulary of fault plans: every action in words and data, without the means to do it (these are in `faults`).

Its readers: the contract (disturbances), the judge (what is a fault, what heals), the preflight (what a host needs)."""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

from delivery_verifier.model.history import DisturbanceKind
from delivery_verifier.model.step_options import BLOCKS, DELAY, FRAMES, LINKS_CUT, SETTING, VALUE, Option

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


_ENDED: tuple[DisturbanceKind, ...] = ("leader_change", "isr_shrink")

ACTS: dict[str, Act] = {
    act.name: act
    for act in (
        Act(
            name="kill",
            summary="SIGKILL: gone at once, nothing is handed over; the page cache survives.",
            done="was killed",
            bites=True,
            heals=("pause",),
            does="exited",
            observed_as=("broker_crash", *_ENDED),
            proofs=("leader_moved",),
        ),
        Act(
            name="stop",
            summary="SIGTERM: an orderly shutdown, which hands leadership over.",
            done="was stopped",
            bites=True,
            does="exited",
            observed_as=("broker_stop", *_ENDED),
            proofs=("leader_moved",),
        ),
        Act(
            name="pause",
            summary="SIGSTOP: stands still with its connections open, and wakes up deposed if that is long.",
            done="was frozen",
            bites=True,
            does="frozen",
            observed_as=("broker_freeze", *_ENDED),
            proofs=("leader_moved",),
        ),
        Act(
            name="elect_preferred",
            summary="Makes another replica the preferred leader and has it elected: no broker is harmed.",
            done="was replaced in an election",
            whom="leader",
            bites=True,
            momentary=True,
            observed_as=("leader_change",),
            proofs=("re_elected",),
        ),
        Act(
            name="isolate",
            summary="Cut off from the controller and the other brokers, while clients still reach it.",
            done="was cut off",
            bites=True,
            observed_as=_ENDED,
            counts_as=("isolation",),
            proofs=("leader_moved",),
            needs=("network",),
            options=(LINKS_CUT,),
        ),
        Act(name="rejoin", summary="Reachable again.", heals=("isolate",)),
        Act(
            name="power_off",
            summary="The host loses power: the process ends, and what was not flushed to the disk is gone.",
            done="lost its power",
            bites=True,
            does="exited",
            observed_as=("broker_crash", *_ENDED),
            counts_as=("power_loss",),
            proofs=("leader_moved",),
            needs=("power",),
        ),
        Act(
            name="sync",
            summary="Flushes everything to the brokers' disks: it survives a loss of power.",
            needs=("power",),
        ),
        Act(name="resume", summary="SIGCONT: goes on.", heals=("pause",)),
        Act(name="start", summary="Starts brokers that have exited.", heals=("kill", "stop", "power_off")),
        Act(
            name="kill_producer",
            summary="SIGKILL for every producer: what was under way is never answered.",
            done="was killed",
            bites=True,
            whom="producer",
            counts_as=("client_crash",),
        ),
        Act(
            name="restart_producer",
            summary="Starts the producers again; each sends again whatever its ledger has no final answer for.",
            heals=("kill_producer",),
            whom="producer",
        ),
        Act(
            name="resend",
            summary="Every producer sends again what it was told nothing certain about (INDETERMINATE).",
            done="was told to send again what was not certain",
            bites=True,
            momentary=True,
            whom="producer",
            counts_as=("application_resend",),
        ),
        Act(
            name="drop",
            summary="The proxy swallows requests to brokers, or responses of theirs.",
            done="was kept from receiving or answering requests",
            bites=True,
            proof_only_before_heal=True,
            counts_as=("connection_loss",),
            needs=("proxy",),
            options=FRAMES,
        ),
        Act(
            name="hold",
            summary="The proxy keeps requests or responses back until they are released, in order.",
            done="was held up in receiving or answering requests",
            bites=True,
            proof_only_before_heal=True,
            counts_as=("connection_loss",),
            needs=("proxy",),
            options=FRAMES,
        ),
        Act(
            name="delay",
            summary="The proxy lets requests or responses go only later.",
            done="was delayed in receiving or answering requests",
            bites=True,
            proof_only_before_heal=True,
            counts_as=("connection_loss",),
            needs=("proxy",),
            options=(*FRAMES, DELAY),
        ),
        Act(
            name="close",
            summary="The proxy closes the connection instead of forwarding a request or response.",
            done="was cut off in the middle of requests",
            bites=True,
            proof_only_before_heal=True,
            counts_as=("connection_loss",),
            needs=("proxy",),
            options=FRAMES,
        ),
        Act(
            name="release",
            summary="The proxy forwards everything again, first what it held back.",
            heals=("drop", "hold", "delay", "close"),
        ),
        Act(
            name="elect_unclean",
            summary="An operator asks for leaders from outside the ISR, for the subjects' partitions that have none.",
            done="was given a leader from outside the ISR",
            whom="partition",
            bites=True,
            momentary=True,
            only_subject_topics=True,
            counts_as=("unclean_request",),
            observed_as=("leader_change", "unclean_election"),
            proofs=("elected",),
        ),
        Act(
            name="alter_topic",
            summary="An operator changes a setting of every arm's topic while the load goes on.",
            done="was altered",
            whom="topic",
            bites=True,
            momentary=True,
            counts_as=("topic_altered",),
            options=(SETTING, VALUE),
        ),
        Act(
            name="send",
            summary="Lets every arm of a scripted load send so many blocks more to each partition.",
            options=(BLOCKS,),
        ),
        Act(name="wait", summary="Does nothing: a step of which only the trigger counts."),
    )
}
"""Every action by its name in a fault plan. `faults.actions.ACTIONS` performs them; a test holds the two sets equal."""
