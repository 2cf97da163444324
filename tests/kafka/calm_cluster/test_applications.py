"""Tests of applications on real brokers: what members apply when they are killed or set back, and when such a fault has
not taken effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.application_stage import NAMES, Stage, entry_of

from delivery_verifier.applications.control import Word
from delivery_verifier.applications.incarnations import FENCED
from delivery_verifier.catalogue.entry import Entry
from delivery_verifier.catalogue.parts import AT_ONCE, SETTLED, step
from delivery_verifier.catalogue.scenarios import consumers, databases, groups, transforms
from delivery_verifier.cluster import groups as consumer_groups
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.faults import zombies
from delivery_verifier.model.fault_plan import Trigger, capabilities_of

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
