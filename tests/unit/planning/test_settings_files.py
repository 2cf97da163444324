"""Tests of settings files as people have them: each is taken or refused, promises what its client keeps, and says what
has no effect. No name counts that the file's framework does not read."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.settings_files import ALL, FILES, OLD_PRODUCER_LOG, PRODUCER_LOG, SettingsFile

from delivery_verifier import catalogue
from delivery_verifier.command_line import main as cli
from delivery_verifier.contract.guarantees import matrix
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.data import setting_text
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import Profile
from delivery_verifier.planning import client_versions, own_consumers
from delivery_verifier.planning.consistency import check_settings
from delivery_verifier.planning.own_settings import (
    clients,
    connect,
    consumer,
    files,
    profiles,
    properties,
    secret_values,
)

SECRET = "hunter2"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDV_HOME", str(tmp_path / "home"))


def read(file: SettingsFile, folder: Path) -> tuple[Profile, dict[str, str]]:
    """Returns the profile that the file gives, and its settings as text."""
    path = folder / file.name
    path.write_text(file.text)
    paths = {"producer_config": None, "topic_config": None, "consumer_config": None} | {file.field: str(path)}
    profile = profiles.from_files(None, *paths.values(), None)
    if file.field == "consumer_config":
        settings = consumer.translate(files.read_file(str(path), file.field).settings).settings
    else:
        settings = profile.producer if file.field == "producer_config" else profile.topic
    return profile, {name: setting_text(value) for name, value in settings.items()}


def promised(profile: Profile) -> str:
    """Returns the guarantees that the profile's own client keeps if a broker crashes."""
    (row,) = (
        row for row in matrix(Settings.of_profile(profile, client=profile.written_for)) if row.fault_class == "crash"
    )
    return " ".join(sorted(claim for claim, holds in row.guarantees.items() if holds))


@pytest.mark.parametrize("file", [file for file in FILES if not file.refused], ids=lambda file: file.name)
def test_a_file_is_taken_as_its_framework_reads_it(file: SettingsFile, tmp_path: Path) -> None:
    profile, settings = read(file, tmp_path)
    for word in file.settings.split():
        name, _, value = word.removeprefix("!").partition("=")
        assert (name not in settings) if word.startswith("!") else settings.get(name) == value, word
    notes = "\n".join(profile.notes)
    assert [text for text in file.said if text not in notes] == []
    assert SECRET not in repr(profile)
    if file.promise is not None:
        check_settings(profile)
        assert promised(profile) == file.promise


@pytest.mark.parametrize("file", [file for file in FILES if file.refused], ids=lambda file: file.name)
def test_a_file_that_is_not_read_is_refused_in_one_sentence_that_names_the_remedy(
    file: SettingsFile, tmp_path: Path
) -> None:
    with pytest.raises(BadInput) as refused:
        read(file, tmp_path)
    assert len(refused.value.messages) == 1
    assert [text for text in file.said if text not in str(refused.value)] == []
    assert SECRET not in str(refused.value)


def test_the_files_show_every_promise() -> None:
    every = {"", "at_most_once", "ordered", "at_least_once", "at_least_once ordered", ALL, None}
    assert every == {file.promise for file in FILES}


@pytest.mark.parametrize("command", ["explain", "plan", "init"])
def test_every_command_reads_through_the_same_reader(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "application.yml").write_text("spring.kafka.producer: {acks: 1, linger-ms: 7}\n")
    option = [] if command == "init" else ["--producer-config"]
    assert cli.main([command, *option, str(tmp_path / "application.yml")]) == 0
    assert "linger-ms (Spring Boot does not bind these names" in capsys.readouterr().out


def test_connects_own_settings_are_those_of_the_published_example() -> None:
    example = Path(__file__).parents[3] / "docs" / "examples" / "kafka-connect.properties"
    assert connect.DEFAULTS["producer"] == properties.parse(example.read_text(), "producer_config")


def test_a_client_that_the_framework_does_not_have_is_refused(tmp_path: Path) -> None:
    (tmp_path / "application.yml").write_text("spring.kafka.producer.acks: all\n")
    with pytest.raises(BadInput, match="written_for is 'librdkafka', but producer_config is read by a framework"):
        profiles.from_files(None, str(tmp_path / "application.yml"), None, None, "librdkafka")


