"""Tests of settings that were written for the Java client: an arm with that client gets them untranslated, no secret is
kept, nothing contradicts what is judged, and what the client cannot have is refused in the plan."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from delivery_verifier.catalogue import PROFILES
from delivery_verifier.command_line import main as cli
from delivery_verifier.contract.settings import Settings
from delivery_verifier.load import pool
from delivery_verifier.load.java import settings
from delivery_verifier.load.spec import ProducerSpec
from delivery_verifier.model.data import dumps
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import Arm, Profile, Scenario
from delivery_verifier.planning.build import scenario_from_params
from delivery_verifier.planning.consistency import check_settings
from delivery_verifier.planning.explanation import describe, explain, explanation_text
from delivery_verifier.planning.own_settings import profiles
from delivery_verifier.reporting.words import producer_properties

FILE = """\
bootstrap.servers=production:9092
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
ssl.truststore.location=/etc/kafka/trust.jks
key.serializer=org.apache.kafka.common.serialization.StringSerializer
interceptor.classes=org.example.Audit
client.id=orders
acks=-1
batch.size=0
linger.ms=7
buffer.memory=20000001
request.timeout.ms=20000
metadata.max.age.ms=60000
enable.metrics.push=false
max.block.ms=50000
partitioner.ignore.keys=true
auto.register.schemas=false
"""
WRITTEN = {
    "acks": "-1",
    "batch.size": "0",
    "linger.ms": "7",
    "buffer.memory": "20000001",
    "request.timeout.ms": "20000",
    "metadata.max.age.ms": "60000",
    "enable.metrics.push": "false",
    "max.block.ms": "50000",
    "partitioner.ignore.keys": "true",
}
TRANSACTIONAL = "transactional.id=tx\ndelivery.timeout.ms=120000\nrequest.timeout.ms=90000\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KDV_HOME", str(tmp_path / "home"))
    return tmp_path


def run_of(text: str = FILE, clients: str = "librdkafka,java", **more: Any) -> Scenario:
    fields = {"profile": "own", "producer_config": text, "written_for": "java", "clients": clients}
    return scenario_from_params({**fields, **more}, "r")


def spec_of(scenario: Scenario, arm: Arm) -> ProducerSpec:
    return pool._spec(scenario, arm, 0, {}, Path("live"))


def properties_of(scenario: Scenario, arm: Arm) -> dict[str, str]:
    spec = spec_of(scenario, arm)
    return settings.properties(spec.settings, spec.java_properties, spec.payload_bytes, spec.deadline_s)


def test_a_java_arm_gets_a_java_file_as_it_was_written_and_the_gaps_as_the_profile_states_them() -> None:
    scenario = run_of()
    plain, java = scenario.subjects
    made = properties_of(scenario, java)
    assert WRITTEN.items() <= made.items() and made["client.id"] == "own-java-0"
    stated = {"enable.idempotence": "true", "delivery.timeout.ms": "120000", "max.request.size": "1048576"}
    assert stated.items() <= made.items() and "interceptor.classes" not in made
    assert spec_of(scenario, plain).java_properties == {} == plain.java_properties
    assert plain.producer == java.profile.producer and plain.profile == java.profile


def test_no_address_and_no_secret_is_kept() -> None:
    kept = dumps(run_of()).decode()
    for foreign in ("production", "SASL", "PLAIN", "trust.jks", "org.example", "StringSerializer"):
        assert foreign not in kept, foreign
    assert run_of().subjects[1].profile.java_properties == WRITTEN


@pytest.mark.parametrize(
    "name", ["sasl.jaas.config", "bootstrap.servers", "interceptor.classes", "client.id", "my.own"]
)
def test_what_a_run_may_not_keep_is_refused_from_everywhere_and_its_value_is_not_shown(name: str) -> None:
    sent = msgspec.to_builtins(replace(PROFILES["safe"], name="mine", java_properties={name: "hunter2"}))
    for fields in ({"own_profile": sent, "profile": "own"}, {"producer_overrides": f"java.{name}=hunter2"}):
        with pytest.raises(BadInput, match=r"leave (it|them) out") as raised:
            scenario_from_params(fields, "r")
        assert "hunter2" not in str(raised.value)
    with pytest.raises(BadInput, match="no property that a run may give to the Java client"):
        check_settings(replace(PROFILES["safe"], java_properties={name: "hunter2"}))


def test_a_property_that_contradicts_what_is_judged_is_refused() -> None:
    for text, said in (
        ("java.acks=1", "would get acks=1, and the profile states acks=all"),
        ("java.metadata.max.age.ms=5", "metadata.max.age.ms=5, and the profile states topic.metadata.refresh.interval"),
        ("java.acks=ALL", "does not start with it"),
        ("java.linger.ms=5s", "does not start with it"),
    ):
        with pytest.raises(BadInput, match=said):
            scenario_from_params({"producer_overrides": text}, "r")
    agreed = scenario_from_params({"producer_overrides": "linger.ms=9\njava.linger.ms=9", "clients": "java"}, "r")
    assert properties_of(agreed, agreed.subjects[0])["linger.ms"] == "9"


def test_an_override_of_librdkafka_replaces_what_the_file_says_of_the_same_setting(tmp_path: Path) -> None:
    (tmp_path / "p.properties").write_text(FILE)
    base = profiles.from_files(None, str(tmp_path / "p.properties"), None, None, "java")
    over = profiles.overridden(base, "queue.buffering.max.kbytes=30000\nsocket.timeout.ms=10000\nlinger.ms=1", "")
    check_settings(over)
    replaced = ("buffer.memory", "request.timeout.ms", "linger.ms")
    assert over.java_properties == {name: text for name, text in WRITTEN.items() if name not in replaced}
    made = settings.properties(over.producer, over.java_properties, 100, 60.0)
    assert [made[name] for name in replaced] == [str(30000 * 1024), "10000", "1"]


def test_the_command_that_repeats_a_run_gives_the_java_client_the_same() -> None:
    scenario = run_of(clients="java")
    words = shlex.split(scenario.command)
    overrides = [words[at + 1] for at, word in enumerate(words) if word == "--producer-override"]
    fields = {"producer_overrides": "\n".join(overrides), "topic_overrides": "min.insync.replicas=1", "clients": "java"}
    again = scenario_from_params(fields, "r")
    assert properties_of(again, again.subjects[0]) == properties_of(scenario, scenario.subjects[0])
    assert again.subjects[0].profile.producer == scenario.subjects[0].profile.producer


def test_a_saved_profile_keeps_what_was_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.properties").write_text(FILE)
    assert cli.main(["init", str(tmp_path / "p.properties"), "--name", "orders"]) == 0
    assert "enable.metrics.push (no part in delivery; an arm with the Java client gets it)" in capsys.readouterr().out
    saved = profiles.known()["orders"]
    assert isinstance(saved, Profile) and saved.java_properties == WRITTEN
    scenario = scenario_from_params({"profile": "orders", "clients": "java"}, "r")
    assert WRITTEN.items() <= properties_of(scenario, scenario.subjects[0]).items()


def test_a_java_arm_keeps_times_that_librdkafka_does_not_allow_in_a_transaction_and_is_judged_by_them() -> None:
    scenario = run_of(TRANSACTIONAL)
    plain, java = scenario.subjects
    of_plain, of_java = (Settings.of_arm(scenario, arm) for arm in (plain, java))
    assert (of_plain.delivery_timeout_ms, of_plain.socket_timeout_ms) == (60_000, 60_000)
    assert (of_java.delivery_timeout_ms, of_java.request_timeout_ms, of_java.socket_timeout_ms) == (
        120_000,
        90_000,
        90_000,
    )
    made = properties_of(scenario, java)
    assert (made["delivery.timeout.ms"], made["request.timeout.ms"]) == ("120000", "90000")
    assert made["transactional.id"] == "tx-own-java-0"


def test_the_report_shows_the_settings_as_the_client_has_them() -> None:
    plain, java = (producer_properties(arm) for arm in run_of().subjects)
    shown = {name: str(value).lower() for name, value in java.items()}
    assert WRITTEN.items() <= shown.items() and shown["client"] == "java 4.3.1"
    assert not shown.keys() & {"queue.buffering.max.kbytes", "topic.metadata.refresh.interval.ms", "socket.timeout.ms"}
    assert plain["queue.buffering.max.kbytes"] == 19_531 and "enable.metrics.push" not in plain
    assert (java["enable.idempotence"], java["linger.ms"]) == (True, 7), "as of the other arm, where both say the same"


def test_plan_and_explanation_say_which_client_the_settings_go_to() -> None:
    scenario = run_of()
    told = describe(scenario)
    assert "these settings go to librdkafka; --clients java gives the Java client its own, as they were written" in told
    assert f"these settings go to Java 4.3.1: {', '.join(WRITTEN)} as they were written" in told
    assert "these settings go to Java 4.3.1" in explanation_text(explain(scenario, scenario.subjects[1]))
    translated = describe(scenario_from_params({"profile": "acks_1", "clients": "java"}, "r"))
    assert "these settings go to Java 4.3.1, translated into its names" in translated


def test_a_setting_without_counterpart_is_refused_in_the_plan_with_the_arm_and_only_for_java() -> None:
    fields = {"profile": "acks_1", "producer_overrides": "batch.num.messages=800"}
    assert scenario_from_params(fields, "r").subjects[0].profile.producer["batch.num.messages"] == 800
    with pytest.raises(
        BadInput, match=r"^acks_1-java|own-java: batch.num.messages is 800.*the Java client has no such"
    ):
        scenario_from_params({**fields, "clients": "librdkafka,java"}, "r")


def test_a_buffer_in_which_send_could_block_is_refused_in_the_plan() -> None:
    small = "acks=all\nbuffer.memory=2000000\nbatch.size=900000\n"
    assert run_of(small, clients="librdkafka").subjects
    with pytest.raises(
        BadInput, match=r"own-java: buffer.memory is 2000000: beside one batch .*set buffer.memory to at least"
    ):
        run_of(small, clients="java")
    assert run_of(small.replace("900000", "90000"), clients="java").subjects


def test_a_property_that_the_version_of_the_client_does_not_know_is_its_own_business() -> None:
    newer = "acks=all\nenable.metrics.push=false\nmetadata.recovery.rebootstrap.trigger.ms=1000\n"
    scenario = run_of(newer, clients="java:3.9.2")
    assert properties_of(scenario, scenario.subjects[0])["metadata.recovery.rebootstrap.trigger.ms"] == "1000"
    with pytest.raises(BadInput, match="retires is no producer property of Kafka; did you mean retries"):
        run_of("acks=all\nretires=3\nenable.idempotence=true\n", clients="java")
