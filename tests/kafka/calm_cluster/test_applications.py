"""Tests of applications on real brokers: what members apply when they are killed or set back, and when such a fault has
not taken effect."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.patience import PATIENCE_S

from delivery_verifier.applications.control import Word
from delivery_verifier.applications.handle import RunningApplications
from delivery_verifier.applications.incarnations import FENCED, incarnations_of
from delivery_verifier.applications.member_process import MemberProcess
from delivery_verifier.applications.pool import MemberPool
from delivery_verifier.applications.sink import IncarnationEffects, SinkInputs
from delivery_verifier.applications.sinks import sink_of
from delivery_verifier.catalogue.applications import APPLICATIONS
from delivery_verifier.catalogue.entry import ArmPlan, Entry, build
from delivery_verifier.catalogue.parts import AT_ONCE, SETTLED, scripted, step
from delivery_verifier.catalogue.profiles import PROFILES
from delivery_verifier.catalogue.scenarios import consumers, databases, groups, transforms
from delivery_verifier.cluster import groups as consumer_groups
from delivery_verifier.cluster import topics
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.faults import zombies
from delivery_verifier.faults.action import ActionContext
from delivery_verifier.faults.applications import are_caught_up
from delivery_verifier.faults.runner import FaultRunner
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.load.handle import RunningLoad
from delivery_verifier.load.live_ledger import Gate, State
from delivery_verifier.load.pool import ProducerPool
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep, Trigger, capabilities_of
from delivery_verifier.model.history import Injection
from delivery_verifier.run_directory.effect_tables import JOURNAL
from delivery_verifier.run_directory.group_log import GroupLog, read_group_log
from delivery_verifier.run_directory.run_directory import RunDirectory
from delivery_verifier.run_directory.table import arrow_schema
from delivery_verifier.settlement.applications import journal_rows
from delivery_verifier.settlement.group_log import write_group_log
from delivery_verifier.settlement.outputs import VisibleRecords
from delivery_verifier.verdict.group_log import differences

CAUGHT_UP, PARKED = Trigger(kind="caught_up"), Trigger(kind="parked")


def is_exact(entry: Entry) -> bool:
    """Returns whether every count that the arms expect is a number, and not left to chance within bounds."""
    return all(bound.op == "=" for arm in entry.arms for bound in arm.expectation.bounds)


ENTRIES = [
    *(entry for entry in (*consumers.ENTRIES, *databases.ENTRIES, *groups.ENTRIES) if is_exact(entry)),
    *(entry for entry in transforms.ENTRIES if not capabilities_of(entry.fault)),
]
"""The entries about applications that need no proxy and end with exact numbers. `make campaign PART=applications` runs
the statistical ones, each with ten arms."""
NAMES = ("commit_first", "commit_after", "store_after")


class Stage:
    """Arms with applications at work on a cluster, and the fault plan that runs beside them. Blocks have 20 records."""

    def __init__(self, cluster: Cluster, workspace: Path, entry: Entry) -> None:
        self.cluster, self.workspace, self.scenario = cluster, workspace, build(entry, workspace.name)
        topics.create(self.scenario, cluster.connection)
        names = [arm.topic_name for arm in self.scenario.arms]
        wait_until(lambda: cluster.isr_full(names), "all replicas to be in sync", PATIENCE_S)
        properties = cluster.load_connection.client_properties()
        self.pool = ProducerPool(self.scenario, {"librdkafka": properties}, workspace)
        self.members = MemberPool(self.scenario, properties, workspace, cluster.agent.adopt)
        self.handle = RunningApplications(self.scenario, workspace)

    def play(self) -> list[Injection]:
        """Runs the plan and the load until both have ended, and stops all members in order. Returns the injections."""
        try:
            self.pool.wait_for(State.READY)
            self.members.start()
            self.pool.open(Gate.WARM_UP)
            self.pool.wait_for(State.WARM)
            self.pool.open(Gate.GO)
            injections = self._inject()
            self.pool.open(Gate.RELEASE)
            self.pool.wait_for(State.DONE)
            load = RunningLoad(self.scenario, self.workspace)
            context = ActionContext(self.cluster, [], {}, self.scenario, load, self.handle)
            wait_until(lambda: self.members.check() and are_caught_up(context), "the members to catch up", PATIENCE_S)
            self.members.stop()
            return injections
        finally:
            self.members.close()
            self.pool.kill()

    def _inject(self) -> list[Injection]:
        injections, raised = list[Injection](), list[BaseException]()

        def inject() -> None:
            load = RunningLoad(self.scenario, self.workspace)
            try:
                injections.extend(FaultRunner(self.cluster, self.scenario, load, applications=self.handle).run())
            except BaseException as error:
                raised.append(error)

        beside = threading.Thread(target=inject)
        beside.start()

        def has_ended() -> bool:
            self.members.apply_commands()
            return self.members.check() and self.pool.check() and not beside.is_alive()

        wait_until(has_ended, "the plan to end", PATIENCE_S)
        if raised:
            raise raised[0]
        return injections

    def effects(self) -> dict[str, list[list[int]]]:
        """Returns the offsets that each incarnation applied, in order, by the name of the arm."""
        return {
            member.arm.name: [
                self.offsets(incarnation)
                for incarnation in sink_of(member.application.discipline).read(self.inputs(member))
            ]
            for member in self.members.members
            if member.number == 0  # the effects of an application are read at once, those of its replacement, too
        }

    def offsets(self, incarnation: IncarnationEffects) -> list[int]:
        """Returns the offsets that an incarnation applied, in order. Asserts that there are as many effects as were
        counted."""
        assert incarnation.counted == len(incarnation.rows)
        return [int(offset) for offset in incarnation.rows["offset"]]

    def overtaken(self, arm: str) -> int:
        """Returns how many records of an arm were first applied after a record with a higher offset."""
        member = next(each for each in self.members.members if each.arm.name == arm)
        incarnations = sink_of(member.application.discipline).read(self.inputs(member))
        ordered = sorted(
            (int(row["order"]), int(row["offset"])) for incarnation in incarnations for row in incarnation.rows
        )
        first = list(dict.fromkeys(offset for _, offset in ordered))
        return sum(offset < highest for offset, highest in zip(first, accumulate(first, max), strict=True))

    def group_log(self) -> GroupLog:
        """Returns what `__consumer_offsets` has of the groups, written down and read back, beside the journals."""
        run = RunDirectory(self.workspace / "run")
        with run.writing("plan") as output:
            output.write_json("scenario.json", self.scenario)
        with run.writing("settle") as output:
            write_group_log(self.scenario, self.cluster, output, began_us=0)
            for member in self.members.members:
                incarnations = incarnations_of(member.folder).items()
                rows = [
                    row
                    for incarnation, path in incarnations
                    for row in journal_rows(member.arm, member.number, incarnation, path)
                ]
                table = pa.Table.from_pylist(rows, arrow_schema(JOURNAL))
                output.write_table(f"journal/{member.name.replace('/', '-')}", table)
        group_log = read_group_log(run)
        assert group_log is not None
        return group_log

    def differences(self, group_log: GroupLog, is_rewound: bool = False) -> set[str]:
        """Returns the names of all doubts about the group log."""
        keys = [(member.arm.topic_name, 0) for member in self.members.members]
        ends = topics.high_watermarks(topics.admin(self.cluster.connection), keys)
        live_ends = {(member.arm.name, 0): ends[member.arm.topic_name, 0] for member in self.members.members}
        return {name for _, name, _ in differences(self.scenario, group_log, live_ends, is_rewound)}

    def inputs(self, member: MemberProcess) -> SinkInputs:
        """Returns what the sink of the member's application must know."""
        folder, connection = member.folder.parent, self.cluster.connection.client_properties()
        return SinkInputs(member.arm, folder, 10, self.scenario.run_token, connection, VisibleRecords(self.cluster))


