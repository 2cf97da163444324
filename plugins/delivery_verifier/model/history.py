"""The history of the cluster during a run: injections, the changes that an independent observer saw, and the snapshot.

The snapshot is taken after the load. It says where each partition's log begins and ends.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Literal

import msgspec
from msgspec import Struct

LEAD_US = 1_000_000
"""The exposure window of an injection is the time in which the injection could hurt records. The window begins this
long (µs) before the effect. Reason: if the leader acknowledged a record shortly before the effect, the other brokers
may not have a copy of the record yet."""

HEARTBEAT_US = 1_000_000
"""The time (µs) from one observation of the kind `heartbeat` to the next. In a heartbeat, the observer records that it
sees the cluster."""
TRANSACTION_STATE = "__transaction_state"
"""The topic in which transaction coordinators keep the states of all transactions."""

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
    "late_end",
    "topic_altered",
    "client_crash",
    "application_resend",
    "unclean_coordinator_election",
    "coordinator_power_loss",
    "application_crash",
    "application_freeze",
    "rewind",
    "outage",
]
"""The kinds of disturbance, by the names that they have in every file. `DISTURBANCES` gives their meanings."""


class KindOfDisturbance(Struct, frozen=True):
    """One kind of disturbance in words and data.

    * `seen_by`: the source from which the verifier derives the disturbance. `observer`: the observations. `injection`:
      the record of the injection that caused the disturbance. `both`: only the two together show it.
    * `touches`: `topics` if the disturbance touches only the topic `Disturbance.topic`, and `cluster` if it may touch
      every topic.
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
    "late_end": KindOfDisturbance(
        "a request that ends a transaction (EndTxn) reached its coordinator late", "injection", "topics"
    ),
    "topic_altered": KindOfDisturbance("a topic got another value of a setting", "injection", "topics"),
    "client_crash": KindOfDisturbance("a client process was killed, or ended with SIGTERM", "injection", "topics"),
    "application_resend": KindOfDisturbance("an application sent again what it had sent before", "injection", "topics"),
    "unclean_coordinator_election": KindOfDisturbance(
        f"an unclean election in `{TRANSACTION_STATE}`: the new coordinator may not know how transactions ended",
        "observer",
        "cluster",
    ),
    "coordinator_power_loss": KindOfDisturbance(
        f"`isr_power_loss` of `{TRANSACTION_STATE}`: the coordinator may not know how transactions ended",
        "both",
        "cluster",
    ),
    "application_crash": KindOfDisturbance("a member of an application was killed", "injection", "topics"),
    "application_freeze": KindOfDisturbance("a member of an application stood still", "injection", "topics"),
    "rewind": KindOfDisturbance("a consumer group was set back to earlier offsets", "injection", "topics"),
    "outage": KindOfDisturbance(
        "on a cluster that somebody else runs, every broker in the ISR of a partition did not answer. It permits "
        "nothing: a loss of power looks the same, and then nothing that it may explain convicts",
        "observer",
        "topics",
    ),
}
"""Every kind of disturbance, by name."""

OF_APPLICATIONS: frozenset[DisturbanceKind] = frozenset({"application_crash", "application_freeze", "rewind"})
"""The kinds of disturbance that befall members of applications, and no broker, producer or topic."""

INJECTED = frozenset(name for name, kind in DISTURBANCES.items() if kind.seen_by != "observer")
"""The kinds of disturbance that cannot be derived from observations alone. They are derived from the injection that
caused them. If no injection caused such a disturbance, the disturbance stays unknown."""

ON_TOPICS = frozenset(name for name, kind in DISTURBANCES.items() if kind.touches == "topics")
"""The kinds of disturbance that touch only the topic in `Disturbance.topic`. A disturbance of any other kind may touch
every topic, e.g. because every topic has partitions on the broker that was hit."""


