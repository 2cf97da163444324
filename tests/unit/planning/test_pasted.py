"""Tests of pasted settings: a whole file of producer settings means the same in the form as in a file, no secret in it
is accepted or quoted, and no other field contradicts it silently."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from delivery_verifier.command_line import main as cli
from delivery_verifier.model.client import Client
from delivery_verifier.model.data import dumps
from delivery_verifier.model.inputs import BadInput, ValidationErrors
from delivery_verifier.planning.build import scenario_from_params
from delivery_verifier.planning.consistency import check_request
from delivery_verifier.planning.own_settings import (
    consumer,
    producer_names,
    profiles,
    properties,
    secret_values,
    topic,
)

SECRET = "hunter2"
JAVA = """\
# Producer of the orders service. See https://kafka.apache.org/documentation/#producerconfigs
#security.protocol=SASL_PLAINTEXT
! the brokers of the team: ask platform@example.org
bootstrap.servers = prod-1:9093, prod-2:9093
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
ssl.truststore.location=/etc/kafka/trust.jks
ssl.endpoint.identification.algorithm=
schema.registry.url=https://registry.example.org:8081
key.serializer org.apache.kafka.common.serialization.StringSerializer
acks : 1
linger.ms=20
request.timeout.ms=20000
batch.si\\u007ae=65536
buffer.memory=67108864
max.block.ms=5000
"""
LIBRDKAFKA = "metadata.broker.list=prod-1:9092\nrequest.required.acks=-1\nmessage.timeout.ms=60000\nlinger.ms=5\n"
SPRING = """\
spring.kafka.bootstrap-servers=prod-1:9092
spring.kafka.producer.acks=1
spring.kafka.producer.batch-size=16KB
spring.kafka.producer.properties[linger.ms]=20
#---
spring.config.activate.on-profile=prod
spring.kafka.producer.acks=all
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KDV_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def run_of(text: str, **more: Any) -> Any:
    return scenario_from_params({"profile": "own", "producer_config": text, **more}, "r")


def refusal(**fields: Any) -> list[str]:
    """Returns the errors with which the fields are refused."""
    with pytest.raises(BadInput) as refused:
        scenario_from_params(fields, "r")
    return list(refused.value.messages)


@pytest.mark.parametrize(
    ("text", "client"),
    [(JAVA, None), (LIBRDKAFKA, None), (SPRING, None), ("acks=1\n", "java"), ("acks=1\n", "librdkafka"), ("", "java")],
    ids=["java", "librdkafka", "spring", "either, java", "either, librdkafka", "empty"],
)
@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
def test_a_pasted_file_gives_the_same_profile_as_the_file(
    tmp_path: Path, text: str, client: Client | None, line_break: str
) -> None:
    (tmp_path / "p.properties").write_bytes(text.replace("\n", line_break).encode("latin-1"))
    of_file = profiles.from_files(None, str(tmp_path / "p.properties"), None, None, client)
    of_paste = profiles.pasted(text.replace("\n", line_break), client)
    assert replace(of_paste, summary="") == replace(of_file, summary="")
    if text:
        (planned,) = run_of(f"\ufeff{text}", written_for=client).subjects
        assert replace(planned.profile, notes=of_paste.notes) == of_paste
        assert planned.profile.notes[: len(of_paste.notes)] == of_paste.notes


def test_the_command_that_repeats_a_pasted_run_has_the_same_settings(capsys: pytest.CaptureFixture[str]) -> None:
    made = run_of(JAVA, topic_overrides="min.insync.replicas=2")
    assert cli.main(["plan", "--json", *made.command.split()[2:]]) == 0
    assert made.subjects[0].profile.topic["min.insync.replicas"] == 2
    assert '"linger.ms": 20' in capsys.readouterr().out and "written-for" not in made.command
    assert not [word for word in ("prod-1", "prod-2", "trust.jks", "PLAIN") if word in dumps(made).decode()]


