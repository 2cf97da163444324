"""Kills of own applications: a program that goes on after the kill, e.g. in a container, is no proof."""

from __future__ import annotations

import signal
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from delivery_verifier.faults import applications
from delivery_verifier.faults.applications import KillApplication

COMMITTED = {"a": 5}


def context(records: Any) -> Any:
    """Returns the context of a kill. `records` yields how many records the application has applied, call by call."""
    own = SimpleNamespace(
        arms=["a"],
        send=lambda number: None,
        in_hand=lambda committed: {"a": 2},
        records=lambda: {"a": next(records)},
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
    monkeypatch.setattr(applications, "_committed", lambda context: COMMITTED)
    kill, made = KillApplication(), context(records)
    kill.do(made)
    assert bool(kill.proof(made)) is is_proof


def test_a_group_that_commits_after_the_kill_has_a_member_that_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    commits = count(5)
    monkeypatch.setattr(applications, "STILL_S", 0.0)
    monkeypatch.setattr(applications, "_committed", lambda context: {"a": next(commits)})
    kill, made = KillApplication(), context(iter([7, 7]))
    kill.do(made)
    assert kill.proof(made) == {}
