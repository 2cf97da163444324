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
    assert (profile.written_for, profile.producer["acks"], profile.producer["retries"]) == ("java", "1", 3)
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


def spring_yaml(tmp_path: Path, text: str) -> str:
    path = tmp_path / "application.yml"
    path.write_text(text)
    return str(path)


ACKS_ALL = "spring.kafka.producer.acks: all\n"


@pytest.mark.parametrize(
    ("base", "condition", "acks"),
    [
        ("", "default", "0"),
        ("spring.profiles.active: prod\n", "prod", "0"),
        ("spring.profiles.active: prod\n", "default", "all"),
        ("spring.profiles.active: prod\n", "'!prod'", "all"),
        ("spring.profiles.active: prod\n", "'!dev'", "0"),
        ("", "prod", "all"),
        ("spring.profiles.active: prod\nspring.profiles.group.prod: kafkaprod\n", "kafkaprod", None),
        ("spring.profiles.default: dev\n", "dev", None),
        ("spring.profiles.active: prod,eu\n", "prod & eu", None),
        ("spring.profiles.active: prod\n", "(prod | stage)", None),
        ("spring.profiles.active: ${ENV:prod}\n", "prod", None),
        ("", "'!dev & cloud'", None),
    ],
)
def test_a_document_under_a_condition_counts_as_boot_counts_it_or_the_file_is_refused(
    tmp_path: Path, base: str, condition: str, acks: str | None
) -> None:
    """Compared with what Boot 3.4.11 binds: where it says None here, Boot takes a document that a plain reader would
    leave out, or the other way round."""
    document = f"spring.config.activate.on-profile: {condition}\nspring.kafka.producer.acks: 0\n"
    path = spring_yaml(tmp_path, f"{base}{ACKS_ALL}---\n{document}")
    if acks is None:
        with pytest.raises(BadInput, match="not known here whether it applies"):
            read_file(path, "producer_config")
    else:
        assert read_file(path, "producer_config")["acks"] == acks


@pytest.mark.parametrize(
    ("placeholder", "acks"), [("app.acks-mode", "all"), ("app.acksMode", "0"), ("APP.ACKS-MODE", "0")]
)
def test_only_a_placeholder_in_lower_case_finds_another_spelling(tmp_path: Path, placeholder: str, acks: str) -> None:
    text = f"app.acks_mode: all\nspring.kafka.producer.acks: ${{{placeholder}:0}}\n"
    assert read_file(spring_yaml(tmp_path, text), "producer_config")["acks"] == acks


@pytest.mark.parametrize(
    "name",
    [
        "spring.kafka.orders.producer.acks",
        "spring.kafka.clusters[0].producer.acks",
        "spring.kafka.producer.config.acks",
        "spring.kafka.producer.configuration.enable.idempotence",
        "rabbit-bridge.kafka.producer.acks",
        "app.kafka.producer.idempotence",
        "app.kafka.producer.max-in-flight-requests",
    ],
)
def test_a_tree_of_the_applications_own_is_never_ignored(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput, match="is not known"):
        read_file(spring_yaml(tmp_path, f"{ACKS_ALL}{name}: 0\n"), "producer_config")


@pytest.mark.parametrize("name", ["linger.ms", "linger-ms", "enable.idempotence", "retry.backoff.ms"])
def test_a_misplaced_name_of_kafkas_has_no_effect_and_is_no_tree(tmp_path: Path, name: str) -> None:
    assert read_file(spring_yaml(tmp_path, f"{ACKS_ALL}spring.kafka.producer.{name}: 0\n"), "producer_config")


@pytest.mark.parametrize(
    ("separator", "splits"),
    [("#---", True), ("# dev\n#---", False), ("#---\n# dev", False), ("! dev\n#---", True), ("#----", False)],
)
def test_a_comment_beside_a_separator_takes_its_effect(separator: str, splits: bool) -> None:
    text = f"one=1\n{separator}\ntwo=2\n"
    assert len(files.documents_of(text)) == 1 + splits


@pytest.mark.parametrize(
    ("text", "message"),
    [("\ufeffacks=all\nbuffer.memory=1\n", "byte order mark"), ("\xa0acks=all\n", "did you mean acks")],
)
def test_what_java_takes_for_a_part_of_a_name_is_no_other_name(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "producer.properties"
    path.write_text(text)
    with pytest.raises(BadInput, match=message):
        from_files(None, str(path), None, None, "java")


def test_a_key_that_stands_twice_in_one_mapping_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="has a key twice at line 5"):
        read_file(
            spring_yaml(tmp_path, "spring:\n  kafka:\n    producer:\n      acks: 0\n      acks: all\n"),
            "producer_config",
        )
    shared = "base: &base {acks: all}\nspring.kafka.producer:\n  <<: *base\n  retries: 3\n"
    assert read_file(spring_yaml(tmp_path, shared), "producer_config")["acks"] == "all"


def test_a_topic_of_strimzi_with_a_list_has_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "topic.yaml"
    path.write_text(
        "apiVersion: kafka.strimzi.io/v1\nkind: KafkaTopic\nspec: {config: {cleanup.policy: [compact, delete]}}\n"
    )
    assert read_file(str(path), "topic_config") == {"cleanup.policy": "compact,delete"}


def test_a_number_with_an_underscore_is_none(tmp_path: Path) -> None:
    path = tmp_path / "producer.properties"
    path.write_text("acks=all\nretries=1_0\nbuffer.memory=33554432\n")
    with pytest.raises(BadInput, match="retries is '1_0'"):
        from_files(None, str(path), None, None, "java")
