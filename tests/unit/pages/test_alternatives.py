"""Every suggested change holds by the contract: the command that tries it is planned, and the contract of the settings
that this plan really has forbids, under the fault of the plan, whatever the claim forbids."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from support.commands import plan, without_git

from delivery_verifier import catalogue
from delivery_verifier.contract.forecast import expected_disturbances
from delivery_verifier.contract.remedies import Remedy, remedies
from delivery_verifier.contract.rulings import contract
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.claims import CLAIMS
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.pages.report.commands import again_with

WITHOUT_CHANGE = {"kill_application"}
"""The faults under which no change of a profile is suggested. `kill_application` needs an application: test_changes.py
tests which applications are suggested."""
CLAIMED = [claim for claim in CLAIMS if claim != "contract"]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    without_git(monkeypatch)


def forbidden(claim: str) -> set[Anomaly]:
    """What the claim forbids, but for RESENT, which no setting prevents."""
    return {anomaly for anomaly in CLAIMS[claim].forbids if anomaly is not Anomaly.RESENT}  # type: ignore[index]


def suggested(profile: str, fault: str, claim: str) -> Iterator[tuple[Scenario, Remedy, str]]:
    """Yields the changes that a report would suggest after a violation, each with the scenario and its command."""
    command = f"kdv run --profile {profile} --fault {fault} --claim {claim} --records 20000"
    try:
        scenario = plan(command)
    except BadInput:
        return
    assert isinstance(scenario, Scenario)
    (subject,) = scenario.subjects
    history = expected_disturbances(scenario.fault, subject)
    for remedy in remedies(Settings.of_arm(scenario, subject), forbidden(claim), [history]):
        yield scenario, remedy, again_with(scenario, profile, remedy)


@pytest.mark.parametrize("fault", catalogue.FAULTS)
def test_every_command_that_tries_a_change_holds_by_the_contract(fault: str) -> None:
    tried = 0
    for profile, claim in itertools.product(catalogue.PROFILES, CLAIMED):
        for scenario, remedy, command in suggested(profile, fault, claim):
            assert command, (profile, fault, claim, remedy.changes)
            changed = plan(command)
            assert isinstance(changed, Scenario)
            assert (changed.fault, changed.subjects[0].claim) == (scenario.fault, claim), command
            (arm,) = changed.subjects
            ruled = contract(Settings.of_arm(changed, arm), expected_disturbances(changed.fault, arm))
            permitted = [anomaly for anomaly in forbidden(claim) if ruled[anomaly].ruling == "PERMITTED"]
            assert not permitted, (command, permitted)
            tried += 1
    assert tried or fault in WITHOUT_CHANGE, fault
