"""Fault plans that anyone may choose for a run of their own, each one literal."""

from __future__ import annotations

from delivery_verifier.scenario import FaultPlan, FaultStep, Trigger

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
