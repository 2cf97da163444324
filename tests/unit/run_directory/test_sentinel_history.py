"""Tests of the history of sentinels: what is added stands there, the newest first, and whatever cannot be read is
counted. A result is a turn only if the state changes."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from support.patience import PATIENCE_S
from support.sentinels import BEGUN_US, CLUSTER, MINUTE_US, result

from delivery_verifier.host import folders
from delivery_verifier.model.sentinel import State
from delivery_verifier.run_directory import sentinel_history


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KDV_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


def test_what_is_added_stands_there_newest_first_with_its_totals() -> None:
    states: list[State] = ["HELD", "SKIPPED", "HELD", "NO VERDICT"]
    added = [sentinel_history.add(result(state, minute)) for minute, state in enumerate(states)]
    history = sentinel_history.newest_of(CLUSTER)
    assert history.results == added[::-1] and (history.unreadable, history.is_cut) == (0, False)
    assert history.results[0].totals == {"HELD": 2, "SKIPPED": 1, "NO VERDICT": 1}
    assert sentinel_history.find(added[1].run) == added[1] and sentinel_history.find("another") is None


def test_each_cluster_has_a_history_of_its_own_whatever_its_name() -> None:
    names = [CLUSTER, "airflow:kafka_of_prod", "a.b-c"]
    for name in names:
        sentinel_history.add(result(cluster=name))
    assert sentinel_history.clusters() == sorted(names)
    assert [sentinel_history.newest_of(name).results[0].cluster for name in names] == names
    assert sentinel_history.newest_of("never").results == []


def test_the_last_result_of_a_run_counts_and_no_more_are_read_than_asked_for() -> None:
    for minute in range(5):
        sentinel_history.add(result("HELD", minute))
    sentinel_history.add(result("VIOLATED", 4))
    found = sentinel_history.newest_of(CLUSTER, 2)
    assert [(each.run, each.state) for each in found.results] == [
        ("scheduled__00004", "VIOLATED"),
        ("scheduled__00003", "HELD"),
    ]
    assert found.is_cut and not sentinel_history.newest_of(CLUSTER, 5).is_cut


def test_a_torn_line_is_counted_and_takes_no_other_away(runs: Path) -> None:
    sentinel_history.add(result("HELD", 0))
    (file,) = runs.glob("sentinels/*/*.jsonl")
    with file.open("ab") as stream:
        stream.write(b'{"run":"half')
    sentinel_history.add(result("HELD", 1))
    history = sentinel_history.newest_of(CLUSTER)
    assert [each.run for each in history.results] == ["scheduled__00001", "scheduled__00000"]
    assert history.unreadable == 1


def test_old_days_go_and_a_new_result_never_reads_all(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentinel_history, "DAYS", 3)
    for day in range(6):
        sentinel_history.add(result("HELD", day * 24 * 60))
    files = sorted(runs.glob("sentinels/*/*.jsonl"))
    assert [file.name for file in files] == ["2026-11-21.jsonl", "2026-11-22.jsonl", "2026-11-23.jsonl"]
    for old in files[:-1]:
        old.write_bytes(b"no result")
    assert sentinel_history.add(result("HELD", 5 * 24 * 60 + 1)).totals == {"HELD": 7}
    assert sentinel_history.newest_of(CLUSTER, 1).unreadable == 0


def test_processes_that_add_at_once_lose_nothing(runs: Path) -> None:
    program = (
        "import sys\nfrom delivery_verifier.run_directory import sentinel_history\n"
        "from support.sentinels import result\n"
        "for minute in range(20): sentinel_history.add(result('HELD', minute + 20 * int(sys.argv[1])))"
    )
    started = [subprocess.Popen([sys.executable, "-c", program, str(number)], cwd="tests") for number in range(2)]
    assert [process.wait(PATIENCE_S) for process in started] == [0, 0]
    history = sentinel_history.newest_of(CLUSTER)
    assert len(history.results) == 40 and sentinel_history.newest_of(CLUSTER, 1).results[0].totals == {"HELD": 40}


TURNS: list[tuple[State, bool]] = [
    ("HELD", False),  # the first result, as everybody hopes
    ("SKIPPED", False),
    ("HELD", False),
    ("NO VERDICT", True),
    ("SKIPPED", False),
    ("NO VERDICT", False),
    ("INCONCLUSIVE", True),
    ("VIOLATED", True),
    ("VIOLATED", False),
    ("HELD", True),
    ("HELD", False),
]


def test_a_turn_is_told_once_and_a_skipped_run_is_none() -> None:
    added = []
    for minute, (state, is_turn) in enumerate(TURNS):
        added.append(sentinel_history.add(result(state, minute)))
        assert sentinel_history.is_turn(added[-1]) == is_turn, (minute, state)
    # A callback may come late, when there are newer results already.
    assert [sentinel_history.is_turn(each) for each in added] == [is_turn for _, is_turn in TURNS]
    assert sentinel_history.before(added[0]) is None
    assert all(older.at_us < newer.at_us for older, newer in pairwise(added))


def test_a_first_result_that_is_not_held_is_a_turn() -> None:
    assert sentinel_history.is_turn(sentinel_history.add(result("NO VERDICT")))


def test_no_run_directory_can_have_the_name_of_the_histories() -> None:
    assert folders.run_directory_name(folders.SENTINELS) != folders.SENTINELS
    assert BEGUN_US % MINUTE_US == 40_000_000
