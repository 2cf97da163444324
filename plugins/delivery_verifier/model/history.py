"""What happened to the cluster: the injections, and everything that an independent observer saw."""

from __future__ import annotations

import time
from typing import Literal

import msgspec
from msgspec import Struct

LEAD_US = 1_000_000
"""How long before its bite (µs) the exposure window of an injection begins. The bite is known only once it is proven,
and a record that was acknowledged shortly before may still have been on the leader alone."""

DisturbanceKind = Literal[
    "leader_change",
    "unclean_election",
    "isr_shrink",
    "broker_crash",
    "broker_stop",
    "broker_freeze",
    "unclean_request",
    "power_loss",
    "isr_power_loss",
    "isolation",
    "connection_loss",
    "topic_altered",
    "client_crash",
    "application_resend",
]
"""The kinds of disturbance, by the names that they have in every file. `DISTURBANCES` says what each means."""


class KindOfDisturbance(Struct, frozen=True):
    """What is said of one kind of disturbance.

    `seen_by`: who knows of the disturbance: the observer alone, the injection that caused it alone, or only both
    together. `touches`: only the topics that the disturbance names, or possibly every topic of the cluster.
    """

    meaning: str
    seen_by: Literal["observer", "injection", "both"]
    touches: Literal["topics", "cluster"]


DISTURBANCES: dict[DisturbanceKind, KindOfDisturbance] = {
    "leader_change": KindOfDisturbance("a partition got another leader, or a new leader epoch", "observer", "topics"),
    "unclean_election": KindOfDisturbance(
        "a leader that was neither in the last ISR seen nor eligible", "observer", "topics"
    ),
    "isr_shrink": KindOfDisturbance("a replica left the ISR", "observer", "topics"),
    "broker_crash": KindOfDisturbance("a broker process ended without a shutdown", "observer", "cluster"),
    "broker_stop": KindOfDisturbance("a broker process ended in an orderly shutdown", "observer", "cluster"),
    "broker_freeze": KindOfDisturbance("a broker process stood still", "observer", "cluster"),
    "unclean_request": KindOfDisturbance("an operator asked for an unclean election", "injection", "topics"),
    "power_loss": KindOfDisturbance("a broker lost what it had not flushed", "injection", "cluster"),
    "isr_power_loss": KindOfDisturbance(
        "every broker in the ISR of a partition had lost what it had not flushed, and not copied it again",
        "both",
        "topics",
    ),
    "isolation": KindOfDisturbance("a broker was cut off from others", "injection", "cluster"),
    "connection_loss": KindOfDisturbance(
        "connections between clients and a broker were held, delayed or cut", "injection", "cluster"
    ),
    "topic_altered": KindOfDisturbance("a topic got another value of a setting", "injection", "topics"),
    "client_crash": KindOfDisturbance("a client process was killed", "injection", "topics"),
    "application_resend": KindOfDisturbance("an application sent again what it had sent before", "injection", "topics"),
}
"""Every kind of disturbance."""

INJECTED = frozenset(name for name, kind in DISTURBANCES.items() if kind.seen_by != "observer")
"""Kinds that the observer cannot see alone. They are known only from the injection that caused them, hence only from a
planned one."""

ON_TOPICS = frozenset(name for name, kind in DISTURBANCES.items() if kind.touches == "topics")
"""Kinds that touch only the topics that they name. What is done to a broker may touch every topic."""


class Injection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One fault that was done to the cluster, with its own proof that it bit. All times are µs since the epoch.

    `hit`: the partitions per topic that the injection touches. They are those that the target brokers led just before
    the bite. Where the brokers led none (`led` is false), they are those of which the brokers held a replica. An
    injection into clients or topics hits every partition that carries load. The exposure window is
    [bite_at_us - LEAD_US, recovered_at_us]. `options` are those of the plan's step: with `options` and `brokers` any
    process can heal what was done.

    `proof` by key. `process`: the action's own proof once it was done; `process_before_heal`: the same just before
    healing. `before`: leader and leader_epoch just before the bite, by `<topic>-<partition>`. `wanted`: the names of
    the effects that had to be seen (`fault_actions.Proof`); what was seen of each has its name as key and is empty if
    the effect was not seen. `coordinated`: the partitions of `__transaction_state` that the target led, where
    `coordinator_moved` is wanted. `waited_for`: effects that the plan waited for and saw. `failed`: the deadline that
    passed while the injection was open.
    """

    id: int
    cycle: int
    action: str
    brokers: list[int]
    hit: dict[str, list[int]]
    requested_at_us: int
    bite_at_us: int
    healed_at_us: int | None = None
    recovered_at_us: int | None = None
    bit: bool = False
    led: bool = True
    options: dict[str, str | int | bool] = {}
    proof: dict[str, object] = {}


class Observation(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One change that the observer saw: in the leadership or ISR of a partition, or in the state of a broker process.

    kind `partition`: topic, partition, leader (-1: none), leader_epoch, isr, elr (eligible leader replicas). kind
    `process`: broker, state (running, frozen, exited), exit_code.
    """

    at_us: int
    kind: Literal["partition", "process"]
    topic: str = ""
    partition: int = -1
    leader: int = -1
    leader_epoch: int = -1
    isr: list[int] = []
    elr: list[int] = []
    broker: int = -1
    state: str = ""
    exit_code: int | None = None


class Disturbance(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Something that happened and may excuse an anomaly. `planned` iff an injection that bit explains the disturbance.

    `topic` is empty where the disturbance may have touched any topic. kind `topic_altered`: `setting` got `value`. kind
    `isr_power_loss`: `replicas` is the greatest number of replicas, in sync together, that all ended without flushing.
    """

    kind: DisturbanceKind
    at_us: int
    planned: bool
    brokers: list[int] = []
    topic: str = ""
    partitions: list[int] = []
    detail: str = ""
    setting: str = ""
    value: str = ""
    replicas: int = 0


class PartitionSnapshot(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One partition at the end of the load. Data stands in [start, end); `end` is the first marker's offset.

    `live_end` is the offset behind the last marker. Any record from there on that is no marker means that the log
    moved. `control_records`: control records of transactions in [start, end), which no consumer shows.
    `aborted_records`: records of aborted transactions, which no read_committed consumer shows. Both are counted
    from the headers of the leader's batches. `log_append_time` is always False, and no code reads it. It remains
    because stored offsets.json files have it.
    """

    arm: str
    topic: str
    partition: int
    start: int
    end: int
    live_end: int
    leader: int
    leader_epoch: int
    log_append_time: bool = False
    control_records: int = 0
    aborted_records: int = 0


class Offsets(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The snapshot, taken once by `settle` (offsets.json)."""

    bootstrap_servers: str
    taken_at_us: int
    partitions: list[PartitionSnapshot]


def read_injections(text: bytes) -> list[Injection]:
    """Reads injections.json strictly. Raises msgspec.MsgspecError naming the field."""
    return msgspec.json.decode(text, type=list[Injection])


def read_observations(text: bytes) -> list[Observation]:
    """Reads observations.json strictly. Raises msgspec.MsgspecError naming the field."""
    return msgspec.json.decode(text, type=list[Observation])


def read_offsets(text: bytes) -> Offsets:
    """Reads offsets.json strictly. Raises msgspec.MsgspecError naming the field."""
    return msgspec.json.decode(text, type=Offsets)


def now_us() -> int:
    """The wall clock in µs since the epoch. All processes of a run share a host, and hence this clock."""
    return time.time_ns() // 1000