def of_client(text: str, folder: Path, client: str | None) -> Profile:
    (folder / "client.properties").write_text(text)
    return profiles.from_files(None, str(folder / "client.properties"), None, None, client)


@pytest.mark.parametrize("client", ["java:3.0.0", "java:3.1.0", "java:3.0", "java:3", "java"])
def test_a_log_of_versions_that_announce_idempotence_says_nothing_about_it(client: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="although it is not in force"):
        of_client(OLD_PRODUCER_LOG, tmp_path, client)


@pytest.mark.parametrize("client", ["java:2.8", "java:3.0.1", "java:3.2"])
def test_a_log_of_other_versions_says_whether_idempotence_is_in_force(client: str, tmp_path: Path) -> None:
    assert promised(of_client(OLD_PRODUCER_LOG, tmp_path, client)) == ALL


def test_a_log_is_pasted_without_a_secret() -> None:
    secret_values.require_none(PRODUCER_LOG, "producer_config")
    with pytest.raises(BadInput, match=r"has values for sasl\.jaas\.config"):
        secret_values.require_none(PRODUCER_LOG.replace("[hidden]", SECRET), "producer_config")


WORKER = "key.converter=x\nexactly.once.source.support=enabled\n"
STREAMS = "application.id=x\nprocessing.guarantee=exactly_once_v2\n"


@pytest.mark.parametrize(
    ("text", "client", "since"),
    [(WORKER, "java:3.2", "3.3"), (WORKER, "java:3", "3.3"), (STREAMS, "java:2.8", "3.0")],
)
def test_a_setting_that_the_version_does_not_have_is_refused(
    text: str, client: str, since: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=f"which Kafka has since {since}; allowed: java:{since} or later"):
        of_client(text, tmp_path, client)


@pytest.mark.parametrize(("text", "client"), [(WORKER, "java:3.3"), (STREAMS, "java:3.0"), (STREAMS, "java:3")])
def test_a_setting_that_the_version_has_is_taken(text: str, client: str, tmp_path: Path) -> None:
    assert promised(of_client(text, tmp_path, client)) == ALL


@pytest.mark.parametrize("text", [WORKER, STREAMS])
def test_nothing_is_said_of_versions_before_a_setting(text: str, tmp_path: Path) -> None:
    profile = of_client(text, tmp_path, None)
    assert [entry.versions for entry in client_versions.promises(profile)] == ["4.x"]
    assert any("so nothing is said of clients before it" in note for note in profile.notes)


@pytest.mark.parametrize(("client", "first"), [("java:2", "2.1"), ("librdkafka:0", "0.11")])
def test_a_version_that_covers_releases_without_known_defaults_is_refused(client: str, first: str) -> None:
    with pytest.raises(BadInput, match=f"which covers versions whose defaults are not known; allowed: {first} to"):
        clients.parse(client)


@pytest.mark.parametrize(
    ("value", "client", "said"),
    [
        ("by_duration:nonsense", "java", "by_duration: and a duration in ISO 8601"),
        ("by_duration:P", "java", "by_duration: and a duration in ISO 8601"),
        ("by_duration:-PT1H", "java:4.1", "by_duration: and a duration in ISO 8601"),
        ("by_duration:PT1H", "java:3.9", "the Java client has it since 4.0"),
        ("by_duration:PT1H", "librdkafka", "librdkafka does not have it"),
        ("by_duration:P1DT2H3.5S", "java:4.0", ""),
        ("by_duration:PT1H", None, ""),
    ],
)
def test_a_group_that_begins_at_a_duration_needs_a_client_that_has_it(
    value: str, client: str | None, said: str, tmp_path: Path
) -> None:
    (tmp_path / "c.properties").write_text(f"group.id=g\nauto.offset.reset={value}\n")
    settings = Settings.of_profile(catalogue.PROFILES["safe"])
    if said:
        with pytest.raises(BadInput, match=said):
            own_consumers.of_file(settings, str(tmp_path / "c.properties"), client)
    else:
        of_java = own_consumers.of_file(settings, str(tmp_path / "c.properties"), client)
        assert of_java and all("librdkafka" not in each.condition for each in of_java)
