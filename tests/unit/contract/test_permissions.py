"""Tests that try to get an anomaly permitted wrongly: by a disturbance that was not observed, that was observed on
another topic, that has no proof, or that did not reach enough replicas."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import msgspec
import pytest
from support.evidence import (
    EFFECT_AT,
    RECOVERED,
    RUN,
    SECOND,
    SUBJECT,
    WEAK,
    Change,
    Rows,
    a_scenario,
    arm,
    beats,
    both,
    case,
    cases,
    doubts,
    evidence_of,
    judged,
    lost,
    partition,
    setting,
    the_injections,
    the_observations,
    with_arm,
)

from delivery_verifier.catalogue import PROFILES
from delivery_verifier.contract.disturbances import disturbances, disturbances_of_topic
from delivery_verifier.contract.effect_windows import effect_windows
from delivery_verifier.contract.permissions import permitting
from delivery_verifier.contract.rules import RULES, ContractRule
from delivery_verifier.contract.rulings import contract
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model import fault_actions
from delivery_verifier.model.act import Act
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.coordinators import OF_COORDINATORS, partition_of
from delivery_verifier.model.history import (
    INJECTED,
    LEAD_US,
    ON_TOPICS,
    TRANSACTION_STATE,
    Disturbance,
    DisturbanceKind,
    Injection,
    Observation,
)
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.verdict import ArmVerdict
from delivery_verifier.verdict.transaction_counts import TransactionCounts

CHANGES: list[dict[str, Any]] = [
    {},
    {"min_insync_replicas": 1},
    {"unclean_leader_election": True},
    {"elr": False},
    {"max_in_flight": 1},
    {"retries": 0},
    {"discipline": "at_handover"},
    {"discipline": "commit_first"},
    {"discipline": "database_together"},
]
SETTINGS = [
    replace(Settings.of_profile(profile), **one) for profile, one in itertools.product(PROFILES.values(), CHANGES)
]
CONDITIONAL = [rule for rule in RULES if rule.kinds]


def seen_for(rule: ContractRule, **more: Any) -> list[Disturbance]:
    """Returns the disturbances that the rule requires, with the smallest reach that suffices. `more` overrides fields
    of each disturbance."""
    kinds, window = (*rule.kinds, *rule.also_required), 3 if rule.far_enough_text else 0
    return [
        Disturbance(**{"kind": kind, "at_us": 1, "planned": True, "topic": "t", "replicas": window, **more})
        for kind in kinds
    ]  # type: ignore[arg-type]


def permitted_by(rule: ContractRule, seen: list[Disturbance]) -> list[Settings]:
    """Returns the settings for which this rule is the one that permits the anomaly."""
    return [of for of in SETTINGS if contract(of, seen)[rule.anomaly].rule == rule.id]


@pytest.mark.parametrize("rule", CONDITIONAL, ids=lambda rule: rule.id)
def test_a_rule_gives_nothing_without_each_of_the_disturbances_it_asks_for(rule: ContractRule) -> None:
    explained = permitted_by(rule, seen_for(rule))
    assert explained, (
        "there must be settings that this rule alone explains; see rules/transactions.py for rules derived from a loss"
    )
    for of in explained:
        assert contract(of, [])[rule.anomaly].ruling == "FORBIDDEN"
        for kind in rule.also_required:
            rest = [it for it in seen_for(rule) if it.kind != kind]
            assert contract(of, rest)[rule.anomaly].ruling == "FORBIDDEN"


@pytest.mark.parametrize("rule", CONDITIONAL, ids=lambda rule: rule.id)
def test_a_rule_gives_nothing_for_what_was_seen_on_another_topic(rule: ContractRule) -> None:
    elsewhere = disturbances_of_topic("mine", seen_for(rule, topic="yours"))
    assert all(contract(of, elsewhere)[rule.anomaly].ruling == "FORBIDDEN" for of in permitted_by(rule, seen_for(rule)))


@pytest.mark.parametrize("rule", CONDITIONAL, ids=lambda rule: rule.id)
def test_what_was_not_planned_or_has_no_proof_is_only_ever_a_doubt(rule: ContractRule) -> None:
    for of in permitted_by(rule, seen_for(rule)):
        assert contract(of, seen_for(rule, planned=False))[rule.anomaly].only_unplanned


def test_no_rule_lives_on_a_disturbance_that_may_have_touched_any_topic() -> None:
    of_brokers: set[DisturbanceKind] = {"broker_crash", "broker_stop", "broker_freeze"}
    everywhere = of_brokers | (set(INJECTED) - set(ON_TOPICS) - OF_COORDINATORS)  # these touch arms by their ids
    assert everywhere >= {"power_loss", "isolation", "connection_loss"}
    assert everywhere <= set(get_args(DisturbanceKind))
    assert not any(set(rule.kinds) & everywhere for rule in RULES), "the run would explain arms that were not hurt"


def cut(*brokers: int, took_effect: bool = True) -> Injection:
    """Returns an injection that takes the power of `brokers`. It happens after the kill of the hand-made run."""
    kill = the_injections(RUN)[0]
    return msgspec.structs.replace(
        kill,
        id=2,
        action="test_power",
        brokers=list(brokers),
        effect_at_us=EFFECT_AT + SECOND,
        recovered_at_us=RECOVERED,
        took_effect=took_effect,
    )


@pytest.fixture(autouse=True)
def _power(monkeypatch: pytest.MonkeyPatch) -> None:
    act = Act(name="test_power", summary="", takes_effect=True, momentary=True, counts_as=("power_loss",))
    monkeypatch.setitem(fault_actions.ACTS, act.name, act)


def lost_on(at: int) -> Change:
    where: dict[str, Any] = {"arm": SUBJECT, "producer": 0, "partition": at}
    return both(
        setting("counts/producers.parquet", "lost", 7, **where),
        setting("counts/producers.parquet", "found", 393, **where),
    )


def verdict(change: Change, *cuts: Injection, **more: Any) -> str:
    return arm(
        judged(evidence_of(RUN, both(change, exposed(*cuts)), injections=[*the_injections(RUN), *cuts], **more))
    ).verdict


def exposed(*cuts: Injection) -> Change:
    """Returns a change that adds a row for each of the injections to the table of exposure."""

    def add(rows: Rows) -> None:
        rows["counts/exposure.parquet"] += [
            {"arm": one.name, "injection": cut.id, "reported": 150, "outstanding": 20}
            for one in RUN.loaded
            for cut in cuts
        ]

    return add


def test_the_power_of_all_replicas_explains_a_loss_and_of_two_of_three_none() -> None:
    assert verdict(lost(7), cut(1, 2, 3)) == "HELD"
    assert verdict(lost(7), cut(1, 2)) == "VIOLATED"
    assert verdict(lost(7)) == "VIOLATED"


def test_a_loss_of_power_takes_back_the_past_and_explains_nothing_that_was_sent_afterwards() -> None:
    past, since = ((at, at + SECOND) for at in (EFFECT_AT - 60 * SECOND, RECOVERED + 2 * SECOND))
    assert verdict(lost(7), cut(1, 2, 3), cases=cases(case(*past, arm=SUBJECT))) == "HELD"
    assert (
        verdict(lost(7), cut(1, 2, 3), cases=cases(case(*past, arm=SUBJECT), case(*since, arm=SUBJECT))) == "VIOLATED"
    )


def test_a_loss_between_a_loss_of_power_and_another_injection_is_explained_by_neither() -> None:
    early = msgspec.structs.replace(
        cut(1, 2, 3),
        effect_at_us=EFFECT_AT - 60 * SECOND,
        healed_at_us=EFFECT_AT - 52 * SECOND,
        recovered_at_us=EFFECT_AT - 50 * SECOND,
    )
    before, between = ((at, at + SECOND) for at in (EFFECT_AT - 80 * SECOND, EFFECT_AT - 40 * SECOND))
    assert verdict(lost(7), early, cases=cases(case(*before, arm=SUBJECT))) == "HELD"
    assert verdict(lost(7), early, cases=cases(case(*before, arm=SUBJECT), case(*between, arm=SUBJECT))) == "VIOLATED"


def test_two_reasons_for_one_permission_are_both_told() -> None:
    weak = next(it for it in SETTINGS if it.acks == "1")
    election, power = (next(rule for rule in RULES if rule.id == name) for name in ("lost.acks_1", "lost.power_of_all"))
    ruling = contract(weak, [*seen_for(election), *seen_for(power)])[Anomaly.LOST]
    assert (ruling.rule, {"leader_change", "isr_power_loss"} <= {*ruling.because}) == ("lost.acks_1", True)
    unproven = contract(weak, [*seen_for(election), *seen_for(power, planned=False)])[Anomaly.LOST]
    assert "isr_power_loss" not in unproven.because


def test_a_loss_of_power_without_proof_explains_nothing_and_convicts_nobody() -> None:
    assert verdict(lost(7), cut(1, 2, 3, took_effect=False)) == "INCONCLUSIVE"
    assert verdict(lost(7), cut(1, 2), msgspec.structs.replace(cut(3, took_effect=False), id=3)) == "INCONCLUSIVE"


def test_a_loss_of_power_of_one_partitions_replicas_explains_no_other_partition() -> None:
    shrunk = partition(RUN, EFFECT_AT + SECOND // 2, SUBJECT, 0, 2, 1, [2, 3])
    more: dict[str, Any] = {"observations": [*the_observations(RUN), shrunk]}
    assert verdict(lost_on(0), cut(2, 3), **more) == "HELD"
    assert verdict(lost_on(2), cut(2, 3), **more) == "INCONCLUSIVE"
    injections = [*the_injections(RUN), cut(2, 3)]
    evidence = evidence_of(RUN, both(lost_on(2), exposed(cut(2, 3))), injections=injections, **more)
    assert doubts(judged(evidence)) == {("coverage", "unexplained")}


def test_a_loss_of_power_of_another_arms_replicas_explains_none_of_this_arm() -> None:
    shrunk = [partition(RUN, EFFECT_AT + SECOND // 2, WEAK, at, 2, 1, [2, 3]) for at in range(3)]
    seen = [it for it in the_observations(RUN) if it.at_us <= EFFECT_AT]
    assert verdict(lost_on(1), cut(2, 3), observations=[*seen, *shrunk]) == "VIOLATED"


def test_an_unclean_election_that_nobody_asked_for_convicts_where_the_topic_forbids_it() -> None:
    run = a_scenario("idempotent")
    shrunk = partition(run, EFFECT_AT + SECOND, SUBJECT, 0, 2, 1, [2])
    stale = partition(run, EFFECT_AT + 2 * SECOND, SUBJECT, 0, 3, 2, [3])
    seen = [it for it in the_observations(run) if it.at_us <= EFFECT_AT]
    evidence = evidence_of(run, lost_on(0), observations=[*seen, shrunk, stale])
    subject = next(arm for arm in evidence.arms if arm.name == SUBJECT)
    assert "unclean_election" in {disturbance.kind for disturbance in subject.disturbances}
    assert arm(judged(evidence)).verdict == "VIOLATED"


WRITER = a_scenario("transactional")
OWN = partition_of(WRITER.arm("transactional").transactional_ids[0], 3)
"""The partition of `__transaction_state`, of three, that keeps the transactional.id of the arm."""


def coordinators(*isrs: tuple[int, int, int, list[int]]) -> list[Observation]:
    """Returns observations of three partitions of `__transaction_state`. `isrs`: (partition, at_us, leader, ISR). The
    epoch is the leader's number less one."""
    first = [(at, 1, 1, [1, 2, 3]) for at in range(3)]
    return [
        Observation(at_us=us, kind="partition", topic=TRANSACTION_STATE, partition=at, leader=by, isr=isr)
        if by == 1
        else Observation(
            at_us=us, kind="partition", topic=TRANSACTION_STATE, partition=at, leader=by, leader_epoch=by - 1, isr=isr
        )
        for at, us, by, isr in (*first, *isrs)
    ]


