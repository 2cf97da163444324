"""The fault plans that users can choose for their own runs. Each plan is one literal."""

from __future__ import annotations

from msgspec.structs import replace

from delivery_verifier.catalogue.parts import AT_ONCE, DEPOSED, FULL, MOVED, SHRUNK, after, step
from delivery_verifier.model.fault_actions import OBSERVE
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep, Trigger

LONGEST_FAULT_S = 3600
"""The longest time, in whole seconds, that a user can ask a fault to last."""
_LASTS = " The fault lasts at least "
"""The beginning of the last sentence in the summary of a plan whose fault has a length."""


def _restart(broker: str, when: Trigger) -> tuple[FaultStep, ...]:
    """Returns the steps that restart `broker` in a rolling restart.

    When the trigger `when` fires, the broker is shut down in an orderly way. Once no ISR holds the broker any more, the
    broker is started again.
    """
    return (
        step(when, "stop", broker, ("isr_shrunk",)),
        step(SHRUNK, "start"),
    )


FAULTS: dict[str, FaultPlan] = {
    plan.name: plan
    for plan in (
        FaultPlan(name="none", summary="No fault is injected: how the settings behave without one.", duration_s=8),
        FaultPlan(
            name="kill_leader",
            summary="SIGKILL the broker that leads a third of the partitions, and start it again once others lead.",
            duration_s=9,
            steps=(
                step(Trigger(kind="reported", value=0.15), "kill", "leader"),
                step(MOVED, "start"),
            ),
        ),
        FaultPlan(
            name="stop_leader",
            summary="SIGTERM the broker that leads a third of the partitions: it hands over, ends, and is started "
            "again.",
            duration_s=9,
            steps=(
                step(Trigger(kind="reported", value=0.15), "stop", "leader"),
                step(MOVED, "start"),
            ),
        ),
        FaultPlan(
            name="rolling_restart",
            summary="Restart all brokers in order, one after the other, each once all replicas are in sync again.",
            duration_s=24,
            steps=(
                *_restart("next", Trigger(kind="reported", value=0.1)),
                *_restart("second", FULL),
                *_restart("third", FULL),
            ),
        ),
        FaultPlan(
            name="elect_preferred",
            summary="Make another replica of every partition the preferred leader and have it elected: no broker is "
            "harmed.",
            duration_s=5,
            steps=(
                step(Trigger(kind="reported", value=0.15), "elect_preferred", "all"),
                step(after(3), "wait"),
            ),
        ),
        FaultPlan(
            name="kill_application",
            summary="SIGKILL every member of the application while it has records in progress, and start it again.",
            duration_s=15,
            steps=(
                step(Trigger(kind="reported", value=0.3), "kill_application", "none"),
                step(AT_ONCE, "restart_application", "none"),
            ),
        ),
        FaultPlan(
            name="pause_leader",
            summary=f"Freeze (SIGSTOP) a leader for longer than its session, so that it wakes up deposed.{_LASTS}10 s.",
            duration_s=18,
            steps=(
                step(Trigger(kind="reported", value=0.15), "pause", "leader"),
                step(after(10), "resume"),
            ),
        ),
        FaultPlan(
            name="all_brokers",
            summary="SIGKILL all brokers at once, and start them again: meanwhile no broker acknowledges anything."
            f"{_LASTS}10 s.",
            duration_s=24,
            steps=(
                # Nobody is left to say who leads: that every process has exited is the whole proof.
                step(Trigger(kind="reported", value=0.15), "kill", "all", ()),
                step(after(10), "start"),
            ),
        ),
        FaultPlan(
            name="observe",
            summary="Break nothing, and watch while somebody else breaks brokers of a cluster of their own: with "
            "kubectl, a chaos tool, or a restart.",
            duration_s=60,
            steps=(step(AT_ONCE, OBSERVE, "none"),),
        ),
    )
}
"""Maps the name of each fault plan to the plan. In these plans, the value of a trigger `reported` is a share: 0.15
stands for 15 % of the records that a subject sends in one cycle. The trigger fires once this share of each subject's
records was reported, counted from the end of the previous step (see `Trigger`)."""

USUAL_S = {"kill_leader": 4.0, "stop_leader": 1.0, "pause_leader": 10.0, "all_brokers": 10.0}
"""The plans whose length a user can choose: a first step harms brokers, and a second step heals them. Maps each plan to
the seconds between the two steps if the user chooses none. Those of `kill_leader` and `stop_leader` are estimates."""

_LEAST_S = 4.0
"""Estimated seconds until the session of a killed or frozen broker has ended, and others lead."""


def lasting(plan: FaultPlan, seconds: int) -> FaultPlan:
    """Returns `plan` with a fault that lasts at least `seconds`. The plan must be one of USUAL_S.

    The brokers are healed once this time has passed and the fault is proven: a killed, stopped or frozen leader comes
    back only after others lead, however short the time is. A plan without such a proof does not wait for it.
    """
    (begin, heal), usual_s = plan.steps, USUAL_S[plan.name]
    others = step(MOVED, heal.action) if begin.proofs is None else step(AT_ONCE, heal.action)
    return replace(
        plan,
        summary=f"{plan.summary.partition(_LASTS)[0]}{_LASTS}{seconds} s.",
        duration_s=plan.duration_s - usual_s + max(seconds, min(usual_s, _LEAST_S)),
        steps=(begin, step(after(seconds), "wait"), others),
    )


_ALONE = {
    "kill_leader": "SIGKILL the broker that leads a third of the partitions, and start it again once these have no "
    "leader: with one replica, no other broker can lead them.",
    "stop_leader": "SIGTERM the broker that leads a third of the partitions, and start it again once these have no "
    "leader: with one replica, no other broker can lead them.",
    "rolling_restart": "Restart all brokers in order, one after the other, each once all partitions have a leader "
    "again: with one replica, no other broker can lead those of a broker that is down.",
    "pause_leader": "Freeze (SIGSTOP) a leader for longer than its session, so that its partitions have no leader: "
    "with one replica, no other broker can lead them.",
}
"""The summaries of those plans of which another leader or a smaller ISR is the proof, for topics with one replica."""


def for_one_replica(plan: FaultPlan) -> FaultPlan:
    """Returns `plan` for topics with one replica, where no other broker can lead a partition. So the plan does not wait
    for another leader, but until the brokers that were hit lead no more. This also proves the fault. A plan that is not
    in _ALONE stays as it is."""
    if plan.name not in _ALONE:
        return plan
    summary = "".join((_ALONE[plan.name], *plan.summary.partition(_LASTS)[1:]))
    return replace(plan, summary=summary, steps=tuple(_step_for_one_replica(each) for each in plan.steps))


def _step_for_one_replica(each: FaultStep) -> FaultStep:
    trigger = DEPOSED if each.trigger == MOVED else each.trigger
    return replace(each, trigger=trigger, proofs=("deposed",) if each.act.does else each.proofs)
