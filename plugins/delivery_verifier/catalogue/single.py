"""The ad hoc scenario, which tests the delivery settings that a user chose.

The arms of the scenario are one subject with these settings, one or two controls, and the canary, an arm with planted
anomalies. If the user chose an application, it consumes the subject's topic. A control has an application only if the
fault acts on applications. Any other control has none, because it shows what the fault does to the log.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from delivery_verifier.catalogue.applications import APPLICATIONS
from delivery_verifier.catalogue.arm_clients import ONLY_LIBRDKAFKA, with_clients
from delivery_verifier.catalogue.profiles import PROFILES
from delivery_verifier.model.application import Application
from delivery_verifier.model.client import VersionedClient
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep, Trigger, capabilities_of
from delivery_verifier.model.scenario import (
    FEWEST_RECORDS,
    Arm,
    Claim,
    ClusterSpec,
    Expectation,
    Load,
    Profile,
    Role,
    Scenario,
)

CANARY = "canary"
CANARY_PRODUCERS = 2
"""The number of producers of the canary. Producer 0 is no process: the step settle writes its records and its ledger.
Producer 1 is a real process, which sends records."""
CONTROL_SHARE = 0.1
"""The number of records of a control arm, as a share of the subject's number of records. The control arm sends
FEWEST_RECORDS if this gives less. If the subject's number is 0, the control's number is also 0. This 0 means that each
`send` step of the fault plan says how many records are sent."""


def token(run_id: str) -> str:
    """Returns the run token: the eight characters that mark the records of the run `run_id`."""
    return hashlib.sha256(run_id.encode()).hexdigest()[:8]


def scenario(
    run_id: str,
    *,
    profile: Profile,
    fault: FaultPlan,
    claim: Claim = "contract",
    load: Load,
    records: int,
    producers: int = 1,
    application: Application | None = None,
    cluster: ClusterSpec | None = None,
    clients: Sequence[VersionedClient] = ONLY_LIBRDKAFKA,
    **more: object,
) -> Scenario:
    """Returns the ad hoc scenario: one subject, its controls, and the canary.

    * A subject that asks for acknowledgements gets the control arm `acks_0`. This control may lose records. Its losses
      show how severe the fault is.
    * A subject with less than acks=all gets the control arm `safe`, which must not break its promise.
    * A fault plan that acts on applications shows nothing in an arm without an application. With such a plan, the only
      control is `safe` with the application `database_compared`, which must apply every record exactly once. Members
      are killed where they stand at a crash point. A program of the user's own has no crash points: it is killed at the
      same moment, while it has records in progress.
    * The canary is an arm with planted anomalies that the verifier must find.

    `records` is the least number of records that the subject sends. `producers` is the number of the subject's
    producers. `application` is the program under test that applies the subject's records, or None. If `cluster` is
    None, the cluster is a default cluster with the capabilities that `fault` needs. `clients`: the clients with each of
    which the subject and its strong control run (see `arm_clients`). `more` has further fields of Scenario.
    """
    subject = arm_of(run_id, 1, "subject", profile, claim=claim, records=records, producers=producers)
    controls = _controls(run_id, profile, fault, application is not None, load, records)
    loaded = [replace(subject, application=application), *controls]
    arms = with_clients(loaded, clients, lambda arm, client: arm.expectation, topics_of(run_id))
    if application is not None:
        fault = _parked(fault)
    safe = fitted(PROFILES["safe"], load.replication_factor)
    arms.append(arm_of(run_id, 0, "canary", safe, producers=CANARY_PRODUCERS))
    return Scenario(
        run_id=run_id,
        run_token=token(run_id),
        name=".".join([profile.name, *([application.name] if application else []), fault.name]),
        arms=tuple(arms),
        load=load,
        fault=fault,
        cluster=cluster or ClusterSpec(capabilities=capabilities_of(fault)),
        **more,  # type: ignore[arg-type]
    )


def _controls(run_id: str, profile: Profile, fault: FaultPlan, is_applied: bool, load: Load, records: int) -> list[Arm]:
    """Returns the controls of a subject with `profile`. The docstring of `scenario` says which these are. `is_applied`
    says whether the subject has an application."""
    count = max(FEWEST_RECORDS, int(records * CONTROL_SHARE)) if records else 0
    weak, safe = (fitted(PROFILES[name], load.replication_factor) for name in ("acks_0", "safe"))
    if any(step.act.whom == "application" for step in fault.steps):
        compared = APPLICATIONS["database_compared"]
        return [replace(arm_of(run_id, 3, "control", safe, records=count), application=compared)] if is_applied else []
    controls = []
    if profile.producer["acks"] not in ("0", 0):
        any_verdict = Expectation(verdicts=("HELD", "VIOLATED"))
        controls.append(arm_of(run_id, 2, "control", weak, records=count, expectation=any_verdict))
    if profile.producer["acks"] not in ("all", "-1", -1):
        controls.append(arm_of(run_id, 3, "control", safe, records=count))
    return controls


def _parked(fault: FaultPlan) -> FaultPlan:
    """Returns `fault` with a `park` step before each step that kills applications. So each member stands still, with
    records in progress, when it is killed."""
    steps = list[FaultStep]()
    for each in fault.steps:
        if each.action == "kill_application":
            park = FaultStep(trigger=each.trigger, action="park", target="none", options={"at": "applied"})
            steps += [park, replace(each, trigger=Trigger(kind="parked"))]
        else:
            steps.append(each)
    return replace(fault, steps=tuple(steps))


def fitted(profile: Profile, replicas: int) -> Profile:
    """Returns `profile` with its min.insync.replicas reduced to `replicas` if it is greater. `replicas` is the number
    of replicas of each partition.

    With a greater value, brokers would refuse every record that is sent with acks=all.
    """
    fitting = min(int(profile.topic["min.insync.replicas"]), replicas)
    return replace(profile, topic={**profile.topic, "min.insync.replicas": fitting})


def topics_of(run_id: str) -> Callable[[str], str]:
    """Returns a function that returns the name of the topic for the name of an arm in the run `run_id`."""
    return lambda name: f"kdv-{token(run_id)}-{name}"


def arm_of(run_id: str, ordinal: int, role: Role, profile: Profile, **more: object) -> Arm:
    """Returns an arm on a topic of its own.

    `ordinal` is the number that the arm's records carry to identify the arm. `more` are further fields of Arm. The name
    of a subject is the name of its profile. The name of a control is `control-` and the profile's name. The name of the
    canary is `canary`.
    """
    names: dict[Role, str] = {"canary": CANARY, "subject": profile.name, "control": f"control-{profile.name}"}
    name = names[role]
    return Arm(
        name=name,
        ordinal=ordinal,
        role=role,
        profile=profile,
        topic_name=topics_of(run_id)(name),
        **more,  # type: ignore[arg-type]
    )
