"""Tests of runs with several clients: which arms there are, what is refused, and what names the client."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from msgspec.structs import replace

from delivery_verifier import catalogue
from delivery_verifier.advice.commands import priced_as
from delivery_verifier.catalogue.arm_clients import HIT, is_single
from delivery_verifier.command_line import compare
from delivery_verifier.command_line import main as cli
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.data import dumps
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.scenario_checks import check, loads
from delivery_verifier.planning.build import scenario_from_params
from delivery_verifier.planning.explanation import describe


def planned(**params: object) -> Scenario:
    return scenario_from_params(params, "r")


def names(of: Scenario) -> dict[str, str]:
    return {arm.name: arm.versioned_client.text for arm in of.arms}


def test_each_subject_and_strong_control_runs_with_each_client_and_the_others_stay_single() -> None:
    of = planned(profile="acks_1", clients="librdkafka,java")
    assert names(of) == {
        "acks_1": "librdkafka",
        "acks_1-java": "java:4.3.1",
        "control-acks_0": "librdkafka",
        "control-safe": "librdkafka",
        "control-safe-java": "java:4.3.1",
        "canary": "librdkafka",
    }
    assert len({arm.ordinal for arm in of.arms}) == len({arm.topic_name for arm in of.arms}) == len(of.arms)
    alone = planned(profile="acks_1")
    assert [arm for arm in of.arms if arm.client == "librdkafka"] == list(alone.arms)


def test_the_version_stands_in_the_name_only_where_it_tells_arms_apart() -> None:
    assert "acks_1-java" in names(planned(profile="acks_1", clients="java:4.1.1"))
    both = names(planned(profile="acks_1", clients="java:4.1.1,java:4.1.2"))
    assert both["acks_1-java-4.1.1"] == "java:4.1.1" and both["acks_1-java-4.1.2"] == "java:4.1.2"


def test_the_command_names_the_version_so_that_a_repeated_run_has_the_same() -> None:
    of = planned(profile="acks_1", clients="librdkafka, java")
    assert "--clients librdkafka,java:4.3.1" in of.command
    assert "--clients" not in planned(profile="acks_1", clients="librdkafka").command
    assert '"client_version": "4.3.1"' in dumps(of).decode()
    assert loads(dumps(of)) == of


def test_the_contract_of_an_arm_is_that_of_its_own_client() -> None:
    of = planned(profile="in_flight_1", clients="librdkafka,java:3.9.2")
    settings = [Settings.of_arm(of, arm) for arm in of.subjects]
    assert [(each.client, each.client_version) for each in settings] == [("librdkafka", ""), ("java", "3.9.2")]
    librdkafka, java = describe(of).split("acks_0 (control")[0].split("(subject, Java 3.9.2)")
    assert "(subject, librdkafka)" in librdkafka
    assert "REORDERED       PERMITTED" in librdkafka and "REORDERED       FORBIDDEN" in java


@pytest.mark.parametrize(("kafka", "fenced"), [("4.3.1", True), ("3.9.2", False)])
def test_ends_of_transactions_are_fenced_only_where_client_and_brokers_speak_version_2(
    kafka: str, fenced: bool
) -> None:
    of = planned(profile="transactional", clients="java")
    of = replace(of, cluster=replace(of.cluster, kafka_version=kafka))
    assert Settings.of_arm(of, of.subjects[0]).ends_are_fenced is fenced


@pytest.mark.parametrize(
    ("clients", "said"),
    [
        ("librdkafka,rust", ("'rust', a reserved word", "Confluent has announced", "allowed: librdkafka, java")),
        ("java:4.9.9", ("a version that no run can have", "java:4.4.0")),
        (
            "librdkafka:2.16.1",
            ("a version that no run can have", "allowed: librdkafka:2.13.0, librdkafka:2.13.2, librdkafka:2.16.0"),
        ),
        ("librdkafka,librdkafka:2.16.0", ("names one client twice",)),
        ("jva", ("did you mean java?",)),
        ("java,java:4.3.1", ("names one client twice",)),
        ("librdkafka,", ("allowed: librdkafka, java",)),
    ],
)
def test_what_names_no_client_is_refused_with_what_is_allowed(clients: str, said: tuple[str, ...]) -> None:
    with pytest.raises(BadInput) as refused:
        planned(clients=clients)
    assert all(each in str(refused.value) for each in said), refused.value


def test_settings_with_which_the_java_client_does_not_start_are_refused_and_librdkafka_takes_them() -> None:
    short = {"profile": "acks_1", "producer_overrides": "delivery.timeout.ms=8000"}
    planned(**short)
    with pytest.raises(BadInput, match=r"Java 4\.3\.1 does not start with these settings: delivery\.timeout\.ms is"):
        planned(**short, clients="librdkafka,java")
    planned(profile="acks_1", producer_overrides="delivery.timeout.ms=8000\nsocket.timeout.ms=3000", clients="java")


def test_librdkafka_has_versions_too_and_each_of_them_an_arm_of_its_own() -> None:
    of = planned(profile="acks_1", clients="librdkafka,librdkafka:2.13.0,librdkafka:2.13.2")
    assert {name: client for name, client in names(of).items() if name.startswith("acks_1")} == {
        "acks_1": "librdkafka",
        "acks_1-librdkafka-2.13.0": "librdkafka:2.13.0",
        "acks_1-librdkafka-2.13.2": "librdkafka:2.13.2",
    }
    assert "--clients librdkafka,librdkafka:2.13.0,librdkafka:2.13.2" in of.command
    assert {names(of)[arm.name] for arm in of.arms if is_single(arm)} == {"librdkafka"}, "the canary and weak controls"
    settings = [Settings.of_arm(of, arm) for arm in of.subjects]
    assert [each.client_version for each in settings] == ["", "2.13.0", "2.13.2"]


def test_a_version_that_is_not_the_installed_one_has_no_price_of_the_installed_one() -> None:
    plain, older = (
        Settings.of_arm(of, of.subjects[0])
        for of in (planned(profile="acks_1", clients=each) for each in ("librdkafka", "librdkafka:2.13.0"))
    )
    assert priced_as(plain) == "acks_1" and priced_as(older) == ""


def test_members_have_the_version_of_their_arm_and_another_one_only_beside_the_installed_librdkafka() -> None:
    of = planned(profile="acks_1", application="commit_after", clients="librdkafka:2.13.0")
    (subject,) = of.subjects
    assert subject.versioned_client.text == "librdkafka:2.13.0"
    assert subject.application and subject.application.versioned_client.text == "librdkafka:2.13.0"
    with pytest.raises(BadInput, match=r"is librdkafka:2\.13\.0, and the members of commit_after use librdkafka"):
        elsewhere = replace(subject, application=replace(subject.application, client_version=""))
        check(replace(of, arms=tuple(elsewhere if a is subject else a for a in of.arms)))
    of = planned(profile="acks_1", application="commit_after")
    (subject,) = of.subjects
    assert subject.application

    def with_members(version: str, **more: object) -> Scenario:
        application = replace(subject.application, client_version=version, **more)
        return replace(of, arms=tuple(replace(a, application=application) if a is subject else a for a in of.arms))

    check(with_members("2.13.2"))
    with pytest.raises(BadInput, match=r"application\.client_version is 'librdkafka:9\.9', a version that no run can"):
        check(with_members("9.9"))
    with pytest.raises(BadInput, match=r"a user application brings its own client"):
        check(with_members("2.13.2", discipline="own", consumer={}))


def test_the_members_of_an_application_have_the_client_of_their_arm() -> None:
    of = planned(application="commit_after", clients="librdkafka,java:4.1.1")
    members = {arm.name: (arm.application.client, arm.application.client_version) for arm in of.arms if arm.application}
    assert members == {"safe": ("librdkafka", ""), "safe-java": ("java", "4.1.1")}
    java = of.arm("safe-java")
    assert java.application is not None
    other = replace(java, application=replace(java.application, client="librdkafka", client_version=""))
    mixed = replace(of, arms=tuple(other if arm is java else arm for arm in of.arms))
    with pytest.raises(BadInput, match=r"is java:4\.1\.1, and the members of commit_after use librdkafka"):
        loads(dumps(mixed))


def test_an_application_that_the_java_client_cannot_have_is_refused_by_name() -> None:
    with pytest.raises(BadInput, match=r"store_after stores offsets for the client's timer.*allowed: commit_after"):
        planned(application="store_after", clients="librdkafka,java")
    with pytest.raises(BadInput, match=r"store_after stores offsets"):
        planned(scenario="consumer.defaults", clients="java")
    with pytest.raises(BadInput, match=r"freezes applications, and the members of \w+-java have the Java client"):
        planned(scenario="transform.zombie", clients="librdkafka,java")
    with pytest.raises(BadInput, match=r"ends-2\.13\.0-java.client is java.*use librdkafka:2\.13\.0"):
        planned(scenario="consumer.eof_events", clients="librdkafka,java")  # else Java is compared with 2.13.0 unnamed
    assert "transform_unstable-java" in names(planned(scenario="transform.unstable_offsets", clients="librdkafka,java"))


def test_the_price_of_one_arm_is_measured_alone() -> None:
    assert names(planned(scenario="price.none.acks_1", clients="java"))["acks_1-java"] == "java:4.3.1"
    with pytest.raises(BadInput, match=r"measures one arm alone.*allowed: one client"):
        planned(scenario="price.none.acks_1", clients="librdkafka,java")


def test_a_scenario_of_the_catalogue_expects_of_each_client_what_is_known_of_it() -> None:
    of = planned(scenario="order.stalled_leader", clients="librdkafka,java")
    expected = {arm.name: (arm.expectation.verdicts, arm.expectation.bounds) for arm in of.loaded}
    assert expected["acks_all"][0] == expected["acks_all-java"][0] == ("VIOLATED",)
    assert expected["acks_all"][1] and not expected["acks_all-java"][1], "exact counts are one client's"
    assert expected["in_flight_1"][0] == ("VIOLATED",) and expected["in_flight_1-java"][0] == ("HELD",)
    (bound,) = expected["in_flight_1-java"][1]
    assert (bound.count, bound.op, bound.value) == ("REORDERED", "=", 0)


def test_a_step_that_must_hit_every_client_waits_for_those_of_all_arms() -> None:
    def hit(of: Scenario) -> list[object]:
        return [step.options[HIT] for step in of.fault.steps if HIT in step.options]

    alone, both = (planned(scenario="order.stalled_leader", clients=c) for c in ("librdkafka", "librdkafka,java"))
    assert hit(alone) == [len(alone.loaded)] and hit(both) == [len(both.loaded)]


def test_no_scenario_that_counts_clients_has_an_arm_that_stays_single() -> None:
    """Else the number of clients would not grow as the number of arms does."""
    counting = [e for e in catalogue.ENTRIES.values() if any(HIT in step.options for step in e.fault.steps)]
    assert counting
    assert not [arm.name for entry in counting for arm in catalogue.build(entry, "r").loaded if is_single(arm)]


def test_a_range_of_confluent_kafka_ends_before_the_client_on_rust() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    every = sum(project.get("optional-dependencies", {}).values(), project["dependencies"])
    named = [one for one in every if one.startswith("confluent-kafka")]
    assert named and all("==2." in one or "<4" in one for one in named), named


def test_kdv_compare_plans_one_run_with_each_client(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[dict[str, object]] = []

    def carry_out(params: dict[str, object], *_: object, **__: object) -> object:
        ran.append(params)
        raise StopIteration

    monkeypatch.setattr(compare, "carry_out", carry_out)
    with pytest.raises(StopIteration):
        line = ["compare", "--clients", "librdkafka", "java:4.1.1", "--profile", "acks_1"]
        compare.compare(cli._parser().parse_args(line))
    assert ran == [{"profile": "acks_1", "clients": "librdkafka"}]
