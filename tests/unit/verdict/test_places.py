"""A permission has a place in the log: records that were removed where no disturbance can have taken them convict.

Each case was planted on real brokers (bench/campaigns/removed_records.py). Here it is a stored history, under every
weak profile that permits losses after the fault of the history.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest
from support.evidence import (
    ABOVE,
    CUT,
    EFFECT_AT,
    HEALED,
    RECOVERED,
    SECOND,
    Change,
    Rows,
    a_scenario,
    answer,
    arm,
    both,
    case,
    cases,
    evidence_of,
    judged,
    partition,
    setting,
    the_injections,
    the_observations,
    with_arm,
)

from delivery_verifier.catalogue import PROFILES
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep, Trigger
from delivery_verifier.model.history import Injection, Observation
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.verdict import ArmVerdict

S, AT_ONCE = SECOND, Trigger(kind="at_once")
CHANGED = EFFECT_AT + 3 * S
"""When another broker leads partition 0, in every history here."""
BEFORE, AFTER, LATE = (
    (EFFECT_AT - S // 2, EFFECT_AT - S // 2 + 1),
    (CHANGED, CHANGED + 1),
    (RECOVERED + 2 * S, RECOVERED + 3 * S),
)
"""When records were sent and acknowledged: by the old leader, by the new one, and after the cluster had recovered."""


class History(NamedTuple):
    """A run whose weak subject may lose records of partition 0, because of what happened there."""

    run: Scenario
    observations: list[Observation]
    injections: list[Injection]

    @property
    def name(self) -> str:
        return next(it.name for it in self.run.arms if it.role == "subject")


def exited(at_us: int, *brokers: int, back_us: int = 0) -> list[Observation]:
    gone = [Observation(at_us=at_us, kind="process", broker=it, state="exited", exit_code=-9) for it in brokers]
    return [
        *gone,
        *(Observation(at_us=back_us, kind="process", broker=it, state="running") for it in brokers if back_us),
    ]


def killed() -> History:
    """acks=1, and the leader is killed."""
    run = a_scenario("acks_1")
    return History(run, the_observations(run), the_injections(run))


def frozen() -> History:
    """acks=1, and the leader stands still until it is deposed."""
    run = a_scenario("acks_1", "pause_leader")
    (kill,) = the_injections(run)
    seen = [it for it in the_observations(run) if it.at_us < EFFECT_AT]
    seen += [Observation(at_us=EFFECT_AT, kind="process", broker=1, state="frozen")]
    seen += [partition(run, CHANGED, it.name, 0, 2, 1, [2, 3]) for it in run.arms]
    seen += [Observation(at_us=HEALED, kind="process", broker=1, state="running")]
    seen += [partition(run, RECOVERED, it.name, 0, 2, 1, [1, 2, 3]) for it in run.arms]
    return History(run, seen, [msgspec.structs.replace(kill, action="pause")])


def unclean(profile: str) -> History:
    """A broker from outside the ISR is elected, as the topic permits. It is out of the ISR since before the load."""
    settings = PROFILES[profile]
    topic = {**settings.topic, "unclean.leader.election.enable": True}
    run = with_arm(a_scenario(profile), profile, profile=msgspec.structs.replace(settings, topic=topic))
    (kill,) = the_injections(run)
    seen = [it for it in the_observations(run) if it.at_us < EFFECT_AT]
    seen += [partition(run, EFFECT_AT - 20 * S, it.name, 0, 1, 0, [1, 3]) for it in run.arms]
    seen += exited(EFFECT_AT, 1, 3)
    seen += [partition(run, CHANGED, it.name, 0, 2, 1, [2]) for it in run.arms]
    early = msgspec.structs.replace(
        kill, id=2, brokers=[2], effect_at_us=EFFECT_AT - 21 * S, healed_at_us=EFFECT_AT - 19 * S
    )
    both_killed = msgspec.structs.replace(kill, brokers=[1, 3])
    return History(run, seen, [msgspec.structs.replace(early, recovered_at_us=EFFECT_AT - 18 * S), both_killed])


def powerless(profile: str) -> History:
    """All brokers lose power at the same time."""
    steps = tuple(FaultStep(trigger=AT_ONCE, action=action, target="all") for action in ("power_off", "start"))
    plan = FaultPlan(name="power", summary="All brokers lose power.", steps=steps)
    run = msgspec.structs.replace(a_scenario(profile), fault=plan)
    (kill,) = the_injections(run)
    seen = [it for it in the_observations(run) if it.at_us < EFFECT_AT]
    seen += exited(EFFECT_AT, 1, 2, 3, back_us=EFFECT_AT + S)
    seen += [partition(run, CHANGED, it.name, 0, 2, 1, [2, 3]) for it in run.arms]
    cut = msgspec.structs.replace(kill, action="power_off", brokers=[1, 2, 3], healed_at_us=EFFECT_AT + S)
    return History(run, seen, [cut])


WEAK: dict[str, Callable[[], History]] = {
    "acks_1, killed": killed,
    "acks_1, frozen": frozen,
    "acks_1, unclean": lambda: unclean("acks_1"),
    "acks_all, unclean": lambda: unclean("acks_all"),
    "retries_off, unclean": lambda: unclean("retries_off"),
    "in_flight_1, unclean": lambda: unclean("in_flight_1"),
    "idempotent, unclean": lambda: unclean("idempotent"),
    "acks_1, without power": lambda: powerless("acks_1"),
    "acks_all, without power": lambda: powerless("acks_all"),
    "safe, without power": lambda: powerless("safe"),
}


@pytest.fixture(params=WEAK)
def history(request: pytest.FixtureRequest) -> History:
    return WEAK[request.param]()


def lost(name: str, at: int, kind: str) -> Change:
    where: dict[str, Any] = {"arm": name, "producer": 0, "partition": at}
    if kind == "MISPLACED":
        return setting("counts/producers.parquet", "misplaced", 1, **where)
    return both(
        setting("counts/producers.parquet", "lost", 1, **where),
        setting("counts/producers.parquet", "found", 399, **where),
    )


def exposed(of: History) -> Change:
    def change(rows: Rows) -> None:
        rows["counts/exposure.parquet"] = [
            {"arm": it.name, "injection": injection.id, "reported": 150, "outstanding": 20}
            for it in of.run.loaded
            for injection in of.injections
        ]

    return change


def verdict_on(
    of: History, times: tuple[int, int], offset: int, *, at: int = 0, kind: str = "LOST", **more: Any
) -> ArmVerdict:
    """Returns the verdict on the subject of a history, which lost one record that was acknowledged at `offset`."""
    fields: dict[str, Any] = {"acked_offset": offset, "overwritten": False}
    row = case(*times, kind, arm=of.name, at=at, **fields | more.pop("case", {}))
    change = both(lost(of.name, at, kind), exposed(of))
    seen: dict[str, Any] = {"observations": of.observations, "injections": of.injections} | more
    return arm(judged(evidence_of(of.run, change, cases=cases(row), **seen)), of.name)


def rules_of(verdict: ArmVerdict) -> list[str]:
    return [it.rule for it in verdict.findings if it.count + it.also and it.tolerance == 0]


def doubts_of(verdict: ArmVerdict) -> set[tuple[str, str]]:
    return {(it.kind, it.name) for it in verdict.doubts}


@pytest.mark.parametrize("kind", ["LOST", "MISPLACED"])
def test_what_the_new_leader_did_not_have_is_permitted(history: History, kind: str) -> None:
    verdict = verdict_on(history, BEFORE, CUT, kind=kind)
    assert (verdict.verdict, doubts_of(verdict)) == ("HELD", set())
    assert [sum(it.count for it in found.explained_by) for found in verdict.findings if found.count] == [1]


@pytest.mark.parametrize("kind", ["LOST", "MISPLACED"])
@pytest.mark.parametrize("offset", [0, CUT - 1])
def test_a_record_below_the_end_of_the_new_leaders_log_convicts(history: History, offset: int, kind: str) -> None:
    verdict = verdict_on(history, BEFORE, offset, kind=kind)
    assert (verdict.verdict, rules_of(verdict)) == ("VIOLATED", [f"{kind.lower()}.unexplained"])


@pytest.mark.parametrize("kind", ["LOST", "MISPLACED"])
@pytest.mark.parametrize("offset", [CUT, ABOVE])
def test_a_record_that_the_new_leader_acknowledged_convicts(history: History, offset: int, kind: str) -> None:
    verdict = verdict_on(history, AFTER, offset, kind=kind)
    assert (verdict.verdict, rules_of(verdict)) == ("VIOLATED", [f"{kind.lower()}.unexplained"])


@pytest.mark.parametrize("offset", [0, ABOVE])
def test_a_record_on_another_partition_convicts(history: History, offset: int) -> None:
    """Its leader never changed. (A loss of power of all brokers is one of every partition: there it is a doubt.)"""
    verdict = verdict_on(history, BEFORE, offset, at=1)
    if history.injections[0].action == "power_off":
        assert verdict.verdict == "INCONCLUSIVE" and ("coverage", "bound_unseen") in doubts_of(verdict)
        return
    assert verdict.verdict == "VIOLATED"
    assert rules_of(verdict)[0] in ("lost.unexplained", "lost.never")


@pytest.mark.parametrize("offset", [CUT, ABOVE])
def test_a_record_that_was_acknowledged_after_the_recovery_convicts(history: History, offset: int) -> None:
    verdict = verdict_on(history, LATE, offset)
    assert (verdict.verdict, rules_of(verdict)) == ("VIOLATED", ["lost.unexplained"])


@pytest.mark.parametrize("offset", [0, CUT - 1, CUT, ABOVE])
def test_where_no_new_leader_answered_the_case_neither_convicts_nor_is_permitted(history: History, offset: int) -> None:
    seen = [*history.observations, unanswered(history)]
    verdict = verdict_on(history, BEFORE, offset, observations=seen)
    assert (verdict.verdict, doubts_of(verdict)) == ("INCONCLUSIVE", {("coverage", "bound_unseen")})
    assert "how far the logs of new leaders reached" in verdict.doubts[0].detail


def unanswered(of: History) -> Observation:
    """Returns an answer about another partition. So nobody else answers (see `support.evidence.answered`)."""
    seen = next(it for it in of.observations if it.kind == "partition" and it.partition == 2)
    return answer(msgspec.structs.replace(seen, at_us=CHANGED), {0: 0, 1: 5})


def test_a_late_answer_of_the_next_leader_speaks_for_both() -> None:
    of = killed()
    second = [partition(of.run, RECOVERED, it.name, 0, 3, 2, [2, 3]) for it in of.run.arms]
    said = [answer(it, {0: 0, 2: CUT}) for it in second]
    seen = [*of.observations, *exited(RECOVERED - 1, 2), *second, *said]
    (kill,) = of.injections
    of = of._replace(injections=[msgspec.structs.replace(kill, recovered_at_us=RECOVERED + S)], observations=seen)
    assert verdict_on(of, BEFORE, CUT).verdict != "VIOLATED"
    assert verdict_on(of, BEFORE, CUT - 1).verdict == "VIOLATED"


@pytest.mark.parametrize(("overwritten", "verdict"), [(True, "HELD"), (False, "INCONCLUSIVE"), (None, "INCONCLUSIVE")])
def test_where_two_leaders_can_have_acknowledged_a_record_the_log_decides(
    overwritten: bool | None, verdict: str
) -> None:
    """It was under way when the leader was killed, and its report came after the new one had taken over."""
    found = verdict_on(killed(), (EFFECT_AT - 1, CHANGED), ABOVE, case={"overwritten": overwritten})
    assert found.verdict == verdict
    below = verdict_on(killed(), (EFFECT_AT - 1, CHANGED), CUT - 1, case={"overwritten": overwritten})
    assert below.verdict == "VIOLATED", "below the end of the new leader's log, both had it"


def test_a_surviving_copy_in_another_partition_is_no_retry() -> None:
    verdict = verdict_on(killed(), BEFORE, ABOVE, kind="MISPLACED", case={"partitions": [2]})
    assert (verdict.verdict, rules_of(verdict)) == ("VIOLATED", ["misplaced.unexplained"])


def duplicated(profile: str, **more: Any) -> ArmVerdict:
    """Returns the verdict on a record that stands in the log twice."""
    run = a_scenario(profile)
    row = case(EFFECT_AT, CHANGED, "DUPLICATED", arm=profile, **{"partitions": [0, 0]} | more)
    change = setting("counts/producers.parquet", "duplicated", 1, arm=profile, producer=0, partition=0)
    return arm(judged(evidence_of(run, change, cases=cases(row))), profile)


@pytest.mark.parametrize("profile", ["acks_1", "acks_all", "in_flight_1", "retries_off"])
def test_a_copy_that_cannot_be_a_retry_convicts(profile: str) -> None:
    """With retries_off, librdkafka sends again what an old leader refused: the change of leader permits that."""
    retried = duplicated(profile, appended_after=EFFECT_AT - S, appended_before=CHANGED + S)
    assert (retried.verdict, rules_of(retried)) == ("HELD", [])
    for impossible in (
        {"appended_before": EFFECT_AT - S},
        {"appended_after": EFFECT_AT + 60 * S},
        {"partitions": [0, 1]},
    ):
        verdict = duplicated(profile, **impossible)
        assert (verdict.verdict, rules_of(verdict)) == ("VIOLATED", ["duplicated.unexplained"]), impossible
        assert "1 duplicated, which the contract forbids" in verdict.sentence


@pytest.mark.parametrize("profile", ["acks_1", "acks_all", "in_flight_1"])
def test_a_record_that_stands_where_no_retry_can_have_written_it_convicts(profile: str) -> None:
    run = a_scenario(profile)
    change = setting("counts/producers.parquet", "reordered", 1, arm=profile, producer=0, partition=0)
    for late_us, verdict in ((S, "HELD"), (5 * S, "INCONCLUSIVE"), (60 * S, "VIOLATED")):
        row = case(EFFECT_AT, CHANGED, "REORDERED", arm=profile, appended_after=CHANGED + late_us)
        assert arm(judged(evidence_of(run, change, cases=cases(row))), profile).verdict == verdict


def test_where_it_was_not_written_down_when_copies_were_appended_they_neither_convict_nor_are_permitted() -> None:
    verdict = duplicated("acks_1", partitions=None, appended_before=1)
    assert (verdict.verdict, doubts_of(verdict)) == ("INCONCLUSIVE", {("coverage", "bound_unseen")})
    assert "when their copies were appended" in verdict.doubts[0].detail


def test_not_all_copies_written_down_is_a_doubt_even_on_a_quiet_day() -> None:
    run = a_scenario("acks_1")
    row = case(EFFECT_AT, EFFECT_AT + S, "DUPLICATED", arm="acks_1", partitions=[0, 0])
    change = both(
        setting("counts/producers.parquet", "duplicated", 2, arm="acks_1", producer=0, partition=0),
        setting("counts/cases.parquet", "cut", True, arm="acks_1", kind="DUPLICATED"),
    )
    verdict = arm(judged(evidence_of(run, change, cases=cases(row))), "acks_1")
    assert (verdict.verdict, doubts_of(verdict)) == ("INCONCLUSIVE", {("coverage", "unexplained")})


@pytest.mark.parametrize("profile", ["acks_all", "safe"])
def test_a_loss_of_power_takes_nothing_that_an_earlier_clean_election_had_taken(profile: str) -> None:
    """Broker 1 was killed, and its successor lacked the record: that was seen before any power was cut."""
    run, _, (cut,) = powerless(profile)
    times = {
        "requested_at_us": EFFECT_AT - 9 * S - 1,
        "effect_at_us": EFFECT_AT - 9 * S,
        "healed_at_us": EFFECT_AT - 2 * S,
    }
    kill = msgspec.structs.replace(cut, id=2, action="kill", brokers=[1], recovered_at_us=RECOVERED, **times)
    seen = [it for it in the_observations(run) if it.at_us < EFFECT_AT - 9 * S]
    seen += exited(EFFECT_AT - 9 * S, 1, back_us=EFFECT_AT - 2 * S)
    for at_us, leader, starts in ((EFFECT_AT - 7 * S, 2, {0: 0, 1: CUT}), (CHANGED, 3, {0: 0, 1: CUT, 2: CUT + 60})):
        elected = [partition(run, at_us, it.name, 0, leader, len(starts) - 1, [leader, 3]) for it in run.arms]
        seen += [*elected, *(answer(it, starts) for it in elected)]
        seen += exited(EFFECT_AT, 1, 2, 3, back_us=EFFECT_AT + S) if leader == 2 else []
    plan = (FaultStep(trigger=AT_ONCE, action="kill", target="leader"), *run.fault.steps)
    run = msgspec.structs.replace(run, fault=msgspec.structs.replace(run.fault, steps=plan))
    history = History(run, sorted(seen, key=lambda it: it.at_us), [kill, cut])
    verdict = verdict_on(history, (EFFECT_AT - 10 * S, EFFECT_AT - 10 * S + 1000), CUT + 20, case={"overwritten": True})
    assert (verdict.verdict, rules_of(verdict)) == ("VIOLATED", ["lost.unexplained"])
