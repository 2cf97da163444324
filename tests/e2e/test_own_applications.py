"""Own applications, from the name in a form to a verdict, on real brokers. Two of them nobody here wrote: Kafka's own
ConsoleConsumer and VerifiableConsumer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support import own_applications
from support.own_applications import SECRET
from support.stored_runs import arm, claiming, copy_of, judge_again, with_scenario

from delivery_verifier import catalogue
from delivery_verifier.catalogue.entry import ArmPlan, Entry
from delivery_verifier.catalogue.parts import AT_ONCE, step
from delivery_verifier.host import folders
from delivery_verifier.host.java.jars import fetch
from delivery_verifier.host.java.runtime import java_home
from delivery_verifier.model.fault_plan import FaultPlan, Trigger
from delivery_verifier.model.scenario import Load
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.planning.own_applications import known
from delivery_verifier.run import direct
from delivery_verifier.store.run_directory import RunDirectory

TOOLS = "org.apache.kafka.tools"
COMMANDS = {
    "console": f"{TOOLS}.consumer.ConsoleConsumer --bootstrap-server {{bootstrap.servers}} --topic {{topic}} "
    "--group {group} --from-beginning --command-property session.timeout.ms=6000 "
    "--command-property auto.commit.interval.ms=1000",
    "verifiable": f"{TOOLS}.VerifiableConsumer --bootstrap-server {{bootstrap.servers}} --topic {{topic}} "
    "--group-id {group} --verbose --session-timeout 6000 --reset-policy earliest",
}
QUIET = """status=off
rootLogger.level=ERROR
rootLogger.appenderRefs=c
rootLogger.appenderRef.c.ref=C
appender.c.type=Console
appender.c.target=SYSTEM_ERR
appender.c.name=C
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=%m%n
"""
PLAN = FaultPlan(
    name="killed_and_started_again",
    summary="",
    steps=(
        step(Trigger(kind="reported", value=1000), "park", "none", at="applied"),
        step(Trigger(kind="parked"), "kill_application", "none"),
        step(AT_ONCE, "restart_application", "none"),
    ),
)
AT_LEAST_ONCE = ("console", "verifiable", "loader")


def kafkas_own(folder: Path) -> None:
    """Writes the TOML files of both applications of Kafka to `folder`."""
    (folder / "log4j2.properties").write_text(QUIET)
    options = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Xmx128m"
    classes = ":".join(map(str, fetch("kafka-tools-4.3.1")))
    for name, command in COMMANDS.items():
        java = f"{java_home()}/bin/java {options} -Dlog4j2.configurationFile={{home}}/log4j2.properties -cp {classes}"
        only = 'containing = "record_data"\n' if name == "verifiable" else ""
        text = f"command = '{java} {command}'\n[effects]\n{only}[environment]\nSINK_DSN = 'db://u:{SECRET}@h/d'\n"
        (folder / f"{name}.toml").write_text(text)


def entry() -> Entry:
    """Returns a scenario that kills three applications and the control at the same moment."""
    applications = known()
    plans = [
        ArmPlan(name=name, role="subject", profile=catalogue.PROFILES["safe"], application=applications[name])
        for name in AT_LEAST_ONCE
    ]
    compared = catalogue.APPLICATIONS["database_compared"]
    plans.append(ArmPlan(name="control", role="control", profile=catalogue.PROFILES["safe"], application=compared))
    load, words = Load(partitions=1, rate=1000), {"title": "", "promise": "", "source": ""}
    return Entry(name="own", tags=(), arms=tuple(plans), records=3000, load=load, fault=PLAN, **words)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the own applications."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("KDV_APPLICATIONS", str(folder))
    own_applications.loader(folder)
    own_applications.forwarder(folder)
    return folder


@contextmanager
def leaks_in_the_process_list() -> Iterator[set[str]]:
    """Watches all processes of the host. Yields the command lines that hold the secret."""
    leaks, ended = set[str](), threading.Event()

    def watch() -> None:
        while not ended.wait(0.2):
            for process in psutil.process_iter(["cmdline"]):
                line = " ".join(process.info["cmdline"] or [])
                if SECRET in line or "orders.sqlite" in line:
                    leaks.add(line)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield leaks
    finally:
        ended.set()
        thread.join()


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


def test_programs_that_commit_what_they_have_applied_hold_at_least_once_and_break_exactly_once(
    programs: Path, kafka_spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafkas_own(programs)
    monkeypatch.setitem(catalogue.SCENARIOS, "own", entry())
    run, verdict = run_directly("own-at-least-once", kafka_spark, scenario="own")
    assert (verdict.verdict, verdict.exit_code) == ("HELD", 0), verdict.sentence
    assert arm(verdict, "control").books["reapplied"] == 0
    for name in AT_LEAST_ONCE:
        books = arm(verdict, name).books
        assert (books["skipped"], books["ghost"], arm(verdict, name).doubts) == (0, 0, [])
        assert books["reapplied"] > 0, f"{name} had records in hand, which its group had not committed"
    kept = (run.path / "printed" / "loader-0-0.txt").read_text()
    assert "hello with *** ***" in kept
    broken = claimed(run, "exactly_once")
    assert {name: arm(broken, name).verdict for name in (*AT_LEAST_ONCE, "control")} == {
        **dict.fromkeys(AT_LEAST_ONCE, "VIOLATED"),
        "control": "HELD",
    }


def test_a_program_that_commits_what_it_has_not_written_to_its_topic_breaks_at_least_once(
    programs: Path, kafka_spark: SparkSession
) -> None:
    name, fault = "own-commit-first", "kill_application"
    load: dict[str, Any] = {"records": 1000, "duration_s": 8, "partitions": 2}
    run, verdict = run_directly(name, kafka_spark, application="forwarder", fault=fault, **load)
    subject = arm(verdict, "safe")
    assert (subject.verdict, verdict.exit_code) == ("VIOLATED", 1), verdict.sentence
    assert subject.books["skipped"] > 0 == subject.books["reapplied"] + subject.books["ghost"]
    assert arm(verdict, "control-safe").books["skipped"] == 0
    rows = pq.read_table(run.path / "effects").to_pylist()
    lives = {row["life"] for row in rows if row["arm"] == "safe"}
    assert lives == {0, 1, 2}, "offsets of the output topic say in which life a record was written"
