"""Tests of what an own application has in hand, by its effects and the commits of its group. No process runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from support import own_applications

from delivery_verifier.applications.control import Control, Word
from delivery_verifier.applications.handle import RunningApplications
from delivery_verifier.applications.lives import folder_of
from delivery_verifier.applications.own import handle as own_handle
from delivery_verifier.applications.own.handle import OwnHandle
from delivery_verifier.applications.own.scan import RecordPattern, Scan
from delivery_verifier.catalogue import APPLICATIONS
from delivery_verifier.model import record
from delivery_verifier.model.scenario import Claim

SCENARIO = own_applications.scenario()
ARM = SCENARIO.subjects[0]


def handle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[bytes], claim: Claim = "contract") -> OwnHandle:
    """Returns the handle of an application that has printed `lines`."""
    monkeypatch.setenv("KDV_APPLICATIONS", str(tmp_path))
    own_applications.toml(tmp_path, "true")
    life = folder_of(tmp_path, ARM.name, 0) / "0"
    life.mkdir(parents=True)
    (life / "stdout").write_bytes(b"".join(line + b"\n" for line in lines))
    scenario = replace(SCENARIO, arms=(replace(ARM, claim=claim), SCENARIO.canary))
    return OwnHandle(scenario, tmp_path, {})


def values(count: int, token: str = SCENARIO.run_token) -> list[bytes]:
    size = SCENARIO.load.payload_bytes
    return [record.encode(token, ARM.ordinal, 0, 0, number, 0, 0, size) for number in range(count)]


def test_a_greeting_and_records_of_other_runs_are_not_in_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [b"sink 1.0 is ready", *values(3), *values(1, "f" * len(SCENARIO.run_token))]
    own = handle(tmp_path, monkeypatch, lines)
    assert own.records() == {ARM.name: 3}
    assert own.in_hand({ARM.name: 3}) == {ARM.name: 0}
    assert own.in_hand({ARM.name: 1}) == {ARM.name: 2}


def test_what_a_group_without_any_commit_has_in_hand_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = handle(tmp_path, monkeypatch, values(3))
    assert (own.in_hand({ARM.name: 0}), own.apart({ARM.name: 0})) == ({ARM.name: 0}, {ARM.name: 3})


@pytest.mark.parametrize(("claim", "in_hand"), [("at_least_once", 0), ("exactly_once", 0), ("at_most_once", 2)])
def test_records_that_are_committed_and_not_applied_are_in_hand_only_if_the_claim_permits_their_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claim: Claim, in_hand: int
) -> None:
    own = handle(tmp_path, monkeypatch, values(3), claim)
    assert (own.in_hand({ARM.name: 5}), own.apart({ARM.name: 5})) == ({ARM.name: in_hand}, {ARM.name: -2})


def test_only_the_control_is_ordered_to_park(tmp_path: Path) -> None:
    control = replace(ARM, name="control", role="control", application=APPLICATIONS["database_compared"])
    running = RunningApplications(replace(SCENARIO, arms=(ARM, control, SCENARIO.canary)), tmp_path)
    running.park("applied", batch=1, record=1)
    assert not running.are_parked()
    parked = Control(folder_of(tmp_path, "control", 0))
    parked[Word.PARKED] = parked[Word.PARKS]
    assert running.are_parked() and running.parked_at() == {"control/0": "applied"}
    alone = RunningApplications(SCENARIO, tmp_path)
    alone.park("applied", batch=1, record=1)
    assert not alone.are_parked(), "nobody has parked"


class Transactions:
    """A reader of an output topic in which 3 records stand in a transaction that has not ended."""

    def scans(self, pattern: RecordPattern) -> list[tuple[str, Scan]]:
        return []

    def undecided(self) -> int:
        return 3


def test_what_stands_in_a_transaction_that_has_not_ended_is_in_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = handle(tmp_path, monkeypatch, [])
    monkeypatch.setattr(own_handle, "reader_of", lambda *_: Transactions())
    own.begin_life({ARM.name: 5})
    assert (own.in_hand({ARM.name: 5}), own.apart({ARM.name: 5})) == ({ARM.name: 3}, {ARM.name: 0})