def entry_of(*steps: FaultStep, names: tuple[str, ...] = NAMES) -> Entry:
    """Returns an entry with the fault plan `steps`, and an arm for each application in `names`."""
    arms = tuple(
        ArmPlan(name=name, role="subject", profile=PROFILES["safe"], application=APPLICATIONS[name]) for name in names
    )
    plan = FaultPlan(name="planned", summary="", steps=steps)
    return Entry(name="apps", title="", promise="", source="", tags=(), arms=arms, load=scripted(20), fault=plan)


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path


def test_a_crash_in_a_batch_takes_from_each_discipline_what_it_promises(cluster: Cluster, workspace: Path) -> None:
    plan = entry_of(
        step(CAUGHT_UP, "park", "none", at="applied", record=4),
        step(AT_ONCE, "send", "none"),
        step(PARKED, "kill_application", "none"),
        step(AT_ONCE, "restart_application", "none"),
        step(SETTLED, "wait", "none"),
        step(CAUGHT_UP, "rewind", "none"),
        step(CAUGHT_UP, "wait", "none"),
    )
    stage = Stage(cluster, workspace, plan)
    killed, rewound = stage.play()
    first, again = list(range(24)), list(range(60))
    effects = stage.effects()
    stored = effects.pop("store_after")
    assert effects == {
        "commit_first": [first, list(range(30, 40)), again],
        "commit_after": [first, list(range(20, 40)), again],
    }
    assert (stored[0], stored[2]) == (first, again) and set(first) | set(stored[1]) == set(range(40))
    assert killed.took_effect and rewound.took_effect
    in_progress = {"commit_first": 6, "commit_after": 10, "store_after": 6}
    assert killed.proof["process_before_heal"] == {
        **{f"member {name}/0": "exit code -9 (killed by SIGKILL)" for name in NAMES},
        **{f"member {name}/0 parked at": "applied" for name in NAMES},
        **{f"in progress of {name}": count for name, count in in_progress.items()},
    }
    assert rewound.proof["process"] == {f"rewound {name}": 40 for name in NAMES}
    assert_group_log_agrees(stage)


