"""User applications, from their names to a verdict, on real brokers. One commits what it has applied to a table. The
other commits what it has not yet written to a topic. Each has two members, which write to one place."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support import user_applications
from support.stored_runs import arm, claiming, copy_of, judge_again, with_scenario
from support.user_applications import SECRET

from delivery_verifier import catalogue
from delivery_verifier.catalogue.entry import ArmPlan, Entry
from delivery_verifier.catalogue.parts import AT_ONCE, step
from delivery_verifier.host import folders
from delivery_verifier.model.fault_plan import FaultPlan, Trigger
from delivery_verifier.model.scenario import Load
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.pipeline import direct
from delivery_verifier.planning.user_applications import known
from delivery_verifier.run_directory.run_directory import RunDirectory

NEW_S = 10.0
"""The watch reads only the command lines of processes that are younger than this, in seconds."""
PLAN = FaultPlan(
    name="killed_and_started_again",
    summary="",
    steps=(
        step(Trigger(kind="reported", value=400), "park", "none", at="applied"),
        step(Trigger(kind="parked"), "kill_application", "none"),
        step(AT_ONCE, "restart_application", "none"),
    ),
)


def entry() -> Entry:
    """Returns a scenario that kills both applications and the control at the same moment."""
    applications, safe = known(), catalogue.PROFILES["safe"]
    plans = (
        ArmPlan(name="loader", role="subject", profile=safe, application=applications["loader"]),
        ArmPlan(
            name="forwarder", role="subject", profile=safe, application=applications["forwarder"], claim="at_most_once"
        ),
        ArmPlan(name="control", role="control", profile=safe, application=catalogue.APPLICATIONS["database_compared"]),
    )
    load, words = Load(partitions=2, rate=150), {"title": "", "promise": "", "source": ""}
    return Entry(name="own", tags=(), arms=plans, records=1000, load=load, fault=PLAN, **words)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user applications."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("KDV_APPLICATIONS", str(folder))
    user_applications.loader(folder)
    user_applications.forwarder(folder)
    return folder


@contextmanager
def leaks_in_the_process_list() -> Iterator[set[str]]:
    """Watches the new processes of the host. Yields the command lines that hold the secret."""
    leaks, seen, ended = set[str](), set[str](), threading.Event()

    def watch() -> None:
        while not ended.wait(0.2):
            for process in psutil.process_iter():
                with suppress(psutil.Error):
                    if time.time() - process.create_time() < NEW_S:
                        seen.add(" ".join(process.cmdline()))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield leaks
    finally:
        ended.set()
        thread.join()
    leaks.update(line for line in seen if SECRET in line or "orders.sqlite" in line)
    assert any("kafka.Kafka" in line for line in seen), "the watch saw no process of the run"


def run_directly(name: str, spark: SparkSession, **params: Any) -> tuple[RunDirectory, RunVerdict]:
    """Returns a run and its verdict. Asserts that no secret, no URL of a database and no command left the programs."""
    with leaks_in_the_process_list() as leaks:
        verdict = direct.run(params, name, lambda progress: None, spark)
    assert leaks == set()
    written = [file for file in folders.runs_dir().rglob("*") if file.is_file()]
    assert len(written) > 20
    for text in (SECRET, "orders.sqlite", "forwarder.py", "loader.py"):
        assert [file for file in written if text.encode() in file.read_bytes()] == [], text
    return RunDirectory(folders.runs_dir() / name), verdict


def claimed(run: RunDirectory, claim: str) -> RunVerdict:
    """Returns the verdict about the same run under another claim."""
    copy = copy_of(run, f"{run.path.name}-{claim}")
    with_scenario(copy, claiming(claim))
    return judge_again(copy)


def test_user_applications_keep_what_they_claim_and_no_more(
    programs: Path, kafka_spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(catalogue.SCENARIOS, "own", entry())
    run, verdict = run_directly("user-applications", kafka_spark, scenario="own")
    loader, forwarder = (arm(verdict, name) for name in ("loader", "forwarder"))
    assert (loader.verdict, forwarder.verdict, verdict.exit_code) == ("HELD", "VIOLATED", 1), verdict.sentence
    assert loader.tally["reapplied"] > 0 == loader.tally["skipped"] + loader.tally["ghost"]
    assert forwarder.tally["skipped"] > 0 == forwarder.tally["reapplied"] + forwarder.tally["ghost"]
    assert arm(verdict, "control").tally["reapplied"] + arm(verdict, "control").tally["skipped"] == 0
    assert run.manifest("settle").counts["replicas_early"] == 0, "the applications may take minutes after that"
    for member in range(2):
        assert "hello with *** ***" in (run.path / "printed" / f"loader-{member}-0.txt").read_text()
    rows = pq.read_table(run.path / "effects").to_pylist()
    incarnations = {(row["arm"], row["incarnation"]) for row in rows if row["arm"] in ("loader", "forwarder")}
    assert incarnations == {(name, incarnation) for name in ("loader", "forwarder") for incarnation in range(3)}
    assert {row["member"] for row in rows if row["arm"] in ("loader", "forwarder")} == {-1}, "nobody sees which"
    for claim, broken in (("at_least_once", {"forwarder"}), ("exactly_once", {"loader", "forwarder"})):
        again = claimed(run, claim)
        assert {each.arm for each in again.arms if each.verdict == "VIOLATED"} == broken, claim
        assert arm(again, "control").verdict == "HELD"