class Injection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One fault that was done to the cluster, with the proof that the fault took effect. All times are µs since the
    epoch.

    * `cycle` counts the cycles from 0. `brokers`: the target brokers. `options`: the options of the plan's step.
    * `hit` maps a topic to the partitions that the injection touched: those that the target brokers led just before the
      effect. If the target brokers led no partition, `led` is false, and `hit` has the partitions with a replica on
      these brokers. An injection into clients or topics hits every partition that carries load.
    * `requested_at_us`: when the action was asked for. `effect_at_us`: when the action took effect.
    * `took_effect`: whether proof of the effect was found.
    * `healed_at_us`: when the last target broker was healed. `recovered_at_us`: when every replica was in sync again.

    * `seen_at_us`: if somebody else did it, when it was first seen, which may be later than the effect; else None.

    The exposure window, in which the fault could hurt records, is [effect_at_us - LEAD_US, recovered_at_us]. What was
    surely exposed is counted from `exposed_at_us` on.

    The keys of `proof`:

    * `process`: the action's own proof, taken right after the action.
    * `process_before_heal`: the action's own proof, taken just before healing.
    * `before`: maps each hit partition (`<topic>-<partition>`) to its leader and leader_epoch just before the effect.
    * `wanted`: the names of the effects that had to be seen (`act.Proof`). Each effect that the runner looked for is a
      key of `proof`, too. The value of the key is the evidence; empty if the effect was not seen.
    * `coordinated`: the partitions of `__transaction_state` that hold transactions of the load and that the targets led
      just before the effect. The key exists if `coordinator_moved` is wanted.
    * `waited_for`: the evidence of the effect `isr_shrunk` at the time when the trigger `isr_shrunk` of a later step
      fired. The key exists only if the effect was seen.
    * `failed`: why the cycle ended early: a trigger or an action missed its deadline. Every injection that was not
      healed by then has this key. If all were healed, only the last injection has the key. An injection with this key
      counts as an injection that did not take effect.
    * `ordered`: on a cluster that somebody else runs, the commands of the operator that were run to break and to heal
      the brokers (`faults.open_injection.Order`), in their order. That one ended with exit code 0 proves nothing.
    """

    id: int
    cycle: int
    action: str
    brokers: list[int]
    hit: dict[str, list[int]]
    requested_at_us: int
    effect_at_us: int
    seen_at_us: int | None = None
    healed_at_us: int | None = None
    recovered_at_us: int | None = None
    took_effect: bool = False
    led: bool = True
    options: dict[str, str | int | bool] = {}
    proof: dict[str, object] = {}

    @property
    def exposed_at_us(self) -> int:
        """From when on (µs since the epoch) the fault surely stood: `seen_at_us`, or the effect."""
        return self.effect_at_us if self.seen_at_us is None else self.seen_at_us

    @property
    def in_words(self) -> str:
        """The injection as people read it, e.g. `injection 1 (power off)`."""
        return f"injection {self.id} ({self.action.replace('_', ' ')})"


class Observation(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One entry in the observer's record. An entry uses only the fields of its kind:

    * `partition`, a change in the leadership, ISR or replicas of a partition. Fields: topic, partition, leader (-1: no
      leader), leader_epoch, isr, elr (the eligible leader replicas), replicas (empty in runs that did not record them).
    * `epochs`, the leader epochs in the log of a new leader. Fields: topic, partition, leader, leader_epoch, epochs,
      epoch_starts (the first offset of each of `epochs`). The last of `epochs` is leader_epoch. Its start is the end
      that the log had at the election.
    * `deposed`, an answer of a former leader: it knows that it does not lead in leader_epoch. Fields: topic, partition,
      broker, leader_epoch.
    * `process`, a change in the state of a broker process. Fields: broker, state (running, frozen or exited),
      exit_code.
    * `answers`, a change in whether a broker answers requests of the observer. Only where nobody tells the states of
      processes. Fields: broker, state, and pause_us (µs), the time since the last question that it answered; 0: it
      answered none before. `state` is `answers`; `refuses`: the connection was refused, reset or closed, or the client
      was refused; or `silent`: no answer came in time, or there was no way to the broker.
    * `setting`, a setting of a topic, at the first look and whenever it has another value. Only on a cluster that
      somebody else runs. Fields: topic, setting, value.
    * `look`, a look at these settings that saw all topics. Field: pause_us (µs), the time since the look before began;
      0: the first look.
    * `heartbeat`, a proof that the observer saw the cluster at this time. Field: pause_us (µs), the longest time since
      the previous heartbeat for which the observer did not see the cluster. A negative pause_us shows that the clock
      was set back.

    `at_us` is in µs since the epoch. The observations stand in their file in the order in which they were made,
    whatever the clock says.
    """

    at_us: int
    kind: Literal["partition", "epochs", "deposed", "process", "answers", "setting", "look", "heartbeat"]
    topic: str = ""
    partition: int = -1
    leader: int = -1
    leader_epoch: int = -1
    isr: list[int] = []
    elr: list[int] = []
    replicas: list[int] = []
    epochs: list[int] = []
    epoch_starts: list[int] = []
    broker: int = -1
    state: str = ""
    exit_code: int | None = None
    setting: str = ""
    value: str = ""
    pause_us: int = 0