def torn(
    *cuts: Injection, seen: list[Observation], producers: int = 1, producer: int = 0, sent_us: int = EFFECT_AT
) -> ArmVerdict:
    """Returns the verdict on a torn transaction of `producer`, whose topic flushes every record, after `cuts`. Its
    record was acknowledged a second after it was sent."""
    flushed = msgspec.structs.replace(
        WRITER.arm("transactional").profile,
        topic=WRITER.arm("transactional").profile.topic | {"flush.messages": 1},
    )
    run = with_arm(WRITER, "transactional", profile=flushed, producers=producers)
    count = setting("counts/producers.parquet", "torn", 1, arm="transactional", producer=producer, partition=0)
    row = case(sent_us, sent_us + SECOND, "TORN", arm="transactional") | {"producer": producer}
    add = both(count, lambda rows: _expose(rows, run, cuts))
    more: dict[str, Any] = {
        "observations": sorted([*the_observations(run), *seen, *beats()], key=lambda it: it.at_us),
        "injections": [*the_injections(run), *cuts],
        "cases": cases(row),
        "transactions": {"transactional": TransactionCounts(58, 52, 5)},
        "raw": True,
    }
    return arm(judged(evidence_of(run, add, **more)), "transactional")


def _expose(rows: Rows, run: Scenario, cuts: Sequence[Injection]) -> None:
    rows["counts/exposure.parquet"] += [
        {"arm": one.name, "injection": cut.id, "reported": 150, "outstanding": 20} for one in run.loaded for cut in cuts
    ]


