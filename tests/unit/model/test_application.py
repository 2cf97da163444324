"""Tests of applications as data: what their settings must state, and which do not fit a discipline."""

from __future__ import annotations

from typing import get_args

import pytest
from msgspec.structs import replace
from support.evidence import SUBJECT, a_scenario, with_arm

from delivery_verifier.catalogue.applications import APPLICATIONS
from delivery_verifier.catalogue.entry import Entry, build
from delivery_verifier.catalogue.profiles import PROFILES
from delivery_verifier.catalogue.scenarios import consumers, transactions, transforms
from delivery_verifier.model.application import (
    CRASH_POINTS,
    DISCIPLINES,
    REQUIRED,
    TIMED,
    Application,
    CrashPoint,
    Discipline,
)
from delivery_verifier.model.data import Setting, dumps
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep, Trigger, capabilities_of
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import Expectation
from delivery_verifier.model.scenario_checks import check, loads

SAFE: dict[str, Setting] = {"acks": "all", "enable.idempotence": True}
CONSUMER: dict[str, Setting] = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    "session.timeout.ms": 6000,
}


def application(discipline: Discipline = "commit_after", **consumer: Setting) -> Application:
    changes = {name.replace("_", "."): value for name, value in consumer.items()}
    producer = APPLICATIONS[discipline].producer
    return Application(
        name=discipline, summary="", discipline=discipline, consumer=CONSUMER | changes, producer=producer
    )


def test_an_application_is_refused_beside_a_loss_of_power() -> None:
    cut = FaultStep(trigger=Trigger(kind="at_once"), action="power_off", target="leader")
    fault = FaultPlan(name="dark", summary="", steps=(cut,))
    plain = a_scenario()
    cluster = replace(plain.cluster, capabilities=capabilities_of(fault))
    dark = replace(plain, fault=fault, cluster=cluster)
    check(dark)
    with pytest.raises(BadInput, match="does not go with an application"):
        check(with_arm(dark, SUBJECT, application=application()))


def test_every_discipline_and_crash_point_has_its_words() -> None:
    assert tuple(DISCIPLINES) == get_args(Discipline)
    assert {*TIMED} == {*DISCIPLINES} - {"own"}
    assert tuple(CRASH_POINTS) == get_args(CrashPoint)


@pytest.mark.parametrize("discipline", TIMED)
def test_settings_that_fit_the_discipline_pass_and_survive_the_file(discipline: Discipline) -> None:
    commit, store = TIMED[discipline]
    fitting = application(discipline, enable_auto_commit=commit, enable_auto_offset_store=str(store).lower())
    scenario = with_arm(a_scenario(), SUBJECT, application=fitting)
    check(scenario)
    assert loads(dumps(scenario)) == scenario
    assert scenario.applied == (SUBJECT, "canary")
    assert a_scenario().applied == ()


@pytest.mark.parametrize("name", REQUIRED)
def test_nothing_is_left_to_a_default(name: str) -> None:
    consumer = {key: value for key, value in CONSUMER.items() if key != name}
    scenario = with_arm(a_scenario(), SUBJECT, application=replace(application(), consumer=consumer))
    with pytest.raises(BadInput, match=f"lacks {name}"):
        check(scenario)


