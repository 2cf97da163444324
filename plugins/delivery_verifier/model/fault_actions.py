"""Every action that a fault plan may name, in words and data. The code that performs the actions is in `faults`.

The contract finds here which disturbances an action causes. The judge finds here which actions are faults. The runner
of a fault plan finds here which faults an action heals. The preflight (the check of the host before a run) finds here
what the cluster must have for an action.
"""

from __future__ import annotations

from delivery_verifier.model.act import (
    BLOCKS,
    CLIENTS,
    COUNTED,
    CRASH_POINT,
    DELAY,
    FRAMES,
    LINKS_CUT,
    MORE_PARTITIONS,
    NTH_BATCH,
    NTH_RECORD,
    SETTING,
    VALUE,
    Act,
)
from delivery_verifier.model.history import DisturbanceKind

_ENDED: tuple[DisturbanceKind, ...] = ("leader_change", "isr_shrink")
"""The kinds of disturbance that follow when a broker ends, stands still or loses its network connections."""

TERMINATE = "terminate_producer"
"""The name of the action that ends producers with SIGTERM."""

ADD_PARTITIONS = "add_partitions"
"""The name of the action that adds partitions to topics."""

OBSERVE = "observe"
"""The name of the action in which somebody else breaks brokers, and the run watches."""

OF_APPLICATIONS: tuple[Act, ...] = (
    Act(
        name="park",
        summary="Every member of an application stands still when it comes to a named point of its work.",
        whom="application",
        options=(CRASH_POINT, NTH_BATCH, NTH_RECORD),
    ),
    Act(
        name="kill_application",
        summary="SIGKILL for every member of every application: what it had in progress stays as it is.",
        done="was killed",
        takes_effect=True,
        whom="application",
        counts_as=("application_crash",),
    ),
    Act(
        name="stop_application",
        summary="SIGTERM for every member of every application: each applies what it has in progress, commits as it "
        "does, and leaves its group.",
        done="was stopped in good order",
        takes_effect=True,
        proof_only_before_heal=True,
        whom="application",
    ),
    Act(
        name="restart_application",
        summary="Starts the members of applications again; each goes on where its group has committed.",
        heals=("kill_application", "stop_application"),
        whom="application",
    ),
    Act(
        name="await_assignment",
        summary="Waits until the members of each application have all partitions of its topic, as its group shows.",
        whom="application",
    ),
    Act(
        name="freeze_application",
        summary="SIGSTOP for the member of every application: another process, its replacement, takes its place.",
        done="was frozen and replaced",
        takes_effect=True,
        proof_only_before_heal=True,
        whom="application",
        counts_as=("application_freeze",),
    ),
    Act(
        name="thaw_application",
        summary="SIGCONT for the frozen members: each goes on with what it has in progress, until it is refused or has "
        "no more to do. Then it ends.",
        done="went on behind its replacement",
        takes_effect=True,
        momentary=True,
        heals=("freeze_application",),
        whom="application",
    ),
    Act(
        name="rewind",
        summary="An operator stops the applications, sets their groups back to offset 0, and starts them again.",
        done="was set back to offset 0",
        takes_effect=True,
        momentary=True,
        whom="application",
        counts_as=("rewind",),
    ),
)
"""The actions on the members of all applications. `ACTS` has them, too."""

