"""Tests of the tree of errors: it contains every exception class of the project, and the command line has an exit code
for each class."""

from __future__ import annotations

import ast
import re
import subprocess
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import pytest

import delivery_verifier
from delivery_verifier.cluster.lease import HostBusy
from delivery_verifier.command_line.main import _exit_code
from delivery_verifier.model import errors
from delivery_verifier.model.errors import StepFailed, VerifierError
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.orchestration.failures import RunFailed, TaskNeverStarted
from delivery_verifier.planning.preflight import Unavailable, Unfit
from delivery_verifier.run_directory.run_directory import IncompleteRun

_BUILT_IN = {"Exception", "BaseException", "RuntimeError", "ValueError", "KeyError", "OSError", "TimeoutError"}
_PACKAGE = Path(delivery_verifier.__file__).parent


def _exception_classes() -> Iterator[tuple[str, list[str]]]:
    """Yields the name of every exception class of the project, with the names of its bases."""
    files = [*_PACKAGE.rglob("*.py"), *(_PACKAGE.parents[1] / "spark_jobs").rglob("*.py")]
    defined = {
        node.name: [ast.unparse(base) for base in node.bases]
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef)
    }
    known = {*_BUILT_IN}
    while more := {name for name, bases in defined.items() if name not in known and known & {*bases}}:
        known |= more
        yield from ((name, defined[name]) for name in sorted(more))


@pytest.mark.slow
def test_every_exception_class_of_the_project_is_a_verifier_error_and_drawn_in_the_tree() -> None:
    drawn = set(re.findall(r"[├└]── (\w+)", errors.__doc__ or ""))
    ours = {name: bases for name, bases in _exception_classes() if name != "VerifierError"}
    assert drawn == set(ours)
    outside = {name for name, bases in ours.items() if not {"VerifierError", *ours} & {*bases}}
    assert not outside


@pytest.mark.parametrize(
    ("error", "stored", "code"),
    [
        (BadInput("x"), False, 64),
        (IncompleteRun("x"), True, 64),
        (IncompleteRun("x"), False, 70),
        (Unavailable("x"), False, 69),
        (Unfit("x"), False, 70),
        (HostBusy("x"), False, 75),
        (RunFailed("plan", "x", []), True, 70),
        (TaskNeverStarted("plan", "x", []), False, 70),
        (StepFailed("x"), False, 70),
        (OSError(28, "No space left on device"), False, 70),
        (subprocess.TimeoutExpired("ip", 1), False, 70),
    ],
)
def test_an_error_that_was_foreseen_has_an_exit_code_and_no_traceback(
    error: Exception, stored: bool, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _exit_code(error, Namespace(reads_stored_run=stored)) == code
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("error", [RuntimeError("x"), ValueError("x"), KeyError("x")])
def test_an_error_that_nobody_foresaw_is_shown_with_its_traceback(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _exit_code(error, Namespace(reads_stored_run=False)) == VerifierError.exit_code == 70
    assert type(error).__name__ in capsys.readouterr().err
