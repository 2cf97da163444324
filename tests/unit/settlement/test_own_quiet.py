"""Markers that a user application has applied do not end its incarnation: it may still be at work on earlier
records."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, count, repeat
from types import SimpleNamespace
from typing import Any

import pytest
from support import user_applications

from delivery_verifier.applications.control import Word
from delivery_verifier.cluster import groups, topics
from delivery_verifier.host.waiting import DeadlinePassed
from delivery_verifier.model.snapshot import Offsets, PartitionSnapshot
from delivery_verifier.settlement import applications

SCENARIO = user_applications.scenario()
ARM = SCENARIO.subjects[0]


class Pool:
    """A pool with one own member. Its counts of what it has applied are `counts`, check by check."""

    def __init__(self, counts: Iterator[int]) -> None:
        self.counts, self.checks = counts, 0
        self.members = [SimpleNamespace(is_own=True, control={Word.APPLIED: 0})]

    def check(self) -> bool:
        self.checks += 1
        self.members[0].control[Word.APPLIED] = next(self.counts)
        return True


def wait(pool: Pool) -> None:
    bounds: Any = {"start": 0, "end": 5, "live_end": 7, "leader": 1, "leader_epoch": 0}
    part = PartitionSnapshot(arm=ARM.name, topic=ARM.topic_name, partition=0, **bounds)
    snapshot = Offsets(bootstrap_servers="", taken_at_us=0, partitions=[part], rounds=2)
    cluster: Any = SimpleNamespace(connection=None)
    applications._wait_until_quiet(SCENARIO, pool, cluster, snapshot)  # type: ignore[arg-type]


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """What the group has committed. An application counts as busy at once, and as stalled after a moment."""
    result = {0: 4}
    monkeypatch.setattr(topics, "admin", lambda connection: None)
    monkeypatch.setattr(groups, "committed_offsets", lambda *_: result)
    for name, value in (("QUIET_S", 0.01), ("BUSY_S", 0.0), ("STALLED_S", 0.2)):
        monkeypatch.setattr(applications, name, value)
    return result


def test_an_application_that_still_writes_is_waited_for(
    commits: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applications, "STALLED_S", 10.0)
    pool = Pool(chain([1, 2, 3], repeat(3)))
    wait(pool)
    assert pool.checks == 4


def test_an_application_that_always_writes_is_done_when_its_group_has_committed(commits: dict[int, int]) -> None:
    commits[0] = 5
    wait(Pool(count()))


def test_an_application_that_always_writes_and_has_not_committed_gets_no_verdict(commits: dict[int, int]) -> None:
    with pytest.raises(DeadlinePassed, match="user applications to commit"):
        wait(Pool(count()))


def test_the_end_of_a_run_waits_for_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list[str]()
    pool = SimpleNamespace(
        members=[1], start=lambda: None, stop=lambda: calls.append("stop"), close=lambda: calls.append("close")
    )
    monkeypatch.setattr(applications, "MemberPool", lambda *_: pool)
    monkeypatch.setattr(applications, "_wait_until_drained", lambda *_: calls.append("drained"))
    monkeypatch.setattr(applications, "_wait_until_quiet", lambda *_: calls.append("quiet"), raising=False)
    monkeypatch.setattr(applications, "_seal", lambda *_: calls.append("seal"))
    connection: Any = SimpleNamespace(client_properties=dict, properties_of=lambda client: {})
    cluster: Any = SimpleNamespace(load_connection=connection, workspace=None, agent=SimpleNamespace(adopt=None))
    monkeypatch.setattr(applications, "application_folder", lambda *_: None)
    output: Any = SimpleNamespace(timed=lambda name: _Timed(), notes={})
    applications.drain_applications(
        SCENARIO, cluster, Offsets(bootstrap_servers="", taken_at_us=0, partitions=[]), output
    )
    assert calls == ["drained", "quiet", "stop", "close", "seal"]


class _Timed:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...
