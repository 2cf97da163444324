"""Tests of the known bugs of clients on real brokers: the client that has the bug shows it, the other one does not."""

from __future__ import annotations

from pyspark.sql import SparkSession
from support.stored_runs import arm

from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.pipeline import direct


def run(name: str, spark: SparkSession, rounds: int = 3) -> RunVerdict:
    """Runs the scenario. A run that is INCONCLUSIVE proves nothing, so there are up to `rounds`."""
    for at in range(rounds):
        verdict = direct.run({"scenario": name}, f"{name}-{at}", lambda progress: None, spark)
        if verdict.exit_code != 2:
            break
    return verdict


def test_an_idempotent_librdkafka_writes_acknowledged_records_twice_and_java_does_not(
    kafka_spark: SparkSession,
) -> None:
    verdict = run("idempotent.epoch_bump", kafka_spark)
    assert verdict.green, verdict.sentence
    bug, control = arm(verdict, "idempotent"), arm(verdict, "idempotent-java")
    assert (bug.verdict, control.verdict) == ("VIOLATED", "HELD")
    assert bug.tally["duplicated"] >= 1 and bug.tally["lost"] == control.tally["duplicated"] == 0
    (finding,) = [each for each in bug.findings if each.broken]
    assert (finding.anomaly, finding.ruling, finding.rule) == ("DUPLICATED", "FORBIDDEN", "duplicated.never")


def test_java_4_1_1_writes_records_into_partitions_of_others_and_4_1_2_does_not(kafka_spark: SparkSession) -> None:
    verdict = run("java.reused_buffer", kafka_spark)
    bug, control = arm(verdict, "small_buffer-java-4.1.1"), arm(verdict, "small_buffer-java-4.1.2")
    assert (control.verdict, control.tally["misrouted"]) == ("HELD", 0), control.sentence
    assert control.tally["resolved_present"] >= 160, "records timed out in requests that were written later"
    assert (bug.verdict, verdict.green) == ("VIOLATED", True), verdict.sentence
    assert [each.anomaly for each in bug.findings if each.broken] == ["MISROUTED"]
    assert bug.tally["lost"] == 0


def test_a_member_that_is_told_of_ends_skips_a_record_of_each_partition_with_librdkafka_2_13_0_and_not_with_2_13_2(
    kafka_spark: SparkSession,
) -> None:
    verdict = run("consumer.eof_events", kafka_spark)
    assert verdict.green, verdict.sentence
    bug, control = arm(verdict, "ends-2.13.0"), arm(verdict, "ends-2.13.2")
    assert (bug.verdict, control.verdict) == ("VIOLATED", "HELD")
    assert 3 <= bug.tally["skipped"] <= 6 and control.tally["skipped"] == 0
    for each in (bug, control):
        assert (each.tally["lost"], each.tally["reapplied"]) == (0, 0)
        assert f"with {each.arm.replace('ends-', 'librdkafka ')}" in each.application[0]
    (finding,) = [each for each in bug.findings if each.broken]
    assert (finding.anomaly, finding.ruling, finding.rule) == ("SKIPPED", "FORBIDDEN", "skipped.never")
    assert f"{3 * 10 - 3} records behind what was committed" in bug.sentence
    assert f"{3 * 10} records behind what was committed" in control.sentence


def test_a_member_with_librdkafka_skips_what_was_written_below_its_commit_since_a_truncation_and_with_java_it_does_not(
    kafka_spark: SparkSession,
) -> None:
    verdict = run("consumer.truncated_commit", kafka_spark)
    assert verdict.green, verdict.sentence
    for name in ("commit_after", "at_handover"):
        bug, control = arm(verdict, name), arm(verdict, f"{name}-java")
        assert (bug.verdict, control.verdict) == ("VIOLATED", "HELD")
        assert (bug.tally["skipped"], control.tally["skipped"]) == (100, 0)
        for each in (bug, control):
            assert (each.tally["acked"], each.tally["indeterminate"], each.tally["lost"]) == (400, 100, 0)
            assert each.tally["ghost"] == 100, "the records that the election took had been applied"
        (finding,) = [each for each in bug.findings if each.broken]
        assert (finding.anomaly, finding.rule) == ("SKIPPED", "claim.at_least_once")


def test_a_member_with_latest_skips_what_is_written_to_new_partitions_before_it_has_them_and_with_earliest_nothing(
    kafka_spark: SparkSession,
) -> None:
    verdict = run("consumer.partition_growth", kafka_spark)
    assert verdict.green, verdict.sentence
    bug, control = arm(verdict, "latest"), arm(verdict, "earliest")
    assert (bug.verdict, control.verdict) == ("VIOLATED", "HELD")
    assert bug.tally["skipped"] >= 300 and control.tally["skipped"] == 0
    for each in (bug, control):
        assert (each.tally["acked"], each.tally["lost"], each.tally["reapplied"]) == (1500, 0, 0)
    (finding,) = [each for each in bug.findings if each.broken]
    assert (finding.anomaly, finding.rule) == ("SKIPPED", "claim.at_least_once")
    assert "every arm's topic was given more partitions once" in verdict.sentence
