"""Parts from which entries and fault plans are put together: triggers, steps, loads, expectations and arms."""

from __future__ import annotations

from typing import Literal

from delivery_verifier.catalogue.applications import APPLICATIONS
from delivery_verifier.catalogue.entry import ArmPlan
from delivery_verifier.catalogue.profiles import PROFILES, profile_of
from delivery_verifier.model.act import Proof
from delivery_verifier.model.application import CrashPoint
from delivery_verifier.model.data import Setting
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep, Trigger
from delivery_verifier.model.scenario import Bound, Claim, Expectation, Load

AT_ONCE, SETTLED, TOOK_EFFECT = Trigger(kind="at_once"), Trigger(kind="settled"), Trigger(kind="took_effect")
MOVED, DEPOSED, LED = Trigger(kind="leader_moved"), Trigger(kind="deposed"), Trigger(kind="led")
CAUGHT_UP, PARKED = Trigger(kind="caught_up"), Trigger(kind="parked")
HELD = Expectation()
SEMANTICS = "Apache Kafka documentation, design: message delivery semantics"
SHRUNK, FULL = Trigger(kind="isr_shrunk"), Trigger(kind="isr_full")
RETRIES_OFF_IMPATIENT = profile_of(
    "retries_off_impatient",
    "acks=all without retries; brokers wait one second for replicas.",
    retries=0,
    request_timeout_ms=1000,
)


def after(seconds: float) -> Trigger:
    """Returns the trigger that fires when `seconds` have passed since the end of the previous step of the fault
    plan."""
    return Trigger(kind="elapsed", value=seconds)


def step(
    when: Trigger, action: str, target: str = "same", proofs: tuple[Proof, ...] | None = None, **options: Setting
) -> FaultStep:
    """Returns a step of a fault plan: when the trigger `when` fires, `action` is done to `target`.

    `options` are the options of `action`. `target` and `proofs` have the same meaning as in FaultStep.
    """
    return FaultStep(trigger=when, action=action, target=target, options=options, proofs=proofs)


def zombies_at(point: CrashPoint, blocks: int) -> FaultPlan:
    """Returns the plan that freezes every member at `point` of a batch, starts a replacement for the member, and then
    thaws the member.

    The plan first sends one block. The members have this block in progress when they are frozen. While they are frozen,
    the plan sends `blocks` further blocks, which only the replacements get. If `blocks` is 0, the plan sends nothing
    more, and thaws the members once the replacements have taken over.
    """
    more = (step(AT_ONCE, "send", "none", blocks=blocks), step(CAUGHT_UP, "wait", "none")) if blocks else ()
    return FaultPlan(
        name=f"zombies_at_{point}",
        summary=f"Send 10 records, and freeze every member when it stands at {point} of them. Wait until another "
        f"process has taken its place{f', send {blocks * 10} records more' if blocks else ''}, and let it go on.",
        steps=(
            step(CAUGHT_UP, "park", "none", at=point),
            step(AT_ONCE, "send", "none"),
            step(PARKED, "freeze_application", "none"),
            *more,
            step(AT_ONCE, "thaw_application", "none"),
        ),
        duration_s=25,
    )


def scripted(block: int) -> Load:
    """Returns a load on one partition that sends `block` records each time the fault plan asks for records."""
    return Load(partitions=1, pacing="scripted", block=block)


def broken(**counts: int) -> Expectation:
    """Returns the expectation that an arm is VIOLATED, and that each count in `counts` has exactly the given value,
    e.g. `LOST=50`.

    A name in `counts` is an anomaly, or a column of the counts (the tables of counts that the reconciliation writes).
    """
    return Expectation(
        verdicts=("VIOLATED",), bounds=tuple(Bound(count=name, op="=", value=count) for name, count in counts.items())
    )


def exactly(**counts: int) -> Expectation:
    """Returns the expectation that an arm is HELD, and that each count in `counts` has exactly the given value (see
    `broken`)."""
    return Expectation(bounds=broken(**counts).bounds)


def control(name: str, claim: Claim = "at_least_once", expectation: Expectation = HELD) -> ArmPlan:
    """Returns a control arm with the catalogue's profile `name`. In a run, the same fault hits this arm and the
    subjects.

    `claim` and `expectation` have the same meaning as in `subject`. By default, the arm must be HELD.
    """
    return ArmPlan(name=name, role="control", profile=PROFILES[name], claim=claim, expectation=expectation)


def subject(name: str, claim: Claim, expectation: Expectation) -> ArmPlan:
    """Returns a subject arm, that is, an arm under test. It has the catalogue's profile `name`.

    `claim` is the guarantee that is tested. `expectation` says which verdict and which counts the arm must end with.
    """
    return ArmPlan(name=name, role="subject", profile=PROFILES[name], claim=claim, expectation=expectation)


def applied_by(role: Literal["subject", "control"], name: str, claim: Claim, expectation: Expectation) -> ArmPlan:
    """Returns an arm that tests the catalogue's application `name`. The arm has the name of the application. Its
    producers have the profile `safe`.

    `claim` and `expectation` have the same meaning as in `subject`.
    """
    return ArmPlan(
        name=name,
        role=role,
        profile=PROFILES["safe"],
        claim=claim,
        expectation=expectation,
        application=APPLICATIONS[name],
    )
