"""The catalogue: profiles, fault plans and ready-made scenarios, each one literal."""

from __future__ import annotations

import hashlib

from delivery_verifier.scenario import (
    Arm,
    Claim,
    ClusterSpec,
    Expectation,
    FaultPlan,
    FaultStep,
    Load,
    Profile,
    Scenario,
    Setting,
    Trigger,
)

_PRODUCER: dict[str, Setting] = {
    "acks": "all",
    "enable.idempotence": False,
    "retries": 2147483647,
    "max.in.flight.requests.per.connection": 5,
    "retry.backoff.ms": 100,
    "retry.backoff.max.ms": 1000,
    "delivery.timeout.ms": 120000,
    "request.timeout.ms": 30000,
    "socket.timeout.ms": 60000,
    "topic.metadata.refresh.interval.ms": 300000,
    "linger.ms": 5,
    "compression.type": "none",
}
_TOPIC: dict[str, Setting] = {
    "min.insync.replicas": 2,
    "unclean.leader.election.enable": False,
    "flush.messages": 9223372036854775807,
}


def _profile(name: str, summary: str, topic: dict[str, Setting] | None = None, **producer: Setting) -> Profile:
    named = {key.replace("_", "."): value for key, value in producer.items()}
    return Profile(name=name, summary=summary, producer=_PRODUCER | named, topic=_TOPIC | (topic or {}))


PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        _profile("acks_0", "Fire and forget: nobody asks for an acknowledgement.", acks="0"),
        _profile("acks_1", "The leader alone acknowledges.", acks="1"),
        _profile("acks_all", "All in-sync replicas acknowledge; retries may write twice.", acks="all"),
        _profile(
            "idempotent",
            "acks=all, and the broker discards what a retry sends twice.",
            acks="all", enable_idempotence=True,
        ),
        _profile(
            "safe",
            "Idempotent, minimum two in-sync replicas, no unclean election, and a client that looks for new leaders.",
            acks="all", enable_idempotence=True, topic_metadata_refresh_interval_ms=1000,
        ),
    )
}  # fmt: skip

FAULTS: dict[str, FaultPlan] = {
    plan.name: plan
    for plan in (
        FaultPlan(name="none", summary="No fault: what the settings do on a quiet day.", duration_s=8),
        FaultPlan(
            name="kill_leader",
            summary="SIGKILL the broker that leads a third of the partitions, and start it again once others lead.",
            duration_s=9,
            steps=(
                FaultStep(trigger=Trigger(kind="reported", value=0.15), action="kill", target="leader"),
                FaultStep(trigger=Trigger(kind="leader_moved"), action="start"),
            ),
        ),
        FaultPlan(
            name="pause_leader",
            summary="Freeze (SIGSTOP) a leader for 10 s, longer than its session, so that it wakes up deposed.",
            duration_s=18,
            steps=(
                FaultStep(trigger=Trigger(kind="reported", value=0.15), action="pause", target="leader"),
                FaultStep(trigger=Trigger(kind="elapsed", value=10), action="resume"),
            ),
        ),
    )
}
"""A `reported` trigger below 1 is a share of the arm's floor of records."""

CANARY = "canary"
CONTROL_SHARE = 0.1
"""A control arm's load, as a share of the subject's."""
WEAK = ("acks_0", "acks_1")
"""Profiles beside which a strong control (safe) runs: it must hold while they break."""


def token(run_id: str) -> str:
    """The eight characters that mark a run's records."""
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
    """The ad hoc scenario: one subject, its controls, and the canary.

    The weak control acks_0 shows what the fault takes from those it can hurt; beside a weak subject the strong
    control safe must hold.
    """
    control_records = max(1000, int(records * CONTROL_SHARE)) if records else 0
    arms = [_arm(run_id, 1, "subject", profile, claim=claim, records=records, producers=producers)]
    if profile.producer["acks"] not in ("0", 0):
        either = Expectation(verdicts=("HELD", "VIOLATED"))
        arms.append(_arm(run_id, 2, "control", PROFILES["acks_0"], records=control_records, expectation=either))
    if profile.producer["acks"] not in ("all", "-1", -1):
        arms.append(_arm(run_id, 3, "control", PROFILES["safe"], records=control_records))
    arms.append(_arm(run_id, 0, "canary", PROFILES["safe"]))
    return Scenario(
        run_id=run_id, run_token=token(run_id), name=f"{profile.name}.{fault.name}", arms=tuple(arms), load=load,
        fault=fault, cluster=cluster or ClusterSpec(), **more,  # type: ignore[arg-type]
    )  # fmt: skip


def _arm(run_id: str, ordinal: int, role: str, profile: Profile, **more: object) -> Arm:
    name = CANARY if role == "canary" else profile.name if role == "subject" else f"control-{profile.name}"
    return Arm(
        name=name, ordinal=ordinal, role=role, profile=profile,  # type: ignore[arg-type]
        topic_name=f"kdv-{token(run_id)}-{name}", **more,  # type: ignore[arg-type]
    )  # fmt: skip
