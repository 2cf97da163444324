"""The scenario: all that is needed to repeat a run, as plain data that reads and writes strict JSON."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from delivery_verifier.model.act import Capability
from delivery_verifier.model.data import Data, Name, Setting
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.steps import StepName

Claim = Literal["contract", "at_most_once", "at_least_once", "exactly_once", "ordered"]
"""What the user asks to be held: what the settings promise (contract), or a stronger guarantee."""

Role = Literal["subject", "control", "canary"]
VerdictName = Literal["HELD", "VIOLATED", "INCONCLUSIVE"]
OwnPacing = Literal["spread", "flat_out"]
Pacing = Literal["spread", "flat_out", "scripted"]


class Profile(Data, frozen=True):
    """Delivery settings under Kafka's own property names. Every setting that matters for delivery is explicit.

    `notes` of settings of the user's own say what was left out and which defaults fill the gaps.
    """

    name: Name
    summary: str
    producer: dict[str, Setting]
    topic: dict[str, Setting]
    notes: tuple[str, ...] = ()


class Bound(Data, frozen=True):
    """A bound on a count of the books, e.g. `LOST >= 1`. `count` is an anomaly, an outcome or a books column."""

    count: str
    op: Literal["=", ">=", "<="]
    value: int


class Expectation(Data, frozen=True):
    """The verdicts with which an arm may end, and bounds on its books, for the run to be green. INCONCLUSIVE never
    counts."""

    verdicts: tuple[Literal["HELD", "VIOLATED"], ...] = ("HELD",)
    bounds: tuple[Bound, ...] = ()


class Arm(Data, frozen=True):
    """One delivery profile with its claim and expectation, on its own topic.

    `records` is the floor of the arm's load over all its producers. `ordinal` identifies the arm in record headers.
    """

    name: Name
    ordinal: Annotated[int, Meta(ge=0, le=9999)]
    role: Role
    profile: Profile
    topic_name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
    claim: Claim = "contract"
    expectation: Expectation = Expectation()
    records: Annotated[int, Meta(ge=0, le=10**11)] = 0
    producers: Annotated[int, Meta(ge=1, le=64)] = 1

    @property
    def transactional_id(self) -> str:
        """The arm's transactional.id; empty where it writes no transactions."""
        return str(self.profile.producer.get("transactional.id", ""))

    @property
    def transactional_ids(self) -> tuple[str, ...]:
        """A transactional.id per producer, since two producers with one would fence each other. () without
        transactions."""
        base = self.transactional_id
        return tuple(f"{base}-{self.name}-{number}" for number in range(self.producers)) if base else ()


class Load(Data, frozen=True):
    """The shape of the load, common to all arms. `duration_s` is the planned duration over which `spread` paces.

    Pacing `scripted`: only the `send` steps of the fault plan send records, block by block. So it is known exactly
    which records are in flight at every step. `block`: how many records in a row go to one partition; 0: chosen by the
    rate.

    Two fields concern arms with a transactional.id. `transaction_records`: records per transaction, in whole blocks,
    but no more than are sent in a second. `abort_every`: the second transaction, and every so many after it, is aborted
    on purpose, and its records must stay invisible; 0: none is.
    """

    partitions: Annotated[int, Meta(ge=1, le=1000)] = 3
    replication_factor: Annotated[int, Meta(ge=1, le=3)] = 3
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
    """The cluster under test. Session and heartbeat are `broker.session.timeout.ms` and
    `broker.heartbeat.interval.ms`."""

    backend: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,30}$")] = "embedded"
    """What runs the cluster: a name in `cluster.backends.BACKENDS`."""
    kafka_version: str = "4.3.1"
    brokers: Annotated[int, Meta(ge=1, le=3)] = 3
    session_timeout_ms: Annotated[int, Meta(ge=300, le=60_000)] = 3000
    heartbeat_interval_ms: Annotated[int, Meta(ge=50, le=10_000)] = 500
    broker_settings: dict[str, Setting] = {}
    equipment: tuple[Capability, ...] = ()
    """What the fault plan needs beside brokers, as `equipment_of` lists it."""
    elr: bool = True
    """Eligible leader replicas (KIP-966), on by default since 4.1: `eligible.leader.replicas.version`."""


class Scenario(Data, frozen=True):
    """One run, repeatable. `run_token` is the eight characters that mark this run's records."""

    run_id: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,120}$")]
    run_token: Annotated[str, Meta(pattern=r"^[a-z0-9]{8}$")]
    name: Name
    arms: tuple[Arm, ...]
    load: Load
    fault: FaultPlan
    cluster: ClusterSpec = ClusterSpec()
    seed: Annotated[int, Meta(ge=0, lt=2**31)] = 0
    min_exposed: Annotated[int, Meta(ge=0)] = 100
    """An arm with fewer reported records exposed to an injection cannot be HELD."""
    created_at: str = ""
    versions: dict[str, str] = {}
    commit: str = ""
    command: str = ""
    fail_step: StepName | None = None
    """The step that fails at its entry. Tests use it to see whether such a run turns red."""

    def arm(self, name: str) -> Arm:
        """The arm called `name`. Raises KeyError."""
        return {arm.name: arm for arm in self.arms}[name]

    def fail_if_asked(self, step: StepName) -> None:
        """Raises StepFailed if `fail_step` names `step`. Tests use it to see whether such a run turns red."""
        if self.fail_step == step:
            raise StepFailed(f"scenario.fail_step is {step}: this step fails as asked")

    @property
    def arm_names(self) -> tuple[str, ...]:
        """Names of all arms, the canary's too, in order."""
        return tuple(arm.name for arm in self.arms)

    @property
    def subjects(self) -> tuple[Arm, ...]:
        """The arms the user asked about."""
        return tuple(arm for arm in self.arms if arm.role == "subject")

    @property
    def loaded(self) -> tuple[Arm, ...]:
        """The arms that carry load: subjects and controls."""
        return tuple(arm for arm in self.arms if arm.role != "canary")

    @property
    def transactional(self) -> tuple[str, ...]:
        """Names of the arms of which two views are read: the arms that write transactions and, if any do, the
        canary."""
        names = tuple(arm.name for arm in self.loaded if arm.transactional_id)
        return (*names, self.canary.name) if names else ()

    @property
    def transactional_ids(self) -> tuple[str, ...]:
        """The transactional.ids of all producers of the load."""
        return tuple(name for arm in self.loaded for name in arm.transactional_ids)

    @property
    def canary(self) -> Arm:
        """The arm in which `settle` plants anomalies, all of which must be found."""
        return next(arm for arm in self.arms if arm.role == "canary")


Isolation = Literal["read_uncommitted", "read_committed"]

RAW: Isolation = "read_uncommitted"


def expected_text(expectation: Expectation) -> str:
    """An expectation in words, e.g. `VIOLATED; LOST >= 1`."""
    bounds = [f"{bound.count} {bound.op} {bound.value}" for bound in expectation.bounds]
    return "; ".join([" or ".join(expectation.verdicts), *bounds])
