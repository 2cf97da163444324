"""Tests of the number of replicas: arms that a user cannot configure fit it, and the user's own arm never changes."""

from __future__ import annotations

import pytest

from delivery_verifier.model.inputs import BadInput
from delivery_verifier.planning.build import scenario_from_params
from delivery_verifier.planning.explanation import describe

ONE_REPLICA = {"fault": "none", "replication_factor": 1}


@pytest.mark.parametrize("profile", ["idempotent", "acks_1"])
def test_controls_and_canary_fit_one_replica(profile: str) -> None:
    arms = scenario_from_params({**ONE_REPLICA, "profile": profile, "min_insync_replicas": 1}, "run").arms
    assert {arm.name: arm.profile.topic["min.insync.replicas"] for arm in arms} == {arm.name: 1 for arm in arms}


def test_with_more_replicas_controls_keep_their_settings() -> None:
    arms = scenario_from_params({"fault": "none", "profile": "idempotent", "min_insync_replicas": 3}, "run").arms
    assert [arm.profile.topic["min.insync.replicas"] for arm in arms] == [3, 2, 2]


def test_the_subject_is_refused_and_not_changed() -> None:
    with pytest.raises(BadInput, match=r"arm idempotent is 2.*--min-insync-replicas"):
        scenario_from_params({**ONE_REPLICA, "profile": "idempotent"}, "run")


@pytest.mark.parametrize("fault", ["kill_leader", "stop_leader", "pause_leader", "rolling_restart"])
def test_with_one_replica_no_plan_waits_for_another_leader_or_promises_one(fault: str) -> None:
    fields = {**ONE_REPLICA, "profile": "idempotent", "min_insync_replicas": 1, "fault": fault}
    run = scenario_from_params(fields, "run")
    assert "leader_moved" not in {step.trigger.kind for step in run.fault.steps}
    assert {step.proofs for step in run.fault.steps if step.act.takes_effect} == {("deposed",)}
    assert "no other broker can lead" in run.fault.summary and "others lead" not in describe(run)


def test_with_one_replica_nobody_else_can_be_elected() -> None:
    fields = {**ONE_REPLICA, "profile": "idempotent", "min_insync_replicas": 1, "fault": "elect_preferred"}
    with pytest.raises(BadInput, match="with replication factor 1 there is none: raise --replication-factor"):
        scenario_from_params(fields, "run")
