"""The scenario: all that is needed to repeat a run, as plain data that reads and writes strict JSON."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from delivery_verifier.model.data import Data, Name, Setting
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.fault_actions import Capability
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.steps import StepName

Claim = Literal["contract", "at_most_once", "at_least_once", "exactly_once", "ordered"]
"""What the user asks to be held: what the settings promise (contract), or a stronger guarantee."""

Role = Literal["subject", "control", "canary"]
VerdictName = Literal["HELD", "VIOLATED", "INCONCLUSIVE"]
OwnPacing = Literal["spread", "flat_out"]
Pacing = Literal["spread", "flat_out", "scripted"]


class Profile(Data, frozen=True):
    """Delivery settings under Kafka's own property names. Every delivery-relevant one is explicit.

    `notes` say, where the settings are the user's own, what was left out and which defaults fill the gaps.
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
    """The verdicts an arm may end with, and bounds on its books, for the run to be green. Never INCONCLUSIVE."""

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
        """One per producer: two with the same would fence each other. () where the arm writes no transactions."""
        base = self.transactional_id
        return tuple(f"{base}-{self.name}-{number}" for number in range(self.producers)) if base else ()


class Load(Data, frozen=True):
    """The shape of the load, common to all arms. `duration_s` is the planned duration over which `spread` paces.

    `scripted`: nothing is sent but what the fault plan's `send` steps ask for, block by block, so that what is in
    flight at every step is known to the record. `block`: records in a row to one partition; 0: as the rate wants it. Of
    arms with a transactional.id: `transaction_records`, or what a second sends, go into one transaction, in whole
    blocks; the second, and every `abort_every`th from it on, is aborted on purpose: its records must stay invisible (0:
    none).
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
    """The cluster under test. Session and heartbeat are the controller's `broker.session.timeout.ms` and its peer."""

    backend: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,30}$")] = "embedded"
    """What runs the cluster: a name in `cluster.backends.BACKENDS`."""
    kafka_version: str = "4.3.1"
    brokers: Annotated[int, Meta(ge=1, le=3)] = 3
    session_timeout_ms: Annotated[int, Meta(ge=300, le=60_000)] = 3000
    heartbeat_interval_ms: Annotated[int, Meta(ge=50, le=10_000)] = 500
    broker_settings: dict[str, Setting] = {}
    equipment: tuple[Capability, ...] = ()
    """What the fault plan needs beside brokers; `equipment_of` tells."""
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
    """Makes that step fail at its entry: how the run's own alarm is tested."""

    def arm(self, name: str) -> Arm:
        """The arm called `name`. Raises KeyError."""
        return {arm.name: arm for arm in self.arms}[name]

    def fail_if_asked(self, step: StepName) -> None:
        """Raises RuntimeError if `fail_step` names `step`: how the run's own alarm is tested on the real parts."""
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
        """Arms of which two views are read: those that write transactions, and then the canary, which has some too."""
        names = tuple(arm.name for arm in self.loaded if arm.transactional_id)
        return (*names, self.canary.name) if names else ()

    @property
    def transactional_ids(self) -> tuple[str, ...]:
        """Those of all producers of the load."""
        return tuple(name for arm in self.loaded for name in arm.transactional_ids)

    @property
    def canary(self) -> Arm:
        """The arm whose anomalies are planted by `settle` and must all be found."""
        return next(arm for arm in self.arms if arm.role == "canary")


Isolation = Literal["read_uncommitted", "read_committed"]

RAW: Isolation = "read_uncommitted"


def expected_text(expectation: Expectation) -> str:
    """An expectation in words, e.g. `VIOLATED; LOST >= 1`."""
    bounds = [f"{bound.count} {bound.op} {bound.value}" for bound in expectation.bounds]
    return "; ".join([" or ".join(expectation.verdicts), *bounds])
