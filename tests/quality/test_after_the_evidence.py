"""Tests that whatever comes after the step reconcile takes no verdict away, whether it fails or hangs.

A stored run stands in for the load and for Spark. Validation, judgement, report and the command line are the real ones.
"""

from __future__ import annotations

import ast
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from support.refusals import bare_host
from support.stored_data import RUNS

import expectations.validation
from delivery_verifier.command_line import main as cli
from delivery_verifier.command_line import outputs
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.pipeline import direct, local_spark
from delivery_verifier.pipeline.local_spark import OwnSession
from delivery_verifier.pipeline.steps import conclude
from delivery_verifier.reporting import junit, terminal
from delivery_verifier.reporting.report import page

RUN = "violated"
AT_ONCE_S = 0.3
ROOT = Path(__file__).resolve().parents[2]
TEXT, terminal_write = "the text of the verdict", terminal.write
ADVICE, conclude_advise = "the advice", conclude.advise
PLACES: dict[str, tuple[Any, str]] = {
    "stop_cluster": (direct, "stop_cluster"),
    "the end of Spark": (OwnSession, "_end"),
    "Data Docs": (expectations.validation._Session, "write_site"),
    ADVICE: (conclude, "advise"),
    "the report": (page, "write"),
    "the removal of the brokers' data": (conclude, "_clear_workspace"),
    "--junit": (junit, "write"),
    TEXT: (terminal, "write"),
}
"""What a run in one process does after reconcile, and on which no verdict rests: the name that a warning gives it, and
the function that does it."""
ELSEWHERE = (
    *("the end of the observer's work", "the removal of the workspace"),  # before reconcile, and after a failure
    "the end of the Spark session",  # tests/unit/spark_jobs/test_connect.py
    *("the event of the verdict", "the task"),  # tests/airflow/test_verdict_event.py, test_run.py and test_colour.py
    *("matrix.html", "--out", "--results", "the text of the catalogue run"),  # tests/unit/suite
    # tests/airflow/test_sentinel_dag.py
    *("the history of the sentinel", "the gauges of the sentinel", "the removal of old runs"),
)
"""Optional work that a run in one process does not do after reconcile."""
PATIENCE = (
    (direct, "STOP_S"),
    (local_spark, "END_S"),
    (expectations.validation, "SITE_S"),
    (conclude, "REPORT_S"),
    (conclude, "CLEARING_S"),
    (outputs, "JUNIT_S"),
)


class Ended(NamedTuple):
    """How a command ended: its exit code, and what it printed."""

    code: int
    out: str
    err: str


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[], Ended]:
    """A function that does the run of RUN as `kdv run --direct` does. All that needs a cluster or Spark does nothing,
    because its results are stored."""
    bare_host(tmp_path, monkeypatch)
    monkeypatch.setenv("KDV_RUNS", str(tmp_path / "runs"))
    numbers = iter(range(100))

    def planned(params: object, name: str, external: None) -> Path:
        stored = Path(shutil.copytree(RUNS / RUN, tmp_path / "runs" / name))
        for step in ("validate", "conclude"):
            (stored / f"{step}.json").unlink()
        return stored

    for step in ("start_cluster", "create_topics", "settle", "read_topic", "reconcile", "stop_cluster"):
        monkeypatch.setattr(direct, step, lambda *_, **__: None)
    monkeypatch.setattr(direct, "plan_from_params", planned)
    monkeypatch.setattr(direct, "_load_under_fault", lambda *_: None)
    monkeypatch.setattr(OwnSession, "start", lambda self: None)
    monkeypatch.setattr(OwnSession, "check", lambda self: None)
    monkeypatch.setattr(direct.lease, "renewed", lambda socket: nullcontext())
    monkeypatch.setattr(direct.Cluster, "of_run", lambda run: SimpleNamespace(socket=tmp_path))

    def do() -> Ended:
        capsys.readouterr()
        report = tmp_path / "junit.xml"
        code = cli.main(["run", "--direct", "--run-id", f"run-{next(numbers)}", "--junit", str(report)])
        return Ended(code, *capsys.readouterr())

    return do


