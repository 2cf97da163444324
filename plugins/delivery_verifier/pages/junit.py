"""Writes a verdict as JUnit XML, for CI servers.

The file has a failure or an error if and only if the run did not end as expected. Each arm is a test case. Each law of
the books (two counts that must be equal) is a test case, too.
"""

from __future__ import annotations

import os
from pathlib import Path

from junitparser import Error, Failure, JUnitXml, TestCase, TestSuite

from delivery_verifier.model.verdict import ArmVerdict, CheckedLaw, RunVerdict
from delivery_verifier.pages.causes import causes_of
from delivery_verifier.pages.words import clean as printable


def write(file: Path, verdict: RunVerdict) -> None:
    """Writes the JUnit suite of one run to `file`. The suite has a test case per arm and per law of the books.

    * An INCONCLUSIVE arm is an error, because the run showed nothing about the arm. Any other arm that did not end as
      expected is a failure.
    * A law that does not hold is a failure. A law whose evaluation raised an exception is an error.

    Raises OSError if `file` cannot be written.
    """
    cases = [_arm(verdict, arm) for arm in verdict.arms] + [_law(verdict, law) for law in verdict.laws]
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


def _arm(verdict: RunVerdict, arm: ArmVerdict) -> TestCase:
    case = TestCase(clean(f"claim {arm.claim}"), clean(f"{verdict.scenario}.{arm.arm}"))
    settings = f"role: {arm.role}, profile: {arm.profile}"
    causes = [line for cause in causes_of(arm) for line in cause.lines]
    changes = arm.given_up.changes if arm.given_up else []
    said = [arm.sentence, *causes, *changes, f"expected: {arm.expected}", settings, *arm.application]
    case.system_out = clean("\n".join(said))
    if arm.verdict == "INCONCLUSIVE":
        doubts = "\n".join(
            f"{doubt.kind} doubt {doubt.name}: {doubt.detail}\nWhat to do: {doubt.remedy}" for doubt in arm.doubts
        )
        case.result = [_error(arm.sentence, "INCONCLUSIVE", doubts)]
    elif not arm.as_expected:
        failure = Failure(clean(arm.sentence), arm.verdict)
        failure.text = clean("\n".join([arm.sentence, *causes, f"expected: {arm.expected}"]))
        case.result = [failure]
    return case


def _law(verdict: RunVerdict, law: CheckedLaw) -> TestCase:
    case = TestCase(clean(law.law), clean(f"{verdict.scenario}.evidence"))
    case.system_out = clean(law.meaning)
    if law.exception:
        case.result = [_error(law.exception, "exception")]
    elif not law.holds:
        case.result = [Failure(clean(f"{law.law}: {law.broken} of {law.rows} do not hold"), "evidence")]
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
