"""Tests of a real run without Airflow, and of copies of this run. Losses that the claim forbids are found and proven,
cases that the settings permit are counted, and doubts are named."""

from __future__ import annotations

import re
from contextlib import nullcontext
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support.readme import Example
from support.stored_runs import arm, claiming, copy_of, doubts, judge_again, reseal, with_scenario

from delivery_verifier.cluster import lease
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.command_line import main as cli
from delivery_verifier.command_line.stored import read_verdict
from delivery_verifier.model.history import LEAD_US, read_injections
from delivery_verifier.model.scenario import Expectation, Scenario
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.pipeline import local_spark
from delivery_verifier.run_directory.ledger import LOAD_BEGAN
from delivery_verifier.run_directory.run_directory import RunDirectory

WEAKEST = "control-acks_0"


@pytest.fixture(scope="module")
def half_acknowledged(breaking_example: Example) -> tuple[RunDirectory, RunVerdict]:
    """The run of the README's example: the profile acks_1 with the claim at_least_once, in which the leader is frozen.
    The controls have the profiles acks_0 and safe."""
    return breaking_example.run, read_verdict(breaking_example.run.path)


@pytest.fixture(scope="module")
def forgotten(half_acknowledged: tuple[RunDirectory, RunVerdict]) -> tuple[RunDirectory, RunVerdict]:
    """A copy of the same run in which the arm with acks=0 is the subject with the claim at_least_once, and the arm with
    acks=1 is a control."""
    copy = copy_of(half_acknowledged[0], "acks-0-frozen")
    with_scenario(copy, _asked_about_the_weakest)
    return copy, judge_again(copy, report=True)


def _asked_about_the_weakest(scenario: Scenario) -> Scenario:
    changes: dict[str, dict[str, Any]] = {
        WEAKEST: {"role": "subject", "claim": "at_least_once", "expectation": Expectation()},
        "acks_1": {"role": "control", "claim": "contract"},
    }
    arms = tuple(msgspec.structs.replace(each, **changes.get(each.name, {})) for each in scenario.arms)
    return msgspec.structs.replace(scenario, arms=arms)


def cases(run: RunDirectory, arm_name: str, kind: str) -> list[dict[str, Any]]:
    rows = pq.read_table(run.path / "anomalies").to_pylist()
    return [row for row in rows if (row["arm"], row["kind"]) == (arm_name, kind)]


def lost(verdict: RunVerdict, arm_name: str) -> int:
    return arm(verdict, arm_name).tally["lost"]


def assert_lost_with_evidence(run: RunDirectory, verdict: RunVerdict, name: str, outcome: str) -> None:
    """Asserts that the arm `name` is VIOLATED by losses and that the exit code is 1. Every loss must be written down
    with its evidence, and the report must show the first losses."""
    subject = arm(verdict, name)
    assert (subject.verdict, subject.claim, verdict.green, verdict.exit_code) == ("VIOLATED", "at_least_once", False, 1)
    assert subject.doubts == [] and lost(verdict, name) > 0
    found = cases(run, name, "LOST")
    assert len(found) == lost(verdict, name)
    log = pq.read_table(run.path / "log").to_pylist()
    there = {row["sequence"] for row in log if row["arm"] == name and row["parsed"]}
    page = (run.path / "report.html").read_text()
    for row in found:
        assert row["sequence"] not in there and row["outcome"] == outcome
        assert row["sent_at"] is not None and row["settled_at"] is not None and row["detail"]
    first = sorted(found, key=lambda row: (row["partition"], row["sequence"]))[:3]
    for row in first:
        assert re.search(rf"\b{row['sequence']:,}\b|\b{row['sequence']}\b", page), (
            f"sequence {row['sequence']} is not on the page"
        )
    finding = next(item for item in subject.findings if item.anomaly == "LOST")
    assert (finding.ruling, finding.ruled_by, finding.tolerance) == ("FORBIDDEN", "claim", 0)
    # Not every loss is exposed: a broker of a starved host may hold what it got more than LEAD_US before the effect.
    assert 0 < exposed_losses(run, found) <= sum(exposure.reported for exposure in subject.exposure)


def exposed_losses(run: RunDirectory, found: list[dict[str, Any]]) -> int:
    """Returns how many of the LOST cases `found` were under way in the exposure window of the run's only injection."""
    (injection,) = read_injections((run.path / "injections.json").read_bytes())
    begin_s, end_s = (injection.effect_at_us - LEAD_US) / 1e6, (injection.recovered_at_us or 0) / 1e6
    return sum(row["settled_at"].timestamp() >= begin_s and row["sent_at"].timestamp() < end_s for row in found)


def test_acks_0_loses_under_a_frozen_leader_and_a_claim_of_at_least_once_is_violated(
    forgotten: tuple[RunDirectory, RunVerdict], capsys: pytest.CaptureFixture[str]
) -> None:
    run, verdict = forgotten
    assert_lost_with_evidence(run, verdict, WEAKEST, "SENT")
    assert cli.main(["report", str(run.path)]) == 1
    assert "VIOLATED (NOT as expected)" in capsys.readouterr().out


