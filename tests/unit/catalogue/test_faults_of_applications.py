"""Tests of the ad hoc scenario under a fault that is about applications: its control has one, too, and stands at the
same crash point."""

from __future__ import annotations

from delivery_verifier.catalogue import APPLICATIONS, FAULTS, PROFILES, scenario
from delivery_verifier.model.application import Application
from delivery_verifier.model.scenario import Load, Scenario
from delivery_verifier.model.scenario_checks import check


def made(application: Application, fault: str = "kill_application") -> Scenario:
    """Returns the scenario of a safe subject with `application`."""
    planned = scenario(
        "r", profile=PROFILES["safe"], fault=FAULTS[fault], load=Load(), records=2000, application=application
    )
    check(planned)
    return planned


def test_the_control_of_a_killed_application_compares_offsets_and_is_killed_at_the_same_point() -> None:
    planned = made(APPLICATIONS["commit_after"])
    (control,) = (arm for arm in planned.arms if arm.role == "control")
    assert control.application == APPLICATIONS["database_compared"]
    assert [each.action for each in planned.fault.steps] == ["park", "kill_application", "restart_application"]
    assert planned.fault.steps[1].trigger.kind == "parked"


def test_the_control_of_an_own_application_stands_at_a_crash_point_when_both_are_killed() -> None:
    planned = made(Application(name="sink", summary="Of the user.", discipline="own", consumer={}))
    (control,) = (arm for arm in planned.arms if arm.role == "control")
    assert control.application == APPLICATIONS["database_compared"]
    assert [each.action for each in planned.fault.steps] == ["park", "kill_application", "restart_application"]


def test_other_faults_leave_applications_and_controls_as_they_are() -> None:
    planned = made(APPLICATIONS["commit_after"], "kill_leader")
    assert [arm.name for arm in planned.arms if arm.role == "control"] == ["control-acks_0"]
    assert planned.fault == FAULTS["kill_leader"]