def assert_group_log_agrees(stage: Stage) -> None:
    """Asserts that `__consumer_offsets` and the journals agree after a rewind, and that they do not once a commit is
    removed, altered or added."""
    group_log = stage.group_log()
    first = [row for row in group_log.commits if row["arm"] == "commit_after"]
    assert [row["offset"] for row in first if row["committed"]] == [10, 20, 30, 40, 0, 10, 20, 30, 40, 50, 60]
    assert {row["client_id"] for row in group_log.generations} == {None, *(f"{name}-member-0" for name in NAMES)}
    assert {row["position"] for row in group_log.positions} == {60} and not any(
        row["transactional"] or row["leader_epoch"] < -1 for row in group_log.commits
    )
    assert stage.differences(group_log, is_rewound=True) == set()
    assert stage.differences(group_log) == {"group_log_foreign_writer"}  # nobody but the fault plan commits offset 0
    fewer = group_log._replace(commits=[row for row in group_log.commits if row is not first[0]])
    assert stage.differences(fewer, is_rewound=True) == {"group_log_lacks_commit"}
    altered = [{**row, "offset": 61} if row is first[-1] else row for row in group_log.commits]
    names = {"group_log_lacks_commit", "group_log_foreign_writer", "group_log_disagrees"}
    assert stage.differences(group_log._replace(commits=altered), is_rewound=True) == names
    more = group_log._replace(commits=[{**first[0], "offset": 13}, *group_log.commits])
    assert stage.differences(more, is_rewound=True) == {"group_log_foreign_writer"}


ZOMBIES = (
    step(CAUGHT_UP, "park", "none", at="produced"),
    step(AT_ONCE, "send", "none"),
    step(PARKED, "freeze_application", "none"),
    step(AT_ONCE, "thaw_application", "none"),
)


