"""Kills of user applications: the moment of the kill, and what proves it. A program that goes on after the kill, e.g.
in a container, is no proof."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from itertools import count, repeat
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from support import user_applications

from delivery_verifier.applications.own.in_progress import InProgress
from delivery_verifier.applications.own.scan import PlaceBusy
from delivery_verifier.faults import applications
from delivery_verifier.faults import user_applications as module
from delivery_verifier.faults.applications import KillApplication
from delivery_verifier.model.scenario import Arm, Claim

ARM = user_applications.scenario().subjects[0]
KILLED = "exit code -9 (killed by SIGKILL)"
BEHIND, AHEAD, NOTHING = InProgress(uncommitted=2), InProgress(unapplied=2), InProgress()
"""What a program has in progress that commits behind its work, and one that commits ahead of it."""


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STILL_S", "_LATE_S", "_UNDER_WAY_S", "_RUN_S"):
        monkeypatch.setattr(module, name, 0.0)
    commit_nothing_more(monkeypatch, repeat(5))


def commit_nothing_more(monkeypatch: pytest.MonkeyPatch, offsets: Iterator[int]) -> None:
    """Lets the group have committed the next of `offsets` at each look."""
    for each in (module, applications):
        monkeypatch.setattr(each, "commits", lambda context: lambda arm: {0: next(offsets)})


def context(
    *looks: InProgress | Exception,
    records: Iterator[int] = repeat(7),
    undecided: Iterator[int] = repeat(0),
    claims: Sequence[Claim] = ("contract",),
    exit_code: int = -signal.SIGKILL,
) -> Any:
    """Returns the context of a kill of one application per claim. `looks` are what each has in progress, look by look;
    the last one counts for ever. `records` yields how many records have been applied, and `undecided` how many are in
    open transactions. `applications.own.signals` has the signals that the members got, by the name of the arm."""
    arms = [replace(ARM, claim=claim, name=f"{ARM.name}{number or ''}") for number, claim in enumerate(claims)]
    left = {arm.name: list(looks or (NOTHING,)) for arm in arms}
    signals = {arm.name: list[int]() for arm in arms}

    def in_progress(arm: Arm, committed: object, positions: object) -> InProgress:
        looks = left[arm.name]
        look = looks.pop(0) if len(looks) > 1 else looks[0]
        if isinstance(look, Exception):
            raise look
        return look

    def send(number: int, to: Sequence[Arm]) -> None:
        for arm in to:
            signals[arm.name].append(number)

    own = SimpleNamespace(
        arms=arms,
        in_progress=in_progress,
        records=lambda: {ARM.name: next(records)},
        undecided=lambda: {ARM.name: next(undecided)},
        signals=signals,
        send=send,
    )
    program = SimpleNamespace(
        own=own,
        kill=lambda: None,
        exits=lambda: {f"{ARM.name}/0": exit_code},
        parked_at=dict,
        in_progress=dict,
        members=1,
    )
    return SimpleNamespace(applications=program, load=SimpleNamespace(positions=lambda arm: {}), scenario=None)


def kill(made: Any) -> Any:
    action = KillApplication()
    return action.proof(made, action.do(made))


@pytest.mark.parametrize("look", [BEHIND, AHEAD, InProgress(undecided=3)])
def test_the_proof_says_what_was_in_progress_of_programs_that_commit_behind_their_work_and_ahead_of_it(
    monkeypatch: pytest.MonkeyPatch, look: InProgress
) -> None:
    monkeypatch.setattr(module, "WORST_S", 0.0)
    assert kill(context(look)) == {
        f"member {ARM.name}/0": KILLED,
        f"in progress of {ARM.name}": look.total,
        f"applied, not committed of {ARM.name}": max(look.uncommitted, look.undecided),
        f"committed, not applied of {ARM.name}": look.unapplied,
    }


def test_a_kill_with_nothing_in_progress_is_a_kill_all_the_same_and_the_proof_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "IN_PROGRESS_S", 0.05)
    assert kill(context(NOTHING))[f"in progress of {ARM.name}"] == 0


def test_of_a_group_that_has_never_committed_the_proof_says_only_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IN_PROGRESS_S", 0.05)
    proof = kill(context(InProgress(has_committed=False)))
    assert proof == {f"member {ARM.name}/0": KILLED, f"group of {ARM.name}": "has never committed"}


def test_members_that_another_signal_has_ended_were_not_killed() -> None:
    assert kill(context(AHEAD, exit_code=-signal.SIGTERM)) == {}


@pytest.mark.parametrize(("records", "is_proof"), [(iter([7, 7]), True), (count(7), False)])
def test_a_program_that_goes_on_after_the_kill_was_not_killed(records: Any, is_proof: bool) -> None:
    assert bool(kill(context(AHEAD, records=records))) is is_proof


def test_a_program_whose_open_transaction_grows_after_the_kill_was_not_killed() -> None:
    """A program in a container commits only every 10 s. Nothing but its open transaction shows that it goes on."""
    assert kill(context(AHEAD, undecided=count(3))) == {}


def test_a_group_that_commits_after_the_kill_has_a_member_that_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    commit_nothing_more(monkeypatch, count(5))
    assert kill(context(AHEAD)) == {}


STOP, GO_ON = signal.SIGSTOP, signal.SIGCONT


def test_records_in_progress_only_until_a_late_commit_arrives_are_no_moment_for_a_kill() -> None:
    """On a busy host, a commit that was under way when its sender was frozen arrives after the first look."""
    made = context(AHEAD, NOTHING, AHEAD)
    module.freeze_in_progress(made)
    assert made.applications.own.signals[ARM.name] == [STOP, GO_ON, STOP]


def test_a_locked_database_is_no_moment_for_a_kill() -> None:
    made = context(PlaceBusy("locked"), AHEAD)
    module.freeze_in_progress(made)
    assert made.applications.own.signals[ARM.name] == [STOP, GO_ON, STOP]


def test_members_that_cannot_be_looked_at_are_not_left_frozen() -> None:
    made = context(RuntimeError("no coordinator"))
    with pytest.raises(RuntimeError, match="no coordinator"):
        module.freeze_in_progress(made)
    assert made.applications.own.signals[ARM.name] == [STOP, GO_ON]


WORST: list[tuple[Claim, InProgress]] = [
    ("contract", AHEAD),
    ("at_least_once", AHEAD),
    ("at_most_once", BEHIND),
    ("at_most_once", InProgress(undecided=1)),
    ("exactly_once", AHEAD),
]
HARMLESS: list[tuple[Claim, InProgress]] = [
    ("contract", BEHIND),
    ("at_least_once", InProgress(undecided=1)),
    ("at_most_once", AHEAD),
    ("exactly_once", BEHIND),
    ("exactly_once", NOTHING),
]


@pytest.mark.parametrize(("claim", "look"), WORST)
def test_a_moment_at_which_the_kill_does_the_worst_that_the_claim_forbids_is_taken_at_once(
    claim: Claim, look: InProgress
) -> None:
    made = context(look, claims=[claim])
    module.freeze_in_progress(made)
    assert made.applications.own.signals[ARM.name] == [STOP]


@pytest.mark.parametrize(("claim", "look"), HARMLESS)
def test_any_other_moment_with_records_in_progress_is_taken_when_no_worse_one_comes(
    monkeypatch: pytest.MonkeyPatch, claim: Claim, look: InProgress
) -> None:
    monkeypatch.setattr(module, "WORST_S", 0.05)
    monkeypatch.setattr(module, "IN_PROGRESS_S", 60.0 if look.total else 0.1)
    made = context(look, claims=[claim])
    module.freeze_in_progress(made)
    signals = made.applications.own.signals[ARM.name]
    assert signals[:2] == [STOP, GO_ON] and signals[-1] == (STOP if look.total else GO_ON)


def test_each_program_is_frozen_at_its_own_moment_and_those_without_one_run_until_the_kill(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "IN_PROGRESS_S", 0.05)
    made = context(AHEAD, claims=["contract", "at_most_once"])
    module.freeze_in_progress(made)
    first, second = made.applications.own.signals.values()
    assert first == [STOP] and second[:2] == [STOP, GO_ON] and second[-1] == GO_ON, "WORST_S has not passed"
