"""Tests of what is said before a run: what it cannot show, and what its producer will give up."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from delivery_verifier.catalogue import SCENARIOS, build
from delivery_verifier.command_line import run as running
from delivery_verifier.planning import beforehand
from delivery_verifier.planning.build import scenario_from_params
from delivery_verifier.planning.explanation import describe, explain, explanation_text
from delivery_verifier.progress.follower import Follower

ALONE = {"replication_factor": 1, "min_insync_replicas": 1}
OWN = 'summary = "Writes orders."\ncommand = "true"\n'


def said(**fields: Any) -> list[str]:
    """Returns what is said about the subject before a run of `fields`. `kdv plan` prints each of these sentences."""
    run = scenario_from_params(fields, "run")
    sentences = [*beforehand.lines(run, run.subjects[0])]
    assert all(f"           {sentence}\n" in describe(run) for sentence in sentences)
    return sentences


@pytest.fixture
def _orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "orders.toml").write_text(OWN)
    monkeypatch.setenv("KDV_APPLICATIONS", str(tmp_path))


@pytest.mark.usefixtures("_orders")
def test_offsets_in_a_checkpoint_are_named_before_a_program_of_ones_own_is_killed() -> None:
    assert said(application="orders", fault="kill_application") == [beforehand.NEVER_COMMITS]
    assert said(application="orders", fault="kill_leader") == [], "its group hides nothing that a broker's end hits"
    assert said(application="commit_after", fault="kill_application") == [], "the verifier's own groups commit"


def test_a_run_says_the_same_before_anything_starts() -> None:
    heard: list[str] = []
    running._show_promises({"fault": "kill_leader", **ALONE}, cast(Follower, SimpleNamespace(say=heard.append)))
    assert beforehand.ONE_REPLICA in heard
    assert heard.index(beforehand.ONE_REPLICA) < heard.index("safe promises under kill_leader:")


@pytest.mark.parametrize("fault", ["kill_leader", "stop_leader", "pause_leader", "rolling_restart", "all_brokers"])
def test_one_replica_shows_nothing_of_the_loss_of_a_broker(fault: str) -> None:
    assert said(fault=fault, **ALONE) == [beforehand.ONE_REPLICA]
    assert said(fault=fault) == []


@pytest.mark.parametrize("fault", ["none", "kill_leader"])
def test_an_explanation_says_what_one_replica_cannot_show(fault: str) -> None:
    runs = [scenario_from_params({"fault": fault, **fields}, "run") for fields in (ALONE, {})]
    texts = [explanation_text(explain(run, run.subjects[0])) for run in runs]
    assert [f"           {beforehand.ONE_REPLICA}\n" in text for text in texts] == [True, False]


def test_a_program_that_exits_without_flush_is_named_and_one_that_flushes_is_not() -> None:
    run = build(SCENARIOS["producer.terminated"], "run")
    said_of = {arm.on_sigterm: [*beforehand.lines(run, arm)] for arm in run.loaded}
    assert said_of == {"exit": [beforehand.DROPS_ITS_QUEUE], "flush": []}


def test_one_replica_hides_nothing_where_no_broker_is_harmed() -> None:
    assert said(fault="none", **ALONE) == []


@pytest.mark.parametrize(
    ("fields", "is_given_up"),
    [
        ({"fault": "all_brokers", "fault_s": 6}, True),
        ({"fault": "all_brokers", "fault_s": 5}, False),  # the client may try once more at the last moment
        ({"fault": "all_brokers"}, True),
        ({"fault": "kill_leader", "fault_s": 60}, False),  # others lead
        ({"fault": "kill_leader", "fault_s": 60, **ALONE}, True),
        ({"fault": "pause_leader", **ALONE}, True),
        ({"fault": "rolling_restart", **ALONE}, False),  # nobody knows how long a restart takes
        ({"fault": "elect_preferred"}, False),
        ({"fault": "none"}, False),
    ],
)
def test_a_timeout_that_ends_before_the_fault_is_named(fields: dict[str, Any], is_given_up: bool) -> None:
    impatient = said(**fields, producer_overrides="delivery.timeout.ms=5000")
    assert any("delivery.timeout.ms=5000 ends before" in sentence for sentence in impatient) == is_given_up
    assert not any("given up" in sentence for sentence in said(**fields))