def test_members_that_were_thawed_behind_our_back_were_not_replaced(
    cluster: Cluster, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No group stands in the way, so that the replacements have their partitions at once."""
    stage = Stage(cluster, workspace, entry_of(*ZOMBIES, names=("transform_assigned",)))
    replace, thaw = stage.handle.zombies.replace, stage.handle.zombies.thaw
    monkeypatch.setattr(zombies, "TAKEN_OVER_S", 1.0)
    monkeypatch.setattr(stage.handle.zombies, "replace", lambda: (thaw(), replace()))
    (frozen,) = stage.play()
    assert not frozen.took_effect and frozen.proof["process"] == {}
    assert "the replacements to take over: transform_assigned/0 is not frozen" in str(frozen.proof["failed"])


def test_a_zombie_that_never_goes_on_has_not_been_thawed(
    cluster: Cluster, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the recovery behind the plan lets it go on: what it then applies nobody has waited for."""
    names = ("transform_assigned", "transform_fenced")
    stage = Stage(cluster, workspace, entry_of(*ZOMBIES, names=names))
    thaw, calls = stage.handle.zombies.thaw, list[int]()
    monkeypatch.setattr(zombies, "THAWED_S", 1.0)
    monkeypatch.setattr(stage.handle.zombies, "thaw", lambda: thaw() if calls else calls.append(1))
    frozen, thawed = stage.play()
    proof = frozen.proof["process_before_heal"]
    assert isinstance(proof, dict)
    taken_over = {name: proof.pop(f"taken over of {name}") for name in names}
    assert proof == {
        **{f"member {name}/0": "frozen" for name in names},
        **{f"member {name}/0 parked at": "produced" for name in names},
        **{f"in progress of {name}": 10 for name in names},
    }
    assert all(taken_over.values())
    assert not thawed.took_effect and thawed.proof["process"] == {}
    assert "or to be refused: transform_assigned/0, transform_fenced/0" in str(thawed.proof["failed"])
    (member,) = (each for each in stage.members.members if each.name == "transform_fenced/0")
    assert member.control[Word.EXIT] == FENCED, "the recovery has thawed it, and it was fenced"


@pytest.mark.parametrize("is_killed", [True, False])
def test_members_with_nothing_in_progress_are_killed_all_the_same_and_members_that_are_stopped_are_not(
    cluster: Cluster, workspace: Path, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    plan = entry_of(
        step(AT_ONCE, "send", "none"),
        step(CAUGHT_UP, "kill_application", "none"),
        step(AT_ONCE, "restart_application", "none"),
    )
    stage = Stage(cluster, workspace, plan)
    if not is_killed:
        monkeypatch.setattr(stage.handle, "kill", stage.handle.stop)
    (killed,) = stage.play()
    assert killed.took_effect == is_killed
    proof: Any = killed.proof["process_before_heal"]
    assert (
        {name: proof[f"in progress of {name}"] for name in NAMES} == dict.fromkeys(NAMES, 0) if is_killed else not proof
    )
    assert stage.effects() == {name: [list(range(40)), list(range(40, 60))] for name in NAMES}


@pytest.mark.parametrize("is_exposed", [True, False])
def test_members_that_are_stopped_go_on_behind_their_commits_and_with_nothing_behind_them_nothing_was_tested(
    cluster: Cluster, workspace: Path, is_exposed: bool
) -> None:
    stop, send = step(CAUGHT_UP, "stop_application", "none"), step(CAUGHT_UP, "send", "none")
    restart = (step(SETTLED, "restart_application", "none"), step(CAUGHT_UP, "wait", "none"))
    begin = (stop, step(AT_ONCE, "send", "none")) if is_exposed else (send, stop)
    stage = Stage(cluster, workspace, entry_of(*begin, *restart))
    (stopped,) = stage.play()
    assert stopped.took_effect == is_exposed
    ended = {f"member {name}/0": "exit code 0" for name in NAMES}
    waiting = {f"waiting of {name}": 20 for name in NAMES}
    assert stopped.proof["process_before_heal"] == (ended | waiting if is_exposed else {})
    until = 20 if is_exposed else 40
    assert stage.effects() == {name: [list(range(until)), list(range(until, 60))] for name in NAMES}
    assert stage.differences(stage.group_log()) == set()


def test_a_group_that_has_committed_nothing_has_not_been_set_back(
    cluster: Cluster, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(cluster, workspace, entry_of(step(AT_ONCE, "send", "none"), step(SETTLED, "rewind", "none")))
    read = consumer_groups.committed_offsets
    stops = stage.handle.stop

    def stop_and_forget() -> None:
        """From now on, until the members run again, the group seems to have committed nothing."""
        stops()
        monkeypatch.setattr(consumer_groups, "committed_offsets", lambda *_: {0: 0})

    restarts = stage.handle.restart

    def remember_and_restart() -> None:
        monkeypatch.setattr(consumer_groups, "committed_offsets", read)
        restarts()

    monkeypatch.setattr(stage.handle, "stop", stop_and_forget)
    monkeypatch.setattr(stage.handle, "restart", remember_and_restart)
    (rewound,) = stage.play()
    assert not rewound.took_effect and rewound.proof["process"] == {}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_an_entry_ends_with_the_numbers_that_it_expects(entry: Entry, cluster: Cluster, workspace: Path) -> None:
    stage = Stage(cluster, workspace, entry)
    injections = stage.play()
    assert [injection.proof for injection in injections if not injection.took_effect] == [] != injections
    proofs = {
        injection.action: injection.proof["process_before_heal"] for injection in injections if injection.took_effect
    }
    if "freeze_application" in proofs:
        names = [f"member {arm.name}/0" for arm in entry.arms]
        assert [name for name in names if name not in str(proofs["freeze_application"])] == []
        assert [name for name in names if f"{name} when thawed" not in str(proofs["thaw_application"])] == []
    effects = stage.effects()
    for arm in entry.arms:
        counts = Counter(offset for incarnation in effects.get(arm.name, []) for offset in incarnation)
        ended = {
            "SKIPPED": sum(offset not in counts for offset in range(stage.scenario.arm(arm.name).records)),
            "REAPPLIED": sum(count > 1 for count in counts.values()),
        }
        if any(bound.count == "OVERTAKEN" for bound in arm.expectation.bounds):
            ended["OVERTAKEN"] = stage.overtaken(arm.name)
        bounds = {bound.count: bound.value for bound in arm.expectation.bounds if bound.count in ended}
        assert {name: ended[name] for name in bounds} == bounds, arm.name
    is_rewound = any(step.action == "rewind" for step in stage.scenario.fault.steps)
    assert stage.differences(stage.group_log(), is_rewound) == set()
