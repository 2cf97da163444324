"""Tests of the campaign of applications: what its page says, and that an interrupted campaign is taken up again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from msgspec.structs import replace

from delivery_verifier import catalogue
from delivery_verifier.catalogue_run import begin
from delivery_verifier.model.catalogue_run import ArmResult, Attempt, CatalogueRun
from delivery_verifier.model.verdict import expected_text
from delivery_verifier.store import catalogue_runs

BENCH = Path(__file__).resolve().parents[3] / "bench"
NAMES = ["consumer.commit_first", "consumer.commit_after"]


@pytest.fixture
def applications(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    """The module bench/applications.py. Runs are kept in a folder of the test."""
    monkeypatch.setenv("KDV_RUNS", str(tmp_path))
    monkeypatch.syspath_prepend(str(BENCH))
    for name in ("commit", "versions_of"):
        monkeypatch.setattr(begin, name, lambda *_, name=name: "abc1234" if name == "commit" else {"kafka": "4.3.1"})
    monkeypatch.setattr(begin, "_lacks", lambda _: {})
    monkeypatch.delitem(sys.modules, "applications", raising=False)
    yield __import__("applications")
    for name in ("applications", "saved"):
        sys.modules.pop(name, None)


def attempt(name: str, **counts: int) -> Attempt:
    entry = catalogue.ENTRIES[name]
    arms = [
        ArmResult(
            arm=arm.name,
            role=arm.role,
            profile="safe",
            claim=arm.claim,
            verdict=arm.expectation.verdicts[0],
            as_expected=True,
            expected=expected_text(arm.expectation),
            counts=counts if arm.role == "subject" else {},
        )
        for arm in entry.arms
    ]
    return Attempt(run="a-run", started_at="", seconds=60, verdict=arms[0].verdict, green=True, arms=arms)


def with_attempt(campaign: CatalogueRun, number: int, done: Attempt) -> CatalogueRun:
    items = list(campaign.items)
    items[number] = replace(items[number], attempts=(done,))
    return replace(campaign, items=tuple(items))


def test_the_page_says_of_every_arm_what_was_expected_and_what_was_seen(applications: ModuleType) -> None:
    campaign = applications._begun(NAMES, 2)
    campaign = with_attempt(campaign, 0, attempt(NAMES[0], skipped=6))
    campaign = with_attempt(campaign, 2, attempt(NAMES[0], skipped=5))
    page = applications.report(campaign)
    assert "abc1234" in page and "2 of 4 runs as expected, 2 still to do; 2 attempts took 2.0 min" in page
    expected = "| SKIPPED 6, 5; REAPPLIED 0, 0; LOST 0, 0 | 2 of 2 |"
    assert any(line.startswith("| consumer.commit_first | ") and line.endswith(expected) for line in page.splitlines())
    assert "| consumer.commit_after |  |  |  |  | not run yet |" in page
    failed = Attempt(run="a-run", started_at="", seconds=1, error="broker 1 ended")
    assert "broker 1 ended |  | no verdict |" in applications.report(with_attempt(campaign, 1, failed))


def test_an_interrupted_campaign_is_taken_up_again_and_a_finished_one_is_not(applications: ModuleType) -> None:
    first = applications._begun(NAMES, 1)
    assert applications._estimate_s(first) == 2 * applications.USUAL_S
    catalogue_runs.write(with_attempt(first, 0, attempt(NAMES[0], skipped=6)))
    again = applications._begun(NAMES, 1)
    assert (again.id, len(again.open)) == (first.id, 1)
    assert applications._estimate_s(again) == 60
    assert applications._begun(NAMES, 2).id != first.id
    catalogue_runs.write(replace(again, ended_at="2026-11-23T05:00:00+00:00"))
    assert applications._begun(NAMES, 1).id != first.id


def test_a_campaign_of_another_commit_is_not_mixed_with_this_one(
    applications: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = applications._begun(NAMES, 1)
    monkeypatch.setattr(begin, "commit", lambda: "def5678")
    assert applications._begun(NAMES, 1).id != first.id
    assert "begun by abc1234" in capsys.readouterr().err
