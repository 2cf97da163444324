"""Tests of what a verdict says to change: it comes from the contract, and its commands are accepted.

The runs are made up (see `support.report_material`), or stored runs of real brokers.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from support import report_material
from support.advised import advised
from support.commands import plan, without_git

from delivery_verifier.advice.changes import advices
from delivery_verifier.catalogue import FAULTS
from delivery_verifier.catalogue.applications import APPLICATIONS
from delivery_verifier.model.advice import Advice
from delivery_verifier.model.history import Injection
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.reporting import brief
from delivery_verifier.reporting.changes import _priced
from delivery_verifier.reporting.measured import PriceRuns
from delivery_verifier.run_directory.run_directory import RunDirectory

STORED = Path(__file__).parents[2] / "data" / "runs" / "violated"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    without_git(monkeypatch)


def verdict_of(path: Path) -> RunVerdict:
    return msgspec.json.decode((path / "verdict.json").read_bytes(), type=RunVerdict)


def stored(runs: Path) -> Advice:
    """What is said of the stored run of acks=1, in a folder of runs of its own."""
    path = Path(shutil.copytree(STORED, runs / "stored"))
    return advice_of(path, verdict_of(path))


def advice_of(path: Path, verdict: RunVerdict) -> Advice:
    (advice,) = advised(path, verdict).advice or ()
    return advice


def test_a_violated_claim_names_what_would_have_held_and_why_the_control_did(tmp_path: Path) -> None:
    advice = stored(tmp_path)
    assert (advice.kind, [option.change for option in advice.options]) == (
        "remedy",
        ["acks=all", "acks=all and enable.idempotence=true"],
    )
    for option, profile in zip(advice.options, ("acks_all", "idempotent"), strict=True):
        planned = plan(option.command)
        assert planned.subjects[0].profile.name == profile  # type: ignore[attr-defined]
        assert planned.fault.name == "pause_leader"  # type: ignore[attr-defined]
    assert advice.now and [advice.now.price_of, *(option.price_of for option in advice.options)] == [
        *("acks_1", "acks_all", "idempotent")
    ]
    (beside,) = advice.beside
    assert beside.startswith("control-safe held under the same fault at the same moment: none of its 1,000 records")
    assert "It has acks=all and enable.idempotence=true, where acks_1 has acks=1" in beside


def test_nothing_is_proposed_against_what_was_forbidden_already(tmp_path: Path) -> None:
    path, verdict = report_material.violated(tmp_path)
    advice = advice_of(path, verdict)
    assert (advice.kind, advice.options) == ("none", []) and "forbidden for these settings already" in advice.lead


def test_a_run_that_decides_nothing_proposes_nothing(tmp_path: Path) -> None:
    advice = advice_of(*report_material.inconclusive(tmp_path))
    assert (advice.kind, advice.options, advice.loosenings) == ("withheld", [], [])


def test_settings_that_held_are_told_what_would_give_that_up(tmp_path: Path) -> None:
    advice = advice_of(*report_material.held(tmp_path))
    assert advice.lead.startswith("Nothing: under this fault these settings promise what was asked")
    assert {"acks=0", "acks=1", "enable.idempotence=false"} <= {option.change for option in advice.loosenings}
    assert all(option.permits and not option.command for option in advice.loosenings) and advice.options == []


def test_settings_that_were_lucky_are_not_said_to_promise_it(tmp_path: Path) -> None:
    """The claim asks for more than the settings promise, and nothing went wrong."""
    path = Path(shutil.copytree(STORED, tmp_path / "lucky"))
    verdict = verdict_of(path)
    subject = verdict.arms[0]
    findings = [replace(finding, count=0, also=0) for finding in subject.findings]
    lucky = replace(verdict, arms=[replace(subject, verdict="HELD", findings=findings), *verdict.arms[1:]])
    advice = advice_of(path, lucky)
    assert "do not promise under this fault that no record is lost" in advice.lead
    assert advice.options[0].change == "acks=all"


def applied_by(name: str, tmp_path: Path, finding: str, verdict_of_arm: str) -> Advice:
    """What is said of a subject behind which the application `name` stood and was killed: one case of `finding`."""
    path, verdict = report_material.held(tmp_path)
    plan_of_run, is_broken = RunDirectory(path).read_scenario(), verdict_of_arm == "VIOLATED"
    claim = "at_least_once" if is_broken else "contract"
    arms = [replace(plan_of_run.arms[0], application=APPLICATIONS[name], claim=claim)]
    scenario = replace(plan_of_run, arms=(*arms, *plan_of_run.arms[1:]), fault=FAULTS["none"])
    subject = verdict.arms[0]
    ruling = {"ruling": "FORBIDDEN", "ruled_by": "claim", "tolerance": 0} if is_broken else {"ruling": "PERMITTED"}
    found = replace(subject.findings[0], **{"tolerance": None, **ruling}, anomaly=finding, count=1)
    judged = replace(subject, verdict=verdict_of_arm, claim=claim, findings=[found])
    crash = Injection(
        id=1,
        cycle=0,
        action="kill_application",
        brokers=[],
        hit={},
        requested_at_us=1,
        effect_at_us=2,
        took_effect=True,
    )
    (advice, *_) = advices(scenario, [crash], [], replace(verdict, arms=[judged, *verdict.arms[1:]]))
    return advice


def test_a_run_with_an_application_names_applications_that_would_have_held(tmp_path: Path) -> None:
    """A record was skipped by an application that commits first; `kdv price` measures no application."""
    advice = applied_by("commit_first", tmp_path, "SKIPPED", "VIOLATED")
    assert advice.now and advice.now.change == "as it is: safe, applied by commit_first"
    assert [option.change for option in advice.options][:5] == [
        *("the application commit_after", "the application store_after", "the application transform"),
        *("the application transform_transactional", "the application database_apart"),
    ]
    assert "--application commit_after" in advice.options[0].command and plan(advice.options[0].command)
    assert {option.price_of for option in advice.options} == {""}
    permits = [[permit.anomaly for permit in option.permits] for option in advice.options[2:4]]
    assert permits == [["REAPPLIED"], []], "one guarantee for another"
    (line, *_) = brief._advised(_priced(advice, PriceRuns(None)), "")
    assert "the application commit_after (may leave records reapplied); the application store_after" in line.text


def test_a_change_that_forbids_what_was_found_and_permits_something_else_comes_last_and_says_so(tmp_path: Path) -> None:
    """Who minds that a record was applied again is not told to skip records."""
    advice = applied_by("commit_after", tmp_path, "REAPPLIED", "HELD")
    permitting = [bool(option.permits) for option in advice.options]
    assert permitting == sorted(permitting) and not any(permitting[:5])
    names = [option.change for option in advice.options]
    assert names[:2] == ["the application transform_transactional", "the application database_together"]
