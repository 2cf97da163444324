"""Six programs of a user's own side by side on real brokers, killed in one run: one commits what it has applied, and
the others are wrong in five ways. `bench/campaigns/user_programs.py` makes a run of each, with and without the kill,
under two claims."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.stored_runs import arm, claiming, copy_of, judge_again, with_scenario

from delivery_verifier import catalogue
from delivery_verifier.advice.changes import who_broke_it
from delivery_verifier.catalogue.entry import ArmPlan, Entry
from delivery_verifier.catalogue.parts import AT_ONCE, step
from delivery_verifier.host import folders
from delivery_verifier.model.fault_plan import FaultPlan, Trigger
from delivery_verifier.model.history import read_injections
from delivery_verifier.model.scenario import Load
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.pipeline import direct
from delivery_verifier.planning.user_applications import known
from delivery_verifier.run_directory.run_directory import RunDirectory

SINKS = Path(__file__).parents[2] / "bench/kit/sinks"
COMMITTED = "that it had not applied"
LOSING = {"ahead": COMMITTED, "timer": COMMITTED, "gap": COMMITTED, "swallow": "left records out while it ran on"}
"""The programs that skip records, with a part of the sentence that says what they did."""
KILLED = "had applied records, and not committed"
REPEATING = {
    "honest": (KILLED,),
    "one_partition": (KILLED, "commits only some of the partitions", "ended without committing"),
}
"""The programs that only apply records again. Chance decides whether the kill falls between a batch of `one_partition`
with several partitions and the next one: if not, all that it repeats is what the kill or the end left open."""
PLAN = FaultPlan(
    name="killed_and_started_again",
    summary="",
    steps=(
        step(Trigger(kind="reported", value=1500), "park", "none", at="applied"),
        step(Trigger(kind="parked"), "kill_application", "none"),
        step(AT_ONCE, "restart_application", "none"),
    ),
)


def entry() -> Entry:
    """Returns a scenario with all six programs and a control, which are killed at the same moment."""
    applications, safe = known(), catalogue.PROFILES["safe"]
    plans = [
        ArmPlan(name=name, role="subject", profile=safe, application=applications[name])
        for name in (*LOSING, *REPEATING)
    ]
    plans.append(
        ArmPlan(name="control", role="control", profile=safe, application=catalogue.APPLICATIONS["database_compared"])
    )
    load, words = Load(partitions=3, rate=300), {"title": "", "promise": "", "source": ""}
    return Entry(name="programs", tags=(), arms=tuple(plans), records=3000, load=load, fault=PLAN, **words)


def what(verdict: RunVerdict, name: str, kind: str) -> list[str]:
    return [cause.what for cause in arm(verdict, name).causes if cause.anomaly == kind]


def test_the_evidence_of_real_brokers_says_which_program_broke_its_promise_and_how(
    kafka_spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KDV_APPLICATIONS", str(SINKS))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setitem(catalogue.SCENARIOS, "programs", entry())
    verdict = direct.run({"scenario": "programs"}, "programs", lambda progress: None, kafka_spark)
    run = RunDirectory(folders.runs_dir() / "programs")
    (kill,) = read_injections((run.path / "injections.json").read_bytes())
    proof: Any = kill.proof["process_before_heal"]
    assert kill.took_effect and [name for name in (*LOSING, *REPEATING) if not proof[f"in progress of {name}"]] == []
    assert [doubt for each in verdict.arms for doubt in each.doubts] == []
    assert (verdict.verdict, verdict.exit_code) == ("VIOLATED", 1)
    for name, said in LOSING.items():
        judged = arm(verdict, name)
        assert judged.verdict == "VIOLATED" and judged.tally["skipped"] > 0, name
        assert any(said in sentence for sentence in what(verdict, name, "SKIPPED")), name
        lead, text = who_broke_it(judged, [each for each in judged.findings if each.cases])
        assert "your program" in lead and text == "Kafka did what it was told."
    for name, sentences in REPEATING.items():
        judged = arm(verdict, name)
        assert (judged.verdict, judged.tally["skipped"]) == ("HELD", 0) and judged.tally["reapplied"] > 0, name
        told = what(verdict, name, "REAPPLIED")
        assert any(said in sentence for sentence in told for said in sentences), name
    member = arm(verdict, "ahead").causes[0].evidence[1]
    assert "was committed at" in member and " by member rdkafka-" in member
    copy = copy_of(run, "programs-exactly-once")
    with_scenario(copy, claiming("exactly_once"))
    again = judge_again(copy)
    assert {each.verdict for each in again.arms if each.role == "subject"} == {"VIOLATED"}
    assert arm(again, "control").verdict == "HELD"
