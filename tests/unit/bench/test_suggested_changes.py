"""Tests of the campaign of alternatives: its commands lead to every application, and its page hides nothing."""

from __future__ import annotations

from types import ModuleType

import pytest
from support.alternatives import applications, forbidden
from support.commands import plan, without_git

from bench.campaigns import suggested_changes
from delivery_verifier import catalogue
from delivery_verifier.contract.forecast import expected_disturbances
from delivery_verifier.contract.remedies import remedies
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.reporting.changes import OPTIONS_SHOWN


@pytest.fixture
def campaign(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module bench/campaigns/suggested_changes.py."""
    without_git(monkeypatch)
    return suggested_changes


def printed(command: str) -> set[str]:
    """Returns the changes that a report prints if nothing is known of prices."""
    scenario = plan(command)
    assert isinstance(scenario, Scenario)
    (subject,) = scenario.subjects
    settings, history = Settings.of_arm(scenario, subject), expected_disturbances(scenario.fault, subject)
    found = remedies(settings, forbidden(subject.claim), [history], applications(settings))
    return {" and ".join(remedy.changes) for remedy in found[:OPTIONS_SHOWN]}


def test_its_commands_lead_to_every_application_that_prevents_something(campaign: ModuleType) -> None:
    found = {change for command in campaign.COMMANDS for change in printed(f"{command} --records 2000")}
    named = {f"the application {name}" for name in catalogue.APPLICATIONS if name != "at_handover"}
    assert named <= found
    assert found - named == {"acks=0", "acks=all", "acks=all and enable.idempotence=true"}


def test_a_change_that_did_not_hold_or_has_no_verdict_is_not_counted(campaign: ModuleType) -> None:
    rows = [
        campaign.Row("", "kdv run --profile acks_1", "a", "VIOLATED", 40.0, 1),
        campaign.Row("acks=all", "kdv run --profile acks_all", "b", "HELD", 40.0, 2),
        campaign.Row("acks=0", "kdv run --profile acks_0", "c", "VIOLATED", 40.0, 1),
        campaign.Row("acks=1", "kdv run --profile acks_1", "d", "INCONCLUSIVE", 40.0, 2),
        campaign.Row("retries=0", "kdv run --profile retries_off", "e", "", 3.0, 1),
        campaign.Row("", "kdv run --profile safe", "f", "", 3.0, 1),
    ]
    assert [row.is_good for row in rows] == [True, True, False, False, False, False]
    page = campaign.report(rows)
    assert "1 of 4 suggested changes ended HELD" in page
    assert "| **as it is** | `kdv run --profile acks_1` | VIOLATED | 1 | 40 |" in page
    assert "| retries=0 | `kdv run --profile retries_off` | none | 1 | 3 |" in page