@pytest.mark.parametrize(
    ("text", "idempotent"),
    [
        ("key.converter=x\nproducer.enable.idempotence=true\nproducer.security.protocol=SSL", True),
        ("key.converter=x\nenable.idempotence=true", False),
        ("clusters=a,b\na->b.enabled=true\nb.producer.enable.idempotence=true\na.bootstrap.servers=a:1", True),
        ("connector.class=x\nproducer.override.linger.ms=9", False),
    ],
)
def test_files_of_connect_are_read_from_the_form_too(text: str, idempotent: bool) -> None:
    assert run_of(text).subjects[0].profile.producer["enable.idempotence"] is idempotent


def test_what_is_left_out_of_a_pasted_file_is_shown() -> None:
    notes = "\n".join(run_of(JAVA).subjects[0].profile.notes)
    assert "left out: bootstrap.servers, security.protocol, sasl.mechanism, ssl.truststore.location" in notes
    assert "prod-1" not in notes and "min.insync.replicas=1" in notes


SECRETS = [
    ('sasl.jaas.config=org.x.PlainLoginModule required password="hunter2";', "sasl.jaas.config"),
    ('sasl.jaas.config=org.x.PlainLoginModule required \\\n  username="u" password="hunter2";', "sasl.jaas.config"),
    ("ssl.key.password hunter2", "ssl.key.password"),
    ("ssl.key.pass\\u0077ord : hunter2", "ssl.key.password"),
    ("ssl.keystore.password=hunter2\nssl.keystore.password=", "ssl.keystore.password"),
    ("ssl.keystore.key=-----BEGIN PRIVATE KEY-----\\nhunter2", "ssl.keystore.key"),
    ("sasl.password=hunter2", "sasl.password"),
    ("sasl.oauthbearer.client.secret=hunter2", "sasl.oauthbearer.client.secret"),
    ("ssl.something.new=hunter2", "ssl.something.new"),
    ("basic.auth.user.info=u:hunter2", "basic.auth.user.info"),
    ("schema.registry.url=https://u:hunter2@registry.example.org", "schema.registry.url"),
    ("bootstrap.servers=prod-1:9092,\\\nssl.key.password=hunter2", "bootstrap.servers"),
    ("bootstrap.servers=prod-1:9092 hunter2", "bootstrap.servers"),
    ("security.protocol=SASL_SSL sasl.password=hunter2", "security.protocol"),
    ("my.own.password=hunter2", "my.own.password"),
    ("linger.ms=5 ssl.key.password=hunter2", "the value of linger.ms"),
    ("client.id=orders;token: hunter2", "the value of client.id"),
    ("#ssl.key.password=hunter2", "the comment of line 2"),
    ("! ssl.key.password hunter2", "the comment of line 2"),
    ("\n# the password: hunter2", "the comment of line 3"),
    ("# sasl.something.new=hunter2", "the comment of line 2"),
    ('#  username="u" password="hunter2";', "the comment of line 2"),
    ("# https://u:hunter2@registry.example.org", "the comment of line 2"),
    ("spring.kafka.producer.acks=1\nspring.kafka.ssl.key-password=hunter2", "value"),
    ("spring.kafka.producer.acks=1\nspring.kafka.properties[sasl.jaas.config]=hunter2", "value"),
    ("spring.kafka.producer.acks=1\nspring.datasource.password=hunter2", "spring.datasource.password"),
    ("key.converter=x\nproducer.sasl.jaas.config=hunter2", "producer.sasl.jaas.config"),
    ("key.converter=x\nproducer.ssl.something.new=hunter2", "producer.ssl.something.new"),
    ("connector.class=x\nproducer.override.sasl.password=hunter2", "producer.override.sasl.password"),
    ("clusters=a,b\na->b.enabled=true\nb.ssl.something.new=hunter2", "b.ssl.something.new"),
    ("clusters=a,b\na->b.enabled=true\nb.producer.sasl.jaas.config=hunter2", "b.producer.sasl.jaas.config"),
]


