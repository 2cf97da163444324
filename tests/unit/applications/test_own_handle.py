"""Tests of what a user application has in progress, by its effects and the commits of its group. No process runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from support import user_applications

from delivery_verifier.applications.control import Control, Word
from delivery_verifier.applications.handle import RunningApplications
from delivery_verifier.applications.incarnations import folder_of
from delivery_verifier.applications.own import handle as own_handle
from delivery_verifier.applications.own.handle import OwnHandle
from delivery_verifier.applications.own.in_progress import InProgress
from delivery_verifier.applications.own.scan import RecordPattern, Scan
from delivery_verifier.catalogue import APPLICATIONS, PROFILES
from delivery_verifier.model import record
from delivery_verifier.model.positions import Positions
from delivery_verifier.model.scenario import Claim

SCENARIO = user_applications.scenario()
ARM = SCENARIO.subjects[0]


def handle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[bytes], claim: Claim = "contract") -> OwnHandle:
    """Returns the handle of an application that has printed `lines`."""
    monkeypatch.setenv("KDV_APPLICATIONS", str(tmp_path))
    user_applications.toml(tmp_path, "true")
    incarnation = folder_of(tmp_path, ARM.name, 0) / "0"
    incarnation.mkdir(parents=True)
    (incarnation / "stdout").write_bytes(b"".join(line + b"\n" for line in lines))
    scenario = replace(SCENARIO, arms=(replace(ARM, claim=claim), SCENARIO.canary))
    return OwnHandle(scenario, tmp_path, {})


def values(count: int, token: str = SCENARIO.run_token) -> list[bytes]:
    size = SCENARIO.load.payload_bytes
    return [record.encode(token, ARM.ordinal, 0, 0, number, 0, 0, size) for number in range(count)]


def look(own: OwnHandle, committed: int, count: int = 10) -> InProgress:
    """Returns what is in progress if the group has committed the offset `committed`. The records 0 to `count` - 1 stand
    at the offsets of the same numbers."""
    positions = Positions(np.zeros(count, np.int32), np.arange(count, dtype=np.int64))
    return own.in_progress(own.arms[0], {0: committed}, {0: positions})


def test_a_greeting_and_records_of_other_runs_are_not_in_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [b"sink 1.0 is ready", *values(3), *values(1, "f" * len(SCENARIO.run_token))]
    own = handle(tmp_path, monkeypatch, lines)
    assert own.records() == {ARM.name: 3}
    assert look(own, 3) == InProgress()
    assert look(own, 1) == InProgress(uncommitted=2)


def test_what_a_group_without_any_commit_has_in_progress_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert look(handle(tmp_path, monkeypatch, values(3)), 0) == InProgress(has_committed=False)


@pytest.mark.parametrize("claim", ["contract", "at_least_once", "exactly_once", "at_most_once"])
def test_records_that_are_committed_and_not_applied_are_in_progress_whatever_the_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claim: Claim
) -> None:
    assert look(handle(tmp_path, monkeypatch, values(3), claim), 5) == InProgress(unapplied=2)


def test_in_a_topic_with_transactions_what_is_committed_and_not_applied_may_have_been_aborted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = handle(tmp_path, monkeypatch, values(3))
    own.arms = [replace(ARM, profile=PROFILES["transactional"])]
    assert (look(own, 5), look(own, 2)) == (InProgress(), InProgress(uncommitted=1))


def test_what_an_earlier_incarnation_had_in_progress_is_not_in_progress_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, incarnation = handle(tmp_path, monkeypatch, values(5)), folder_of(tmp_path, ARM.name, 0) / "1"
    for committed in (3, 8):
        assert look(own, committed).total
        own.begin_incarnation({ARM.name: {0: committed}})
        assert look(own, committed) == InProgress()
    incarnation.mkdir()
    (incarnation / "stdout").write_bytes(b"".join(value + b"\n" for value in values(10)[8:]))
    assert look(own, 8) == InProgress(uncommitted=2)
    assert look(own, 9) == InProgress(uncommitted=1), "5, 6 and 7 were lost in an earlier kill"


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

    def sizes(self) -> dict[str, int]:
        return {}


def test_what_stands_in_a_transaction_that_has_not_ended_is_in_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = handle(tmp_path, monkeypatch, [])
    monkeypatch.setattr(own_handle, "reader_of", lambda *_: Transactions())
    own.begin_incarnation({ARM.name: {0: 5}})
    assert look(own, 5, count=0) == InProgress(undecided=3)
