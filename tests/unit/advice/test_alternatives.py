"""Every suggested change holds by the contract: the command that tries it is planned, and the contract of the settings
that this plan really has forbids, under the fault of the plan, whatever the claim forbids.

One suggestion of each family is tried on real brokers, by tests/e2e/test_alternatives.py and tests/catalogue, or by
the campaign. The tests here hold that no family is forgotten.
"""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from support.alternatives import (
    AN_APPLICATION,
    SIDE_BY_SIDE,
    Trial,
    applications,
    assert_tried_and_held,
    family,
    forbidden,
    suggested,
    trials,
)
from support.commands import plan, without_git
from support.readme import commands
from support.smoke_scenarios import DIRECTLY
from support.stored_runs import with_scenario

from delivery_verifier import catalogue
from delivery_verifier.advice.commands import again_with
from delivery_verifier.contract.alternatives import ALTERNATIVES
from delivery_verifier.contract.forecast import expected_disturbances
from delivery_verifier.contract.remedies import Remedy, remedies
from delivery_verifier.contract.rulings import contract
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.claims import CLAIMS
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import Arm, Expectation, Scenario
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.run_directory.run_directory import RunDirectory

STORED = Path(__file__).parents[2] / "data" / "runs" / "violated"
RUN = RunDirectory(STORED)
RESULTS = Path(__file__).parents[3] / "docs" / "results"
CLAIMED = [claim for claim in CLAIMS if claim != "contract"]
ONLY_IN_THE_CAMPAIGN = {"min.insync.replicas=2": "power.last_replica_with_elr"}
"""The families that `make test` does not try, because their fault takes too long. Each has a scenario of the catalogue,
which `make campaign` runs."""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    without_git(monkeypatch)


def options(profile: str, fault: str, claim: str, application: str = "") -> Iterator[tuple[Scenario, Remedy, str]]:
    """Yields the changes that a report would suggest after a violation, each with the scenario and its command."""
    command = f"kdv run --profile {profile} --fault {fault} --claim {claim} --records 20000"
    try:
        scenario = plan(f"{command} --application {application}" if application else command)
    except BadInput:
        return
    assert isinstance(scenario, Scenario)
    (subject,) = scenario.subjects
    history, settings = expected_disturbances(scenario.fault, subject), Settings.of_arm(scenario, subject)
    for remedy in remedies(settings, forbidden(claim), [history], applications(settings)):
        yield scenario, remedy, again_with(scenario, profile, remedy)


def assert_holds(scenario: Scenario, command: str, claim: str) -> None:
    """Asserts that `command` has fault and claim of `scenario`, and that its settings forbid what the claim forbids."""
    changed = plan(command)
    assert isinstance(changed, Scenario)
    assert (changed.fault, changed.subjects[0].claim) == (scenario.fault, claim), command
    (arm,) = changed.subjects
    ruled = contract(Settings.of_arm(changed, arm), expected_disturbances(changed.fault, arm))
    permitted = [anomaly for anomaly in forbidden(claim) if ruled[anomaly].ruling == "PERMITTED"]
    assert not permitted, (command, permitted)


@pytest.mark.parametrize("fault", [fault for fault in catalogue.FAULTS if fault != "kill_application"])
def test_every_command_that_tries_a_change_holds_by_the_contract(fault: str) -> None:
    tried = 0
    for profile, claim in itertools.product(catalogue.PROFILES, CLAIMED):
        for scenario, remedy, command in options(profile, fault, claim):
            assert command, (profile, fault, claim, remedy.changes)
            assert_holds(scenario, command, claim)
            tried += 1
    assert tried


@pytest.mark.slow
def test_every_command_that_tries_an_application_holds_by_the_contract() -> None:
    tried = set[str]()
    for application, claim in itertools.product(catalogue.APPLICATIONS, CLAIMED):
        for scenario, remedy, command in options("safe", "kill_application", claim, application):
            assert command, (application, claim, remedy.changes)
            assert_holds(scenario, command, claim)
            tried.update(remedy.changes)
    assert {change for change in suggested() if family(change) == AN_APPLICATION} <= tried


def _expected_to_break(scenario: Scenario) -> tuple[Arm, ...]:
    """Returns the arms of a scenario whose first arm is expected to be VIOLATED."""
    subject, *others = scenario.arms
    return (replace(subject, expectation=Expectation(verdicts=("VIOLATED",))), *others)


