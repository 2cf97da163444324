"""Tests of the result as JUnit XML: a CI server shows a failure exactly if the run is red, and an error if there is no
verdict."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from junitparser import Error, Failure, JUnitXml
from support import report_material
from support.report_material import sealed

from delivery_verifier.command_line import main as cli
from delivery_verifier.command_line.parsers import BAD_INPUT
from delivery_verifier.model.verdict import Doubt, RunVerdict
from delivery_verifier.reporting import junit
from delivery_verifier.run_directory.run_directory import RunDirectory
from delivery_verifier.verdict.evaluation import INVARIANTS


@pytest.fixture(autouse=True)
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KDV_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KDV_LOCK", str(tmp_path / "lock"))  # a run of somebody else may hold the host
    monkeypatch.delenv("KDV_RUNS", raising=False)
    return tmp_path


def read(file: Path) -> dict[str, Any]:
    """Returns, for each test case of the file, the type and the message of its failure or error; None for a case that
    passed."""
    suites = list(JUnitXml.fromfile(str(file)))
    assert len(suites) == 1
    return {
        f"{case.classname}/{case.name}": (type(case.result[0]), case.result[0].message) if case.result else None
        for case in suites[0]
    }


@pytest.mark.parametrize(
    "make", [report_material.held, report_material.violated, report_material.inconclusive, report_material.quiet]
)
def test_something_is_red_exactly_if_the_run_is(tmp_path: Path, make: Callable[..., tuple[Path, RunVerdict]]) -> None:
    _, verdict = make(tmp_path)
    junit.write(tmp_path / "out.xml", verdict)
    assert any(read(tmp_path / "out.xml").values()) is not verdict.green


def test_there_is_one_case_per_arm_with_its_claim_and_one_per_invariant(tmp_path: Path) -> None:
    _, verdict = report_material.held(tmp_path)
    junit.write(tmp_path / "out.xml", verdict)
    arms = {f"{verdict.scenario}.{arm.arm}/claim {arm.claim}" for arm in verdict.arms}
    assert set(read(tmp_path / "out.xml")) == arms | {
        f"{verdict.scenario}.evidence/{invariant}" for invariant in INVARIANTS
    }


def test_a_violated_arm_fails_with_its_sentence_and_an_inconclusive_one_is_an_error_with_its_doubts(
    tmp_path: Path,
) -> None:
    _, violated = report_material.violated(tmp_path)
    junit.write(tmp_path / "v.xml", violated)
    found = read(tmp_path / "v.xml")[f"{violated.scenario}.acks_all/claim exactly_once"]
    assert found == (Failure, next(arm.sentence for arm in violated.arms if arm.arm == "acks_all"))
    _, unsure = report_material.inconclusive(tmp_path)
    junit.write(tmp_path / "i.xml", unsure)
    assert read(tmp_path / "i.xml")[f"{unsure.scenario}.safe/claim contract"][0] is Error
    assert "coverage doubt fault_took_no_effect: injection 1 (kill) has no proof" in (tmp_path / "i.xml").read_text()


def test_an_invariant_that_does_not_hold_fails_and_one_that_raised_is_an_error(tmp_path: Path) -> None:
    _, verdict = report_material.held(tmp_path)
    raised = msgspec.structs.replace(
        verdict.invariants[0], invariant="log_sum", holds=False, exception="no such column"
    )
    invariants = [
        *(invariant for invariant in report_material.checked_invariants("log_moved") if not invariant.holds),
        raised,
    ]
    junit.write(tmp_path / "out.xml", msgspec.structs.replace(verdict, invariants=invariants))
    found = read(tmp_path / "out.xml")
    assert found[f"{verdict.scenario}.evidence/log_moved"] == (Failure, "log_moved: 1 of 3 do not hold")
    assert found[f"{verdict.scenario}.evidence/log_sum"] == (Error, "no such column")


def test_the_file_is_what_a_ci_server_reads(tmp_path: Path) -> None:
    _, verdict = report_material.violated(tmp_path)
    junit.write(tmp_path / "out.xml", verdict)
    root = ElementTree.parse(tmp_path / "out.xml").getroot()
    suite = root.find("testsuite")
    assert root.tag == "testsuites" and suite is not None and suite.get("name") == verdict.run_id
    cases = suite.findall("testcase")
    wanted = {"tests": len(cases), "failures": 1, "errors": 0, "skipped": 0}
    assert {name: int(suite.get(name, "-1")) for name in wanted} == wanted
    assert all(case.get("classname") and case.get("name") for case in cases)


def test_hostile_text_is_still_well_formed_xml(tmp_path: Path) -> None:
    poison = "</failure><testcase/>&amp;]]>\x00\x1b[31m\ufffe\U0001f600\"'"
    _, verdict = report_material.hostile(tmp_path, poison)
    arms = [
        msgspec.structs.replace(arm, doubts=[Doubt(kind="checker", name=poison, detail=poison)]) for arm in verdict.arms
    ]
    junit.write(tmp_path / "out.xml", msgspec.structs.replace(verdict, arms=arms))
    root = ElementTree.parse(tmp_path / "out.xml").getroot()
    assert len(root.findall("testsuite/testcase")) == len(verdict.arms) + len(INVARIANTS)
    junit.write_failure(tmp_path / "out.xml", poison, RuntimeError(poison))
    ElementTree.parse(tmp_path / "out.xml")


def test_a_report_writes_it_beside_what_it_prints(host: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sealed(host / "home" / "runs")
    assert cli.main(["report", "judged", "--json", "--junit", str(host / "out.xml")]) == 0
    assert msgspec.json.decode(capsys.readouterr().out)["verdict"] == "HELD"
    assert not any(read(host / "out.xml").values())


def test_a_run_without_a_verdict_is_an_error(host: Path) -> None:
    run, _ = sealed(host / "home" / "runs")
    (run.path / "conclude.json").unlink()
    assert cli.main(["report", "judged", "--junit", str(host / "out.xml")]) == BAD_INPUT
    assert read(host / "out.xml")["judged/verdict"] == (
        Error,
        f"step conclude did not finish: {run.path}/conclude.json is missing",
    )


def test_a_run_whose_verdict_was_altered_gives_no_green_file(host: Path) -> None:
    run, _ = sealed(host / "home" / "runs")
    (run.path / "verdict.json").write_text((run.path / "verdict.json").read_text().replace("HELD", "HELD "))
    assert cli.main(["report", "judged", "--junit", str(host / "out.xml")]) == BAD_INPUT
    assert read(host / "out.xml")["judged/verdict"][0] is Error


@pytest.mark.parametrize(
    ("line", "told"), [(["--profile", "acks_2"], "profile is 'acks_2'"), (["--fail-step", "plan"], "fails as asked")]
)
def test_a_run_that_fails_writes_an_error_too(host: Path, line: list[str], told: str) -> None:
    assert cli.main(["run", "--direct", "--run-id", "r1", "--junit", str(host / "out.xml"), *line]) in (
        BAD_INPUT,
        70,
    )
    kind, message = read(host / "out.xml")["r1/verdict"]
    assert kind is Error and told in message


@pytest.mark.parametrize("file", ["", "missing/folder/out.xml", "."])
def test_a_file_that_cannot_be_written_is_refused_before_the_run(
    host: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    monkeypatch.chdir(host)
    assert cli.main(["run", "--direct", "--run-id", "r2", "--junit", file]) == BAD_INPUT
    assert f"--junit is {file!r}; allowed: a file in a folder" in capsys.readouterr().err
    assert not RunDirectory(host / "home/runs/r2").path.exists()
