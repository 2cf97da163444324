"""Tests of the explanation of a single case: the first and the last microsecond in which a disturbance explains, and
what is not known of a case."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from support.evidence import (
    ABOVE,
    CUT,
    EFFECT_AT,
    SECOND,
    a_scenario,
    beat,
    case,
    cases,
    evidence_of,
    partition,
    the_observations,
)

from delivery_verifier.contract.effect_windows import EffectWindow
from delivery_verifier.contract.elections import Answer, Elections, Tenure
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.history import Disturbance, Observation
from delivery_verifier.verdict.cases import Case
from delivery_verifier.verdict.evidence import ArmEvidence
from delivery_verifier.verdict.explained_by import (
    _is_proven,
    _permissions,
    _proven_since_us,
    explained_by_which,
    explained_cases_of,
    unexplained_doubts,
)
from delivery_verifier.verdict.truncations import Causes, Fate

RUN, NAME = a_scenario("acks_1"), "acks_1"
LAG, CLIENT = 1_000_000, 2_000_000
"""How long (µs) the observer, and a client, may learn of something late."""
AT, SINCE, UNTIL = 100 * SECOND, 99 * SECOND, 110 * SECOND
LOST, DUPLICATED, TORN = Anomaly.LOST, Anomaly.DUPLICATED, Anomaly.TORN


def window(at_us: int = AT, since_us: int | None = SINCE, until_us: int | None = UNTIL, **more: Any) -> EffectWindow:
    """Returns the effect window of a change of the leader of partition 0."""
    place = {"topic": "t", "partitions": [0]} | more
    return EffectWindow(Disturbance(kind="leader_change", at_us=at_us, planned=True, **place), since_us, until_us, 0)


def record(sent_us: int | None, settled_us: int | None, at: int | None = 0, producer: int | None = 0) -> Case:
    return Case("a", ("LOST",), producer, at, sent_us, settled_us, acked_offset=ABOVE)


def place(*changes_us: int) -> Elections:
    """Returns elections in which one leader acknowledged everything, and each later one had CUT records of it."""
    epochs = dict(zip(changes_us, range(1, len(changes_us) + 1), strict=True))
    answers = tuple(Answer(at_us, {0: 0, epoch: CUT}) for at_us, epoch in epochs.items())
    seen = tuple((epoch, at_us) for at_us, epoch in epochs.items())
    return Elections((Tenure(0, None, None, ()),), seen, answers)


def explained(anomaly: Anomaly, of: Case, by: EffectWindow) -> bool:
    return explained_by_which(anomaly, of, Causes([by]), {0: place(AT), 1: place()}) == 0


@pytest.mark.parametrize(
    ("settled_us", "explained_by"),
    [
        (SINCE - 1, False),
        (SINCE, True),
        (10 * UNTIL, True),
        (None, False),
    ],
)
def test_a_loss_is_explained_from_the_first_moment_of_its_acknowledgement(
    settled_us: int | None, explained_by: bool
) -> None:
    assert explained(LOST, record(SINCE - 5, settled_us), window()) is explained_by


@pytest.mark.parametrize(
    ("sent_us", "at", "explained_by"),
    [
        (SINCE - 5, 0, True),
        (UNTIL + LAG + CLIENT + 1, 0, False),
        (SINCE - 5, 1, False),
        (SINCE - 5, None, False),
    ],
)
def test_an_effect_is_explained_if_its_record_was_sent_to_the_partition_before_the_end(
    sent_us: int, at: int | None, explained_by: bool
) -> None:
    assert explained(Anomaly.SKIPPED, record(sent_us, sent_us + 1, at=at), window()) is explained_by


@pytest.mark.parametrize("anomaly", [LOST, DUPLICATED])
def test_a_record_elsewhere_or_nobody_knows_where_or_when_is_not_explained(anomaly: Anomaly) -> None:
    assert explained(anomaly, record(AT, AT + 1), window())
    assert not explained(anomaly, record(AT, AT + 1, at=1), window())
    for by in (window(), window(topic="", partitions=[])):
        assert not explained(anomaly, record(AT, AT + 1, at=None), by)
    assert not explained(anomaly, record(None, AT), window())
    assert not explained(anomaly, record(None, None), window(since_us=None, until_us=None))


def test_a_loss_whose_acknowledgement_nobody_saw_is_not_explained_even_without_an_end() -> None:
    assert not explained(LOST, record(AT, None), window(since_us=None, until_us=None))
    assert explained(LOST, record(AT, AT), window(since_us=None, until_us=None))
    assert explained(LOST, record(1, 2), window(since_us=None))
    assert explained(LOST, record(AT, 10 * UNTIL), window(until_us=None))


@pytest.mark.parametrize("anomaly", [LOST, TORN])
def test_a_record_that_was_sent_after_the_reach_is_not_explained(anomaly: Anomaly) -> None:
    for sent_us, explained_by in ((UNTIL + LAG, True), (UNTIL + LAG + 1, False)):
        assert explained(anomaly, record(sent_us, sent_us + 1), window()) is explained_by


@pytest.mark.parametrize(
    ("sent_us", "settled_us", "explained_by"),
    [
        (1, AT - LAG - 1, False),
        (1, AT - LAG, True),
        (1, None, True),
        (UNTIL + LAG + CLIENT, None, True),
        (UNTIL + LAG + CLIENT + 1, None, False),
        (UNTIL + LAG + CLIENT, 2 * UNTIL, True),
    ],
)
def test_a_copy_is_explained_if_its_record_was_under_way_after_the_disturbance(
    sent_us: int, settled_us: int | None, explained_by: bool
) -> None:
    assert explained(DUPLICATED, record(sent_us, settled_us), window()) is explained_by


@pytest.mark.parametrize(
    ("sent_us", "settled_us", "explained_by"),
    [
        (1, SINCE - 1, False),
        (1, SINCE, True),
        (SINCE - 1, None, False),
        (SINCE, None, True),
        (UNTIL + LAG, 2 * UNTIL, True),
    ],
)
def test_a_transaction_is_open_from_the_sending_until_the_record_is_settled(
    sent_us: int, settled_us: int | None, explained_by: bool
) -> None:
    for at in (0, 1, None):  # what befell one partition of a transaction shows in the others, too
        assert explained(TORN, record(sent_us, settled_us, at), window()) is explained_by
    assert explained(TORN, record(sent_us, settled_us), window(since_us=None))


def test_a_disturbance_of_the_transactions_of_some_producers_explains_no_others() -> None:
    of_producer = window(producers=[4])
    assert explained(TORN, record(AT, AT, producer=4), of_producer)
    assert not explained(TORN, record(AT, AT, producer=5), of_producer)
    assert not explained(TORN, record(AT, AT, producer=None), of_producer)


def test_of_several_disturbances_the_nearest_explains() -> None:
    several = [window(at_us=AT - 9 * SECOND, since_us=None), window(at_us=AT + 2), window(at_us=AT + 5 * SECOND)]
    causes = Causes(several)
    assert explained_by_which(DUPLICATED, record(AT + 4 * SECOND, None), causes, {}) == 2
    assert explained_by_which(DUPLICATED, record(1, AT - 9 * SECOND), causes, {}) == 0
    assert explained_by_which(DUPLICATED, record(AT, AT), Causes([]), {}) is Fate.UNKNOWN


def test_of_several_changes_that_nobody_answered_one_by_one_the_nearest_took_the_record() -> None:
    several = [window(at_us=AT - 9 * SECOND, since_us=None), window(at_us=AT + 2), window(at_us=AT + 5 * SECOND)]
    seen = tuple((number, each.disturbance.at_us) for number, each in enumerate(several, 1))
    last = Elections((Tenure(0, None, None, ()),), seen, (Answer(AT + 6 * SECOND, {0: 0, 3: CUT}),))
    for settled_us, nearest in ((AT - 8 * SECOND, 0), (AT + 1, 1), (AT + SECOND, 1), (AT + 4 * SECOND, 2)):
        expected = nearest if settled_us >= SINCE else 0
        assert explained_by_which(LOST, record(1, settled_us), Causes(several), {0: last}) == expected


@pytest.mark.parametrize(
    ("of", "since_us", "certain"),
    [
        (record(AT, AT), {0: AT}, True),
        (record(AT, None), {0: 1}, True),
        (record(AT, AT), {0: AT + 1}, False),
        (record(AT, AT), {1: 1}, False),
        (record(AT, AT, at=None), {0: 1}, False),
        (record(None, AT), {0: 1}, False),
    ],
)
def test_a_loss_convicts_only_if_its_place_and_time_and_the_leaders_of_its_partition_are_known(
    of: Case, since_us: dict[int, int], certain: bool
) -> None:
    assert _is_proven(LOST, of, since_us) is certain
    assert _is_proven(DUPLICATED, of, since_us), "where a copy stands needs no observer"
    assert not _is_proven(TORN, of, since_us)


def arm_with(**more: Any) -> ArmEvidence:
    """Returns the run's subject, a weak arm."""
    return next(arm for arm in evidence_of(RUN, **more).arms if arm.name == NAME)