def test_a_transaction_log_that_lost_its_power_explains_what_is_torn_and_one_that_kept_it_does_not() -> None:
    assert torn(cut(1, 2, 3), seen=coordinators()).verdict == "HELD"
    assert torn(cut(1, 2), seen=coordinators()).verdict == "VIOLATED"
    assert torn(seen=coordinators()).verdict == "VIOLATED"


def test_a_transaction_log_explains_only_the_transactions_that_it_keeps() -> None:
    others = [at for at in range(3) if at != OWN]
    gone = [(at, EFFECT_AT + SECOND // 2, 2, [2, 3]) for at in others]
    assert torn(cut(2, 3), seen=coordinators(*gone)).verdict == "VIOLATED"
    own = (OWN, EFFECT_AT + SECOND // 2, 2, [2, 3])
    assert torn(cut(2, 3), seen=coordinators(own)).verdict == "HELD"


def test_an_unclean_election_of_another_coordinator_explains_nothing() -> None:
    def unclean(at: int) -> list[Observation]:
        return coordinators((at, EFFECT_AT + SECOND, 2, [2]), (at, EFFECT_AT + 2 * SECOND, 3, [3]))

    own, other = torn(seen=unclean(OWN)), torn(seen=unclean((OWN + 1) % 3))
    assert (own.verdict, "torn.coordinator" in {it.rule for it in own.findings}) == ("INCONCLUSIVE", True)
    assert other.verdict == "VIOLATED"


def test_a_clean_election_of_a_coordinator_that_was_seen_one_look_late_explains_nothing() -> None:
    joined_and_elected = [(OWN, EFFECT_AT + SECOND, 2, [2]), (OWN, EFFECT_AT + 2 * SECOND, 3, [2, 3])]
    assert torn(seen=coordinators(*joined_and_elected)).verdict == "VIOLATED"


def test_a_transaction_log_explains_only_the_producers_whose_transactions_it_keeps() -> None:
    ids = msgspec.structs.replace(WRITER.arm("transactional"), producers=4).transactional_ids
    stranger = next(number for number, name in enumerate(ids) if partition_of(name, 3) != OWN)
    own = (OWN, EFFECT_AT + SECOND // 2, 2, [2, 3])
    assert torn(cut(2, 3), seen=coordinators(own), producers=4).verdict == "HELD"
    verdict = torn(cut(2, 3), seen=coordinators(own), producers=4, producer=stranger)
    assert (verdict.verdict, [(it.kind, it.name) for it in verdict.doubts]) == (
        "INCONCLUSIVE",
        [("coverage", "unexplained")],
    )


@pytest.mark.parametrize(("early_us", "verdict"), [(0, "HELD"), (2 * SECOND, "HELD"), (2 * SECOND + 1, "INCONCLUSIVE")])
def test_a_transaction_log_explains_nothing_from_before_the_loss_of_its_power(early_us: int, verdict: str) -> None:
    # The loss was seen in the time of the kill, whose window begins a second before EFFECT_AT.
    assert torn(cut(1, 2, 3), seen=coordinators(), sent_us=EFFECT_AT - early_us).verdict == verdict


DELAY = msgspec.structs.replace(
    the_injections(WRITER)[0],
    id=3,
    action="delay",
    effect_at_us=EFFECT_AT - 60 * SECOND,
    healed_at_us=EFFECT_AT - 52 * SECOND,
    recovered_at_us=EFFECT_AT - 50 * SECOND,
)
"""An injection that was over long before the kill of the hand-made run, and that permits no torn transaction."""


def test_a_later_loss_of_a_transaction_logs_power_explains_nothing_that_another_injection_did() -> None:
    assert torn(cut(1, 2, 3), DELAY, seen=coordinators()).verdict == "HELD"
    assert torn(cut(1, 2, 3), DELAY, seen=coordinators(), sent_us=EFFECT_AT - 55 * SECOND).verdict == "INCONCLUSIVE"


def test_an_unclean_election_of_a_coordinator_begins_with_the_injection_in_whose_time_it_was_seen() -> None:
    seen = coordinators((OWN, EFFECT_AT + SECOND, 2, [2]), (OWN, EFFECT_AT + 2 * SECOND, 3, [3]))
    injections = the_injections(WRITER)
    (window,) = [
        it
        for it in effect_windows(disturbances(seen, injections), seen, injections)
        if it.disturbance.kind == "unclean_coordinator_election"
    ]
    assert (window.since_us, window.until_us) == (EFFECT_AT - LEAD_US, None)


def test_an_unclean_election_explains_no_transaction_from_before_it() -> None:
    profile = WRITER.arm("transactional").profile
    unclean = msgspec.structs.replace(profile, topic=profile.topic | {"unclean.leader.election.enable": True})
    run = with_arm(WRITER, "transactional", profile=unclean)
    ousted = partition(run, EFFECT_AT + SECOND, "transactional", 0, 2, 1, [2])
    stale = partition(run, EFFECT_AT + 2 * SECOND, "transactional", 0, 3, 2, [3])
    seen = [*(it for it in the_observations(run) if it.at_us <= EFFECT_AT), ousted, stale]
    count = setting("counts/producers.parquet", "torn", 1, arm="transactional", producer=0, partition=0)
    for acked_us, explained in ((EFFECT_AT - SECOND, True), (EFFECT_AT - 55 * SECOND, False)):
        more: dict[str, Any] = {
            "observations": seen,
            "cases": cases(case(acked_us - 1, acked_us, "TORN", arm="transactional")),
            "transactions": {"transactional": TransactionCounts(58, 52, 5)},
            "injections": [*the_injections(run), DELAY],
        }
        verdict = judged(evidence_of(run, both(count, lambda rows: _expose(rows, run, [DELAY])), **more))
        assert (("coverage", "unexplained") not in doubts(verdict, "transactional")) == explained


@pytest.mark.parametrize(
    ("unclean", "planned", "said"),
    [(True, True, "INCONCLUSIVE"), (False, True, "HELD"), (False, False, "INCONCLUSIVE")],
)
def test_a_clean_election_that_was_seen_late_is_a_doubt_where_unclean_ones_are_possible(
    unclean: bool, planned: bool, said: str
) -> None:
    topic = RUN.arm(SUBJECT).profile.topic | {"unclean.leader.election.enable": unclean}
    run = with_arm(RUN, SUBJECT, profile=msgspec.structs.replace(RUN.arm(SUBJECT).profile, topic=topic))
    at_us = RECOVERED if planned else RECOVERED + 2 * SECOND
    back = partition(run, at_us, SUBJECT, 0, 1, 2, [1, 2, 3])  # 1 was out of the ISR when it was last seen
    verdict_of_run = judged(evidence_of(run, observations=[*the_observations(run), back]))
    assert arm(verdict_of_run).verdict == said


PLAIN = Settings.of_profile(PROFILES["acks_all"])
SAFE = Settings.of_profile(PROFILES["safe"])


def loss_of_power(replicas: int) -> Disturbance:
    return Disturbance(kind="isr_power_loss", at_us=1, planned=True, replicas=replicas)


def seen(kind: DisturbanceKind, planned: bool = True, **more: Any) -> Disturbance:
    return Disturbance(kind=kind, at_us=1, planned=planned, **more)


def test_a_permission_names_the_disturbances_it_needs_and_no_others() -> None:
    weak = replace(PLAIN, acks="1")
    change, other = seen("leader_change"), seen("isr_shrink")
    assert permitting(weak, [other, change, other])[Anomaly.LOST] == [change]
    assert Anomaly.LOST not in permitting(weak, [other]) and Anomaly.LOST not in permitting(weak, [])
    assert permitting(PLAIN, [])[Anomaly.DUPLICATED] is None, "a retry needs no disturbance"
    assert permitting(replace(PLAIN, acks="0"), [change])[Anomaly.LOST] is None


def test_a_permission_needs_all_that_its_rule_needs() -> None:
    election, request = seen("unclean_election"), seen("unclean_request")
    assert Anomaly.LOST not in permitting(SAFE, [election]) and Anomaly.LOST not in permitting(SAFE, [request])
    assert permitting(SAFE, [request, election])[Anomaly.LOST] == [election]
    assert permitting(SAFE, [loss_of_power(1), loss_of_power(2)])[Anomaly.LOST] == [loss_of_power(2)]


def test_an_altered_topic_permits_what_its_weakest_settings_permit() -> None:
    loss, altered = loss_of_power(1), seen("topic_altered", setting="min.insync.replicas", value="1")
    assert Anomaly.LOST not in permitting(SAFE, [loss])
    assert permitting(SAFE, [loss, altered])[Anomaly.LOST] == [loss]
    assert permitting(SAFE, [loss, seen("topic_altered", setting="min.insync.replicas", value="2")])[Anomaly.LOST] == [
        loss
    ], "the controller forgets the eligible leaders"
