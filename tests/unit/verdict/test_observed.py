"""The verdict of a run with the fault `observe`: somebody else broke brokers, and what nobody saw convicts nobody."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from support.evidence import (
    EFFECT_AT,
    LAST,
    RECOVERED,
    SECOND,
    Change,
    Rows,
    a_scenario,
    answered,
    arm,
    beats,
    doubts,
    evidence_of,
    judged,
    looks,
    lost,
    partition,
    setting,
)

from delivery_verifier.contract.outside import Outside, injections_from_outside
from delivery_verifier.model.external_cluster import ClusterAccess, ExternalCluster
from delivery_verifier.model.history import Injection, Observation
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.verdict.limits import limits

CLUSTER = ExternalCluster(access=ClusterAccess(bootstrap_server="b:1"), cluster_id="an-id", brokers=(1, 2, 3))


def observed(profile: str = "idempotent") -> Scenario:
    run = a_scenario(profile, fault="observe")
    return msgspec.structs.replace(run, cluster=msgspec.structs.replace(run.cluster, external=CLUSTER))


RUN = observed()
NAME = "idempotent"


def says(at_us: int, broker: int, state: str) -> Observation:
    return Observation(at_us=at_us, kind="answers", broker=broker, state=state, pause_us=SECOND // 10)


def killed(run: Scenario = RUN) -> list[Observation]:
    """Broker 1 is killed, and comes back: it refuses, is deposed after 3 s, and leads again at RECOVERED."""
    names = run.arm_names
    return [
        *(says(1, broker, "answers") for broker in (1, 2, 3)),
        *(partition(run, 1, name, at, at + 1, 0, [1, 2, 3]) for name in names for at in range(3)),
        says(EFFECT_AT + SECOND // 10, 1, "refuses"),
        *(
            partition(run, EFFECT_AT + 3 * SECOND, name, at, 2 if at == 0 else at + 1, at == 0, [2, 3])
            for name in names
            for at in range(3)
        ),
        says(EFFECT_AT + 5 * SECOND, 1, "answers"),
        *(
            partition(run, RECOVERED - SECOND, name, at, 2 if at == 0 else at + 1, at == 0, [1, 2, 3])
            for name in names
            for at in range(3)
        ),
        *(partition(run, RECOVERED, name, 0, 1, 2, [1, 2, 3]) for name in names),
    ]


def derived(run: Scenario, seen: list[Observation]) -> list[Injection]:
    replicas = {(each.topic_name, at): frozenset({1, 2, 3}) for each in run.loaded for at in range(3)}
    return injections_from_outside(seen, Outside(replicas, (2, LAST)), first_id=1)


def verdict_of(*changes: Any, more: list[Observation] | None = None, run: Scenario = RUN, **given: Any) -> Any:
    seen = sorted([*killed(run), *beats(), *(more or [])], key=lambda each: each.at_us)
    evidence = evidence_of(run, *changes, **{"observations": seen, "injections": derived(run, seen), **given})
    return judged(evidence), evidence


def test_what_somebody_else_broke_is_named_with_its_broker_and_the_strong_arm_is_held() -> None:
    verdict, evidence = verdict_of()
    assert [each.brokers for each in evidence.injections] == [[1]]
    assert all(each.planned for each in evidence.disturbances)
    assert arm(verdict, NAME).verdict == "HELD", doubts(verdict, NAME)
    assert "broker 1 was taken out by somebody else once" in arm(verdict, NAME).sentence
    said = " ".join(limits(evidence))
    assert (
        "Somebody else broke the brokers, and nobody saw how." in said and "clocks of the brokers were not read" in said
    )
    assert "broker.session.timeout.ms=60000, replica.lag.time.max.ms=30000, and leaders do move back" in said


def test_a_loss_that_one_broker_cannot_explain_still_violates() -> None:
    verdict, _ = verdict_of(lost(1, NAME))
    assert arm(verdict, NAME).verdict == "VIOLATED", doubts(verdict, NAME)


def test_nothing_broken_is_inconclusive_and_says_what_to_do() -> None:
    quiet = [each for each in killed() if each.at_us == 1]
    verdict, _ = verdict_of(observations=[*quiet, *beats()], injections=[])
    assert arm(verdict, NAME).verdict == "INCONCLUSIVE"
    assert ("coverage", "nothing_broken") in doubts(verdict, NAME)
    (doubt,) = (each for each in arm(verdict, NAME).doubts if each.name == "nothing_broken")
    assert "kubectl delete pod" in doubt.remedy


def test_an_injection_that_was_not_derived_leaves_its_disturbances_unplanned() -> None:
    verdict, _ = verdict_of(lost(1, NAME), injections=[])
    assert {
        ("coverage", "nothing_broken"),
        ("coverage", "unplanned_disturbance"),
        ("checker", "brokers_unwatched"),
    } <= (doubts(verdict, NAME))


OUTAGE = [says(EFFECT_AT + SECOND // 5, broker, "refuses") for broker in (2, 3)] + [
    says(EFFECT_AT + 2 * SECOND, broker, "answers") for broker in (2, 3)
]


def test_an_outage_of_a_whole_isr_convicts_nobody_and_forbids_no_held() -> None:
    verdict, evidence = verdict_of(more=OUTAGE)
    assert any(each.kind == "outage" for each in evidence.disturbances)
    assert arm(verdict, NAME).verdict == "HELD", doubts(verdict, NAME)
    verdict, _ = verdict_of(lost(1, NAME), more=OUTAGE)
    assert arm(verdict, NAME).verdict == "INCONCLUSIVE"
    assert doubts(verdict, NAME) == {("checker", "brokers_unwatched")}
    topic = RUN.arm(NAME).topic_name
    first = next(each for each in evidence.disturbances if (each.kind, each.topic) == ("outage", topic))
    assert any(f"{first.detail}: nobody saw whether they did" in each.detail for each in arm(verdict, NAME).doubts)
    verdict, _ = verdict_of(
        setting("counts/producers.parquet", "duplicated", 1, arm=NAME, producer=0, partition=0), more=OUTAGE
    )
    assert arm(verdict, NAME).verdict == "VIOLATED", "no loss of power writes a record twice"


def test_a_claim_that_asks_for_more_is_refuted_whatever_took_the_record() -> None:
    arms = tuple(
        msgspec.structs.replace(each, claim="at_least_once") if each.role == "subject" else each for each in RUN.arms
    )
    claimed = msgspec.structs.replace(RUN, arms=arms)
    verdict, _ = verdict_of(lost(1, NAME), more=OUTAGE, run=claimed)
    assert arm(verdict, NAME).verdict == "VIOLATED"


def test_who_asked_for_an_unclean_election_is_not_known() -> None:
    at_us = EFFECT_AT + 4 * SECOND
    unclean = [partition(RUN, at_us - SECOND // 2, NAME, 0, -1, 2, [2]), partition(RUN, at_us, NAME, 0, 3, 3, [3])]
    verdict, evidence = verdict_of(lost(1, NAME), more=unclean)
    assert any(each.kind == "unclean_election" for each in evidence.disturbances)
    assert arm(verdict, NAME).verdict == "INCONCLUSIVE"
    assert ("checker", "brokers_unwatched") in doubts(verdict, NAME)
    assert any("nobody saw who asked for the unclean election" in each.detail for each in arm(verdict, NAME).doubts)


def test_who_stops_flushing_for_a_time_in_which_nobody_looks_is_not_known() -> None:
    profile = RUN.arm(NAME).profile
    flushing = msgspec.structs.replace(profile, topic={**profile.topic, "flush.messages": 1})
    arms = tuple(msgspec.structs.replace(each, profile=flushing) if each.name == NAME else each for each in RUN.arms)
    run = msgspec.structs.replace(RUN, arms=arms)
    for looked, expected in ((looks(), "VIOLATED"), (looks(without=(1, EFFECT_AT + 9 * SECOND)), "INCONCLUSIVE")):
        verdict, _ = verdict_of(lost(1, NAME), more=[*OUTAGE, *looked], run=run)
        assert arm(verdict, NAME).verdict == expected, doubts(verdict, NAME)


@pytest.mark.parametrize("column", ["torn", "aborted_visible"])
def test_a_transaction_that_is_torn_while_a_broker_was_silent_convicts_nobody(column: str) -> None:
    run, name = observed("transactional"), "transactional"
    torn = setting("counts/producers.parquet", column, 1, arm=name, producer=0, partition=0)
    verdict, _ = verdict_of(torn, run=run)
    texts = [each.detail for each in arm(verdict, name).doubts if each.name == "brokers_unwatched"]
    (text,) = texts
    assert "may have come late to brokers that did not answer, or were out (1)" in text
    answers = [each for each in killed(run) if each.kind != "answers" or each.state == "answers"]
    cut_off = sorted([*answers, *beats()], key=lambda each: each.at_us)
    verdict, evidence = verdict_of(torn, run=run, observations=cut_off, injections=derived(run, cut_off))
    assert evidence.injections and arm(verdict, name).verdict == "INCONCLUSIVE", "cut off, and answered us throughout"


def test_an_outage_of_a_topic_is_none_of_the_coordinators_of_transactions() -> None:
    run, name = observed("transactional"), "transactional"
    torn = setting("counts/producers.parquet", "torn", 1, arm=name, producer=0, partition=0)
    verdict, evidence = verdict_of(torn, run=run, more=OUTAGE)
    assert any(each.kind == "outage" for each in evidence.disturbances)
    texts = [each.detail for each in arm(verdict, name).doubts if each.name == "brokers_unwatched"]
    assert sum("nobody saw whether they did" in text for text in texts) == 1, texts


def test_a_torn_transaction_while_a_coordinator_stood_still_for_a_second_convicts_nobody() -> None:
    run, name = observed("transactional"), "transactional"
    torn = setting("counts/producers.parquet", "torn", 1, arm=name, producer=0, partition=0)
    late = [says(EFFECT_AT + SECOND, 2, "silent"), says(EFFECT_AT + 3 * SECOND // 2, 2, "answers")]
    verdict, _ = verdict_of(torn, run=run, more=late)
    texts = [each.detail for each in arm(verdict, name).doubts if each.name == "brokers_unwatched"]
    assert any("were out (1, 2)" in text for text in texts), texts


@pytest.mark.parametrize("closed_us", [RECOVERED + 2 * SECOND, EFFECT_AT - 60 * SECOND])
def test_connections_that_were_closed_once_are_no_outage_and_a_loss_still_violates(closed_us: int) -> None:
    closed = [says(closed_us, broker, "refuses") for broker in (1, 2, 3)]
    closed += [says(closed_us + SECOND // 10, broker, "answers") for broker in (1, 2, 3)]
    verdict, _ = verdict_of(lost(1, NAME), more=closed)
    assert arm(verdict, NAME).verdict == "VIOLATED", doubts(verdict, NAME)


def test_an_outage_that_was_over_before_the_load_explains_no_loss() -> None:
    early = [msgspec.structs.replace(each, at_us=each.at_us - 90 * SECOND) for each in OUTAGE]
    early += [says(EFFECT_AT - 90 * SECOND, 1, "refuses"), says(EFFECT_AT - 80 * SECOND, 1, "answers")]
    for began_us, expected in ((1, "INCONCLUSIVE"), (EFFECT_AT - 70 * SECOND, "VIOLATED")):
        verdict, _ = verdict_of(lost(1, NAME), more=early, load_began_us=began_us)
        assert arm(verdict, NAME).verdict == expected, doubts(verdict, NAME)


def test_a_topic_that_somebody_altered_and_set_back_is_inconclusive() -> None:
    topic = RUN.arm(NAME).topic_name
    values = [(1, "2"), (EFFECT_AT, "1"), (EFFECT_AT + 2 * SECOND, "2")]
    altered = [
        Observation(at_us=at_us, kind="setting", topic=topic, setting="min.insync.replicas", value=value)
        for at_us, value in values
    ]
    verdict, _ = verdict_of(lost(1, NAME), more=altered)
    assert arm(verdict, NAME).verdict == "INCONCLUSIVE"
    assert ("coverage", "unplanned_disturbance") in doubts(verdict, NAME)
    assert arm(verdict_of(more=altered[:1])[0], NAME).verdict == "HELD"
    later = [msgspec.structs.replace(altered[1], at_us=EFFECT_AT + SECOND // 2)]
    assert ("coverage", "unplanned_disturbance") in doubts(verdict_of(more=[altered[0], *later])[0], NAME)


def last_of_the_isr(run: Scenario = RUN) -> list[Observation]:
    """Brokers 1 and 3 are cut off from the others. Then broker 2, the last one in sync, refuses for a second."""
    names, after = run.arm_names, EFFECT_AT + 2 * SECOND

    def states(at_us: int, epoch: int, isr: list[int]) -> list[Observation]:
        return [partition(run, at_us, name, at, 2, epoch * (at != 1), isr) for name in names for at in range(3)]

    return [
        *killed(run)[: 3 + 3 * len(names)],
        *states(after, 1, [2]),
        *(says(after + SECOND, 2, "refuses"), says(after + 2 * SECOND, 2, "answers")),
        *states(RECOVERED - SECOND, 1, [1, 2, 3]),
        *(partition(run, RECOVERED, name, at, at + 1, 2 * (at != 1), [1, 2, 3]) for name in names for at in range(3)),
    ]


def of_two(change: Change = lambda rows: None) -> Change:
    """`change`, and counts of exposure to a second injection."""

    def changed(rows: Rows) -> None:
        rows["counts/exposure.parquet"] += [each | {"injection": 2} for each in rows["counts/exposure.parquet"]]
        change(rows)

    return changed


@pytest.mark.parametrize(
    ("looked", "text"),
    [
        (looks(without=(EFFECT_AT, EFFECT_AT + 4 * SECOND)), "not for 5.0 s"),
        (looks()[:50], "not for 63.0 s"),
        (looks()[-50:], "not for 62.0 s"),
    ],
    ids=["meanwhile", "no_more", "too_late"],
)
def test_settings_that_nobody_looked_at_doubt_what_an_alteration_permits_and_nothing_else(
    looked: list[Observation], text: str
) -> None:
    seen = [*last_of_the_isr(), *beats()]
    every = [sorted([*seen, *it], key=lambda each: each.at_us) for it in (looks(), looked)]
    given: list[dict[str, Any]] = [{"observations": it, "injections": derived(RUN, it)} for it in every]
    watched, unwatched = given
    assert arm(verdict_of(of_two(lost(1, NAME)), **watched)[0], NAME).verdict == "VIOLATED", "min.insync.replicas was 2"
    two_s = sorted([*seen, *looks(without=(EFFECT_AT, EFFECT_AT + SECOND))], key=lambda each: each.at_us)
    verdict, _ = verdict_of(of_two(lost(1, NAME)), observations=two_s, injections=derived(RUN, two_s))
    assert arm(verdict, NAME).verdict == "VIOLATED", "the longest time in which an alteration is seen"
    verdict, _ = verdict_of(of_two(lost(1, NAME)), **unwatched)
    assert arm(verdict, NAME).verdict == "INCONCLUSIVE"
    (doubt,) = arm(verdict, NAME).doubts
    assert f"the settings of its topic were {text} looked at" in doubt.detail
    verdict, evidence = verdict_of(of_two(), **unwatched)
    assert arm(verdict, NAME).verdict == "HELD", doubts(verdict, NAME)
    assert any(text in each for each in limits(evidence))
    repeated = setting("counts/producers.parquet", "duplicated", 1, arm=NAME, producer=0, partition=0)
    assert arm(verdict_of(of_two(repeated), **unwatched)[0], NAME).verdict == "VIOLATED", "no setting lets that happen"


def test_settings_that_nobody_could_look_at_at_all_are_said_to_be_so() -> None:
    seen = sorted([*last_of_the_isr(), *beats()], key=lambda each: each.at_us)
    evidence = evidence_of(RUN, lost(1, NAME), raw=True, observations=answered(seen), injections=derived(RUN, seen))
    assert "were never looked at" in " ".join(each.detail for each in arm(judged(evidence), NAME).doubts)
    assert any("Nobody could look at their settings" in each for each in limits(evidence))


def test_an_observer_that_paused_meanwhile_is_inconclusive() -> None:
    seen = [*killed(), *beats(without=(EFFECT_AT, EFFECT_AT + 4 * SECOND))]
    verdict, _ = verdict_of(observations=sorted(seen, key=lambda each: each.at_us))
    assert ("checker", "observer_blind") in doubts(verdict, NAME)


def test_an_injection_that_was_not_over_is_inconclusive() -> None:
    seen = [each for each in killed() if each.at_us < RECOVERED]
    every = sorted([*seen, *beats()], key=lambda each: each.at_us)
    verdict, evidence = verdict_of(observations=every, injections=derived(RUN, every))
    assert [each.recovered_at_us for each in evidence.injections] == [None]
    assert ("coverage", "fault_not_healed") in doubts(verdict, NAME)
