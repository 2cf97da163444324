"""What a cluster check means for a run: what is missing or not known is never a yes, and the plan says what is sent."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from delivery_verifier import catalogue
from delivery_verifier.cluster import topics
from delivery_verifier.cluster.check import rights
from delivery_verifier.cluster.check.causes import Cause
from delivery_verifier.cluster.check.cluster_check import Checked, Unreached
from delivery_verifier.cluster.check.facts import Broker, Software
from delivery_verifier.cluster.check.rights import Answer, Created, Right
from delivery_verifier.cluster.connection import Address
from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep, Trigger
from delivery_verifier.model.scenario import Load, Scenario
from delivery_verifier.planning import cluster_needs, cluster_plan

NEW = Software({"eligible.leader.replicas.version": 1, "transaction.version": 2}, 30, True, 0.001)
OLD = Software({}, 21, False, 0.001)


def scenario(profile: str = "safe", fault: str = "none", application: str | None = None, **load: Any) -> Scenario:
    return catalogue.scenario(
        "r",
        profile=catalogue.PROFILES[profile],
        fault=catalogue.FAULTS[fault],
        load=Load(**load),
        records=1000,
        application=None if application is None else catalogue.APPLICATIONS[application],
    )


def created(run: Scenario, answer: Created | None = None, *, number: int = 0) -> dict[str, Created | None]:
    """What a cluster that takes every topic says. Of topic `number`, it says `answer`, if there is one."""
    samples = cluster_needs.sample_topics(run, [11, 12, 13])
    said = dict[str, Created | None]((name, Created(0, "", dict(each.settings))) for name, each in samples.items())
    return said if answer is None else {**said, [*samples][number]: answer}


def silent(run: Scenario) -> dict[str, Created | None]:
    return dict.fromkeys(created(run))


def checked(run: Scenario, **more: Any) -> Checked:
    """A cluster that has all that `run` needs. `more` is what a test changes."""
    brokers = tuple(Broker(number, Address(f"b{number}", 9093), "a") for number in (11, 12, 13))
    fit = Checked(
        cluster_id="id",
        principal="User:verifier",
        servers="b11:9093",
        brokers=brokers,
        software=dict.fromkeys((11, 12, 13), NEW),
        settings={"transaction.state.log.min.isr": "2"},
        rights=tuple(Answer(right, "granted") for right in cluster_needs.needs(run).rights),
        created=created(run),
        unreached=(),
        beside=(),
        took_s=1.0,
    )
    return fit._replace(**more)


def outcome(run: Scenario, **more: Any) -> tuple[int, list[str]]:
    """Returns the exit code, and the texts that are marked neither ok nor as facts."""
    plan = cluster_plan.judge(run, checked(run, **more))
    assert plan.fit == (plan.exit_code == 0)
    assert plan.exit_code == 0 or "outcome  the cluster has all" not in cluster_plan.text(plan)
    return plan.exit_code, [line.text for line in plan.lines if line.mark not in ("", "ok")]


def test_a_cluster_with_all_that_a_run_needs_is_fit() -> None:
    assert outcome(scenario()) == (0, [])


def answers(run: Scenario, right: Right, standing: Any) -> tuple[Answer, ...]:
    return tuple(
        Answer(each, standing if each == right else "granted", "why" if each == right else "")
        for each in cluster_needs.needs(run).rights
    )


@pytest.mark.parametrize(("standing", "code"), [("missing", 69), ("not known", 70)])
def test_a_right_that_is_missing_or_not_known_is_no_yes(standing: str, code: int) -> None:
    run = scenario("transactional")
    for right in cluster_needs.needs(run).rights:
        assert outcome(run, rights=answers(run, right, standing)) == (code, [f"{right}: why"])


def test_a_wish_that_is_not_granted_changes_no_outcome() -> None:
    run = scenario()
    more = (*checked(run).rights, Answer(rights.SEE_SETTINGS, "missing"))
    assert outcome(run, rights=more, settings=None) == (0, [])


def test_a_broker_that_cannot_be_reached_makes_the_cluster_unfit() -> None:
    silent = Unreached(12, Address("b12", 9093), Cause("ssl.ca.location", "wrong"))
    code, said = outcome(scenario(), software={11: NEW, 13: NEW}, unreached=(silent,))
    assert code == 69 and said == ["broker 12 at b12:9093, rack a: cannot be reached; ssl.ca.location: wrong"]


def test_fewer_brokers_than_replicas_are_too_few() -> None:
    run = scenario()
    (broker, *_) = checked(run).brokers
    code, said = outcome(run, brokers=(broker,), software={11: NEW})
    assert code == 69 and said == ["1 brokers, and each partition has 3 replicas"]


def test_a_refusal_or_a_change_of_any_topic_makes_the_cluster_unfit() -> None:
    run = scenario(application="transform")
    samples = cluster_needs.sample_topics(run, [11, 12, 13])
    assert len(samples) >= 2
    for number, (name, wanted) in enumerate(samples.items()):
        changed = Created(0, "", {**wanted.settings, "retention.ms": "86400000"})
        assert outcome(run, created=created(run, changed, number=number)) == (
            69,
            [f"the cluster would change topic {name}: retention.ms would be 86400000, not -1"],
        )
        assert outcome(run, created=created(run, Created(44, "at most 2 replicas", None), number=number)) == (
            69,
            [f"the cluster would refuse topic {name} (policy): at most 2 replicas"],
        )


def test_what_the_cluster_does_not_say_of_a_topic_is_not_known() -> None:
    run = scenario(application="transform")
    for number, (name, wanted) in enumerate(cluster_needs.sample_topics(run, [11, 12, 13]).items()):
        every = ", ".join(sorted(wanted.settings))
        partly = {name: value for name, value in wanted.settings.items() if name != "retention.ms"}
        for answer, said in (
            (Created(-1, "", None), f"whether the cluster takes topic {name}: error -1"),
            (Created(0, "", None), f"the cluster does not say what topic {name} would get for {every}"),
            (Created(0, "", partly), f"the cluster does not say what topic {name} would get for retention.ms"),
        ):
            assert outcome(run, created=created(run, answer, number=number)) == (70, [said])
        none = {**created(run), name: None}
        assert outcome(run, created=none) == (70, [f"the cluster did not say whether it takes topic {name}"])
    assert outcome(run, created=silent(run))[0] == outcome(run, created={})[0] == 70


def test_a_refusal_counts_whatever_is_answered_later() -> None:
    run = scenario()
    refusal = tuple(
        answer._replace(refused=True, why="policy") if answer.right == rights.CREATE else answer
        for answer in checked(run).rights
    )
    assert outcome(run, rights=refusal) == (69, ["the cluster would refuse a topic of this run (policy)"])
    forbidden = answers(run, rights.CREATE, "missing")
    assert outcome(run, created=silent(run), rights=forbidden) == (69, [f"{rights.CREATE}: why"])


def test_each_distinct_set_of_settings_is_asked_about_once() -> None:
    run = scenario(application="transform")
    every = topics.settings(run)
    samples = cluster_needs.sample_topics(run, [11, 12, 13])
    assert all(list(each.settings.items()) == list(every[name].items()) for name, each in samples.items())
    sets = [frozenset(each.settings.items()) for each in samples.values()]
    assert len(sets) == len({*sets}) and {*sets} == {frozenset(each.items()) for each in every.values()}
    assert set(cluster_needs.needs(run).topics) == {*every}


def test_what_is_not_known_counts_as_the_weaker_value() -> None:
    run = scenario()
    kept = cluster_plan.assumptions_from(checked(run))
    assert kept["eligible leader replicas"] == "kept (eligible.leader.replicas.version is 1)"
    assert cluster_plan.observed(run, checked(run)).cluster.elr
    for more in (
        {"software": {11: NEW, 12: NEW, 13: OLD}},
        {"software": {11: NEW, 12: NEW._replace(knows_elr=False), 13: NEW}},
        {"software": {11: NEW, 12: NEW}, "unreached": (Unreached(13, Address("b", 1), Cause("x", "y")),)},
    ):
        found = checked(run, **more)
        assert cluster_plan.assumptions_from(found)["eligible leader replicas"].startswith("none")
        assert not cluster_plan.observed(run, found).cluster.elr
    found = checked(run, settings=None)
    assert cluster_plan.assumptions_from(found)["transaction.state.log.min.isr"] == "1 (not known)"
    assert cluster_plan.observed(run, found).cluster.broker_settings["transaction.state.log.min.isr"] == 1
    off = checked(run, software=dict.fromkeys((11, 12, 13), NEW._replace(features={})))
    assert (
        cluster_plan.assumptions_from(off)["eligible leader replicas"]
        == "none (eligible.leader.replicas.version is off)"
    )
    assert "transaction.version is 0: a late end" in cluster_plan.assumptions_from(off)["ends of transactions"]


@pytest.mark.parametrize(
    ("level", "release"),
    [(None, "release not known"), (30, "4.3"), (26, "4.1"), (25, "4.0"), (99, "newer than 4.3"), (3, "older than 3.7")],
)
def test_a_broker_has_the_release_that_its_features_show(level: int | None, release: str) -> None:
    assert NEW._replace(newest_metadata=level).release == release


def test_the_rights_follow_from_what_the_run_does() -> None:
    plain = {rights.CREATE, rights.WRITE, rights.READ, rights.DESCRIBE_CONFIGS, rights.DELETE}
    assert set(cluster_needs.needs(scenario()).rights) == plain
    transactions = {rights.WRITE_TRANSACTIONS, rights.SEE_TRANSACTIONS}
    assert set(cluster_needs.needs(scenario("transactional")).rights) == plain | transactions
    groups = {rights.READ_GROUPS, rights.DELETE_GROUPS, rights.SEE_COMMITS}
    assert set(cluster_needs.needs(scenario(application="commit_after")).rights) == plain | groups
    elected = cluster_needs.needs(scenario(fault="elect_preferred"))
    assert set(elected.rights) == plain | {rights.ALTER_CLUSTER} and elected.impossible == ()


def test_a_transactional_id_of_the_users_own_needs_a_right_of_its_own() -> None:
    profile = catalogue.PROFILES["transactional"]
    own = msgspec.structs.replace(profile, producer={**profile.producer, "transactional.id": "pay"})
    run = catalogue.scenario("r", profile=own, fault=catalogue.FAULTS["none"], load=Load(), records=1000)
    assert Right("transactional-id", "pay", "Write", is_prefix=True) in cluster_needs.needs(run).rights


@pytest.mark.parametrize("name", [name for name, each in catalogue.APPLICATIONS.items() if each.has_output_topic])
def test_a_transform_needs_transactions_because_the_canarys_effects_are_written_so(name: str) -> None:
    transactions = {rights.WRITE_TRANSACTIONS, rights.SEE_TRANSACTIONS}
    assert transactions <= {*cluster_needs.needs(scenario(application=name)).rights}


def test_a_transactional_id_of_an_application_of_the_users_own_needs_a_right_of_its_own() -> None:
    known = catalogue.APPLICATIONS["transform_transactional"]
    own = msgspec.structs.replace(known, producer={**known.producer, "transactional.id": "pay"})
    run = scenario()
    arms = tuple(msgspec.structs.replace(arm, application=own) if arm.role == "subject" else arm for arm in run.arms)
    needed = cluster_needs.needs(msgspec.structs.replace(run, arms=arms)).rights
    assert {Right("transactional-id", "pay", "Write", is_prefix=True), rights.SEE_TRANSACTIONS} <= {*needed}


@pytest.mark.parametrize("name", ACTS)
def test_only_what_harms_no_broker_is_possible_there(name: str) -> None:
    act = ACTS[name]
    harms = (not act.by_others and (act.whom == "broker" and (act.takes_effect or bool(act.heals)))) or bool(act.needs)
    plan = FaultPlan(name="p", summary="s", steps=(FaultStep(trigger=Trigger(kind="at_once"), action=name),))
    needed = cluster_needs.needs(msgspec.structs.replace(scenario(), fault=plan))
    assert bool(needed.impossible) == harms


def test_the_limits_for_a_cluster_of_somebody_elses_are_named_with_the_remedy() -> None:
    for load, said in (
        ({"rate": 2_001, "duration_s": 1}, "more than 2,000 records/s"),
        ({"pacing": "flat_out"}, "more than 2,000 records/s"),
        ({"payload_bytes": 1_000_000}, "more than 1,000 MB"),
    ):
        code, texts = outcome(scenario(**load))
        assert code == 69 and len(texts) == 1 and texts[0].startswith(said)
    assert outcome(scenario(rate=2_000, duration_s=1)) == (0, [])


def test_a_command_quotes_what_a_shell_would_take_apart() -> None:
    command = rights.WRITE.command("a:1,b:2", "User:CN=a b,O=c")
    assert (
        "--allow-principal 'User:CN=a b,O=c' --operation Write --topic kdv- --resource-pattern-type prefixed" in command
    )
    assert rights.ALTER_CLUSTER.command("a:1", "User:u").endswith("--operation Alter --cluster")
