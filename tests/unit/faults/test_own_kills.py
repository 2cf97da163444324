"""Kills of own applications: a program that goes on after the kill, e.g. in a container, is no proof."""

from __future__ import annotations

import signal
from itertools import count, repeat
from types import SimpleNamespace
from typing import Any

import pytest

from delivery_verifier.applications.own.scan import PlaceBusy
from delivery_verifier.faults import applications
from delivery_verifier.faults.applications import KillApplication

COMMITTED = {"a": 5}


def context(records: Any, undecided: Any = repeat(0)) -> Any:
    """Returns the context of a kill. `records` yields how many records the application has applied, call by call, and
    `undecided` how many are in open transactions."""
    own = SimpleNamespace(
        arms=["a"],
        send=lambda number: None,
        in_hand=lambda committed: {"a": 2},
        records=lambda: {"a": next(records)},
        undecided=lambda: {"a": next(undecided)},
    )
    program = SimpleNamespace(
        own=own,
        kill=lambda: None,
        exits=lambda: {"a/0": -signal.SIGKILL},
        parked_at=dict,
        in_hand=dict,
        members=1,
    )
    return SimpleNamespace(applications=program)


@pytest.mark.parametrize(("records", "is_proof"), [(iter([7, 7]), True), (count(7), False)])
def test_a_program_that_goes_on_after_the_kill_was_not_killed(
    monkeypatch: pytest.MonkeyPatch, records: Any, is_proof: bool
) -> None:
    monkeypatch.setattr(applications, "STILL_S", 0.0)
    monkeypatch.setattr(applications, "_LATE_S", 0.0)
    monkeypatch.setattr(applications, "_commits", lambda context: lambda: COMMITTED)
    kill, made = KillApplication(), context(records)
    kill.do(made)
    assert bool(kill.proof(made)) is is_proof


def test_a_program_whose_open_transaction_grows_after_the_kill_was_not_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in a container commits only every 10 s. Nothing but its open transaction shows that it goes on."""
    monkeypatch.setattr(applications, "STILL_S", 0.0)
    monkeypatch.setattr(applications, "_LATE_S", 0.0)
    monkeypatch.setattr(applications, "_commits", lambda context: lambda: COMMITTED)
    kill, made = KillApplication(), context(repeat(7), count(3))
    kill.do(made)
    assert kill.proof(made) == {}


def test_a_group_that_commits_after_the_kill_has_a_member_that_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    commits = count(5)
    monkeypatch.setattr(applications, "STILL_S", 0.0)
    monkeypatch.setattr(applications, "_LATE_S", 0.0)
    monkeypatch.setattr(applications, "_commits", lambda context: lambda: {"a": next(commits)})
    kill, made = KillApplication(), context(iter([7, 7]))
    kill.do(made)
    assert kill.proof(made) == {}


def test_records_in_hand_only_until_a_late_commit_arrives_are_no_moment_for_a_kill(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a busy host, a commit that was under way when its sender was frozen arrives after the first look."""
    in_hand, frozen = iter([2, 0, 2, 2]), list[int]()
    for name in ("_LATE_S", "_UNDER_WAY_S", "_RUN_S"):
        monkeypatch.setattr(applications, name, 0.0)
    monkeypatch.setattr(applications, "_commits", lambda context: lambda: COMMITTED)
    own = SimpleNamespace(arms=["a"], send=frozen.append, in_hand=lambda committed: {"a": next(in_hand)})
    run: Any = SimpleNamespace(applications=SimpleNamespace(own=own))
    applications._freeze_in_hand(run)
    assert frozen == [signal.SIGSTOP, signal.SIGCONT, signal.SIGSTOP]
    assert next(in_hand, None) is None


def test_a_locked_database_is_no_moment_for_a_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(committed: object) -> dict[str, int]:
        raise PlaceBusy("locked")

    own: Any = SimpleNamespace(in_hand=locked)
    assert not applications._have_in_hand(own, COMMITTED, is_any_difference=False)
