"""The scenario: everything that is needed to repeat a run, as data. Its JSON form, scenario.json, is read strictly."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from delivery_verifier.model.act import Capability
from delivery_verifier.model.application import Application
from delivery_verifier.model.audit import Audit
from delivery_verifier.model.client import JAVA_NAMES, Client, VersionedClient, versioned
from delivery_verifier.model.data import Data, Name, Setting, setting_text
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.external_cluster import ExternalCluster
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.steps import StepName

Claim = Literal["contract", "at_most_once", "at_least_once", "exactly_once", "ordered"]
"""The guarantee that a user claims of an arm. `contract` is what the arm's settings promise. The other claims are
stronger."""

Role = Literal["subject", "control", "canary"]
"""The role of an arm.

* `subject`: the user asks about the settings of the arm.
* `control`: the arm has known settings, for comparison under the same faults.
* `canary`: the arm carries no load. The verifier plants anomalies in it, and gives no verdict unless it finds all of
  them.
"""
VerdictName = Literal["HELD", "VIOLATED", "INCONCLUSIVE"]
"""The verdict on an arm or a run. INCONCLUSIVE: the evidence allows neither HELD nor VIOLATED."""
OwnPacing = Literal["spread", "flat_out"]
"""The ways of pacing the load that a user may choose. `Load` says what each means."""
OnSigterm = Literal["flush", "exit"]
"""What a producing program does when SIGTERM reaches it. `flush`: it calls flush() and then exits. `exit`: it exits at
once, and what it has queued is dropped."""
ON_SIGTERM: dict[OnSigterm, str] = {"flush": "calls flush() on SIGTERM", "exit": "exits on SIGTERM without flush()"}
"""The predicate of a sentence about a program, for each value of `OnSigterm`."""
Pacing = Literal["spread", "flat_out", "scripted"]
"""All ways of pacing the load. A load is `scripted` if and only if the fault plan has `send` steps."""


FEWEST_RECORDS = 1000
"""The least number of records that a user may plan for an arm. With fewer records, hardly any is under way when the
fault takes effect. A comparison of the subject with its controls then shows nothing."""


MOST_PRODUCERS = 10_000
"""The most producers of an arm. Only a ledger of a user's own has more than `MOST_STARTED`."""
MOST_STARTED, MOST_STARTED_BROKERS = 64, 3
"""The most producers that a run starts for an arm, and the most brokers that it starts. A cluster of a user's own may
have more brokers, and a topic there more replicas."""


class Profile(Data, frozen=True):
    """Delivery settings of a producer and its topic, by Kafka's property names.

    A profile states every setting that matters for delivery. If a user wrote the settings, `notes` say which settings
    were left out, and which missing settings got a default. `written_for` is the client for which the settings were
    written, and whose defaults fill the gaps. `written_for_version` is the version of it that the user named, e.g.
    `3.1`, or empty. Which client sends is a field of the arm.

    `written` has the settings of the producer that the user gave, by librdkafka's names. The others are defaults of the
    client, which depend on its version. None: the profile states its settings for no client in particular.

    `java_properties` has the properties of the producer as the user wrote them for the Java client, by its own names.
    An arm with the Java client gets them in place of what `producer` says of the same settings. They never contradict
    it: where librdkafka takes another number, e.g. a shorter timeout, `producer` has that one.
    """

    name: Name
    summary: str
    producer: dict[str, Setting]
    topic: dict[str, Setting]
    notes: tuple[str, ...] = ()
    written_for: Client = "librdkafka"
    written_for_version: Annotated[str, Meta(pattern=r"^([0-9]+(\.[0-9]+){0,2})?$")] = ""
    written: dict[str, Setting] | None = None
    java_properties: dict[str, str] = {}


class Bound(Data, frozen=True):
    """A bound on a count of an arm, e.g. `LOST >= 1`. `op` compares the count with `value`.

    `count` is a column of the counts in lower case, e.g. `acked`, or the name of an anomaly. For an anomaly, the number
    of its cases is compared. If the anomaly is in SECONDARY (see `Anomaly`), the number includes the records that show
    the anomaly, but are cases of another one.
    """

    count: str
    op: Literal["=", ">=", "<="]
    value: int


class Expectation(Data, frozen=True):
    """What an arm must show for the run to be green: one of `verdicts`, and counts within all `bounds`.

    An INCONCLUSIVE arm never meets its expectation. `by_chance`: whether chance decides if the arm shows what `bounds`
    ask for. If it does not show it, this proves nothing, and the arm is INCONCLUSIVE instead of HELD.
    """

    verdicts: tuple[Literal["HELD", "VIOLATED"], ...] = ("HELD",)
    bounds: tuple[Bound, ...] = ()
    by_chance: bool = False