def tried_by_make_test() -> list[Trial]:
    """Returns the trials of the runs that tests/e2e and tests/catalogue make: smoke scenarios, SIDE_BY_SIDE, and the
    README's example."""
    (example,) = (line for line in commands() if line.startswith(".venv/bin/kdv run "))
    planned = plan(example.removeprefix(".venv/bin/"))
    assert isinstance(planned, Scenario)
    broken = replace(planned, arms=_expected_to_break(planned))
    scenarios = [catalogue.build(entry, "r") for entry in (SIDE_BY_SIDE, *map(catalogue.ENTRIES.__getitem__, DIRECTLY))]
    return [trial for scenario in (broken, *scenarios) for trial in trials(scenario)]


def test_an_alternative_of_every_family_is_tried_on_real_brokers() -> None:
    """A change that is new in ALTERNATIVES needs an arm with its settings, beside an arm that breaks without it."""
    families = {family(change) for change in suggested()}
    tried = {trial.family for trial in tried_by_make_test()}
    assert families - tried == {*ONLY_IN_THE_CAMPAIGN}, "no run of tests/e2e has an arm with such an alternative"
    for one, name in ONLY_IN_THE_CAMPAIGN.items():
        assert one in {trial.family for trial in trials(catalogue.build(catalogue.ENTRIES[name], "r"))}, name


def test_what_only_the_campaign_tries_has_held_in_its_newest_results() -> None:
    for one, name in ONLY_IN_THE_CAMPAIGN.items():
        page = max(page for page in RESULTS.glob("catalogue-*.md") if f"`{name}`" in page.read_text())
        rows = itertools.dropwhile(lambda row: f"`{name}`" not in row, page.read_text().splitlines())
        cells = [[cell.strip() for cell in row.split("|")] for row in itertools.islice(rows, 3)]
        verdicts = {row[5]: row[6] for row in cells if row[1] in ("", f"`{name}`")}
        for trial in trials(catalogue.build(catalogue.ENTRIES[name], "r")):
            if trial.family == one:
                assert re.fullmatch(r"VIOLATED( \d+×)?", verdicts[trial.subject]), (page.name, trial)
                assert re.fullmatch(r"HELD( \d+×)?", verdicts[trial.arm]), (page.name, trial)


def test_what_is_never_suggested_is_what_makes_settings_weaker() -> None:
    assert {*ALTERNATIVES} - suggested() == {
        *("enable.idempotence=false", "min.insync.replicas=1", "unclean.leader.election.enable=true"),
        "no eligible leader replicas",
    }


def judged(**control: object) -> RunVerdict:
    """Returns the verdict of a stored run of acks_1. `control`: changes of what it says of the control safe."""
    verdict = msgspec.json.decode((STORED / "verdict.json").read_bytes(), type=RunVerdict)
    arms = [replace(each, **control) if each.arm == "control-safe" else each for each in verdict.arms]
    return replace(verdict, arms=arms)


def test_an_arm_that_has_what_the_report_suggests_must_have_kept_the_claim() -> None:
    change = "acks=all and enable.idempotence=true"
    assert assert_tried_and_held(RUN, judged()) == [Trial("acks_1", change, "control-safe", "at_least_once")]


@pytest.mark.parametrize("verdict", ["VIOLATED", "INCONCLUSIVE"])
def test_an_arm_that_tries_a_suggestion_and_is_not_held_is_found(verdict: str) -> None:
    with pytest.raises(AssertionError, match="control-safe"):
        assert_tried_and_held(RUN, judged(verdict=verdict))


@pytest.mark.parametrize("change", [{"count": 1}, {"also": 1}, {"tolerance": None}])
def test_an_arm_that_is_held_and_has_or_may_have_what_the_claim_forbids_is_found(change: dict[str, Any]) -> None:
    (control,) = (each for each in judged().arms if each.arm == "control-safe")
    findings = [replace(each, **change) if each.anomaly == "LOST" else each for each in control.findings]
    with pytest.raises(AssertionError, match="LOST"):
        assert_tried_and_held(RUN, judged(findings=findings))


def test_a_report_that_does_not_suggest_what_was_foreseen_is_found(tmp_path: Path) -> None:
    copy = RunDirectory(Path(shutil.copytree(STORED, tmp_path / "copy")))
    with_scenario(copy, lambda planned: replace(planned, arms=_expected_to_break(planned)))
    assert_tried_and_held(copy, judged())
    with pytest.raises(AssertionError, match="copy"):
        assert_tried_and_held(copy, replace(judged(), advice=[]))