@pytest.mark.parametrize(("lines", "place"), SECRETS, ids=[line for line, _ in SECRETS])
def test_a_secret_is_refused_by_its_place_and_quoted_nowhere(lines: str, place: str) -> None:
    text = f"key.serializer=x\n{lines}\n"
    errors = refusal(profile="own", producer_config=text)
    (about,) = [error for error in errors if "Airflow would store them: leave them out" in error]
    assert place in about
    assert SECRET not in "".join(errors)


@pytest.mark.parametrize("field", ["producer_overrides", "topic_overrides"])
def test_the_fields_for_single_settings_take_no_secret_either(field: str) -> None:
    (error,) = refusal(**{field: f"ssl.key.password={SECRET}"})
    assert field in error and SECRET not in error


@pytest.mark.parametrize(
    "text",
    [
        "#security.protocol can be PLAINTEXT or SSL",
        "# sasl.mechanism: PLAIN",
        "# SSL settings of the cluster",
        "# ssl.key.password is set by vault",
        "# Licensed under the Apache License, http://www.apache.org/licenses/LICENSE-2.0",
        "sasl.jaas.config=",
        "ssl.key.location=/etc/kafka/keys/orders.pem",
        "bootstrap.servers=SASL_SSL://prod-1:9093,prod-2:9093,",
        "client.id=token-service",
        "transactional.id=passport-orders",
    ],
)
def test_what_is_no_secret_is_taken(text: str) -> None:
    assert run_of(f"key.serializer=x\nacks=all\n{text}\n").subjects


def test_no_name_that_a_run_uses_or_leaves_out_is_taken_for_a_secrets_name() -> None:
    names = {*producer_names.EXERCISED, *producer_names.SAME, *producer_names.LEFT_OUT, *topic.EXERCISED, *consumer.OWN}
    assert not [name for name in names if secret_values._is_secret(name, "1")]
    assert all(properties.is_withheld(name) for name in secret_values.HARMLESS)


def test_a_broken_line_with_a_secret_is_not_quoted() -> None:
    errors = refusal(profile="own", producer_config=f"acks=\\u{SECRET}")
    assert errors and SECRET not in "".join(errors)


def test_all_errors_of_a_file_are_reported_at_once_with_those_of_the_other_fields() -> None:
    text = (
        "key.serializer=x\nack=1\nlinger.ms=abc\nretry.backoff.ms=-1\nqueuing.strategy=lifo\nssl.key.password=hunter2"
    )
    errors = refusal(profile="own", producer_config=text, records=-5, topic_overrides="min.isr=1\ncleanup.policy=x")
    starts = (
        "records",
        "producer_config",
        "ack is",
        "linger.ms is",
        "retry.backoff.ms is",
        "queuing",
        "min.isr",
        "cleanup",
    )
    assert sorted(start for start in starts for error in errors if error.startswith(start)) == sorted(starts)
    assert len(errors) == len(starts)


def test_all_errors_of_files_are_reported_at_once_in_a_terminal_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.properties").write_text("key.serializer=x\nack=1\nlinger.mss=5\n")
    (tmp_path / "t.properties").write_text("min.isr=1\n")
    files = ["--producer-config", str(tmp_path / "p.properties"), "--topic-config", str(tmp_path / "t.properties")]
    assert cli.main(["plan", *files, "--records", "-5", "--fault", "meteor"]) == cli.BAD_INPUT
    said = capsys.readouterr().err
    assert "5 errors:" in said
    assert all(part in said for part in ("ack is", "linger.mss is", "min.isr is", "records is", "fault is"))


def test_every_contradiction_is_reported_at_once() -> None:
    errors = refusal(min_insync_replicas=3, replication_factor=2, abort_every=5, records=1000, min_exposed=1001)
    assert [error.split(" is ")[0] for error in errors] == [
        "min.insync.replicas of arm safe",
        "abort_every",
        "records",
    ]