class Arm(Data, frozen=True):
    """One arm of a run: a profile with its claim and expectation, on a topic of its own.

    `producers` is the number of producers. Together they send at least `records` records. `ordinal` is the number that
    identifies the arm in the headers of its records (see `record`). `application` is the program under test that
    consumes the arm's topic, or None. `on_sigterm` says how the arm's producers end on SIGTERM. It is given if and only
    if the fault plan sends them SIGTERM.

    `client` is the library of the arm's producers, in the version `client_version`, e.g. `4.3.1`. Empty: the default
    version (see `model.client`).
    """

    name: Name
    ordinal: Annotated[int, Meta(ge=0, le=9999)]
    role: Role
    profile: Profile
    topic_name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
    claim: Claim = "contract"
    expectation: Expectation = Expectation()
    records: Annotated[int, Meta(ge=0, le=10**11)] = 0
    producers: Annotated[int, Meta(ge=1, le=MOST_PRODUCERS)] = 1
    application: Application | None = None
    on_sigterm: OnSigterm | None = None
    client: Client = "librdkafka"
    client_version: Annotated[str, Meta(pattern=r"^([0-9]+(\.[0-9]+){0,3})?$")] = ""

    @property
    def versioned_client(self) -> VersionedClient:
        """The client of the arm's producers, with its version."""
        return versioned(self.client, self.client_version)

    @property
    def java_properties(self) -> dict[str, str]:
        """The properties that the arm's client gets as they were written. Empty unless it is the Java client."""
        return self.profile.java_properties if self.client == "java" else {}

    @property
    def producer(self) -> dict[str, Setting]:
        """The settings of the arm's producers, by librdkafka's names, and by the Java client's own names where they
        were written for it."""
        stated, own = self.profile.producer, self.java_properties
        as_stated = {name: stated[name] for name in own if name in stated and setting_text(stated[name]) == own[name]}
        rest = {name: value for name, value in stated.items() if JAVA_NAMES.get(name, name) not in own}
        return {**rest, **own, **as_stated}

    @property
    def transactional_id(self) -> str:
        """The transactional.id of the arm's profile. The result is empty if the arm writes no transactions."""
        return str(self.profile.producer.get("transactional.id", ""))

    @property
    def transactional_ids(self) -> tuple[str, ...]:
        """One transactional.id for each producer of the arm. The result is empty if the arm writes no transactions.

        Two producers with the same transactional.id would fence each other.
        """
        base = self.transactional_id
        return tuple(f"{base}-{self.name}-{number}" for number in range(self.producers)) if base else ()


class Load(Data, frozen=True):
    """The shape of the load. All arms have the same shape.

    `pacing` says when the producers send:

    * `spread`: at a steady rate, at which `Arm.records` records take `duration_s` seconds
    * `flat_out`: as fast as they can
    * `scripted`: only at the `send` steps of the fault plan, block by block, so that the verifier knows exactly which
      records are in flight at every step.

    The other fields:

    * `rate`: if given, each arm sends this many records per second, whether `pacing` is `spread` or `flat_out`.
    * `block`: how many consecutive records a producer sends to one partition before it turns to the next partition. 0
      means: the load derives this number from the rate and the number of records.
    * `recovery_s`: how many seconds the load goes on after the end of the fault plan.
    * `deadline_s`: the longest time of a single wait during the load, e.g. of the wait for the end of the fault plan.
    * `transaction_records`: the number of records per transaction, for arms with a transactional.id. A slow producer
      puts fewer records into a transaction (see `load.transactions.size`).
    * `abort_every`: each transactional producer aborts its second transaction on purpose, and then every
      `abort_every`-th. The records of aborted transactions must stay invisible. 0 means: none is aborted on purpose.
    """

    partitions: Annotated[int, Meta(ge=1, le=1000)] = 3
    replication_factor: Annotated[int, Meta(ge=1, le=100)] = 3
    payload_bytes: Annotated[int, Meta(ge=70, le=1_000_000)] = 100
    pacing: Pacing = "spread"
    block: Annotated[int, Meta(ge=0, le=1000)] = 0
    rate: Annotated[int, Meta(ge=1)] | None = None
    duration_s: Annotated[float, Meta(gt=0, le=86_400)] = 10.0
    recovery_s: Annotated[float, Meta(ge=0, le=3600)] = 2.0
    deadline_s: Annotated[float, Meta(gt=0, le=86_400)] = 240.0
    transaction_records: Annotated[int, Meta(ge=1, le=100_000)] = 500
    abort_every: Annotated[int, Meta(ge=0, le=1_000_000)] = 10


