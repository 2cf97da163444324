"""Tests of what was given up: it stands in the sentence of the arm and of the run, with its setting, its share and the
time for which the brokers were away. It never convicts, and is not said if a count is in doubt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from support.evidence import (
    EFFECT_AT,
    RUN,
    SECOND,
    SUBJECT,
    a_scenario,
    arm,
    evidence_of,
    judged,
    partition,
    setting,
    the_injections,
    the_observations,
    with_arm,
)

from delivery_verifier.model.history import Injection, Observation, left_key
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.unreadable import Unreadable
from delivery_verifier.model.verdict import ArmVerdict
from delivery_verifier.run_directory.given_up import GivenUpCount
from delivery_verifier.verdict.given_up import given_up_of, longest_away_s

TIMED_OUT = [GivenUpCount(0, "_MSG_TIMED_OUT", 40), GivenUpCount(1, "_MSG_TIMED_OUT", 20)]


def of_settings(**producer: Any) -> Scenario:
    """Returns the scenario of a killed leader in which the subject has other producer settings."""
    profile = RUN.arm(SUBJECT).profile
    changed = {name.replace("_", "."): value for name, value in producer.items()}
    return with_arm(RUN, SUBJECT, profile=msgspec.structs.replace(profile, producer=profile.producer | changed))


def verdict_of(counts: list[GivenUpCount], of: Scenario = RUN, **more: Any) -> ArmVerdict:
    return arm(judged(evidence_of(of, given_up={SUBJECT: counts}, **more)))


def test_what_timed_out_is_said_with_its_setting_its_share_and_how_long_the_leader_was_away() -> None:
    subject = verdict_of(TIMED_OUT, of_settings(delivery_timeout_ms=2000))
    assert subject.verdict == "HELD", "nothing was promised about these records"
    assert subject.given_up is not None
    assert (subject.given_up.attempts, subject.given_up.attempted) == (60, 1200)
    assert (subject.given_up.errors, subject.given_up.away_s) == ({"_MSG_TIMED_OUT": 60}, 3.0)
    assert subject.given_up.sentence == (
        "60 of 1,200 records (5 %) were not acknowledged and are not in the log: given up after "
        "delivery.timeout.ms=2000 (message.timeout.ms). One of their partitions had no running leader for 3.0 s."
    )
    assert subject.given_up.changes == [
        "To lose none of them, set delivery.timeout.ms longer than the longest outage, which was 3.0 s here.",
        "The price: failures are known later, and until then the records fill the program's memory.",
    ]


def test_it_stands_between_the_reason_and_the_circumstances_of_the_verdict() -> None:
    verdict = judged(evidence_of(RUN, given_up={SUBJECT: TIMED_OUT}))
    subject = arm(verdict)
    assert subject.given_up is not None
    expected = (
        "HELD: all 1,200 acknowledged records are in the log exactly once and in order. 60 of 1,200 records (5 %) "
        "were not acknowledged and are not in the log: given up after delivery.timeout.ms=120000 (message.timeout.ms). "
        "One of their partitions had no running leader for 3.0 s; the leader was killed once, with"
    )
    assert subject.sentence.startswith(expected) and verdict.sentence.startswith(expected)
    assert subject.given_up.in_a_sentence in verdict.sentence


def test_a_run_that_is_inconclusive_for_another_reason_says_it_too() -> None:
    subject = verdict_of(TIMED_OUT, change=setting("counts/exposure.parquet", "reported", 0, arm=SUBJECT))
    assert (subject.verdict, {doubt.kind for doubt in subject.doubts}) == ("INCONCLUSIVE", {"coverage"})
    assert ". 60 of 1,200 records (5 %) were not acknowledged" in subject.sentence
    assert subject.sentence.endswith("no running leader for 3.0 s.")


def test_where_the_check_itself_is_in_doubt_no_count_is_told() -> None:
    subject = verdict_of(TIMED_OUT, change=setting("counts/invariants.parquet", "left", 8, arm=SUBJECT))
    assert "checker" in {doubt.kind for doubt in subject.doubts}
    assert subject.given_up is None and "not acknowledged" not in subject.sentence


def test_an_arm_that_gave_up_nothing_and_one_of_an_earlier_program_say_nothing() -> None:
    for given_up in ({SUBJECT: []}, {}):
        subject = arm(judged(evidence_of(RUN, given_up=given_up)))
        assert subject.given_up is None and "not acknowledged" not in subject.sentence


def test_several_settings_gave_up_and_the_one_that_gave_up_most_comes_first() -> None:
    counts = [*TIMED_OUT, GivenUpCount(2, "_TRANSPORT", 100), GivenUpCount(2, "", 7), GivenUpCount(2, "INVALID_MSG", 3)]
    given_up = verdict_of(
        [*counts, GivenUpCount(2, "UNKNOWN", 2)], of_settings(retries=9, socket_timeout_ms=1000)
    ).given_up
    assert given_up is not None
    assert (
        "100 given up after retries=9 (message.send.max.retries) on the error _TRANSPORT, 60 given up after "
        "retries=9 (message.send.max.retries) on the error _MSG_TIMED_OUT, 7 left open by a producer that ended, "
        "5 otherwise."
    ) in given_up.sentence
    assert given_up.errors == {"_TRANSPORT": 100, "_MSG_TIMED_OUT": 60, "": 7, "INVALID_MSG": 3, "UNKNOWN": 2}
    assert len(given_up.changes) == len({*given_up.changes}) == 4, "what holds for two of them is said once"


def test_of_a_log_with_unreadable_offsets_only_the_readable_part_is_known() -> None:
    evidence = evidence_of(RUN, given_up={SUBJECT: TIMED_OUT})
    torn = (Unreadable(first=7, end=9, shown_until=7, detail="torn"),)
    parts = [
        msgspec.structs.replace(part, unreadable=torn) if part.arm == SUBJECT else part
        for part in evidence.offsets.partitions
    ]
    evidence = replace(evidence, offsets=msgspec.structs.replace(evidence.offsets, partitions=parts))
    given_up = given_up_of(next(each for each in evidence.arms if each.name == SUBJECT))
    assert given_up is not None and "are not in the readable part of the log: given up after" in given_up.sentence


def test_one_record_is_reported_in_the_singular() -> None:
    evidence = evidence_of(RUN, given_up={SUBJECT: [GivenUpCount(0, "", 1)]})
    assert (
        "1 of 1,200 records (0.0833 %) was not acknowledged and is not in the log: left open by"
        in arm(judged(evidence)).sentence
    )


# A program that ended without flush()

QUEUED = 8


def ended(left: object = QUEUED, action: str = "terminate_producer", took_effect: bool = True) -> Injection:
    proof = {"process": {left_key(SUBJECT): left}}
    (kill,) = the_injections(RUN)
    return msgspec.structs.replace(kill, action=action, brokers=[], took_effect=took_effect, proof=proof)


def how(*injections: Injection, on_sigterm: str = "exit", never_reported: int = QUEUED) -> str:
    """Returns how QUEUED records were given up that never got a report. Of the subject's attempts, `never_reported` got
    none."""
    evidence = evidence_of(
        with_arm(RUN, SUBJECT, on_sigterm=on_sigterm),
        given_up={SUBJECT: [GivenUpCount(0, "", QUEUED)]},
        injections=[*injections],
    )
    subject = next(each for each in evidence.arms if each.name == SUBJECT)
    subject.totals["indeterminate"] = 3 + never_reported
    subject.run.indeterminate[SUBJECT] = 3  # type: ignore[index]
    given_up = given_up_of(subject)
    assert given_up is not None
    return given_up.sentence.partition("not in the log: ")[2].partition(". One of")[0]


LEFT_OPEN = "left open by a producer that ended"


def test_what_a_program_dropped_on_sigterm_is_said_with_its_number() -> None:
    dropped = "dropped by the program, which ended on SIGTERM without flush() and had 8 in its client's queue"
    assert how(ended()) == how(ended(5), ended(3)) == dropped


@pytest.mark.parametrize(
    ("injections", "more"),
    [
        ([ended()], {"on_sigterm": "flush"}),
        ([ended()], {"never_reported": QUEUED + 1}),
        ([ended(QUEUED - 1)], {}),
        ([ended(took_effect=False)], {}),
        ([ended(action="kill_producer")], {}),
        ([ended("8")], {}),
        ([], {}),
    ],
    ids=["flushed", "more were left open", "fewer were left", "not proven", "killed", "no number", "none"],
)
def test_without_proof_that_all_comes_from_there_sigterm_is_not_named(
    injections: list[Injection], more: dict[str, Any]
) -> None:
    assert how(*injections, **more) == LEFT_OPEN


# How long the brokers were away


def seen(at_s: float, leader: int, at: int = 0, topic: str = "t") -> Observation:
    return Observation(at_us=int(at_s * SECOND), kind="partition", topic=topic, partition=at, leader=leader)


def process(at_s: float, broker: int, state: str) -> Observation:
    return Observation(at_us=int(at_s * SECOND), kind="process", broker=broker, state=state)


def away_s(*observations: Observation, partitions: tuple[int, ...] = (0,)) -> float:
    return longest_away_s(observations, "t", partitions)


def test_a_frozen_leader_of_the_only_replica_is_away_until_it_goes_on() -> None:
    assert away_s(seen(0, 1), process(10, 1, "frozen"), process(20.2, 1, "running"), seen(30, 1)) == pytest.approx(10.2)
    lost = (seen(0, 1), process(10, 1, "frozen"), seen(16, -1), process(20, 1, "running"), seen(21.5, 1))
    assert away_s(*lost) == pytest.approx(11.5), "it goes on, and does not lead yet"


def test_with_three_replicas_it_is_away_until_another_leads() -> None:
    assert away_s(seen(0, 1), process(10, 1, "frozen"), seen(16.5, 2), process(20, 1, "running")) == pytest.approx(6.5)


def test_the_longest_time_counts_of_the_partitions_in_question_alone() -> None:
    twice = (seen(0, 1), seen(5, -1), seen(6, 2), seen(8, -1), seen(11, 1))
    assert away_s(*twice) == 3.0
    others = (seen(0, 1), seen(0, 2, 1), process(3, 2, "exited"), seen(4, -1, 0, "other"), seen(9, 1))
    assert away_s(*others) == 0.0 and away_s(*others, partitions=(0, 1)) == 6.0


def test_while_all_brokers_are_away_a_process_that_runs_again_does_not_lead_yet() -> None:
    killed = (seen(0, 1), process(6, 1, "exited"), process(14.5, 1, "running"))
    assert away_s(*killed, seen(27.5, -1), seen(29.5, 2)) == pytest.approx(23.5), "nobody could say that nobody leads"
    assert away_s(*killed, seen(29.5, 1)) == pytest.approx(23.5), "the only replica leads again"
    assert away_s(*killed, process(40, 3, "running")) == pytest.approx(8.5), "who leads was never observed again"
    assert away_s(*killed, process(16, 1, "exited"), process(40, 3, "running")) == pytest.approx(34.0)


def test_a_leader_that_never_comes_back_is_away_until_the_end_and_one_that_nobody_saw_is_not() -> None:
    assert away_s(seen(0, 1), process(4, 1, "exited"), process(9, 3, "running")) == 5.0
    assert away_s(process(4, 1, "exited"), process(9, 3, "running")) == away_s() == 0.0
    assert longest_away_s(the_observations(RUN), RUN.arm(SUBJECT).topic_name, {0}) == 3.0
    assert longest_away_s(the_observations(RUN), RUN.arm(SUBJECT).topic_name, {1}) == 0.0


def test_without_an_observed_absence_nothing_is_said_of_it() -> None:
    given_up = verdict_of([GivenUpCount(2, "_MSG_TIMED_OUT", 5)]).given_up
    assert given_up is not None and given_up.sentence.endswith("(message.timeout.ms).")
    assert given_up.changes[0].endswith("longer than the longest outage.")


def test_a_single_replica_is_reported_as_three_are() -> None:
    """The leader is frozen and nobody else can lead."""
    one = msgspec.structs.replace(
        a_scenario("acks_all", "pause_leader"), load=msgspec.structs.replace(RUN.load, replication_factor=1)
    )
    leaders = [partition(one, 1, name, at, 1, 0, [1]) for name in one.arm_names for at in range(3)]
    frozen = [
        Observation(at_us=EFFECT_AT, kind="process", broker=1, state="frozen"),
        Observation(at_us=EFFECT_AT + 10 * SECOND, kind="process", broker=1, state="running"),
    ]
    evidence = evidence_of(one, given_up={"acks_all": TIMED_OUT}, observations=[*leaders, *frozen])
    subject = arm(judged(evidence), "acks_all")
    assert subject.given_up is not None and "no running leader for 10.0 s" in subject.sentence
