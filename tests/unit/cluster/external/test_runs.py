"""Runs as everybody sees them on a cluster: by the names of their topics."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka.admin import AdminClient

from delivery_verifier.cluster.external import runs
from delivery_verifier.cluster.external.runs import ClusterTaken, announcement, standing


def client(*topics: str) -> AdminClient:
    return cast(
        "AdminClient", SimpleNamespace(list_topics=lambda timeout: SimpleNamespace(topics=dict.fromkeys(topics)))
    )


def test_a_run_that_is_announced_is_named_with_who_runs_it_since_when(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "user_of", lambda pid: "o'Brien")
    monkeypatch.setattr(cast(Any, runs).socket, "gethostname", lambda: "host.example")
    name = announcement("abcdefgh", "nightly.run_7")
    (run,) = standing([name, "kdv-abcdefgh-safe", "kdv-other", "orders"])
    assert (run.token, run.run, run.who, len(run.topics)) == ("abcdefgh", "nightly.run_7", "o-Brien-at-host-example", 2)
    assert run.since_s is not None and abs(run.since_s - time.time()) < 60
    assert "run nightly.run_7 of o-Brien-at-host-example, since " in str(run) and "2 topics kdv-abcdefgh-*" in str(run)


def test_the_longest_name_of_a_run_makes_a_name_that_kafka_takes() -> None:
    name = announcement("abcdefgh", "r" * 121)
    assert len(name) <= 249 and standing([name])[0].run == "r" * 121


@pytest.mark.parametrize("name", ["kdv-abcdefgh-safe", "kdv-abcdefgh-run.99999999999999.x.y", "kdv-abcdefgh-run.1.x.y"])
def test_what_nothing_announces_has_no_name_and_no_age(name: str) -> None:
    (run,) = standing([name])
    assert run.run is None and "whose name and age are not known" in str(run)


def test_another_run_is_refused_unless_it_is_named_or_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "LAG_S", 0.0)
    name = announcement("abcdefgh", "first")
    with pytest.raises(ClusterTaken, match=r"run first of .*s ago.*--beside first"):
        runs.require_alone(client(name), (), ())
    with pytest.raises(ClusterTaken, match="--beside unknown0"):
        runs.require_alone(client(name, "kdv-unknown0-a"), ("abcdefgh",), ("first",))
    for own, beside in ((("abcdefgh",), ()), ((), ("first",)), ((), ("abcdefgh",))):
        runs.require_alone(client(name, "orders", "kdv-of-a-user"), own, beside)
    assert ClusterTaken.exit_code == 75


def test_a_dead_run_of_this_home_under_another_host_name_is_named_with_its_register(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runs, "LAG_S", 0.0)
    elsewhere = {"abcdefgh": "/home/abcdefgh.jsonl, from the host far", "other000": "/home/other000.jsonl"}
    with pytest.raises(ClusterTaken, match=r"its register is /home/abcdefgh\.jsonl, from the host far.*by hand"):
        runs.require_alone(client("kdv-abcdefgh-a"), (), (), elsewhere)
    with pytest.raises(ClusterTaken, match=r"its own home removes it"):
        runs.require_alone(client("kdv-unknown0-a"), (), (), elsewhere)