@pytest.mark.parametrize(
    ("discipline", "changes", "message"),
    [
        ("commit_after", {"enable_auto_commit": True}, "enable.auto.commit is True, but commit_after needs false"),
        ("at_handover", {}, "enable.auto.commit is False, but at_handover needs true"),
        ("store_after", {"enable_auto_commit": True, "enable_auto_offset_store": True}, "store_after needs false"),
        ("commit_first", {"auto_offset_reset": "error"}, "auto.offset.reset is 'error'; allowed: earliest, latest"),
        ("database_compared", {"enable_auto_commit": True}, "is True, but database_compared needs false"),
        ("database_apart", {"group_protocol": "consumer"}, "database_apart needs one member, group.protocol=classic"),
        ("database_apart", {"partition_assignment_strategy": "cooperative-sticky"}, "range or roundrobin"),
        ("transform_transactional", {"enable_auto_commit": True}, "but transform_transactional needs false"),
        ("commit_first", {"isolation_level": "any"}, "isolation.level is 'any'; allowed: read_uncommitted"),
    ],
)
def test_settings_that_contradict_the_discipline_are_refused(
    discipline: Discipline, changes: dict[str, Setting], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        check(with_arm(a_scenario(), SUBJECT, application=application(discipline, **changes)))


@pytest.mark.parametrize(
    ("discipline", "producer", "message"),
    [
        ("commit_after", {"acks": "all"}, "has acks, but commit_after writes to no output topic"),
        ("transform", {"acks": "1", "enable.idempotence": True}, "acks is 1, but transform needs all"),
        ("transform", {"acks": "all"}, "enable.idempotence is not stated, but transform needs true"),
        ("transform", SAFE | {"transactional.id": "t"}, "has a transactional.id, but transform writes no transactions"),
        ("transform_transactional", SAFE, "lacks transactional.id"),
        ("transform_transactional", SAFE | {"transactional.id": "t"}, "lacks transaction.timeout.ms"),
    ],
)
def test_an_output_that_the_contract_has_no_rules_for_is_refused(
    discipline: Discipline, producer: dict[str, Setting], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        check(with_arm(a_scenario(), SUBJECT, application=replace(application(discipline), producer=producer)))


@pytest.mark.parametrize("action", ["hold", "delay", "stall"])
def test_the_end_of_an_applications_transaction_must_not_come_late(action: str) -> None:
    entry = next(entry for entry in transforms.ENTRIES if entry.name == "transform.end_lost")
    check(build(entry, "a-run"))
    later = {"delay_ms": 9} if action != "hold" else {}
    steps = tuple(
        replace(step, action=action, options=({} if action == "stall" else step.options) | later)
        if step.action == "drop"
        else step
        for step in entry.fault.steps
    )
    with pytest.raises(BadInput, match="an end of a transaction that comes late"):
        check(build(replace(entry, fault=replace(entry.fault, steps=steps)), "a-run"))


@pytest.mark.parametrize("entry", consumers.ENTRIES, ids=lambda entry: entry.name)
def test_every_arm_that_a_crash_of_applications_is_to_hit_has_one(entry: Entry) -> None:
    """Nothing is exposed in another arm, which could not become green."""
    assert all(plan.application for plan in entry.arms)


def a_step(action: str, **options: Setting) -> FaultStep:
    return FaultStep(trigger=Trigger(kind="at_once"), action=action, target="none", options=options)


KILL, RESTART, REWIND = a_step("kill_application"), a_step("restart_application"), a_step("rewind")


@pytest.mark.parametrize(
    ("steps", "cycles", "message"),
    [
        ((a_step("park", at="committed"), KILL, RESTART), 1, r"steps\[1\] kills applications that stand at committed"),
        ((KILL, REWIND), 1, r"steps\[1\] sets back applications that were killed"),
        ((REWIND, KILL), 2, r"steps\[0\] sets back applications that were killed"),
        ((a_step("park", at="committed"), a_step("park", at="applied"), KILL, RESTART), 2, ""),
        ((a_step("park", at="committed"), REWIND, KILL, RESTART, REWIND), 2, ""),
    ],
)
def test_a_crash_that_can_hurt_nothing_and_a_rewind_of_the_dead_are_refused(
    steps: tuple[FaultStep, ...], cycles: int, message: str
) -> None:
    fault = FaultPlan(name="crash", summary="", steps=steps, cycles=cycles)
    planned = with_arm(replace(a_scenario(fault="none"), fault=fault), SUBJECT, application=application())
    if not message:
        return check(planned)
    with pytest.raises(BadInput, match=message):
        check(planned)


FREEZE, THAW, PARK = a_step("freeze_application"), a_step("thaw_application"), a_step("park", at="polled")


@pytest.mark.parametrize(
    ("steps", "cycles", "members", "message"),
    [
        ((PARK, FREEZE, THAW), 1, 1, ""),
        ((PARK, FREEZE), 1, 1, "allowed with a freeze: park, freeze_application, thaw_application, and 1 cycle"),
        ((FREEZE, THAW), 1, 1, "does freeze_application, thaw_application, and fault.cycles is 1"),
        ((PARK, FREEZE, THAW), 2, 1, "fault.cycles is 2; allowed"),
        ((PARK, FREEZE, THAW, KILL, RESTART), 1, 1, "thaw_application, kill_application"),
        ((PARK, FREEZE, THAW), 1, 2, "that of .* is one of several members"),
    ],
)
def test_a_freeze_is_followed_by_a_thaw_and_by_nothing_else(
    steps: tuple[FaultStep, ...], cycles: int, members: int, message: str
) -> None:
    fault = FaultPlan(name="frozen", summary="", steps=steps, cycles=cycles)
    program = replace(application(), members=members)
    planned = with_arm(replace(a_scenario(fault="none"), fault=fault), SUBJECT, application=program)
    if not message:
        return check(planned)
    with pytest.raises(BadInput, match=message):
        check(planned)


@pytest.mark.parametrize("entry", consumers.ENTRIES, ids=lambda entry: entry.name)
def test_a_plan_about_applications_needs_one(entry: Entry) -> None:
    check(build(entry, "a-run"))
    without = replace(entry, arms=tuple(replace(arm, application=None) for arm in entry.arms))
    with pytest.raises(BadInput, match=r"fault is '.+', whose fault\.steps\[\d\] is about applications, and no arm"):
        check(build(without, "a-run"))


def test_a_crash_point_that_nobody_knows_is_refused() -> None:
    entry = consumers.ENTRIES[0]
    first, *more = entry.fault.steps
    steps = (replace(first, options={"at": "sunrise"}), *more)
    with pytest.raises(BadInput, match=r"at is 'sunrise'; allowed: polled, committed_first, applied, .*, committed"):
        check(build(replace(entry, fault=replace(entry.fault, steps=steps)), "a-run"))


def test_nobody_waits_for_an_application_to_catch_up_with_transactions() -> None:
    entry = consumers.ENTRIES[0]
    arms = tuple(replace(arm, profile=PROFILES["transactional"]) for arm in entry.arms)
    with pytest.raises(BadInput, match="waits for caught_up, which arm commit_first never is"):
        check(build(replace(entry, arms=arms), "a-run"))


@pytest.mark.parametrize("action", ["stall", "resend"])
def test_the_end_of_a_producers_transaction_must_not_wait_behind_a_stalled_request(action: str) -> None:
    entry = next(entry for entry in transactions.ENTRIES if entry.name == "producer.killed_in_transaction")
    added = FaultStep(trigger=Trigger(kind="at_once"), action=action, target="leader" if action == "stall" else "none")
    added = replace(added, options={"delay_ms": 9} if action == "stall" else {})
    steps = (*entry.fault.steps, added)
    with pytest.raises(BadInput, match=f"transactional.id, which does not go with the action {action}"):
        check(build(replace(entry, fault=replace(entry.fault, steps=steps)), "a-run"))


def test_what_chance_decides_has_bounds() -> None:
    with pytest.raises(BadInput, match="by_chance is true, and there are no bounds"):
        check(with_arm(a_scenario(), SUBJECT, expectation=Expectation(by_chance=True)))