ACTS: dict[str, Act] = {
    act.name: act
    for act in (
        Act(
            name="kill",
            summary="SIGKILL: gone at once, nothing is handed over; the page cache survives.",
            done="was killed",
            means="process",
            takes_effect=True,
            heals=("pause",),
            does="exited",
            observed_as=("broker_crash", *_ENDED),
            proofs=("leader_moved",),
        ),
        Act(
            name="stop",
            summary="SIGTERM: an orderly shutdown, which hands leadership over.",
            done="was stopped",
            means="process",
            takes_effect=True,
            does="exited",
            observed_as=("broker_stop", *_ENDED),
            proofs=("leader_moved",),
        ),
        Act(
            name="pause",
            summary="Sends SIGSTOP. Connections stay open. After a long pause the broker wakes up and is no longer "
            "leader.",
            done="was frozen",
            means="process",
            takes_effect=True,
            does="frozen",
            observed_as=("broker_freeze", *_ENDED),
            proofs=("leader_moved",),
        ),
        Act(
            name="elect_preferred",
            summary="Makes another replica the preferred leader and has it elected: no broker is harmed.",
            done="was replaced in an election",
            whom="leader",
            takes_effect=True,
            momentary=True,
            observed_as=("leader_change",),
            proofs=("re_elected",),
        ),
        Act(
            name="isolate",
            summary="Cut off from the controller and the other brokers, while clients still reach it.",
            done="was cut off",
            takes_effect=True,
            observed_as=_ENDED,
            counts_as=("isolation",),
            proofs=("leader_moved",),
            means="network",
            options=(LINKS_CUT,),
        ),
        Act(name="rejoin", summary="Reachable again.", heals=("isolate",), means="network"),
        Act(
            name="power_off",
            summary="The host loses power: the process ends, and what was not flushed to the disk is gone.",
            done="lost its power",
            takes_effect=True,
            does="exited",
            observed_as=("broker_crash", *_ENDED),
            counts_as=("power_loss",),
            proofs=("leader_moved",),
            means="power",
        ),
        Act(
            name="sync",
            summary="Flushes everything to the brokers' disks: it survives a loss of power.",
            means="power",
        ),
        Act(name="resume", summary="SIGCONT: goes on.", heals=("pause",), means="process"),
        Act(
            name="start",
            summary="Starts brokers that have exited.",
            heals=("kill", "stop", "power_off"),
            means="process",
        ),
        Act(
            name="kill_producer",
            summary="SIGKILL for every producer: what was under way is never answered.",
            done="was killed",
            takes_effect=True,
            whom="producer",
            counts_as=("client_crash",),
        ),
        Act(
            name=TERMINATE,
            summary="SIGTERM for every producer: each ends as its arm says, with flush() or without.",
            done="was ended with SIGTERM",
            takes_effect=True,
            whom="producer",
            counts_as=("client_crash",),
        ),
        Act(
            name="restart_producer",
            summary="Starts the producers again; each sends again whatever its ledger has no final answer for (with "
            "transactions, or after SIGTERM: nothing).",
            heals=("kill_producer", TERMINATE),
            whom="producer",
        ),
        Act(
            name="resend",
            summary="Producers resend every INDETERMINATE record.",
            done="was made to resend every INDETERMINATE record",
            takes_effect=True,
            momentary=True,
            whom="producer",
            counts_as=("application_resend",),
        ),
        Act(
            name="drop",
            summary="The proxy swallows requests to brokers, or responses of theirs.",
            done="was kept from receiving or answering requests",
            takes_effect=True,
            proof_only_before_heal=True,
            counts_as=("connection_loss",),
            means="proxy",
            options=FRAMES,
        ),
        Act(
            name="hold",
            summary="The proxy keeps requests or responses back until they are released, in order.",
            done="was held up in receiving or answering requests",
            takes_effect=True,
            proof_only_before_heal=True,
            counts_as=("connection_loss",),
            means="proxy",
            options=FRAMES,
        ),
        Act(
            name="delay",
            summary="The proxy lets requests or responses go only later.",
            done="was delayed in receiving or answering requests",
            takes_effect=True,
            proof_only_before_heal=True,
            counts_as=("connection_loss",),
            means="proxy",
            options=(*FRAMES, DELAY),
        ),
        Act(
            name="close",
            summary="The proxy closes the connection instead of forwarding a request or response.",
            done="was cut off in the middle of requests",
            takes_effect=True,
            proof_only_before_heal=True,
            counts_as=("connection_loss",),
            means="proxy",
            options=FRAMES,
        ),
        Act(
            name="stall",
            summary="The proxy reads the begin of a Produce request of at least 32 KiB, and the rest only later. Until "
            "then, the client has to keep what fits neither into its send buffer nor into the proxy's 128 KiB. A stall "
            "counts when it has run out.",
            done="was stalled in the middle of requests",
            takes_effect=True,
            proof_only_before_heal=True,
            counts_as=("connection_loss",),
            means="proxy",
            options=(*COUNTED, DELAY),
        ),
        Act(
            name="delay_end",
            summary="The proxy lets the request that ends each producer's next transaction (EndTxn) go only later.",
            done="had the ends of transactions delayed",
            takes_effect=True,
            proof_only_before_heal=True,
            counts_as=("late_end",),
            means="proxy",
            options=(DELAY, CLIENTS),
        ),
        Act(
            name="release",
            summary="The proxy forwards everything again, first what it held back.",
            heals=("drop", "hold", "delay", "close", "stall", "delay_end"),
            means="proxy",
        ),
        Act(
            name="elect_unclean",
            summary="An operator asks for leaders from outside the ISR, for the subjects' partitions that have none.",
            done="was given a leader from outside the ISR",
            whom="partition",
            takes_effect=True,
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
            takes_effect=True,
            momentary=True,
            counts_as=("topic_altered",),
            options=(SETTING, VALUE),
        ),
        Act(
            name=ADD_PARTITIONS,
            summary="An operator adds partitions to every arm's topic. What is sent from then on goes to all of them.",
            done="was given more partitions",
            whom="topic",
            takes_effect=True,
            momentary=True,
            options=(MORE_PARTITIONS,),
        ),
        Act(
            name=OBSERVE,
            summary="Breaks nothing: waits for somebody else to break brokers, and derives from what is seen which.",
            done="was taken out by somebody else",
            takes_effect=True,
            by_others=True,
            observed_as=_ENDED,
        ),
        *OF_APPLICATIONS,
        Act(
            name="send",
            summary="Sends N more blocks per partition, in every arm of a scripted load.",
            options=(BLOCKS,),
        ),
        Act(name="wait", summary="Does nothing: waits for its trigger."),
    )
}
"""Maps the name of an action in a fault plan to the action. The table `faults.actions.ACTIONS` has the code of every
action. A test checks that both tables have the same names."""