def test_without_the_claim_the_same_loss_is_permitted_and_still_counted(
    forgotten: tuple[RunDirectory, RunVerdict], capsys: pytest.CaptureFixture[str]
) -> None:
    copy = copy_of(forgotten[0], "acks-0-unclaimed")
    with_scenario(copy, claiming("contract"))
    verdict = judge_again(copy, report=True)
    assert (verdict.verdict, verdict.green, verdict.exit_code) == ("HELD", True, 0)
    assert lost(verdict, WEAKEST) == lost(forgotten[1], WEAKEST) > 0
    finding = next(item for item in arm(verdict, WEAKEST).findings if item.anomaly == "LOST")
    assert (finding.ruling, finding.ruled_by, finding.tolerance) == ("PERMITTED", "contract", None)
    assert finding.count == lost(verdict, WEAKEST)
    assert cli.main(["report", str(copy.path)]) == 0
    assert f"{lost(verdict, WEAKEST):,}" in capsys.readouterr().out


def test_acks_1_loses_what_was_acknowledged_while_safe_holds_beside_it(
    half_acknowledged: tuple[RunDirectory, RunVerdict],
) -> None:
    run, verdict = half_acknowledged
    assert_lost_with_evidence(run, verdict, "acks_1", "ACKED")
    assert {row["acked_offset"] is not None for row in cases(run, "acks_1", "LOST")} == {True}
    strong = arm(verdict, "control-safe")
    assert (strong.verdict, strong.tally["lost"], strong.as_expected) == ("HELD", 0, True)
    assert min(exposure.reported for exposure in strong.exposure) >= run.read_scenario().min_exposed


def test_no_silence_of_a_run_began_before_its_load(half_acknowledged: tuple[RunDirectory, RunVerdict]) -> None:
    run, _ = half_acknowledged
    began_us = run.manifest("produce").counts[LOAD_BEGAN]
    found = pq.read_table(run.path / "counts/gaps.parquet")["gap_start_us"].to_pylist()
    assert run.manifest("produce").started_at_us < began_us <= min(found)


def test_a_stored_run_is_judged_again_alike_with_no_kafka_alive(
    half_acknowledged: tuple[RunDirectory, RunVerdict],
    kafka_spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run, verdict = half_acknowledged
    assert lease.lock_owner() is None
    with pytest.raises(lease.ClusterGone):
        lease.call(Cluster.of_run(run).socket, "status")
    copy = copy_of(run, "acks-1-again")
    before = (copy.path / "verdict.json").read_bytes()
    for made in ("verdict.json", "conclude.json", "validation.json", "report.html"):
        (copy.path / made).unlink()
    monkeypatch.setattr(local_spark, "own_session", lambda run_dir: nullcontext(lambda: kafka_spark))  # spares a JVM
    assert cli.main(["reconcile", str(copy.path)]) == verdict.exit_code == 1
    assert (copy.path / "verdict.json").read_bytes() == before
    assert (copy.path / "report.html").is_file() and "VIOLATED" in capsys.readouterr().out


def test_an_altered_file_gives_no_verdict_at_all(
    half_acknowledged: tuple[RunDirectory, RunVerdict], capsys: pytest.CaptureFixture[str]
) -> None:
    copy = copy_of(half_acknowledged[0], "acks-1-altered")
    ledger = next((copy.path / "ledger").glob("acks_1*"))
    ledger.write_bytes(ledger.read_bytes()[:-1] + b"?")
    assert cli.main(["reconcile", str(copy.path)]) == cli.BAD_INPUT
    assert "its SHA-256 differs" in capsys.readouterr().err


def test_too_little_exposure_forbids_held_and_does_not_undo_violated(
    forgotten: tuple[RunDirectory, RunVerdict], half_acknowledged: tuple[RunDirectory, RunVerdict]
) -> None:
    copy = copy_of(forgotten[0], "acks-0-hardly-exposed")
    with_scenario(copy, lambda made: msgspec.structs.replace(claiming("contract")(made), min_exposed=10**9))
    verdict = judge_again(copy)
    assert (verdict.verdict, verdict.exit_code) == ("INCONCLUSIVE", 2)
    assert doubts(verdict, WEAKEST) == {("coverage", "too_little_exposed")}
    copy = copy_of(half_acknowledged[0], "acks-1-hardly-exposed")
    with_scenario(copy, lambda made: msgspec.structs.replace(made, min_exposed=10**9))
    verdict = judge_again(copy)
    assert {item.arm: item.verdict for item in verdict.arms} == {
        "acks_1": "VIOLATED",
        "control-acks_0": "INCONCLUSIVE",
        "control-safe": "INCONCLUSIVE",
        "canary": "HELD",
    }
    assert (verdict.verdict, verdict.exit_code) == ("VIOLATED", 1)


def test_a_load_that_was_over_before_the_fault_had_healed_is_inconclusive(
    forgotten: tuple[RunDirectory, RunVerdict],
) -> None:
    """A real load never ends before the recovery. So the test moves the stored time of the recovery to the end of the
    load."""
    copy = copy_of(forgotten[0], "acks-0-over-too-early")
    with_scenario(copy, claiming("contract"))
    made = read_injections((copy.path / "injections.json").read_bytes())
    end_us = copy.manifest("produce").finished_at_us
    late = [msgspec.structs.replace(injection, recovered_at_us=end_us) for injection in made]
    reseal(copy, "inject_fault", injections=late)
    verdict = judge_again(copy)
    assert (verdict.verdict, verdict.exit_code) == ("INCONCLUSIVE", 2)
    assert ("coverage", "load_over_too_early") in doubts(verdict, WEAKEST)
