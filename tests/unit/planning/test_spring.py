"""Tests of Spring Boot's files: every setting arrives under Kafka's name, no secret arrives, nothing is guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from delivery_verifier.model.inputs import BadInput
from delivery_verifier.planning.own_settings import files
from delivery_verifier.planning.own_settings.profiles import from_files


def read_file(path: str, field: str) -> dict[str, str]:
    return files.read_file(path, field).settings


YAML = """
spring:
  kafka:
    bootstrap-servers: [secret-host:9092, other:9092]
    properties:
      "[sasl.jaas.config]": "password=${KEY:hunter2}"
      linger.ms: 7
    producer:
      acks: 1
      batch-size: 16KB
      transaction-id-prefix: orders-
      ssl.key-password: hunter2
      properties:
        linger.ms: 20
        "[enable.idempotence]": false
    consumer:
      auto-offset-reset: earliest
      auto-commit-interval: 2s
      isolation-level: read_committed
    listener.ack-mode: record
---
spring:
  config.activate.on-profile: prod
  kafka.producer.acks: all
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "application.yml"
    path.write_text(YAML)
    return path


def test_a_producer_of_spring_boot_has_the_same_settings_under_kafkas_names(file: Path) -> None:
    assert read_file(str(file), "producer_config") == {
        "key.serializer": "org.apache.kafka.common.serialization.StringSerializer",
        "bootstrap.servers": "",
        "sasl.jaas.config": "",
        "linger.ms": "20",
        "acks": "1",
        "batch.size": "16384",
        "transactional.id": "orders-",
        "enable.idempotence": "false",
    }


def test_a_consumer_of_spring_boot_does_not_commit_by_itself_unless_the_file_says_so(file: Path) -> None:
    read = read_file(str(file), "consumer_config")
    assert (read["enable.auto.commit"], read["auto.commit.interval.ms"]) == ("false", "2000")
    assert (read["auto.offset.reset"], read["isolation.level"]) == ("earliest", "read_committed")
    file.write_text(YAML.replace("auto-offset-reset: earliest", "enable-auto-commit: true"))
    assert read_file(str(file), "consumer_config")["enable.auto.commit"] == "true"


def test_application_properties_are_read_alike(tmp_path: Path) -> None:
    file = tmp_path / "application.properties"
    lines = (
        "spring.profiles.active=prod",
        "spring.kafka.producer.acks=all",
        "spring.kafka.properties[acks]=0",
        "spring.kafka.producer.properties[linger.ms]=3",
        "spring.kafka.consumer.isolation-level=READ-UNCOMMITTED",
        "#---",
        "spring.config.activate.on-profile=dev",
        "spring.kafka.producer.acks=1",
    )
    file.write_text("\n".join(lines))
    read = read_file(str(file), "producer_config")
    assert (read["acks"], read["linger.ms"]) == ("all", "3")
    assert read_file(str(file), "consumer_config")["isolation.level"] == "read_uncommitted"


@pytest.mark.parametrize("first", ["producer.acks=1", "producer.properties[acks]=all"])
def test_what_stands_below_properties_wins_wherever_it_stands(first: str, tmp_path: Path) -> None:
    file = tmp_path / "application.properties"
    lines = {"producer.acks=1", "producer.properties[acks]=all"}
    file.write_text("\n".join(f"spring.kafka.{line}" for line in (first, *(lines - {first}))))
    assert read_file(str(file), "producer_config")["acks"] == "all"


def test_no_error_shows_the_default_of_a_placeholder(tmp_path: Path) -> None:
    file = tmp_path / "application.properties"
    for name in ("producer.properties[sasl.jaas.config]", "producer.acks"):
        file.write_text(f"spring.kafka.{name}=a ${{PW:hunter2}}\n")
        try:
            assert "hunter2" not in str(read_file(str(file), "producer_config"))
        except BadInput as refusal:
            assert "hunter2" not in str(refusal)


def test_the_profile_is_that_of_the_java_client_and_holds_no_secret(file: Path) -> None:
    file.write_text(YAML.replace("transaction-id-prefix: orders-", "retries: 3"))
    profile = from_files(None, str(file), None, None, None)
    assert (profile.client, profile.producer["acks"], profile.producer["retries"]) == ("java", "1", 3)
    assert "hunter2" not in repr(profile) and "secret-host" not in repr(profile)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (YAML.replace("acks: 1", "acks: ${ACKS}"), "acks is a placeholder of Spring"),
        ("a: [", "no valid YAML at line 1"),
        ("- a", "no mapping"),
        ("server: {port: 1}", "nothing below spring.kafka"),
    ],
)
def test_what_cannot_be_known_is_refused_by_name(file: Path, content: str, told: str) -> None:
    file.write_text(content)
    with pytest.raises(BadInput, match="producer_config") as refusal:
        read_file(str(file), "producer_config")
    assert told in str(refusal.value) and "hunter2" not in str(refusal.value)


def test_topic_settings_are_not_spring_boots(file: Path) -> None:
    with pytest.raises(BadInput, match="topic_config names a file of Spring Boot"):
        read_file(str(file), "topic_config")
