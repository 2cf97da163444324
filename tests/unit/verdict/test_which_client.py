"""Tests of what a run says of its clients. Most of them try to make it lie."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from msgspec.structs import replace
from support.evidence import (
    EFFECT_AT,
    HEALED,
    SECOND,
    Change,
    Rows,
    a_scenario,
    both,
    case,
    cases,
    evidence_of,
    judged,
    lost,
    partition,
    the_injections,
    the_observations,
    with_arm,
)

from delivery_verifier import catalogue
from delivery_verifier.model import client
from delivery_verifier.model.history import Observation
from delivery_verifier.model.late_ends import facts_of, name_of
from delivery_verifier.model.scenario import Arm, Claim, Scenario
from delivery_verifier.model.verdict import RunVerdict, WhichClient
from delivery_verifier.verdict.transaction_counts import TransactionCounts
from delivery_verifier.verdict.which_client import _chance, _fewest, _Side

AT = EFFECT_AT
LOUD, QUIET = "acks_all", "acks_all-java"
SCRIPTED, SPREAD = "scripted", "spread"
TIMES = ("requested_at_us", "effect_at_us", "healed_at_us", "recovered_at_us")
MOVED = AT + 3 * SECOND
"""When the leader of partition 0 was seen to be another."""


def a_run(profile: str = "acks_all", clients: str = "librdkafka,java", pacing: str = SCRIPTED, **more: Any) -> Scenario:
    """Returns a run in which the subject has each of `clients`. Without a script, chance has a part in what is hurt."""
    of = a_scenario(profile, clients=client.parse(clients, "clients"), **more)
    return replace(of, load=replace(of.load, pacing=pacing, block=10))


def counted(anomaly: str, count: int, *arms: str) -> Change:
    """Returns a change that gives each of `arms` `count` cases of `anomaly`, a column of the counts."""

    def change(rows: Rows) -> None:
        for name in arms:
            row = next(row for row in rows["counts/producers.parquet"] if row["arm"] == name and row["producer"] == 0)
            row[anomaly] = count

    return change


def exposed(name: str, **counts: int) -> Change:
    """Returns a change that sets the exposure of the arm `name` in all injections."""

    def change(rows: Rows) -> None:
        for row in rows["counts/exposure.parquet"]:
            if row["arm"] == name:
                row.update(counts)

    return change


def listed(kind: str, *arms: str, at_us: int = AT) -> pa.Table:
    """Returns one case of `kind` for each of `arms`, under way at `at_us`."""
    return cases(*(case(at_us, at_us + 1000, kind, arm=name) for name in arms))


def repeated(of: Scenario, cycles: int) -> dict[str, Any]:
    """Returns what was done and seen in `cycles` cycles, 15 s apart: a leader that was killed."""
    (kill,) = the_injections(of)
    seen, injections = the_observations(of), []
    for cycle in range(1, cycles + 1):
        before_us = (cycles - cycle) * 15 * SECOND
        times = {name: getattr(kill, name) - before_us for name in TIMES}
        injections.append(msgspec.structs.replace(kill, id=cycle, cycle=cycle, **times))
        if before_us:
            exited = Observation(at_us=AT - before_us, kind="process", broker=1, state="exited", exit_code=-9)
            seen += [exited, Observation(at_us=HEALED - before_us, kind="process", broker=1, state="running")]
    return {"injections": injections, "observations": sorted(seen, key=lambda each: each.at_us)}


def in_cycles(of: Scenario, cycles: int, less: Sequence[tuple[str, int]] = ()) -> Change:
    """Returns a change that exposes each arm in each cycle, but for `less`: arms that were exposed less in a cycle."""

    def change(rows: Rows) -> None:
        rows["counts/exposure.parquet"] = [
            {"arm": arm.name, "injection": cycle, "reported": 149 if (arm.name, cycle) in less else 150}
            | {"outstanding": 20}
            for arm in of.loaded
            for cycle in range(1, cycles + 1)
        ]

    return change


def said(of: Scenario, change: Change, **more: Any) -> list[WhichClient]:
    return judged(evidence_of(of, change, **more)).which_client


def the_one(of: Scenario, change: Change, **more: Any) -> WhichClient:
    (one,) = said(of, change, **more)
    return one


def test_a_run_with_one_client_says_nothing_of_clients() -> None:
    assert judged(evidence_of(a_scenario("acks_all"))).which_client == []
    assert judged(evidence_of(a_run(clients="java"))).which_client == []


def test_without_an_anomaly_there_is_nothing_to_attribute() -> None:
    one = the_one(a_run(), lambda rows: None)
    assert (one.answer, one.anomaly, one.arms) == ("none", "", [LOUD, QUIET])
    assert one.sentence == (
        "acks_all and acks_all-java: no anomaly with librdkafka and Java 4.3.1: there is nothing to attribute."
    )


def test_what_both_show_under_one_fault_is_the_brokers_or_the_protocols() -> None:
    one = the_one(a_run(), counted("duplicated", 20, LOUD, QUIET), cases=listed("DUPLICATED", LOUD, QUIET))
    assert (one.answer, one.clients) == ("every", ["librdkafka", "Java 4.3.1"])
    assert "DUPLICATED with every client (librdkafka 20, Java 4.3.1 20)" in one.sentence
    assert one.sentence.endswith("Both: broker or protocol, not one client alone.")


def alone(of: Scenario, name: str, *changes: Change, kind: str = "DUPLICATED") -> WhichClient:
    """What is said if the arm `name` alone shows `kind`, in each of four cycles."""
    times = [AT - before * 15 * SECOND for before in range(4)]
    table = cases(*(case(at_us, at_us + 1, kind, arm=name) for at_us in times))
    change = both(counted(kind.lower(), 20, name), in_cycles(of, 4))
    for each in changes:
        change = both(change, each)
    return the_one(of, change, cases=table, **repeated(of, 4))


def test_what_one_client_alone_shows_is_the_clients() -> None:
    one = alone(a_run(), LOUD)
    assert (one.answer, one.anomaly, one.clients) == ("only", "DUPLICATED", ["librdkafka"])
    assert "in 4 of 4 comparable cycles of faults. Only librdkafka: the client. Where the profile" in one.sentence
    assert one.sentence.endswith("No rule of the contract knows this difference.")
    other = alone(a_run(), QUIET)
    assert (other.answer, other.clients) == ("only", ["Java 4.3.1"])


def test_one_scripted_cycle_excludes_no_race_of_which_the_contract_knows_nothing() -> None:
    one = the_one(a_run(), counted("duplicated", 20, LOUD), cases=listed("DUPLICATED", LOUD))
    assert one.answer == "open" and "1 of 1 comparable cycles of faults, which chance can do" in one.sentence
    assert "repeat the fault with --cycles 8 or more" in one.sentence, "twice the fewest that exclude chance"


def test_records_of_unknown_senders_in_a_topic_are_no_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    assert alone(a_run(), LOUD, kind="MISROUTED").answer == "only"
    monkeypatch.setattr(_Side, "strangers", property(lambda side: int(side.name == LOUD)))
    one = alone(a_run(), LOUD, kind="MISROUTED")
    assert one.answer == "open" and "who sent them is not known" in one.sentence
    assert alone(a_run(), LOUD).answer == "only", "a duplicate is a copy of an attempt"


def test_effects_of_a_user_application_are_no_clients_of_the_arm() -> None:
    members = catalogue.APPLICATIONS["commit_after"]
    own = replace(members, discipline="own", consumer={}, effects="topic")
    for application, answer in ((members, "only"), (own, "open")):
        of = a_run(clients="librdkafka,librdkafka:2.13.0")
        loud, other = (arm.name for arm in of.subjects)
        for name in (loud, other):
            version = of.arm(name).client_version
            of = with_arm(
                of, name, application=replace(application, client_version="" if application is own else version)
            )
        one = alone(of, loud, kind="SKIPPED")
        assert one.answer == answer, one.sentence
    assert "a user application brings its own client" in one.sentence


FAULT_MS = (HEALED - AT) // 1000


@pytest.mark.parametrize(("timeout_ms", "answer"), [(1000, "open"), (FAULT_MS, "open"), (FAULT_MS + 1, "only")])
def test_a_fault_that_outlasts_the_wait_of_one_client_alone_tells_nothing(timeout_ms: int, answer: str) -> None:
    of = a_run()
    for name in (LOUD, QUIET):
        plain = of.arm(name).profile
        of = with_arm(of, name, profile=replace(plain, producer={**plain.producer, "request.timeout.ms": timeout_ms}))
    one = alone(of, LOUD)
    told = "outlasted the lesser of request.timeout.ms and socket.timeout.ms" in one.sentence
    assert (one.answer, told) == (answer, answer == "open")


def test_a_difference_that_the_contract_knows_is_named_with_its_rule() -> None:
    of = a_run("in_flight_1")
    one = the_one(of, counted("reordered", 1, "in_flight_1"), cases=listed("REORDERED", "in_flight_1", at_us=MOVED))
    assert one.answer == "only"
    assert one.sentence.endswith("The contract knows this difference: reordered.one_in_flight.")


def with_late_ends(*refused: dict[str, int]) -> WhichClient:
    """What is said if late ends tear a transaction of librdkafka, and those of Java become `refused`."""
    of = a_run("transactional")
    loud, quiet = of.arm("transactional"), of.arm("transactional-java")
    (kill,) = the_injections(of)
    accepted = facts_of(0, 6000, {"AddPartitionsToTxn": 1})
    proof = {name_of(loud.transactional_ids[0], True, 1): accepted}
    proof |= {name_of(quiet.transactional_ids[0], True, 1): facts for facts in refused}
    late = msgspec.structs.replace(
        kill, id=kill.id + 1, cycle=kill.cycle, action="delay_end", proof={"process_before_heal": proof}
    )
    injections = [kill, late]

    def exposed_to_both(rows: Rows) -> None:
        rows["counts/exposure.parquet"] = [
            {"arm": arm.name, "injection": cause.id, "reported": 150, "outstanding": 20}
            for arm in of.loaded
            for cause in injections
        ]

    counts = {arm.name: TransactionCounts(58, 52, 5) for arm in (loud, quiet)}
    change = both(counted("torn", 20, loud.name), exposed_to_both)
    found = said(of, change, injections=injections, cases=listed("TORN", loud.name), transactions=counts)
    return next(one for one in found if one.arms == [loud.name, quiet.name])


def test_a_late_end_acquits_the_client_whose_end_came_late_and_was_refused() -> None:
    one = with_late_ends(facts_of(90, 6000, {"EndTxn": 1}))
    assert (one.answer, one.clients) == ("only", ["librdkafka"])
    assert one.sentence.endswith("The contract knows this difference: torn.late_end.")
    not_overtaken = with_late_ends(facts_of(90, 6000, {}))
    assert not_overtaken.answer == "open" and "fewer ends of transactions" in not_overtaken.sentence
    assert with_late_ends().answer == "open"


# ---- What would make the sentence lie.


def claiming(of: Scenario, claim: Claim) -> Scenario:
    for subject in of.subjects:
        of = with_arm(of, subject.name, claim=claim)
    return of


def lies() -> dict[str, tuple[Scenario, Change, pa.Table, str]]:
    """Runs in which one client alone shows DUPLICATED, and must not be blamed; each with the reason that is given."""
    of, shown, alone = a_run(), counted("duplicated", 20, LOUD), listed("DUPLICATED", LOUD)
    return {
        "fewer reported": (of, both(shown, exposed(QUIET, reported=149)), alone, "less exposure"),
        "fewer outstanding": (of, both(shown, exposed(QUIET, outstanding=19)), alone, "less exposure"),
        "not exposed": (of, both(shown, exposed(QUIET, reported=0)), alone, "INCONCLUSIVE"),
        "other not exposed": (
            of,
            both(shown, exposed(LOUD, reported=0)),
            alone,
            "acks_all (librdkafka) is INCONCLUSIVE",
        ),
        "convicted in doubt": (
            claiming(of, "at_most_once"),
            both(shown, exposed(LOUD, reported=0)),
            alone,
            "acks_all (librdkafka) has the doubt too_little_exposed",
        ),
        "chance": (replace(of, load=replace(of.load, pacing=SPREAD)), shown, alone, "1 of 1 comparable cycles"),
        "gave up": (
            of,
            both(shown, counted("indeterminate", 1, QUIET), counted("acked", 399, QUIET)),
            alone,
            "more records without an outcome",
        ),
        "between faults": (of, shown, listed("DUPLICATED", LOUD, at_us=AT - 20 * SECOND), "no cycle of faults"),
        "lost instead": (of, both(shown, lost(20, QUIET)), alone, "acks_all-java"),
    }


@pytest.mark.parametrize("name", lies())
def test_a_client_is_not_blamed_where_the_other_had_no_equal_opportunity(name: str) -> None:
    of, change, alone, why = lies()[name]
    answers = {each.anomaly: each for each in said(of, change, cases=alone)}
    one = answers.get("DUPLICATED") or answers[""]
    assert (one.answer, one.clients) == ("open", [])
    assert why in one.sentence, one.sentence
    assert "the client." not in one.sentence and "broker or protocol" not in one.sentence


def test_more_exposure_of_the_client_that_shows_nothing_is_no_obstacle() -> None:
    assert alone(a_run(), LOUD, exposed(QUIET, reported=151, outstanding=21)).answer == "only"


def test_nothing_is_attributed_if_a_verdict_is_withheld() -> None:
    of = a_run()
    canary = counted("lost", 1, of.canary.name)  # the checker itself is in doubt
    one = the_one(of, both(counted("duplicated", 20, LOUD, QUIET), canary), cases=listed("DUPLICATED", LOUD, QUIET))
    assert one.answer == "open" and "is INCONCLUSIVE" in one.sentence


def test_what_the_clients_show_under_different_faults_is_not_one_thing() -> None:
    of = a_run()
    later = AT - 15 * SECOND
    table = pa.concat_tables([listed("DUPLICATED", LOUD), listed("DUPLICATED", QUIET, at_us=later)])
    change = both(counted("duplicated", 20, LOUD, QUIET), in_cycles(of, 2))
    one = the_one(of, change, cases=table, **repeated(of, 2))
    assert one.answer == "open" and "no single fault made every client show it" in one.sentence


def test_what_convicts_one_client_and_is_permitted_to_the_other_is_not_both() -> None:
    of = a_run("in_flight_1")
    names = [arm.name for arm in of.subjects]
    one = the_one(of, counted("reordered", 1, *names), cases=listed("REORDERED", *names, at_us=MOVED))
    assert one.answer == "open"
    assert "it convicts Java 4.3.1, and is permitted with librdkafka" in one.sentence


def test_where_a_rule_of_one_client_permits_it_both_may_be_at_fault() -> None:
    of = claiming(a_run("in_flight_1"), "ordered")
    names = [arm.name for arm in of.subjects]
    one = the_one(of, counted("reordered", 1, *names), cases=listed("REORDERED", *names))
    assert one.answer == "open"
    assert "a rule permits it with librdkafka and not with every client (reordered.one_in_flight)" in one.sentence


def test_resends_are_the_applications_and_never_a_clients() -> None:
    one = the_one(a_run(), counted("resent", 20, LOUD), cases=listed("RESENT", LOUD))
    assert one.answer == "none"


def test_two_versions_of_one_client_tell_no_client_from_the_broker() -> None:
    of = a_run(clients="java:4.1.1,java:4.1.2")
    names = [arm.name for arm in of.subjects]
    assert names == ["acks_all-java-4.1.1", "acks_all-java-4.1.2"]
    one = the_one(of, counted("duplicated", 20, *names), cases=listed("DUPLICATED", *names))
    assert one.answer == "open" and "every arm has Java" in one.sentence
    other = alone(of, names[0])
    assert (other.answer, other.clients) == ("only", ["Java 4.1.1"])


def test_what_librdkafka_and_one_version_of_java_show_is_neithers() -> None:
    of = a_run(clients="librdkafka,java:4.1.1,java:4.1.2")
    names = [arm.name for arm in of.subjects][:2]
    one = the_one(of, counted("duplicated", 20, *names), cases=listed("DUPLICATED", *names))
    assert one.answer == "open" and "several clients show it, and not every version" in one.sentence


@pytest.mark.parametrize(("claims", "groups"), [(("contract", "contract"), 1), (("contract", "ordered"), 0)])
def test_arms_that_differ_in_more_than_the_client_are_not_compared(claims: tuple[Claim, Claim], groups: int) -> None:
    of = a_run()
    for name, claim in zip((LOUD, QUIET), claims, strict=True):
        of = with_arm(of, name, claim=claim)
    assert len(said(of, lambda rows: None)) == groups


# ---- Chance: cycles in which the client that shows nothing was exposed as much.


def shown_in(of_cycles: int, *cycles: int) -> pa.Table:
    times = [AT - (of_cycles - cycle) * 15 * SECOND for cycle in cycles]
    return cases(*(case(at_us, at_us + 1, "DUPLICATED", arm=LOUD) for at_us in times))


@pytest.mark.parametrize(
    ("cycles", "hit", "less", "answer"),
    [
        (3, (1, 2, 3), (), "open"),
        (4, (1, 2, 3, 4), (), "only"),
        (4, (1, 2, 3), (), "open"),
        (5, (1, 2, 3, 4), (), "only"),
        (4, (1, 2, 3, 4), (4,), "open"),
        (5, (1, 2, 3, 4), (5,), "only"),
    ],
)
def test_without_a_script_only_enough_comparable_cycles_exclude_chance(
    cycles: int, hit: tuple[int, ...], less: tuple[int, ...], answer: str
) -> None:
    of = a_run(pacing=SPREAD)
    change = both(counted("duplicated", 20, LOUD), in_cycles(of, cycles, [(QUIET, cycle) for cycle in less]))
    one = the_one(of, change, cases=shown_in(cycles, *hit), **repeated(of, cycles))
    assert one.answer == answer
    hits, trials = len({*hit} - {*less}), cycles - len(less)
    assert f"{hits} of {trials} comparable cycle" in one.sentence


def test_of_three_clients_a_cycle_counts_only_if_both_quiet_ones_were_exposed_as_much() -> None:
    of = a_run(clients="librdkafka,java:4.3.1,java:3.9.2", pacing=SPREAD)
    quiet = [arm.name for arm in of.subjects if arm.name != LOUD]
    change = both(counted("duplicated", 20, LOUD), in_cycles(of, 4, [(quiet[0], 4)]))
    one = the_one(of, change, cases=shown_in(4, 1, 2, 3, 4), **repeated(of, 4))
    assert one.answer == "open" and "3 of 3 comparable cycles" in one.sentence


def test_one_attempt_at_risk_exposes_an_arm() -> None:
    evidence = evidence_of(a_run())
    (verdict,) = [each for each in judged(evidence).arms if each.arm == LOUD]
    side = _Side(evidence.arms[0], verdict)
    for count in (0, 1):
        exposure = [replace(each, reported=count, outstanding=0) for each in verdict.exposure]
        assert dataclasses.replace(side, verdict=replace(verdict, exposure=exposure)).is_exposed == bool(count)


def test_a_script_in_whose_cycles_it_comes_and_goes_leaves_it_to_chance() -> None:
    of = a_run()
    change = both(counted("duplicated", 20, LOUD), in_cycles(of, 2))
    one = the_one(of, change, cases=shown_in(2, 1), **repeated(of, 2))
    assert one.answer == "open" and "1 of 2 comparable cycles of faults, which chance can do" in one.sentence


def test_chance_is_fishers() -> None:
    assert _chance(4, 4) == pytest.approx(2 / 70) and _chance(3, 3) == pytest.approx(0.1)
    assert _chance(0, 5) == 1.0 and _fewest() == 4


def test_the_names_of_the_arms_and_their_clients_stand_in_the_verdict() -> None:
    verdict: RunVerdict = judged(evidence_of(a_run()))
    assert {arm.arm: arm.client for arm in verdict.arms} == {
        "acks_all": "librdkafka",
        "acks_all-java": "Java 4.3.1",
        "control-acks_0": "librdkafka",
        "canary": "librdkafka",
    }
    assert [arm.ordinal for arm in sorted_arms(a_run())] == sorted({arm.ordinal for arm in a_run().arms})


def sorted_arms(of: Scenario) -> list[Arm]:
    return sorted(of.arms, key=lambda arm: arm.ordinal)


def test_a_run_without_a_fault_exposes_nobody_and_says_so() -> None:
    one = the_one(a_run(fault="none"), lambda rows: None)
    assert one.answer == "open" and one.sentence.endswith("because no fault exposed acks_all (librdkafka).")


def test_records_that_may_stand_at_unreadable_offsets_acquit_nobody() -> None:
    of = a_run("acks_1")
    names = [arm.name for arm in of.subjects]
    answers = said(
        of, lost(20, names[0]), cases=listed("LOST", names[0], at_us=MOVED - SECOND), missing={(names[1], 0): 3}
    )
    one = next(each for each in answers if each.anomaly in ("LOST", ""))
    assert one.answer == "open" and "acks_1-java may stand at unreadable offsets" in one.sentence


def test_a_cluster_that_did_something_else_to_one_topic_blames_no_client() -> None:
    of = a_run()
    seen = the_observations(of) + [
        partition(of, AT + 4 * SECOND, QUIET, 1, 2, 0, [2, 3]),
        partition(of, AT + 5 * SECOND, QUIET, 1, 2, 0, [1, 2, 3]),
    ]
    one = the_one(of, counted("duplicated", 20, LOUD), cases=listed("DUPLICATED", LOUD), observations=seen)
    assert one.answer == "open"
    assert "the cluster did not do the same to the topics of acks_all and acks_all-java" in one.sentence