CONTRADICTIONS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({}, ("profile is 'safe'", "choose the profile own, or empty producer_config")),
    ({"profile": "acks_1"}, ("profile is 'acks_1'", "producer_config gives all producer settings")),
    ({"profile": "own", "producer_overrides": "linger.ms=5"}, ("producer_overrides is given", "write the overrides")),
    ({"profile": "own", "own_profile": {"name": "x"}}, ("own_profile and producer_config both",)),
    ({"profile": "own", "scenario": "everyday.none"}, ("producer_config is given, but scenario is 'everyday.none'",)),
]


@pytest.mark.parametrize(("fields", "parts"), CONTRADICTIONS, ids=[str(fields) for fields, _ in CONTRADICTIONS])
def test_no_other_field_contradicts_pasted_settings_silently(fields: dict[str, Any], parts: tuple[str, ...]) -> None:
    (error,) = refusal(producer_config=JAVA, **fields)
    assert all(part in error for part in parts)


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        ({"profile": "own"}, ("profile is 'own'", "producer_config is empty", "choose another")),
        ({"profile": "own", "producer_config": " \n"}, ("producer_config is empty",)),
        ({"written_for": "java"}, ("written_for is 'java'", "producer_config is empty")),
        ({"written_for": "kafkajs"}, ("written_for is 'kafkajs'", "allowed: ", "java", "librdkafka")),
        ({"written_for": "java:9"}, ("written_for is 'java:9'", "allowed: 2.1 to 4.4")),
        ({"producer_config": 7}, ("producer_config is no text",)),
        ({"producer_overrides": {"password": SECRET}}, ("producer_overrides is no text",)),
    ],
    ids=str,
)
def test_fields_of_pasted_settings_alone_are_refused(fields: dict[str, Any], parts: tuple[str, ...]) -> None:
    (error,) = refusal(**fields)
    assert all(part in error for part in parts) and SECRET not in error


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("acks=1\nlinger.ms=5", "or choose the client in the form"),
        ("spring:\n  kafka:\n    producer:\n      acks: all\n", "looks like YAML; allowed: .properties syntax"),
        ("[sinks.k]\ntype = 'kafka'\n", "looks like TOML; allowed: .properties syntax"),
        ('{"connector.class": "x"}', "looks like JSON; allowed: .properties syntax"),
        ("output {\n  kafka { }\n}", "looks like a pipeline of Logstash; allowed: .properties syntax"),
        ("[OUTPUT]\n  Name kafka\n", "looks like a file of Fluent Bit; allowed: .properties syntax"),
        ("producer.acks=all", "has names of Kafka Connect or Kafka Streams"),
        ("spring.kafka.producer.acks=all\napp.kafka.producer.acks=0", "app.kafka.producer.acks; so what this"),
        (f"{SPRING}server.port=80\n", "producer_config has server.port, which no Kafka client uses"),
        ("spring.kafka.producer.acks=${ACKS}", "acks is a placeholder of Spring"),
        ("key.serializer=x\n=5", "a line without a name"),
        ("key.serializer=x\nacks=1\nenable.idempotence=true", "enable.idempotence=true needs acks=all"),
        ("key.serializer=x\ndelivery.timeout.ms=1000", "it asks for at least linger.ms + request.timeout.ms"),
    ],
)
def test_a_text_that_is_no_file_of_producer_settings_is_refused_with_the_remedy(text: str, part: str) -> None:
    (error,) = refusal(profile="own", producer_config=text)
    assert part in error


def test_an_error_with_several_messages_stays_several_when_it_is_collected() -> None:
    errors = ValidationErrors()
    for messages in (("a", "b"), ("b", "c")):
        with errors:
            raise BadInput(*messages)
    assert errors.messages == ["a", "b", "c"]
    with pytest.raises(BadInput, match=r"^3 errors:\na\nb\nc$"):
        errors.require_none()


def test_the_checks_ask_nothing_of_fields_that_are_not_there() -> None:
    errors = ValidationErrors()
    assert check_request({}, errors) == {}
    errors.require_none()
