"""Tests of members with the Java client on real brokers: whatever hits them, each discipline skips and applies again
what it does with librdkafka, and whatever goes wrong in the JVM is loud."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.application_stage import Stage, entry_of
from support.patience import PATIENCE_S

from delivery_verifier.applications.control import Word
from delivery_verifier.applications.journal import read_journal
from delivery_verifier.applications.member_process import MemberDied
from delivery_verifier.catalogue.parts import AT_ONCE, CAUGHT_UP, PARKED, SETTLED, after, step
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.host.java.jvm import jvm_of
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.load.live_ledger import Gate, State
from delivery_verifier.model.application import CrashPoint
from delivery_verifier.model.client import versioned
from delivery_verifier.model.fault_plan import FaultStep

JAVA = (versioned("java", ""),)
BOTH = (versioned("librdkafka", ""), *JAVA)


def killed_at(point: CrashPoint, **options: int) -> tuple[FaultStep, ...]:
    """Steps that kill every member where it stands at `point`, and start it again."""
    return (
        step(CAUGHT_UP, "park", "none", at=point, **options),
        step(AT_ONCE, "send", "none"),
        step(PARKED, "kill_application", "none"),
        step(AT_ONCE, "restart_application", "none"),
        step(SETTLED, "wait", "none"),
    )


def test_killed_at_every_crash_point_members_with_both_clients_apply_the_same(cluster: Cluster, tmp_path: Path) -> None:
    names = ("commit_first", "commit_after", "transform_transactional", "database_apart")
    steps = [
        *killed_at("polled"),
        *killed_at("committed_first"),
        *killed_at("applied", record=4),
        *killed_at("produced"),
        *killed_at("offsets_sent"),
        *killed_at("offset_written"),
    ]
    stage = Stage(cluster, tmp_path, entry_of(*steps, names=names), BOTH)
    assert [injection.proof for injection in stage.play() if not injection.took_effect] == []
    effects = stage.effects()
    assert {name: effects[f"{name}-java"] for name in names} == {name: effects[name] for name in names}
    assert effects["commit_first-java"] == [
        list(range(20)),
        list(range(20, 40)),
        [*range(50, 60), *range(60, 64)],
        [*range(70, 90)],
        [*range(90, 110)],
        [*range(110, 130)],
        [*range(130, 160)],
    ]
    once = [offset for incarnation in effects["transform_transactional-java"] for offset in incarnation]
    assert once == list(range(160))
    group_log = stage.group_log()
    assert stage.differences(group_log) == set()
    committed = {name: {row["leader_epoch"] for row in group_log.commits if row["arm"] == name} for name in effects}
    assert committed["commit_after-java"] == committed["transform_transactional-java"] == {0}, "as commitSync() does"


def test_the_timer_of_the_java_client_commits_only_what_an_earlier_poll_returned(
    cluster: Cluster, tmp_path: Path
) -> None:
    plan = entry_of(
        step(CAUGHT_UP, "wait"),
        step(after(3), "park", "none", at="applied", record=4),
        step(AT_ONCE, "send", "none"),
        step(PARKED, "wait"),
        step(after(3), "kill_application", "none"),
        step(AT_ONCE, "restart_application", "none"),
        names=("at_handover",),
    )
    stage = Stage(cluster, tmp_path, plan, BOTH)
    (killed,) = stage.play()
    assert killed.took_effect and stage.effects() == {
        "at_handover": [list(range(24)), list(range(30, 60))],
        "at_handover-java": [list(range(24)), list(range(20, 60))],
    }


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_two_members_share_the_partitions_and_one_that_stops_leaves_its_own_to_the_other(
    cluster: Cluster, tmp_path: Path, protocol: str
) -> None:
    entry = entry_of(step(AT_ONCE, "send", "none"), names=("commit_after",))
    (plan,) = entry.arms
    assert plan.application is not None
    consumer = plan.application.consumer | {"group.protocol": protocol}
    two = replace(plan, application=replace(plan.application, members=2, consumer=consumer))
    shared = replace(entry, arms=(two,), load=replace(entry.load, partitions=4))
    stage = Stage(cluster, tmp_path, shared, JAVA)
    members, pool = stage.members, stage.pool
    first, second = members.members
    held: list[set[int]] = []

    def holds() -> list[set[int]]:
        held[:] = [set[int](), set[int]()]
        for partitions, member in zip(held, (first, second), strict=True):
            for event in read_journal(member.folder / "0"):
                if event.what in ("assigned", "revoked"):
                    (partitions.add if event.what == "assigned" else partitions.discard)(event.partition)
        return held

    try:
        pool.wait_for(State.READY)
        members.start()
        wait_until(lambda: [len(each) for each in holds()] == [2, 2], "each member to have two partitions", PATIENCE_S)
        pool.open(Gate.WARM_UP)
        pool.wait_for(State.WARM)
        pool.open(Gate.GO)
        wait_until(lambda: sum(each.control[Word.COMMITTED] for each in (first, second)) == 80, "blocks", PATIENCE_S)
        members.stop([first])
        jvm = jvm_of(first.folder)
        assert jvm is not None and not jvm.alive and first.control[Word.EXIT] == 0
        wait_until(lambda: [len(each) for each in holds()] == [0, 4], "the other to take over", PATIENCE_S)
        pool.open(Gate.RELEASE)
        pool.wait_for(State.DONE)
        wait_until(lambda: second.control[Word.APPLIED] >= 120, "the rest to be applied", PATIENCE_S)
        members.stop()
    finally:
        members.close()
        pool.kill()
    applied = [
        (int(row["partition"]), int(row["offset"]))
        for incarnation in stage.incarnations("commit_after-java")
        for row in incarnation.rows
    ]
    assert sorted(applied) == [(partition, offset) for partition in range(4) for offset in range(40)]
    assert len(applied) == len(set(applied)) and first.control[Word.APPLIED] == 40


def test_a_jvm_that_dies_ends_its_member_loudly_and_one_that_is_frozen_dies_with_its_member(
    cluster: Cluster, tmp_path: Path
) -> None:
    stage = Stage(cluster, tmp_path, entry_of(step(AT_ONCE, "send", "none"), names=("commit_after", "transform")), JAVA)
    members = stage.members
    try:
        members.start()
        dying, frozen = members.members
        jvms = [jvm_of(member.folder) for member in (dying, frozen)]
        assert None not in jvms and dying.process is not None
        jvms[1].send(signal.SIGSTOP)  # type: ignore[union-attr]  # so that it cannot see the end of its pipe
        members.kill([frozen])
        assert not jvms[1].alive, "it is gone before the end of the incarnation is written"  # type: ignore[union-attr]
        jvms[0].kill()  # type: ignore[union-attr]
        dying.process.wait(PATIENCE_S)
        with pytest.raises(MemberDied, match=r"the JVM of this member ended with exit code -9 \(killed by SIGKILL\)"):
            members.check()
    finally:
        members.close()
        stage.pool.kill()


def test_settings_that_the_java_client_refuses_are_told(cluster: Cluster, tmp_path: Path) -> None:
    entry = entry_of(step(AT_ONCE, "send", "none"), names=("commit_after",))
    (plan,) = entry.arms
    assert plan.application is not None
    wrong = replace(plan.application, consumer=plan.application.consumer | {"max.poll.interval.ms": 0})
    stage = Stage(cluster, tmp_path, replace(entry, arms=(replace(plan, application=wrong),)), JAVA)
    try:
        with pytest.raises(MemberDied, match=r"consumer settings refused: .*max\.poll\.interval\.ms"):
            stage.members.start()
    finally:
        stage.members.close()
        stage.pool.kill()
