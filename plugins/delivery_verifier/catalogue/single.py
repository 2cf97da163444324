"""The ad hoc scenario of a user: one subject of the user's choice, its controls, and the canary."""

from __future__ import annotations

import hashlib

from delivery_verifier.catalogue.profiles import PROFILES
from delivery_verifier.model.fault_plan import FaultPlan, equipment_of
from delivery_verifier.model.scenario import Arm, Claim, ClusterSpec, Expectation, Load, Profile, Role, Scenario

CANARY = "canary"
CONTROL_SHARE = 0.1
"""The number of records of a control arm, as a share of the subject's number of records."""
WEAK = ("acks_0", "acks_1")
"""Weak profiles. Beside a subject with a weak profile runs the strong control safe, which must hold while the subject
breaks."""


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
    cluster: ClusterSpec | None = None,
    **more: object,
) -> Scenario:
    """Returns the ad hoc scenario: one subject, its controls, and the canary.

    The weak control acks_0 runs beside a subject that asks for acknowledgements. This control shows how many records
    the fault takes from an arm that the fault can hurt. The strong control safe runs beside a weak subject, and must
    hold. `records` is the subject's least number of records. `more` are further fields of Scenario.
    """
    control_records = max(1000, int(records * CONTROL_SHARE)) if records else 0
    arms = [arm_of(run_id, 1, "subject", profile, claim=claim, records=records, producers=producers)]
    if profile.producer["acks"] not in ("0", 0):
        any_verdict = Expectation(verdicts=("HELD", "VIOLATED"))
        arms.append(arm_of(run_id, 2, "control", PROFILES["acks_0"], records=control_records, expectation=any_verdict))
    if profile.producer["acks"] not in ("all", "-1", -1):
        arms.append(arm_of(run_id, 3, "control", PROFILES["safe"], records=control_records))
    arms.append(arm_of(run_id, 0, "canary", PROFILES["safe"]))
    return Scenario(
        run_id=run_id,
        run_token=token(run_id),
        name=f"{profile.name}.{fault.name}",
        arms=tuple(arms),
        load=load,
        fault=fault,
        cluster=cluster or ClusterSpec(equipment=equipment_of(fault)),
        **more,  # type: ignore[arg-type]
    )


def arm_of(run_id: str, ordinal: int, role: Role, profile: Profile, **more: object) -> Arm:
    """Returns an arm on a topic of its own. `more` are further fields of Arm.

    The name of a subject is the name of its profile. The name of a control has `control-` before the profile's name.
    """
    names: dict[Role, str] = {"canary": CANARY, "subject": profile.name, "control": f"control-{profile.name}"}
    name = names[role]
    return Arm(
        name=name,
        ordinal=ordinal,
        role=role,
        profile=profile,
        topic_name=f"kdv-{token(run_id)}-{name}",
        **more,  # type: ignore[arg-type]
    )
