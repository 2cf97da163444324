"""Tests of the campaign of random histories: its rounds have other seeds, and its page hides no failed test."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest
from support.commands import without_git
from support.seeds import APART, ROUND, in_this_round

from bench.campaigns import random_histories

ROOT = Path(__file__).resolve().parents[3]
REPORT = (
    '<testsuites><testsuite tests="30" failures="{}" errors="{}" skipped="{}">'
    '<testcase name="test_a[bits-exhaustive]"/><testcase name="test_a[bits-2]"/></testsuite></testsuites>'
)


@pytest.fixture
def campaign(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The module bench/campaigns/random_histories.py, with a state and results of its own."""
    without_git(monkeypatch)
    module = random_histories
    monkeypatch.setattr(module, "STATE", tmp_path / "state" / "histories.json")
    monkeypatch.setattr(module.saved, "RESULTS", tmp_path)
    monkeypatch.setattr(module, "commit", lambda: "abc")
    return module


def test_each_round_has_other_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ROUND, raising=False)
    assert in_this_round(7) == 7
    monkeypatch.setenv(ROUND, "3")
    assert in_this_round(7) == 7 + 3 * APART


def test_its_files_draw_their_seeds_by_round(campaign: ModuleType) -> None:
    for file in campaign.FILES:
        assert "number_of_histories()" in (text := (ROOT / file).read_text()) and "in_this_round(" in text


@pytest.mark.parametrize(("counts", "failed"), [((0, 0, 0), 0), ((1, 0, 0), 1), ((0, 2, 0), 2), ((0, 0, 3), 3)])
def test_what_failed_or_was_skipped_did_not_pass(
    campaign: ModuleType, counts: tuple[int, int, int], failed: int
) -> None:
    ways = ("bits-exhaustive", "bits-2")
    assert campaign.counts_of(REPORT.format(*counts), ways) == {"passed": 30 - failed, "failed": failed}


def test_a_round_without_one_of_its_ways_has_no_result(campaign: ModuleType) -> None:
    with pytest.raises(ValueError, match="has the parameter bits-3"):
        campaign.counts_of(REPORT.format(0, 0, 0), ("bits-exhaustive", "bits-3"))


def test_a_page_names_what_failed(campaign: ModuleType) -> None:
    rows = {at: {"round": at, "passed": 30, "failed": 0, "seconds": 200} for at in (1, 2)}
    campaign.keep(rows)
    (page,) = campaign.saved.RESULTS.glob("random-histories-*.md")
    assert "2 rounds, 2,000 histories of ledger and log, 2,800 of effects: every result was the oracle's" in (
        page.read_text()
    )
    rows[2] |= {"passed": 29, "failed": 1}
    campaign.keep(rows)
    assert "**1 tests failed**" in page.read_text()
    assert set(campaign.passed_before()) == {1}, "a round that failed is played again"


@pytest.mark.parametrize("present", ["abd", "abc-dirty"])
def test_rounds_of_other_code_are_played_again(
    campaign: ModuleType, monkeypatch: pytest.MonkeyPatch, present: str
) -> None:
    campaign.keep({1: {"round": 1, "passed": 30, "failed": 0, "seconds": 200}})
    state = json.loads(campaign.STATE.read_text())
    campaign.STATE.write_text(json.dumps(state | {"commit": present if "dirty" in present else "abc"}))
    monkeypatch.setattr(campaign, "commit", lambda: present)
    assert campaign.passed_before() == {}
