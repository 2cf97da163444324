"""The verdict of a run on a cluster that somebody else runs: what nobody watched there convicts nobody, and is said."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from support.evidence import a_scenario, arm, doubts, evidence_of, judged, lost, partition, setting, the_observations

from delivery_verifier import catalogue
from delivery_verifier.model.external_cluster import ClusterAccess, ExternalCluster
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.run_directory.group_log import GroupLog
from delivery_verifier.verdict import external
from delivery_verifier.verdict.limits import limits

CLUSTER = ExternalCluster(access=ClusterAccess(bootstrap_server="b:1"), cluster_id="an-id", brokers=(1, 2, 3))


def quiet(**more: Any) -> Scenario:
    """A run without a fault, on a cluster that somebody else runs."""
    return on_it(a_scenario("idempotent", fault="none"), **more)


def on_it(run: Scenario, application: str | None = None, **more: Any) -> Scenario:
    """`run` on that cluster. `application`: one that its subjects have."""
    cluster = msgspec.structs.replace(run.cluster, external=msgspec.structs.replace(CLUSTER, **more))
    arms = tuple(
        msgspec.structs.replace(arm, application=catalogue.APPLICATIONS[application])
        if application and arm.role == "subject"
        else arm
        for arm in run.arms
    )
    return msgspec.structs.replace(run, cluster=cluster, arms=arms)


def disturbed(run: Scenario) -> dict[str, Any]:
    """What the observer saw: a leader changed, and nobody planned it."""
    seen = the_observations(run)
    at_us = seen[len(seen) // 2].at_us
    return {"observations": [*seen, partition(run, at_us, "idempotent", 0, 2, 1, [1, 2, 3])]}


def test_a_quiet_run_is_held_and_a_loss_in_it_violates() -> None:
    run = quiet()
    assert judged(evidence_of(run)).verdict == "HELD"
    assert judged(evidence_of(run, lost(1, "idempotent"))).verdict == "VIOLATED"


def test_what_happens_to_brokers_unseen_forbids_held_and_violated_alike() -> None:
    run = quiet()
    for change in ((), (lost(1, "idempotent"),)):
        verdict = judged(evidence_of(run, *change, **disturbed(run)))
        assert arm(verdict, "idempotent").verdict == "INCONCLUSIVE"
        assert doubts(verdict, "idempotent") >= {
            ("checker", "brokers_unwatched"),
            ("coverage", "unplanned_disturbance"),
        }


def test_on_a_cluster_of_the_verifiers_own_the_same_loss_still_violates() -> None:
    run = a_scenario("idempotent", fault="none")
    assert judged(evidence_of(run, lost(1, "idempotent"), **disturbed(run))).verdict == "VIOLATED"
    assert not [text for text in limits(evidence_of(run)) if "Somebody else runs" in text]


def test_what_was_not_watched_and_what_was_assumed_stands_in_the_limits() -> None:
    assumed = {"transaction.state.log.min.isr": "1 (not known)", "eligible leader replicas": "kept"}
    said = " ".join(limits(evidence_of(quiet(assumed=assumed))))
    assert "Somebody else runs the cluster an-id." in said and "compared when they had been created and at the" in said
    assert "1 (not known)" in said and "counts as the weaker value" in said
    assert "settings of the brokers are not known" in said
    for value, told in (("true", True), ("false", False)):
        known = limits(evidence_of(quiet(settings={external.REBALANCE: value})))
        assert any("leaders may move by themselves" in text for text in known) == told
    assert "transactional.ids" not in said and "clocks" not in said
    for profile, application, text in (
        ("transactional", None, "transactional.ids of the run stay registered"),
        ("idempotent", "commit_after", "clocks, which were not compared"),
        ("idempotent", "commit_after", "no application is called VIOLATED (commits_unwatched)"),
    ):
        assert any(text in each for each in limits(evidence_of(on_it(a_scenario(profile, fault="none"), application))))


def checker(run: Scenario, column: str = "", removed: int = 0) -> set[str]:
    """The checker doubts about commits, and the verdict, of a run with this case and so many compacted records."""
    positions = [{"arm": "idempotent", "partition": at, "position": 0, "removed": removed} for at in range(3)]
    where = {"arm": "idempotent", "producer": 0, "partition": 0}
    change = [setting("counts/producers.parquet", column, 1, **where)] if column else []
    verdict = judged(evidence_of(run, *change, group_log=GroupLog([], [], positions, [])))
    return {name for kind, name in doubts(verdict, "idempotent") if kind == "checker"} | {
        arm(verdict, "idempotent").verdict
    }


def test_a_compacted_group_log_convicts_no_application_because_a_commit_may_have_been_lost() -> None:
    plain = a_scenario("idempotent", fault="none")
    run = on_it(plain, "commit_first")
    assert checker(run, "reapplied") == {"VIOLATED"}, "the whole log has every commit"
    assert checker(run, "reapplied", removed=1) == {external.COMMITS_UNWATCHED, "INCONCLUSIVE"}
    assert checker(run, removed=1) == {external.COMMITS_UNWATCHED, "INCONCLUSIVE"}
    watched = msgspec.structs.replace(run, cluster=plain.cluster)
    assert checker(watched, "reapplied", removed=1) == {"VIOLATED"}


@pytest.mark.parametrize(
    ("application", "column", "convicts"),
    [
        ("at_handover", "overtaken", False),
        ("store_after", "skipped", True),
        ("database_together", "reapplied", False),
        ("database_together", "skipped", True),
        ("transform_transactional", "skipped", False),
        ("transform_transactional", "reapplied", False),
        ("commit_after", "skipped", True),
    ],
)
def test_what_a_forgetful_coordinator_does_without_a_trace_convicts_no_application(
    application: str, column: str, convicts: bool
) -> None:
    run = on_it(a_scenario("idempotent", fault="none"), application)
    wanted = {"VIOLATED"} if convicts else {external.COMMITS_UNWATCHED, "INCONCLUSIVE"}
    assert checker(run, column) >= wanted and (external.COMMITS_UNWATCHED in checker(run, column)) != convicts
