"""Cells of the catalogue with both clients in one run, on one cluster, under one fault: the run says which client
did it."""

from __future__ import annotations

import uuid

import pytest
from pyspark.sql import SparkSession
from support.stored_runs import arm

from delivery_verifier.model.verdict import ArmVerdict, RunVerdict
from delivery_verifier.pipeline import direct

BOTH = "librdkafka,java"


def judged(scenario: str, spark: SparkSession) -> RunVerdict:
    """The verdict of the scenario with both clients. If a disturbance that nobody planned leaves it INCONCLUSIVE, it
    runs once more."""
    for _ in range(2):
        name = f"both-{uuid.uuid4().hex[:6]}"
        verdict = direct.run({"scenario": scenario, "clients": BOTH}, name, lambda progress: None, spark)
        if verdict.exit_code != 2:
            break
    assert verdict.green, [f"{each.arm}: {each.verdict}: {each.doubts}" for each in verdict.arms]
    return verdict


def said(verdict: RunVerdict, name: str) -> str:
    """What the run says of the clients of the arms `name` and `name`-java."""
    return " ".join(each.sentence for each in verdict.which_client if each.arms == [name, f"{name}-java"])


def of_order(of: ArmVerdict) -> str:
    """Why the contract rules on the order of `of` as it does."""
    return next(each.sentence for each in of.findings if each.anomaly == "REORDERED")


def test_one_request_in_flight_keeps_no_order_with_librdkafka_and_keeps_it_with_java(
    kafka_spark: SparkSession,
) -> None:
    verdict = judged("order.stalled_leader", kafka_spark)
    plain, java = arm(verdict, "in_flight_1"), arm(verdict, "in_flight_1-java")
    assert (plain.verdict, java.verdict) == ("VIOLATED", "HELD")
    assert "With librdkafka, one request in flight is no guarantee of order" in of_order(plain)
    assert of_order(java).startswith("Records of one producer to one partition are appended in the order")
    assert "Only librdkafka: the client." in said(verdict, "in_flight_1")
    assert "Both: broker or protocol, not one client alone." in said(verdict, "acks_all")
    assert "there is nothing to attribute" in said(verdict, "idempotent")


@pytest.mark.parametrize(
    ("scenario", "weak", "tally"),
    [
        ("acks_1.frozen_followers", "acks_1", {"lost": 100}),
        ("duplicates.closed_connection", "acks_all", {"duplicated": 20}),
    ],
)
def test_what_the_protocol_allows_both_clients_show_alike(
    kafka_spark: SparkSession, scenario: str, weak: str, tally: dict[str, int]
) -> None:
    verdict = judged(scenario, kafka_spark)
    for name in (weak, f"{weak}-java"):
        assert {key: arm(verdict, name).tally[key] for key in tally} == tally
    assert "Both: broker or protocol, not one client alone." in said(verdict, weak)


def test_a_producer_that_is_killed_in_a_transaction_leaves_no_torn_one_with_either_client(
    kafka_spark: SparkSession,
) -> None:
    verdict = judged("producer.killed_in_transaction", kafka_spark)
    for name in ("transactional", "transactional-java"):
        found = arm(verdict, name)
        assert (found.verdict, found.tally["torn"], found.tally["indeterminate"] > 0) == ("HELD", 0, True)


def test_a_late_end_of_a_transaction_ends_the_next_one_of_librdkafka_and_none_of_java(
    kafka_spark: SparkSession,
) -> None:
    verdict = judged("transactional.late_end", kafka_spark)
    plain, java = arm(verdict, "impatient"), arm(verdict, "impatient-java")
    assert [(each.verdict, each.tally["torn"], each.tally["aborted_visible"]) for each in (plain, java)] == [
        ("VIOLATED", 20, 20),
        ("HELD", 0, 0),
    ]
    told = said(verdict, "impatient")
    assert told.count("Only librdkafka: the client.") == 2 and "knows this difference: torn.late_end" in told


def test_members_with_both_clients_apply_again_what_their_discipline_says_and_in_a_transaction_nothing(
    kafka_spark: SparkSession,
) -> None:
    verdict = judged("transform.plain", kafka_spark)
    for name in ("transform", "transform-java"):
        found = arm(verdict, name)
        assert (found.verdict, found.tally["reapplied"], found.tally["skipped"]) == ("VIOLATED", 10, 0)
    for name in ("transform_transactional", "transform_transactional-java"):
        found = arm(verdict, name)
        assert (found.verdict, found.tally["reapplied"], found.tally["skipped"]) == ("HELD", 0, 0)
    assert "1 member with Java 4.3.1" in arm(verdict, "transform-java").application[0]
    assert "Both: the discipline of the application, broker or protocol" in said(verdict, "transform")
