"""Tests of the campaign of applications: what its page says, and that an interrupted campaign is taken up again."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from msgspec.structs import replace

from bench.campaigns import applications as applications_campaign
from delivery_verifier import catalogue
from delivery_verifier.model.catalogue_run import ArmResult, Attempt, CatalogueRun
from delivery_verifier.model.scenario import VerdictName
from delivery_verifier.model.verdict import expected_text
from delivery_verifier.run_directory import catalogue_runs
from delivery_verifier.suite import begin

NAMES = ["consumer.commit_first", "consumer.commit_after"]


@pytest.fixture
def applications(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The module bench/campaigns/applications.py. Runs are kept in a folder of the test."""
    monkeypatch.setenv("KDV_RUNS", str(tmp_path))
    for name in ("commit", "versions_of"):
        monkeypatch.setattr(begin, name, lambda *_, name=name: "abc1234" if name == "commit" else {"kafka": "4.3.1"})
    monkeypatch.setattr(begin, "_lacks", lambda _: {})
    return applications_campaign


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


def attempt_by_chance(name: str, column: str, hurt: int, verdict: VerdictName = "HELD") -> Attempt:
    """Returns a run of a statistical scenario: `hurt` arms of ten have 6 cases in `column`, the others 4 REAPPLIED.
    `verdict`: that of the last arm."""
    entry = catalogue.ENTRIES[name]
    done, tenth = attempt(name), [arm.name for arm in entry.arms if arm.name.startswith("at_handover")]
    arms = []
    for arm, planned in zip(done.arms, entry.arms, strict=True):
        counts = {} if arm.arm not in tenth else {column: 6} if arm.arm in tenth[:hurt] else {"reapplied": 4}
        assert planned.application is not None
        arms.append(replace(arm, application=planned.application.name, counts=counts))
    return replace(done, arms=[*arms[:-1], replace(arms[-1], verdict=verdict)])


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


def test_a_statistical_scenario_has_ten_arms_under_one_fault_and_a_share(applications: ModuleType) -> None:
    for name, shares in applications.SHARES.items():
        entry = catalogue.ENTRIES[name]
        for share in shares:
            of_share = [arm for arm in entry.arms if arm.application and arm.application.name == share.application]
            assert len(of_share) == applications._planned(name, share) == 10
            assert len({(arm.profile.name, arm.claim, arm.expectation) for arm in of_share}) == 1
            assert 1 <= share.least <= share.most <= 9, "neither none nor all"
        assert not entry.deterministic and len(entry.arms) == 11


def test_the_page_says_in_how_many_of_ten_arms_an_anomaly_was_expected_and_seen(applications: ModuleType) -> None:
    name = "group.killed_member"
    campaign = applications._begun([name], 3)
    campaign = with_attempt(campaign, 0, attempt_by_chance(name, "skipped", 4))
    assert applications.are_met(campaign)
    campaign = with_attempt(campaign, 1, attempt_by_chance(name, "skipped", 7))
    page = applications.report(campaign)
    assert (
        f"| {name} | all with at_handover | SKIPPED in 1 to 9 of 10 arms |  | SKIPPED in 4 of 10, 7 of 10 arms |"
        in page
    )
    assert "| REAPPLIED in 6 of 10, 3 of 10 arms | 2 of 2 |" in page
    with_none = with_attempt(campaign, 2, attempt_by_chance(name, "skipped", 0))
    assert not applications.are_met(with_none)
    assert "| SKIPPED in 4 of 10, 7 of 10, 0 of 10 arms | 2 of 3 |" in applications.report(with_none)
    with_all = with_attempt(campaign, 2, attempt_by_chance(name, "skipped", 10))
    assert not applications.are_met(with_all)
    one_is_unknown = with_attempt(campaign, 2, attempt_by_chance(name, "skipped", 4, "INCONCLUSIVE"))
    assert not applications.are_met(one_is_unknown)
    assert "4 of 9 arms | 2 of 3 |" in applications.report(one_is_unknown)


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
