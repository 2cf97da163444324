"""Writes a verdict as JUnit XML, for CI servers.

The file has a failure or an error if and only if the run did not end as expected. Each arm is a test case. Each law of
the books (two counts that must be equal) is a test case, too.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from junitparser import Error, Failure, JUnitXml, TestCase, TestSuite

from delivery_verifier.catalogue.applications import application_lines
from delivery_verifier.judgement.evaluation import LAWS, Evaluated, Validation, read_validation
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.verdict import ArmVerdict, RunVerdict
from delivery_verifier.pages.causes import causes_of
from delivery_verifier.pages.words import clean as printable
from delivery_verifier.store.run_directory import IncompleteRun, RunDirectory


def write(file: Path, verdict: RunVerdict, validation: Validation, scenario: Scenario | None = None) -> None:
    """Writes the JUnit suite of one run to `file`. The suite has a test case per arm and per law of the books.

    * An INCONCLUSIVE arm is an error, because the run showed nothing about the arm. Any other arm that did not end as
      expected is a failure.
    * A law that does not hold is a failure. A law whose evaluation raised an exception is an error.

    `validation`: the results of Great Expectations. Only the results of the suite `evidence` are about laws.
    `scenario`: the scenario of the run, from which the texts about applications are made; None if it is not known.
    Raises OSError if `file` cannot be written.
    """
    lines = {arm.name: application_lines(arm.application) for arm in scenario.arms} if scenario else {}
    cases = [_arm(verdict, arm, lines.get(arm.arm, [])) for arm in verdict.arms]
    cases += [_law(verdict, law) for law in validation.evaluated if law.suite == "evidence"]
    _write(
        file,
        verdict.run_id,
        cases,
        {"scenario": verdict.scenario, "verdict": verdict.verdict, "sentence": verdict.sentence},
    )


def write_failure(file: Path, run_id: str, error: BaseException) -> None:
    """Writes the JUnit suite of a run that ended without a verdict. The only test case of the suite has the error
    `error`.

    Raises OSError if `file` cannot be written.
    """
    case = TestCase("verdict", clean(run_id))
    case.result = [_error(str(error) or type(error).__name__, type(error).__name__)]
    _write(file, run_id, [case], {"verdict": "NO VERDICT"})


def validation_of(run_dir: Path) -> Validation:
    """Returns the results of the step `validate`, read from validation.json in `run_dir`.

    Raises IncompleteRun if the file is missing, altered or damaged.
    """
    try:
        return read_validation(RunDirectory(run_dir).sealed("validate", "validation.json"))
    except msgspec.MsgspecError as error:
        raise IncompleteRun(f"validation.json of {run_dir} is damaged: {error}") from None


def _arm(verdict: RunVerdict, arm: ArmVerdict, application: list[str]) -> TestCase:
    case = TestCase(clean(f"claim {arm.claim}"), clean(f"{verdict.scenario}.{arm.arm}"))
    settings = f"role: {arm.role}, profile: {arm.profile}"
    causes = [line for cause in causes_of(arm) for line in cause.lines]
    changes = arm.given_up.changes if arm.given_up else []
    said = [arm.sentence, *causes, *changes, f"expected: {arm.expected}", settings, *application]
    case.system_out = clean("\n".join(said))
    if arm.verdict == "INCONCLUSIVE":
        doubts = "\n".join(f"{doubt.kind} doubt {doubt.name}: {doubt.detail}" for doubt in arm.doubts)
        case.result = [_error(arm.sentence, "INCONCLUSIVE", doubts)]
    elif not arm.as_expected:
        failure = Failure(clean(arm.sentence), arm.verdict)
        failure.text = clean("\n".join([arm.sentence, *causes, f"expected: {arm.expected}"]))
        case.result = [failure]
    return case


def _law(verdict: RunVerdict, law: Evaluated) -> TestCase:
    case = TestCase(clean(law.about), clean(f"{verdict.scenario}.evidence"))
    case.system_out = clean(LAWS.get(law.about, ""))
    if law.exception:
        case.result = [_error(law.exception, "exception")]
    elif not law.success:
        case.result = [Failure(clean(f"{law.about}: {law.count} of {law.expected_rows} do not hold"), "evidence")]
    return case


def clean(text: object) -> str:
    """Returns the text with U+FFFD instead of each character that XML 1.0 cannot hold, or that `words.clean`
    replaces."""
    return printable(text).translate({0xFFFE: "\N{REPLACEMENT CHARACTER}", 0xFFFF: "\N{REPLACEMENT CHARACTER}"})


def _error(message: str, kind: str, text: str = "") -> Error:
    error = Error(clean(message), clean(kind))
    error.text = clean(text or message)
    return error


def _write(file: Path, run_id: str, cases: list[TestCase], properties: dict[str, str]) -> None:
    suite = TestSuite(clean(run_id))
    for name, value in properties.items():
        suite.add_property(name, clean(value))
    suite.add_testcases(cases)
    xml = JUnitXml("kdv")
    xml.add_testsuite(suite)
    xml.update_statistics()  # type: ignore[no-untyped-call]
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    xml.write(str(partial), pretty=True)
    os.replace(partial, file)
