"""Tests of two direct runs: the planned fault has no effect, or nobody planned the disturbance. The verdict is
INCONCLUSIVE, and names the doubt."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.patience import PATIENCE_S
from support.stored_runs import arm, doubts

from delivery_verifier import catalogue
from delivery_verifier.catalogue.entry import ArmPlan, Entry
from delivery_verifier.catalogue.parts import control, step
from delivery_verifier.catalogue.profiles import PROFILES
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.command_line import main as cli
from delivery_verifier.host import folders
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.fault_plan import FaultPlan, Trigger
from delivery_verifier.model.history import read_injections
from delivery_verifier.model.scenario import Expectation, Load
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.pipeline import direct
from delivery_verifier.pipeline.signals import Signals
from delivery_verifier.run_directory.run_directory import RunDirectory


def run_directly(name: str, spark: SparkSession, **params: Any) -> tuple[RunDirectory, RunVerdict]:
    verdict = direct.run(params, name, lambda progress: None, spark)
    return RunDirectory(folders.runs_dir() / name), verdict


SHORT_PAUSE = Entry(
    name="short_pause",
    title="",
    promise="",
    source="",
    tags=(),
    arms=(
        ArmPlan(name="safe", role="subject", profile=PROFILES["safe"]),
        control("acks_0", "contract", Expectation(verdicts=("HELD", "VIOLATED"))),
    ),
    records=1500,
    load=Load(duration_s=3),
    fault=FaultPlan(
        name="short_pause",
        summary="Freeze a leader for half a second.",
        duration_s=3,
        steps=(
            step(Trigger(kind="reported", value=0.15), "pause", "leader"),
            step(Trigger(kind="elapsed", value=0.5), "resume"),
        ),
    ),
    session_timeout_ms=60_000,
)
"""A scenario whose fault freezes the leader for a much shorter time than the broker's session, so that no other broker
becomes leader, even if the host stalls."""


def test_a_fault_that_took_no_effect_is_inconclusive(
    monkeypatch: pytest.MonkeyPatch, kafka_spark: SparkSession
) -> None:
    monkeypatch.setitem(catalogue.SCENARIOS, SHORT_PAUSE.name, SHORT_PAUSE)
    run, verdict = run_directly("short-pause", kafka_spark, scenario=SHORT_PAUSE.name)
    (injection,) = read_injections((run.path / "injections.json").read_bytes())
    assert injection.proof["process"] and not injection.took_effect
    assert (verdict.verdict, verdict.exit_code) == ("INCONCLUSIVE", 2)
    assert ("coverage", "fault_took_no_effect") in doubts(verdict, "safe")
    assert cli.main(["report", run.path.name]) == 2


def test_an_election_that_nobody_planned_is_inconclusive(kafka_spark: SparkSession) -> None:
    """The plan has no fault, but a second thread kills a broker during the load. The observer must see the election."""
    name = "election"
    killed: list[int] = []

    def kill_a_broker() -> None:
        run = RunDirectory(folders.runs_dir() / name)
        wait_until((run.path / "create_topics.json").exists, "the topics to be created", PATIENCE_S)
        cluster = Cluster.of_run(run)
        signals = Signals(cluster.workspace)
        wait_until(lambda: signals.has_begun("produce"), "the load to flow", PATIENCE_S)
        topic = run.read_scenario().subjects[0].topic_name
        leader = cluster.partitions([topic])[topic, 0].leader
        cluster.agent.apply("process", [leader], {"signal": "SIGKILL"})
        killed.append(leader)

    stranger = threading.Thread(target=kill_a_broker)
    stranger.start()
    run, verdict = run_directly(name, kafka_spark, profile="safe", fault="none", records=2000, duration_s=6)
    stranger.join()
    assert killed
    assert (verdict.verdict, verdict.exit_code) == ("INCONCLUSIVE", 2)
    assert doubts(verdict, "safe") == {("coverage", "unplanned_disturbance")}
    assert arm(verdict, "safe").tally["lost"] == 0
    assert "<b>unplanned disturbance</b>" in (run.path / "report.html").read_text()
