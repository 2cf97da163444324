"""The vocabulary of fault plans: every action in words and data, without the means to do it (these are in `faults`).

What is here is what other parts must know of an action: the contract which disturbances it is expected to cause, the
judge which actions are faults and which heal, the preflight what a host must have for it.
"""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

from delivery_verifier.model.history import DisturbanceKind

Capability = Literal["proxy", "network", "power"]
"""What an action needs of the cluster it is done to: the proxy before every broker's listener, brokers that can be told
apart by the packet filter (root, iptables), data on file systems of their own (root, loop devices)."""
CAPABILITIES: tuple[Capability, ...] = get_args(Capability)

Proof = Literal[
    "leader_moved", "re_elected", "deposed", "leaderless", "isr_shrunk", "elected", "brief", "coordinator_moved"
]
"""What must be seen, just before an injection is healed, for it to have bitten: every partition it hit is led by a
broker that is no target; every one is led by another broker than before, in a later epoch; the targets lead none of
them any more; every one has no leader; the targets are out of the ISR of every one; those of the subjects' partitions
that had no leader have one now, and there were such; less than 0.8 of `broker.session.timeout.ms` passed, so that the
controller noticed nothing; what the targets coordinated of the load's transactions others coordinate now, and there was
such. The state of processes, counts of requests and the like are each action's own proof, and come on top."""
PROOFS: tuple[Proof, ...] = get_args(Proof)


class Act(Struct, frozen=True, kw_only=True):
    """One action of a fault plan.

    `bites`: it opens an injection, which must prove itself. `heals`: the actions whose injections it closes; an action
    that neither bites nor heals drives the load. `momentary`: over as soon as it is done, nothing is left to heal.
    `clients`: it is done to the producers of all arms at once, not to brokers. `only_subject_topics`: it is done to the
    topics of subjects alone, and controls show what is without it. `proof_only_before_heal`: what it did shows only on
    what comes later, so that its own proof counts only just before healing. `does`: the process state it brings about.
    `observed_as`: the disturbances it is expected to cause, which the observer must see. `counts_as`: the disturbances
    that it is, of kinds that no observer sees (`injection.INJECTED`): every injection of it counts as one, planned if
    it bit. An act that is `topic_altered` has the options `setting` and `value`. `proofs`: what must be seen before
    healing where a plan says nothing else. `options`: what a step may tell it, by name.
    """

    name: str
    summary: str
    bites: bool = False
    heals: tuple[str, ...] = ()
    momentary: bool = False
    clients: bool = False
    only_subject_topics: bool = False
    proof_only_before_heal: bool = False
    does: Literal["exited", "frozen", ""] = ""
    observed_as: tuple[DisturbanceKind, ...] = ()
    counts_as: tuple[DisturbanceKind, ...] = ()
    proofs: tuple[Proof, ...] = ()
    needs: tuple[Capability, ...] = ()
    options: dict[str, str] = {}

    @property
    def all_partitions(self) -> bool:
        """Whether it touches every partition that carries load, whichever broker leads it."""
        return self.clients or "topic_altered" in self.counts_as


_ENDED: tuple[DisturbanceKind, ...] = ("leader_change", "isr_shrink")

_FRAMES = {
    "direction": "request or response (default response)",
    "api": "name or key of the request in Kafka's protocol (default Produce)",
    "nth": "from which on, counted per broker and client.id since the step (default 1)",
    "count": "how many per broker and client.id (default 0: all)",
    "clients": "so many clients must have been hit for it to have bitten (default 1)",
}
"""What the actions of the proxy can be told."""

