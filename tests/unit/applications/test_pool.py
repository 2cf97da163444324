"""Tests of members as processes: they start, apply, are killed, stopped and started again, and nothing outlives the
pool. The broker is a mock of librdkafka; the clients and processes are real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil
import pytest
from msgspec.structs import replace
from support.evidence import RUN
from support.mock_broker import MockBroker
from support.patience import PATIENCE_S

from delivery_verifier.applications.control import Word
from delivery_verifier.applications.handle import RunningApplications
from delivery_verifier.applications.incarnations import incarnations_of, read_end
from delivery_verifier.applications.member_process import MemberDied, spec_of
from delivery_verifier.applications.pool import MemberPool, group_of
from delivery_verifier.applications.slots import read_slots
from delivery_verifier.catalogue.applications import APPLICATIONS
from delivery_verifier.host.waiting import pause, wait_until
from delivery_verifier.model import record
from delivery_verifier.model.application import Application, Discipline
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep, Trigger
from delivery_verifier.model.scenario import Scenario

CONSUMER: dict[str, Any] = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    "session.timeout.ms": 6000,
}


def scenario_of(discipline: Discipline = "commit_after", members: int = 1) -> Scenario:
    """Returns a scenario of which the first arm has an application. Its batches have up to 10 records."""
    application = Application("app", "", discipline, CONSUMER, members=members, batch=10)
    arm = replace(RUN.subjects[0], application=application)
    return replace(RUN, arms=(arm, RUN.canary))


class Stage:
    """The members of a scenario, a broker, and a supervisor that carries out commands in a thread of its own."""

    def __init__(self, scenario: Scenario, workspace: Path) -> None:
        self.scenario, self.broker, self.adopted = scenario, MockBroker(), list[int]()
        self.pool = MemberPool(scenario, {"librdkafka": self.broker.connection}, workspace, self.adopted.append)
        self.handle = RunningApplications(scenario, workspace)
        self.arm = scenario.subjects[0]
        self.written = 0

    @property
    def folder(self) -> Path:
        return self.pool.members[0].folder

    def write(self, count: int) -> None:
        numbers = range(self.written, self.written + count)
        token, arm = self.scenario.run_token, self.arm.ordinal
        self.broker.write(
            self.arm.topic_name, [record.encode(token, arm, 0, 0, number, 0, number, 100) for number in numbers]
        )
        self.written += count

    def wait_for(self, word: Word, count: int) -> None:
        control = self.pool.members[0].control
        wait_until(lambda: self.pool.check() and control[word] >= count, f"{count} {word.name}", PATIENCE_S)

    @contextmanager
    def supervised(self) -> Iterator[None]:
        """Carries out commands while the block runs."""
        ended = Event()

        def supervise() -> None:
            while not ended.is_set():
                self.pool.apply_commands()
                pause(0.005)

        # The members end with the thread that starts them, so this one ends them first.
        thread = Thread(target=supervise)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def effects(self) -> list[list[int]]:
        """Returns the offsets that each incarnation of the first member has applied, in order."""
        return [read_slots(folder)["offset"].tolist() for folder in incarnations_of(self.folder).values()]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    stages: list[Stage] = []

    def start(scenario: Scenario) -> Stage:
        stages.append(Stage(scenario, tmp_path))
        stages[-1].write(10)
        stages[-1].pool.start()
        stages[-1].wait_for(Word.COMMITTED if scenario.subjects[0].application else Word.APPLIED, 0)
        return stages[-1]

    yield start
    for made in stages:
        made.pool.close()


@pytest.mark.slow
def test_what_was_killed_in_progress_is_applied_again_by_who_commits_after(stage: Callable[..., Stage]) -> None:
    made = stage(scenario_of())
    made.wait_for(Word.COMMITTED, 10)
    assert made.adopted == [made.pool.members[0].process.pid]  # type: ignore[union-attr]
    made.handle.park("applied", 1, 4)
    made.write(10)
    wait_until(made.handle.are_parked, "the member to park", PATIENCE_S)
    assert made.handle.in_progress() == {made.arm.name: 10} and made.handle.exits() == {}
    with made.supervised():
        made.handle.kill()
        assert made.handle.exits() == {f"{made.arm.name}/0": -signal.SIGKILL}
        assert made.handle.parked_at() == {f"{made.arm.name}/0": "applied"}
        assert made.handle.in_progress() == {made.arm.name: 10}, "what it had in progress is known behind its death"
        made.handle.restart()
        assert made.handle.parked_at() == {} and made.handle.exits() == {}
        made.wait_for(Word.COMMITTED, 10)
        made.handle.stop()
    assert made.effects() == [list(range(14)), list(range(10, 20))]
    ends = [read_end(folder) for folder in incarnations_of(made.folder).values()]
    assert [(end.applied, end.exit_code, end.killed) for end in ends] == [(14, -9, True), (10, 0, False)]
    assert made.broker.committed(made.arm.topic_name, group_of(made.scenario, made.arm)) == 20


@pytest.mark.slow
def test_who_commits_first_skips_what_was_killed_in_progress(stage: Callable[..., Stage]) -> None:
    made = stage(scenario_of("commit_first"))
    made.wait_for(Word.APPLIED, 10)
    made.handle.park("applied", 1, 4)
    made.write(10)
    wait_until(made.handle.are_parked, "the member to park", PATIENCE_S)
    assert made.handle.in_progress() == {made.arm.name: 6}
    with made.supervised():
        made.handle.kill()
        made.handle.restart()
        made.write(10)
        made.wait_for(Word.APPLIED, 10)
        made.handle.stop()
    assert made.effects() == [list(range(14)), list(range(20, 30))]


@pytest.mark.slow
def test_another_pool_goes_on_with_the_incarnations_of_the_one_before(
    stage: Callable[..., Stage], tmp_path: Path
) -> None:
    made = stage(scenario_of())
    made.wait_for(Word.COMMITTED, 10)
    made.pool.stop()
    made.write(5)
    later = MemberPool(made.scenario, {"librdkafka": made.broker.connection}, tmp_path, lambda pid: None)
    try:
        later.start()
        wait_until(lambda: later.members[0].control[Word.COMMITTED] == 5, "the rest to be applied", PATIENCE_S)
        later.stop()
    finally:
        later.close()
    assert made.effects() == [list(range(10)), list(range(10, 15))]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_member_that_ends_by_no_order_ends_the_run(stage: Callable[..., Stage], number: signal.Signals) -> None:
    made = stage(scenario_of())
    process = made.pool.members[0].process
    assert process is not None
    process.send_signal(number)
    process.wait(PATIENCE_S)
    with pytest.raises(MemberDied, match=f"member {made.arm.name}/0 ended with exit code"):
        made.pool.check()
    with pytest.raises(MemberDied):
        made.pool.kill() if number == signal.SIGTERM else made.pool.stop()


@pytest.mark.parametrize(
    ("code", "is_zombie", "is_accepted"),
    [(5, True, True), (6, True, True), (6, False, False), (0, True, False), (3, True, False), (-9, True, False)],
)
def test_only_a_fenced_zombie_may_end_by_itself(
    code: int, is_zombie: bool, is_accepted: bool, stage: Callable[..., Stage]
) -> None:
    made = stage(scenario_of())
    (member,) = made.pool.members
    assert member.process is not None
    member.process.kill()
    member.process.wait()
    member.process.returncode = code
    member.control[Word.ZOMBIE] = is_zombie
    if not is_accepted:
        with pytest.raises(MemberDied, match=f"exit code {code}"):
            made.pool.check()
        return
    assert made.pool.check() and member.process is None
    made.pool.stop()
    end = read_end(incarnations_of(made.folder)[0])
    assert (end.exit_code, end.killed) == (code, False) and member.control[Word.EXIT] == code


@pytest.mark.slow
def test_a_replacement_runs_only_when_it_is_asked_for_and_takes_the_place_of_the_frozen(
    stage: Callable[..., Stage],
) -> None:
    made = stage(frozen(scenario_of()))
    member, replacement = made.pool.members
    assert member.process is not None and replacement.process is None and replacement.number == 1
    (zombie,) = made.handle.zombies.all
    made.handle.park("polled", 1, 1)
    made.write(10)
    wait_until(made.handle.are_parked, "the member to park", PATIENCE_S)
    made.handle.zombies.freeze()
    assert zombie.is_frozen and not made.handle.exits()
    with made.supervised():
        zombie_command(made.handle)
        assert replacement.process is not None and replacement.control[Word.INCARNATION] == 0
        made.handle.zombies.thaw()
        wait_until(lambda: not zombie.is_frozen and not zombie.control[Word.PARKED], "the member to go on", PATIENCE_S)
        made.handle.zombies.stop()
        assert member.process is None and replacement.process is not None and zombie.ended == ""
        wait_until(lambda: replacement.control[Word.STATE], "the replacement to have its partitions", PATIENCE_S)
        made.pool.stop()
    assert [
        read_end(folder).exit_code for each in (member, replacement) for folder in incarnations_of(each.folder).values()
    ] == [
        0,
        0,
    ]


def frozen(scenario: Scenario) -> Scenario:
    """Returns the scenario with a fault plan that freezes applications."""
    freeze = FaultStep(trigger=Trigger(kind="at_once"), action="freeze_application", target="none")
    return replace(scenario, fault=FaultPlan(name="frozen", summary="", steps=(freeze,)))


def zombie_command(handle: RunningApplications) -> None:
    """Has the replacements started, without waiting for partitions: the session of the frozen member lasts 6 s."""
    for control in handle.zombies.replacements:
        control[Word.STARTS] += 1
    wait_until(
        lambda: all(each[Word.STARTS_DONE] for each in handle.zombies.replacements), "the replacements", PATIENCE_S
    )


def test_a_successor_has_the_same_transactional_id_only_if_it_is_to_fence(tmp_path: Path) -> None:
    def ids(discipline: Discipline) -> list[str]:
        application = APPLICATIONS[discipline]
        scenario = frozen(replace(scenario_of(), arms=(replace(RUN.subjects[0], application=application), RUN.canary)))
        pool = MemberPool(scenario, {"librdkafka": {}}, tmp_path / discipline, lambda pid: None)
        return [str(spec_of(member, 0, "g", "t", {}).producer["transactional.id"]) for member in pool.members]

    arm = RUN.subjects[0].name
    assert ids("transform_fenced") == [f"kdv-{arm}-0"] * 2
    assert ids("transform_assigned") == ids("transform_transactional") == [f"kdv-{arm}-0", f"kdv-{arm}-1"]


def test_settings_that_the_client_refuses_are_named(tmp_path: Path) -> None:
    scenario = scenario_of()
    arm = scenario.subjects[0]
    assert arm.application is not None
    refused = replace(arm.application, consumer={**CONSUMER, "session.timeout.ms": 0})
    scenario = replace(scenario, arms=(replace(arm, application=refused), scenario.canary))
    pool = MemberPool(scenario, {"librdkafka": {"bootstrap.servers": "127.0.0.1:1"}}, tmp_path, lambda pid: None)
    with pytest.raises(MemberDied, match=r"consumer settings refused.*session\.timeout\.ms"):
        pool.start()


SUPERVISOR = """
import sys, time
from pathlib import Path
from unit.applications.test_pool import Stage, scenario_of
made = Stage(scenario_of(members=2), Path(sys.argv[1]))
made.write(1)
made.pool.start()
print(*made.adopted, flush=True)
time.sleep(600)
"""


def test_members_die_with_their_supervisor(tmp_path: Path) -> None:
    folders = [str(folder) for folder in (Path(__file__).parents[2], *map(Path, filter(None, sys.path)))]
    supervisor = subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, str(tmp_path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
    )
    try:
        assert supervisor.stdout is not None
        pids = [int(pid) for pid in supervisor.stdout.readline().split()]
        assert len(pids) == 2 and all(map(psutil.pid_exists, pids))
    finally:
        supervisor.kill()
        supervisor.wait()
    wait_until(lambda: not any(map(psutil.pid_exists, pids)), "the members to be gone", PATIENCE_S)