class ClusterSpec(Data, frozen=True):
    """The cluster under test. `broker_settings` are further settings of every broker. `session_timeout_ms` and
    `heartbeat_interval_ms` are the broker settings `broker.session.timeout.ms` and `broker.heartbeat.interval.ms`."""

    backend: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,30}$")] = "embedded"
    """The software that runs the cluster: a name in `cluster.backends.BACKENDS`."""
    kafka_version: str = "4.3.1"
    brokers: Annotated[int, Meta(ge=1, le=1000)] = 3
    session_timeout_ms: Annotated[int, Meta(ge=300, le=60_000)] = 3000
    heartbeat_interval_ms: Annotated[int, Meta(ge=50, le=10_000)] = 500
    broker_settings: dict[str, Setting] = {}
    capabilities: tuple[Capability, ...] = ()
    """What the fault plan needs of the cluster beside brokers, e.g. a proxy, as `capabilities_of` returns it."""
    elr: bool = True
    """Whether the cluster keeps eligible leader replicas (KIP-966). The feature is `eligible.leader.replicas.version`,
    and is on by default since Kafka 4.1."""
    external: ExternalCluster | None = None
    """Which cluster it is, if somebody else runs it. Then the other fields say what was found there, and `brokers` is
    the number of brokers that hold replicas of the run. None: the run starts its cluster."""


class Scenario(Data, frozen=True):
    """Everything that is needed to do a run and to repeat it: the content of scenario.json.

    `run_token` is the eight characters that mark the records of this run. `seed` decides which broker leads partition 0
    at first. It also decides at which broker the rotating targets of a fault plan (`next`, `second`, `third`) begin.
    """

    run_id: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,120}$")]
    run_token: Annotated[str, Meta(pattern=r"^[a-z0-9]{8}$")]
    name: Name
    arms: tuple[Arm, ...]
    load: Load
    fault: FaultPlan
    cluster: ClusterSpec = ClusterSpec()
    seed: Annotated[int, Meta(ge=0, lt=2**31)] = 0
    min_exposed: Annotated[int, Meta(ge=0)] = 100
    """The least number of an arm's reported attempts that each injection must expose. With fewer, the arm cannot be
    HELD. 0 has the same meaning as 1."""
    created_at: str = ""
    versions: dict[str, str] = {}
    commit: str = ""
    command: str = ""
    audit: Audit | None = None
    """What is known of the ledger, if the run is an audit: then the only subject is a topic and a ledger of the user's
    own, nothing was sent, and nobody observed the cluster. None: any other run."""
    fail_step: StepName | None = None
    """The step that must fail as soon as it starts, or None. The field serves to show that a run with a failed step is
    not green."""

    def arm(self, name: str) -> Arm:
        """Returns the arm called `name`. Raises KeyError if there is no such arm."""
        return {arm.name: arm for arm in self.arms}[name]

    def fail_if_asked(self, step: StepName) -> None:
        """Raises StepFailed if the scenario asks for `step` to fail, that is, if `fail_step` is `step`."""
        if self.fail_step == step:
            raise StepFailed(f"scenario.fail_step is {step}: this step fails as asked")

    @property
    def arm_names(self) -> tuple[str, ...]:
        """The names of all arms in the scenario's order, including the canary."""
        return tuple(arm.name for arm in self.arms)

    @property
    def subjects(self) -> tuple[Arm, ...]:
        """The subject arms: the arms that the user asks about."""
        return tuple(arm for arm in self.arms if arm.role == "subject")

    @property
    def loaded(self) -> tuple[Arm, ...]:
        """The arms that carry load: the subjects and the controls."""
        return tuple(arm for arm in self.arms if arm.role != "canary")

    @property
    def transactional(self) -> tuple[str, ...]:
        """The names of the arms that write transactions, and of the canary. Their topics are read at both isolation
        levels. Empty for an audit, whose log has only what a read_committed consumer gets."""
        names = tuple(arm.name for arm in self.loaded if arm.transactional_id and self.audit is None)
        return (*names, self.canary.name) if names else ()

    @property
    def applied(self) -> tuple[str, ...]:
        """The names of the arms with an application, and of the canary. Empty if no arm has an application."""
        names = tuple(arm.name for arm in self.loaded if arm.application)
        return (*names, self.canary.name) if names else ()

    @property
    def transactional_ids(self) -> tuple[str, ...]:
        """The transactional.ids of all producers of the load."""
        return tuple(name for arm in self.loaded for name in arm.transactional_ids)

    @property
    def canary(self) -> Arm:
        """The canary: the arm in which the step settle plants anomalies. The verifier must find all of them."""
        return next(arm for arm in self.arms if arm.role == "canary")


Isolation = Literal["read_uncommitted", "read_committed"]
"""The isolation.level of a consumer."""

RAW: Isolation = "read_uncommitted"
"""The isolation level that shows all records, also those of open and aborted transactions."""