ACTS: dict[str, Act] = {
    act.name: act
    for act in (
        Act(
            name="kill",
            summary="SIGKILL: gone at once, nothing is handed over; the page cache survives.",
            bites=True,
            heals=("pause",),
            does="exited",
            observed_as=("broker_crash", *_ENDED),
            proofs=("leader_moved",),
        ),
        Act(
            name="stop",
            summary="SIGTERM: an orderly shutdown, which hands leadership over.",
            bites=True,
            does="exited",
            observed_as=("broker_stop", *_ENDED),
            proofs=("leader_moved",),
        ),
        Act(
            name="pause",
            summary="SIGSTOP: stands still with its connections open, and wakes up deposed if that is long.",
            bites=True,
            does="frozen",
            observed_as=("broker_freeze", *_ENDED),
            proofs=("leader_moved",),
        ),
        Act(
            name="elect_preferred",
            summary="Makes another replica the preferred leader and has it elected: no broker is harmed.",
            bites=True,
            momentary=True,
            observed_as=("leader_change",),
            proofs=("re_elected",),
        ),
        Act(
            name="isolate",
            summary="Cut off from the controller and the other brokers, while clients still reach it.",
            bites=True,
            observed_as=_ENDED,
            counts_as=("isolation",),
            proofs=("leader_moved",),
            needs=("network",),
            options={"links": "any of controller, replication, client; default controller,replication"},
        ),
        Act(name="rejoin", summary="Reachable again.", heals=("isolate",)),
        Act(
            name="power_off",
            summary="The host loses power: the process ends, and what was not flushed to the disk is gone.",
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
            bites=True,
            clients=True,
            counts_as=("client_crash",),
        ),
        Act(
            name="restart_producer",
            summary="Starts the producers again; each sends again whatever its ledger has no final answer for.",
            heals=("kill_producer",),
            clients=True,
        ),
        Act(
            name="resend",
            summary="Every producer sends again what it was told nothing certain about (INDETERMINATE).",
            bites=True,
            momentary=True,
            clients=True,
            counts_as=("application_resend",),
        ),
        Act(
            name="drop",
            summary="The proxy swallows requests to brokers, or responses of theirs.",
            bites=True,
            proof_only_before_heal=True,
            counts_as=("connection_loss",),
            needs=("proxy",),
            options=_FRAMES,
        ),
        Act(
            name="hold",
            summary="The proxy keeps requests or responses back until they are released, in order.",
            bites=True,
            proof_only_before_heal=True,
            counts_as=("connection_loss",),
            needs=("proxy",),
            options=_FRAMES,
        ),
        Act(
            name="delay",
            summary="The proxy lets requests or responses go only later.",
            bites=True,
            proof_only_before_heal=True,
            counts_as=("connection_loss",),
            needs=("proxy",),
            options={**_FRAMES, "delay_ms": "how much later (ms)"},
        ),
        Act(
            name="close",
            summary="The proxy closes the connection instead of forwarding a request or response.",
            bites=True,
            proof_only_before_heal=True,
            counts_as=("connection_loss",),
            needs=("proxy",),
            options=_FRAMES,
        ),
        Act(
            name="release",
            summary="The proxy forwards everything again, first what it held back.",
            heals=("drop", "hold", "delay", "close"),
        ),
        Act(
            name="elect_unclean",
            summary="An operator asks for leaders from outside the ISR, for the subjects' partitions that have none.",
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
            bites=True,
            momentary=True,
            counts_as=("topic_altered",),
            options={"setting": "the topic's, e.g. min.insync.replicas", "value": "its new value"},
        ),
        Act(
            name="send",
            summary="Lets every arm of a scripted load send so many blocks more to each partition.",
            options={"blocks": "per partition and producer (default 1)"},
        ),
        Act(name="wait", summary="Does nothing: a step of which only the trigger counts."),
    )
}
"""Every action by its name in a fault plan. `faults.actions.ACTIONS` does them; a test holds the two sets equal."""


TARGETS = (
    "leader",
    "new_leader",
    "followers",
    "follower",
    "other_follower",
    "leader_and_follower",
    "next",
    "second",
    "third",
    "all",
    "transaction_coordinator",
    "none",
)
"""Every target by its name in a fault plan; `same` is that of the step before. `leader` is who leads partition 0 when
the name first occurs in a cycle, and stays that broker; `new_leader` is who leads it when that name first occurs.
`next`, `second` and `third` are the brokers in turn. `transaction_coordinator` is that of the one producer with a
transactional.id, when the name first occurs in a cycle."""


def of(name: str) -> Act:
    """The action called `name`. Raises KeyError."""
    return ACTS[name]