def test_every_case_is_counted_once_as_explained_unexplained_or_doubtful() -> None:
    late = EFFECT_AT + 60 * SECOND
    rows = [
        *[case(EFFECT_AT - number, EFFECT_AT - number + 1, arm=NAME) for number in range(3)],
        *[case(late + number, late + number + 1, arm=NAME) for number in range(2)],
        *[case(EFFECT_AT, None, arm=NAME) for _ in range(4)],
        case(late, late + 1, "DUPLICATED", "MISPLACED", arm=NAME),
        case(late, late + 1, "DUPLICATED", "MISPLACED", arm=NAME),
        case(late, late + 1, "LOST", "MISPLACED", arm=NAME, at=1),
        case(late, late + 1, arm="control-acks_0"),
    ]
    explained_by = explained_cases_of(arm_with(cases=cases(*rows)))
    assert [explanation.count for explanation in explained_by.explained[LOST]] == [3] and not explained_by.explained[
        Anomaly.MISPLACED
    ]
    assert not explained_by.explained[DUPLICATED], "retries need no disturbance"
    assert explained_by.cases == {LOST: 3} and explained_by.hidden == {Anomaly.MISPLACED: 3}
    assert explained_by.unexplained == {
        (LOST, 0, 0): 2,
        (LOST, 0, 1): 1,
        (Anomaly.MISPLACED, 0, 0): 2,
        (Anomaly.MISPLACED, 0, 1): 1,
    }
    assert explained_by.doubtful == {LOST: 4}