class Disturbance(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An event in the cluster that may explain an anomaly.

    * `planned`: whether an injection explains the event, proven or not. For the kind `topic_altered`, whether the
      alteration is proven.
    * `at_us`: µs since the epoch.
    * `topic`: the touched topic; empty if any topic may be touched.
    * `partitions`: the touched partitions of `topic`. For the kinds in `coordinators.OF_COORDINATORS`, they are
      partitions of `__transaction_state`, and `topic` is empty.
    * `producers`: the numbers of the producers whose transactions may be touched. Empty: any producer's may be touched.
    * `detail`: the event in words.
    * `setting`: in the kind `topic_altered`, the name of the topic's setting. `value`: the new value of this setting.
    * `weakens_since_us`: in the kind `topic_altered`, a time (µs since the epoch). The contract applies the new value
      of the setting to all disturbances from this time on.
    * `replicas`: only in the kinds `isr_power_loss` and `coordinator_power_loss`. The contract compares this number
      with min.insync.replicas. `contract.power.isr_power_losses` defines this number.
    """

    kind: DisturbanceKind
    at_us: int
    planned: bool
    brokers: list[int] = []
    topic: str = ""
    partitions: list[int] = []
    producers: list[int] = []
    detail: str = ""
    setting: str = ""
    value: str = ""
    replicas: int = 0
    weakens_since_us: int = 0


def left_key(arm: str) -> str:
    """Returns the key in the proof of the action `terminate_producer` under which the proof has the number of records
    that the producers of `arm` had in progress, without a delivery report, when they ended."""
    return f"left by {arm}"


def read_injections(text: bytes) -> list[Injection]:
    """Reads the content of injections.json strictly. Raises msgspec.MsgspecError if a field is wrong. The message names
    the field."""
    return msgspec.json.decode(text, type=list[Injection])


def read_observations(text: bytes) -> list[Observation]:
    """Reads the content of observations.json strictly. Raises msgspec.MsgspecError if a field is wrong. The message
    names the field."""
    return msgspec.json.decode(text, type=list[Observation])


def now_us() -> int:
    """Returns the wall clock time in µs since the epoch. All processes of a run are on one host, so their times can be
    compared."""
    return time.time_ns() // 1000


def injection_during(injections: Iterable[Injection], from_us: int | None, to_us: int | None) -> Injection | None:
    """Returns the first injection that could have hurt a record that was under way from `from_us` to `to_us`.

    The two times are in µs since the epoch. If `to_us` is None, the record is still under way. An injection can hurt
    records from LEAD_US (1 s) before the effect of the injection until the recovery of the cluster. If the cluster did
    not recover, the injection can hurt records for ever. Returns None if there is no such injection, or if `from_us` is
    None.
    """
    if from_us is None:
        return None
    for injection in injections:
        before_end = injection.recovered_at_us is None or from_us <= injection.recovered_at_us
        if before_end and (to_us is None or to_us >= injection.effect_at_us - LEAD_US):
            return injection
    return None
