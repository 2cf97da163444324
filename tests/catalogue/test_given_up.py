"""Test of a direct run in which the only replica of a partition is away for longer than the client waits. Terminal,
first screen of the report, note and JUnit say what was given up, and by which setting.

tests/unit/reporting/test_given_up.py says the same of runs with three replicas that are made by hand.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support.stored_runs import arm

from delivery_verifier.command_line import main as cli
from delivery_verifier.host import folders
from delivery_verifier.pipeline import direct
from delivery_verifier.reporting import brief
from delivery_verifier.run_directory.run_directory import RunDirectory

PARAMS: dict[str, Any] = {
    "profile": "own",
    "producer_config": "acks=all\nmessage.timeout.ms=3000\n",
    "written_for": "librdkafka",
    "min_insync_replicas": 1,
    "replication_factor": 1,
    "fault": "pause_leader",  # for 10 s
    "claim": "at_least_once",
    "records": 2000,
    "duration_s": 14,
    "min_exposed": 1,
}


def test_what_a_client_gave_up_while_its_broker_was_away_is_said_with_its_setting(
    kafka_spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunDirectory(folders.runs_dir() / "given-up")
    verdict = direct.run(PARAMS, run.path.name, lambda progress: None, kafka_spark)
    subject = arm(verdict, "own")
    assert subject.given_up is not None and subject.tally["lost"] == 0, "nothing that was acknowledged is lost"
    assert subject.given_up.attempts == _not_in_the_log(run) > 0
    assert (subject.given_up.errors, subject.given_up.attempted) == (
        {"_MSG_TIMED_OUT": subject.given_up.attempts},
        subject.tally["attempted"],
    )
    assert subject.given_up.away_s > 9
    fact = f"{subject.given_up.attempts:,} of {subject.given_up.attempted:,} records ("
    setting = "given up after delivery.timeout.ms=3000 (message.timeout.ms)"
    away = f"no running leader for {subject.given_up.away_s} s"

    assert cli.main(["report", run.path.name, "--junit", str(tmp_path / "out.xml")]) == verdict.exit_code
    page = (run.path / "report.html").read_text()
    first = page[page.index('<section class="verdict') : page.index('<section id="arms">')]
    cases = ElementTree.parse(tmp_path / "out.xml").getroot().iter("testcase")
    (case,) = [case for case in cases if str(case.get("classname")).endswith(".own")]
    texts = (
        capsys.readouterr().out,
        first,
        brief.note_text(verdict, run.path.parent),
        case.findtext("system-out") or "",
    )
    for text in texts:
        for part in (fact, setting, away, "To lose none of them, set delivery.timeout.ms", "The price:"):
            assert part in text, (part, text)


def _not_in_the_log(run: RunDirectory) -> int:
    """Returns how many attempts of the subject were not acknowledged and are not in the log, counted without Spark."""
    key = ("arm", "sequence", "attempt")
    ledger, log = (pq.read_table(run.path / folder, filters=[("arm", "=", "own")]) for folder in ("ledger", "log"))
    there = {tuple(row.values()) for row in log.select(key).to_pylist()}
    unanswered = [row for row in ledger.to_pylist() if row["outcome"] not in ("ACKED", "SENT")]
    return sum(tuple(row[name] for name in key) not in there for row in unanswered)
