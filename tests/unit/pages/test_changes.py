"""Tests of what a report says to change: it comes from the contract, and its commands are accepted.

The runs are made up (see `support.report_material`), or stored runs of real brokers.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from support import report_material
from support.commands import plan, without_git
from support.run_builder import priced

from delivery_verifier.catalogue import FAULTS
from delivery_verifier.catalogue.applications import APPLICATIONS
from delivery_verifier.model.history import Injection
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.pages import brief
from delivery_verifier.pages.material import read
from delivery_verifier.pages.report.changes import Advice, advices
from delivery_verifier.pages.report.proofs import proof_of
from delivery_verifier.store.run_directory import RunDirectory

STORED = Path(__file__).parents[2] / "data" / "runs" / "violated"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    without_git(monkeypatch)


def verdict_of(path: Path) -> RunVerdict:
    return msgspec.json.decode((path / "verdict.json").read_bytes(), type=RunVerdict)


def stored(runs: Path) -> Advice:
    """What is said of the stored run of acks=1, in a folder of runs of its own."""
    path = Path(shutil.copytree(STORED, runs / "stored"))
    (advice,) = advices(read(path, verdict_of(path)))
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
    assert advice.to_measure == "kdv price --profiles acks_1,acks_all,idempotent"
    plan(advice.to_measure)
    (beside,) = advice.beside
    assert beside.startswith("control-safe held under the same fault at the same moment: none of its 1,000 records")
    assert "It has acks=all and enable.idempotence=true, where acks_1 has acks=1" in beside


def test_a_price_is_that_of_the_newest_runs_beside_the_run(tmp_path: Path) -> None:
    for name in ("price.flat_out.acks_all", "price.none.acks_all"):
        priced(tmp_path, name)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "scenario.json").write_text('{"name": "price.none.idempotent"')
    first, second = stored(tmp_path).options
    assert (first.price.speed, first.price.day) == ("1,001 records/s", "2026-11-21")
    assert first.price.latency and not first.price.unmeasured
    assert (second.price.speed, second.price.unmeasured) == ("", "idempotent")


def test_nothing_is_proposed_against_what_was_forbidden_already(tmp_path: Path) -> None:
    path, verdict = report_material.violated(tmp_path)
    (advice,) = advices(read(path, verdict))
    assert (advice.kind, advice.options) == ("none", []) and "forbidden for these settings already" in advice.lead


def test_a_run_that_decides_nothing_or_lost_its_files_proposes_nothing(tmp_path: Path) -> None:
    path, verdict = report_material.inconclusive(tmp_path)
    assert [advice.kind for advice in advices(read(path, verdict))] == ["withheld"]
    path, verdict = report_material.held(tmp_path)
    (path / "injections.json").unlink()
    assert [advice.kind for advice in advices(read(path, verdict))] == ["unknown"]
    assert advices(read(tmp_path, None)) == []


def test_settings_that_held_are_told_what_would_give_that_up(tmp_path: Path) -> None:
    (advice,) = advices(read(*report_material.held(tmp_path)))
    assert advice.lead.startswith("Nothing: under this fault these settings promise what was asked")
    assert {"acks=0", "acks=1", "enable.idempotence=false"} <= {option.change for option in advice.options}
    assert all(option.effect and not option.command for option in advice.options)


def test_settings_that_were_lucky_are_not_said_to_promise_it(tmp_path: Path) -> None:
    """The claim asks for more than the settings promise, and nothing went wrong."""
    path = Path(shutil.copytree(STORED, tmp_path / "lucky"))
    verdict = verdict_of(path)
    subject = verdict.arms[0]
    findings = [replace(finding, count=0, also=0) for finding in subject.findings]
    lucky = replace(verdict, arms=[replace(subject, verdict="HELD", findings=findings), *verdict.arms[1:]])
    (advice,) = advices(read(path, lucky))
    assert "do not promise under this fault that no record is lost" in advice.lead
    assert advice.options[0].change == "acks=all"


def test_a_proof_is_told_in_sentences_and_tables_and_never_as_json() -> None:
    (injection,) = read(STORED, None).injections
    proof, topic = proof_of(injection), RunDirectory(STORED).read_scenario().arm("acks_1").topic_name
    text = " ".join([*proof.sentences, *(cell for table in proof.tables for row in table.rows for cell in row)])
    assert "Right after the action: broker 1 frozen." in proof.sentences
    assert [table.title for table in proof.tables] == [
        "Leaders before the fault",
        "Leaders while the fault acted: others than its targets",
    ]
    assert proof.tables[1].headings == ["of", "isr", "leader", "leader epoch"]
    assert proof.tables[1].rows[0] == [f"{topic}-0", "2, 3", "2", "1"]
    assert not {"{", "}", "[", '"'} & set(text)


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
    material = read(path, replace(verdict, arms=[judged, *verdict.arms[1:]]))
    material.scenario = scenario
    crash = Injection(
        id=1, cycle=0, action="kill_application", brokers=[], hit={}, requested_at_us=1, bite_at_us=2, bit=True
    )
    material.injections, material.observations = [crash], []
    (advice,) = advices(material)
    return advice


def test_a_run_with_an_application_names_applications_that_would_have_held(tmp_path: Path) -> None:
    """A record was skipped by an application that commits first; `kdv price` measures no application."""
    advice = applied_by("commit_first", tmp_path, "SKIPPED", "VIOLATED")
    assert advice.now and advice.now.change == "as it is: safe, applied by commit_first"
    assert [option.change for option in advice.options] == [
        *("the application commit_after", "the application store_after", "the application transform"),
        *("the application transform_transactional", "the application database_apart"),
    ]
    assert "--application commit_after" in advice.options[0].command and plan(advice.options[0].command)
    assert not advice.priced
    assert [option.permits for option in advice.options[2:4]] == [["reapplied"], []], "one guarantee for another"
    (line, *_) = brief._advised(advice, "")
    assert "the application commit_after (may leave records reapplied); the application store_after" in line.text


def test_a_change_that_forbids_what_was_found_and_permits_something_else_comes_last_and_says_so(tmp_path: Path) -> None:
    """Who minds that a record was applied again is not told to skip records."""
    advice = applied_by("commit_after", tmp_path, "REAPPLIED", "HELD")
    assert [option.permits for option in advice.options] == [[]] * len(advice.options) != []
    names = [option.change for option in advice.options]
    assert names[:2] == ["the application transform_transactional", "the application database_together"]