def test_whatever_fails_or_hangs_after_reconcile_the_verdict_stands_and_a_warning_names_it(
    run: Callable[[], Ended], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plain, over = run(), threading.Event()
    assert plain.code == 1 and "VIOLATED" in plain.out and caplog.text == ""

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("as asked")

    for place, name in PLACES.values():
        monkeypatch.setattr(place, name, fail)
    ended = run()
    assert ended.code == plain.code and "Traceback" not in ended.err
    assert warnings(caplog) == dict.fromkeys(PLACES, "ZeroDivisionError: as asked")
    assert "the text of the verdict VIOLATED" in caplog.text, "even if nothing can be printed, the verdict is said"

    for module, name in PATIENCE:
        monkeypatch.setattr(module, name, AT_ONCE_S)
    hanging = {name: place for name, place in PLACES.items() if name not in (TEXT, ADVICE)}
    monkeypatch.setattr(*PLACES[TEXT], terminal_write)
    monkeypatch.setattr(*PLACES[ADVICE], conclude_advise)  # the text of a verdict without advice differs
    for place, name in hanging.values():
        monkeypatch.setattr(place, name, lambda *_, **__: over.wait(60))
    caplog.clear()
    ended, missing = run(), "it did not end within 0.3 s"
    over.set()
    assert ended.code == plain.code and warnings(caplog) == dict.fromkeys(hanging, missing)
    verdict, places = ended.out.split("report     ")
    assert verdict == plain.out.split("report     ")[0]
    assert places.startswith(f"not written: {missing}") and f"data docs  not written: {missing}" in places


def test_a_run_that_ends_without_a_verdict_though_its_evidence_is_complete_says_how_to_judge_it(
    run: Callable[[], Ended], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(run_dir: Path) -> None:
        raise StepFailed("no room")

    monkeypatch.setattr(direct, "validate", fail)
    ended = run()
    told = [line for line in ended.err.splitlines() if line.startswith("kdv: ")]
    remedy = "kdv: The evidence of this run is complete. To judge it: kdv reconcile run-0"
    assert (ended.code, ended.out, told) == (70, "", ["kdv: no room", remedy])

    def fail_early(run_dir: Path) -> None:
        (run_dir / "read_topic.json").unlink()
        fail(run_dir)

    monkeypatch.setattr(direct, "settle", fail_early)
    assert "kdv reconcile" not in run().err


def warnings(caplog: pytest.LogCaptureFixture) -> dict[str, str]:
    """Returns the reason of each warning, by the beginning of its name in PLACES."""
    texts = [entry.getMessage() for entry in caplog.records if entry.levelname == "WARNING"]
    found = [re.fullmatch(r"warning: (.*) failed: (.*)\. No verdict rests on it\.", text) for text in texts]
    return {name: one[2] for one in found if one for name in PLACES if one[1].startswith(name)}


def test_no_other_optional_work_is_done_without_a_test() -> None:
    """Otherwise this file would pass over work that was added later."""
    packages = ("plugins", "spark_jobs", "expectations")
    files = (file for package in packages for file in (ROOT / package).rglob("*.py"))
    names = {name for file in files for name in _optional_work(file) if name}
    known = {*PLACES, *ELSEWHERE}
    assert {name for name in names if not any(name.startswith(one) for one in known)} == set()
    assert {one for one in known if not any(name.startswith(one) for name in names)} == set()


def _optional_work(file: Path) -> Iterator[str]:
    """Yields the name of each optional work in `file`, without parts that are computed."""
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.Call) or file.name == "optional.py":
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in ("optional", "warned", "try_to_work", "try_to_print"):
            yield _text(node.args[0])


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) for part in node.values)
    if isinstance(node, ast.Attribute) and node.attr == "PAGE":
        return "matrix.html"
    return str(node.value) if isinstance(node, ast.Constant) else ""