def test_a_doubt_about_cases_says_how_many() -> None:
    ((name, detail),) = unexplained_doubts(
        arm_with(cases=cases(case(EFFECT_AT, None, arm=NAME), case(EFFECT_AT, None, arm=NAME)))
    )
    assert name == "unexplained" and detail.startswith(f"{NAME}: 2 LOST of records that may have been acknowledged")
    assert list(unexplained_doubts(arm_with(cases=cases()))) == list(unexplained_doubts(arm_with(cases=None))) == []


def test_the_canary_has_no_explains_and_an_arm_without_cases_has_none_by_anomaly() -> None:
    evidence = evidence_of(RUN, cases=cases(case(EFFECT_AT, EFFECT_AT, arm="canary")))
    assert explained_cases_of(evidence.canary).explained == {}
    permitted = (LOST, Anomaly.MISPLACED, DUPLICATED, Anomaly.REORDERED)
    assert explained_cases_of(arm_with(cases=None)).explained == {anomaly: [] for anomaly in permitted}


def proven(*more: Observation, heartbeats: bool = True, **changes: Any) -> dict[int, int]:
    """Returns since when the observer missed no leader, if it saw `more` and partition 1 of the snapshot changes."""
    seen = [
        each for each in the_observations(RUN) if each.kind == "partition" and each.topic == RUN.arm(NAME).topic_name
    ]
    observations = [*seen, *more, *([beat(1)] if heartbeats else [])]
    plain = evidence_of(RUN)
    parts = [
        msgspec.structs.replace(part, **changes) if (part.arm, part.partition) == (NAME, 1) else part
        for part in plain.offsets.partitions
    ]
    offsets = msgspec.structs.replace(plain.offsets, partitions=parts)
    return _proven_since_us(arm_with(observations=observations, offsets=offsets, raw=True))


def test_no_leader_was_missed_where_the_last_observation_agrees_with_the_snapshot() -> None:
    everywhere = {0: 1, 1: 1, 2: 1}
    assert proven() == everywhere
    assert proven(leader=9) == proven(leader_epoch=9) == proven(leader_epoch=-1) == {0: 1, 2: 1}
    assert proven(heartbeats=False) == {}
    later = partition(RUN, EFFECT_AT, NAME, 1, 3, 5, [3])
    assert proven(later) == {0: 1, 2: 1}
    assert proven(later, leader=3, leader_epoch=5) == everywhere
    elsewhere = partition(RUN, 0, "control-acks_0", 1, 3, 5, [3])
    assert proven(elsewhere) == everywhere


def test_a_partition_without_any_leader_epoch_is_never_proven() -> None:
    unknown = partition(RUN, 5, NAME, 1, 2, -1, [2])
    assert proven(unknown, leader=2, leader_epoch=-1) == {0: 1, 2: 1}


def test_a_change_of_leader_may_have_been_unclean_if_one_of_several_causes_is_an_unclean_election() -> None:
    plain = RUN.arm(NAME)
    topic = {**plain.profile.topic, "unclean.leader.election.enable": True}
    unclean = msgspec.structs.replace(plain, profile=msgspec.structs.replace(plain.profile, topic=topic))
    arms = [unclean if arm.name == NAME else arm for arm in RUN.arms]
    run = msgspec.structs.replace(RUN, arms=arms)
    elected = partition(run, EFFECT_AT + 4 * SECOND, NAME, 0, 1, 2, [1])
    evidence = evidence_of(run, observations=[*the_observations(run), elected])
    (arm,) = (arm for arm in evidence.loaded if arm.name == NAME)
    causes = _permissions(arm)[LOST]
    assert causes is not None
    assert {each.disturbance.kind for each in causes.windows} > {"unclean_election"}
    assert {each.disturbance.kind for each in causes.possible} == {"leader_change"}
