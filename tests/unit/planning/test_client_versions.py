"""Tests of the versions of clients: whose defaults fill the gaps of a file, and for which versions a promise holds."""

from __future__ import annotations

import ctypes
import itertools
import json
from pathlib import Path

import confluent_kafka
import msgspec
import pytest

from delivery_verifier import catalogue
from delivery_verifier.command_line import main as cli
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.data import Setting, setting_text
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import Profile
from delivery_verifier.planning import client_versions, own_consumers
from delivery_verifier.planning.build import scenario_from_params
from delivery_verifier.planning.consistency import check_settings
from delivery_verifier.planning.own_settings import clients, effective, producer_names, profiles, releases
from delivery_verifier.planning.own_settings.releases import RELEASES, Version

IN_FLIGHT = "max.in.flight.requests.per.connection"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDV_HOME", str(tmp_path / "home"))


def written(text: str, client: str) -> Profile:
    return profiles.pasted(text, client)


def found(client: str, text: str = "") -> tuple[str, bool, int, object]:
    settings = Settings.of_profile(profile := written(text, client))
    return settings.acks, settings.enable_idempotence, settings.max_in_flight, profile.producer["linger.ms"]


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        ("java:2.8", ("1", False, 5, 0)),
        ("java:3.0.0", ("all", False, 5, 0)),
        ("java:3.0.1", ("all", True, 5, 0)),
        ("java:3.1", ("all", False, 5, 0)),
        ("java:3.1.1", ("all", True, 5, 0)),
        ("java:3.9", ("all", True, 5, 0)),
        ("java:4.1", ("all", True, 5, 5)),
        ("java", ("all", True, 5, 5)),
        ("librdkafka:0.11", ("1", False, 1000000, 0)),
        ("librdkafka:1.3", ("all", False, 1000000, "0.5")),
        ("librdkafka", ("all", False, 1000000, 5)),
    ],
)
def test_the_gaps_of_a_file_are_filled_by_the_defaults_of_the_named_version(
    client: str, expected: tuple[object, ...]
) -> None:
    assert found(client) == expected
    check_settings(written("", client))


@pytest.mark.parametrize("row", [*RELEASES["java"], *RELEASES["librdkafka"]], ids=lambda row: releases.spans([row]))
def test_every_row_gives_settings_that_a_run_exercises(row: releases.Release) -> None:
    check_settings(written("", f"{row.client}:{releases.text(row.first)}"))
    assert row.source
    assert ("retry.backoff.max.ms" in written("", f"{row.client}:{releases.text(row.last)}").producer) is True


def test_rows_follow_upon_each_other() -> None:
    for client, rows in RELEASES.items():
        assert [row.client for row in rows] == [client] * len(rows)
        assert [row.first for row in rows] == sorted(row.first for row in rows)
        for row, later in itertools.pairwise(rows):
            assert row.first <= row.last < later.first


def test_the_newest_row_of_librdkafka_is_what_the_library_of_a_run_says_of_itself() -> None:
    """By its own list of properties (rd_kafka_conf_dump), of the library that every run loads."""
    assert confluent_kafka.libversion()[0].startswith(f"{releases.text(releases.newest('librdkafka').last)}.")
    (file,) = Path(confluent_kafka.__file__).parent.with_name("confluent_kafka.libs").glob("librdkafka-*")
    library, own = ctypes.CDLL(str(file)), dict[str, str]()
    for kind in ("conf", "topic_conf"):
        create, dump = (getattr(library, f"rd_kafka_{kind}_{verb}") for verb in ("new", "dump"))
        create.restype, dump.restype = ctypes.c_void_p, ctypes.POINTER(ctypes.c_char_p)
        dump.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)]
        length = ctypes.c_size_t()
        words = dump(create(), ctypes.byref(length))
        own = {words[at].decode(): (words[at + 1] or b"").decode() for at in range(0, length.value, 2)} | own
    main_names = {other: name for other, name in producer_names.SAME.items() if other in own}
    found = {main_names.get(name, name): value for name, value in own.items()}
    for name, value in releases.newest("librdkafka").defaults.items():
        assert found[name] == ("-1" if name == "acks" else setting_text(value)), name


@pytest.mark.parametrize(
    ("version", "first"),
    [
        ((), (2, 1)),
        ((2,), (2, 1)),
        ((2, 1, 1), (2, 1)),
        ((3, 0), (3, 0, 0)),
        ((3, 0, 2), (3, 0, 1)),
        ((3, 6, 2), (3, 1, 1)),
        ((4, 4, 9), (4, 0)),
    ],
)
def test_a_version_belongs_to_the_row_of_its_release(version: Version, first: Version) -> None:
    assert releases.matching("java", version)[0].first == first


@pytest.mark.parametrize("version", ["1.1", "2.0.1", "3.0.3", "3.10", "4.5", "5"])
def test_a_version_whose_defaults_nobody_measured_is_refused(version: str) -> None:
    with pytest.raises(BadInput, match=r"whose defaults are not known; allowed: 2\.1 to 4\.4"):
        clients.parse(f"java:{version}")


@pytest.mark.parametrize("text", ["jva", "java:", "java:x", "java 3.1", "Java", ""])
def test_what_names_no_client_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="allowed: librdkafka, java, each also with a version"):
        clients.parse(text)


def test_a_mistyped_client_is_refused_even_if_no_file_needs_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "--written-for", "jva"]) == cli.BAD_INPUT
    assert "written_for is 'jva'; allowed: librdkafka, java, each also with a version, e.g. java:3.1" in (
        capsys.readouterr().err
    )


def test_a_mistyped_client_of_a_file_is_refused_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "p.properties").write_text("acks=1\n")
    command = ["explain", "--producer-config", str(tmp_path / "p.properties"), "--written-for", "sarama"]
    assert cli.main(command) == cli.BAD_INPUT
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("more", [[], ["--profile", "safe"], ["--topic-config", "FILE"]])
def test_a_client_without_a_file_of_its_own_is_refused_because_it_would_change_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, more: list[str]
) -> None:
    topic = tmp_path / "t.properties"
    topic.write_text("min.insync.replicas=2\n")
    assert (
        cli.main(["explain", "--written-for", "java:3.1", *(str(topic) if one == "FILE" else one for one in more)])
        == 64
    )
    said = capsys.readouterr()
    assert said.out == "" and "written_for is 'java:3.1', but no file of settings is given" in said.err


@pytest.mark.parametrize(
    ("version", "name"),
    [("", "4.x"), (":4.1", "4.1"), (":3.1", "3.1.0"), (":3", "3.0.0"), (":2.1", "2.1"), (":3.4.1", "3.4.1")],
)
def test_the_version_is_said(version: str, name: str) -> None:
    assert clients.parse(f"java{version}").name == f"the Java client {name}"
    assert f"the defaults of the Java client {name} fill the gaps" in "\n".join(written("", f"java{version}").notes)


TEN: dict[str, Setting] = {IN_FLIGHT: 10}


@pytest.mark.parametrize(
    ("client", "explicit", "idempotent"),
    [
        ("java:3.9", TEN, False),
        ("java:3.9", {**TEN, "enable.idempotence": True}, None),
        ("java", TEN, None),
        ("java", {**TEN, "acks": "1"}, None),
        ("java", {**TEN, "enable.idempotence": False}, False),
        ("java:3.1.0", {"enable.idempotence": True}, True),
        ("java:3.1.0", {"transactional.id": "t"}, True),
        ("java:2.8", {"enable.idempotence": True}, True),
        ("java:2.8", {"enable.idempotence": True, "acks": "1"}, None),
        ("java", {"acks": "1"}, False),
        ("java", {"retries": 0}, False),
        ("java", {"transactional.id": "t", "retries": 0}, None),
        ("java", {"transactional.id": "t", "enable.idempotence": False}, None),
        ("librdkafka:0.11", {"enable.idempotence": False}, None),
        ("librdkafka:0.11", {}, False),
        ("librdkafka:1.0", {"enable.idempotence": True}, True),
        ("librdkafka:1.0", {"transactional.id": "t"}, None),
        ("librdkafka:1.4", {"transactional.id": "t"}, True),
        ("librdkafka", {"enable.idempotence": True, IN_FLIGHT: 6}, None),
    ],
)
def test_idempotence_follows_the_rules_of_the_version(
    client: str, explicit: dict[str, Setting], idempotent: bool | None
) -> None:
    """None: the producer does not start."""
    release = clients.parse(client).release
    reason = effective.reason_not_to_start(explicit, release)
    assert bool(reason) is (idempotent is None)
    if idempotent is not None:
        full = effective.settings(explicit, release, client)
        assert full["enable.idempotence"] is idempotent
        assert full["acks"] == "all" or not idempotent


def test_more_than_five_in_flight_is_reported_as_what_each_version_makes_of_it() -> None:
    with pytest.raises(BadInput) as refused:
        written(f"{IN_FLIGHT}=10", "java")
    told = str(refused.value)
    assert told.startswith("the Java client 4.x does not start: enable.idempotence, which is on by default, allows at")
    assert "2.1 to 3.9 start, without idempotence" in told and "java:3.9" in told
    assert "own_profile" not in told and "max.in.flight`" not in told
    assert found("java:3.9", f"{IN_FLIGHT}=10") == ("all", False, 10, 0)


def test_a_file_without_a_version_says_for_which_versions_its_promises_hold() -> None:
    told = client_versions.remark(written("linger.ms=20\n", "java"))
    assert told.startswith(
        "no version named: defaults and promises are those of the Java client 3.1.1 to 4.x, 3.0.1 and 3.0.2 (acks=all, "
        "idempotent); with 3.1.0, 3.0.0: acks=all, not idempotent; "
    )
    assert told.endswith("with 2.1 to 2.8: acks=1, not idempotent. Name your version, e.g. written for java:2.8")
    assert client_versions.remark(written("acks=1\n", "java")) == (
        "these settings promise the same with the Java client 2.1 to 4.x"
    )
    assert client_versions.remark(written("linger.ms=20\n", "java:3.9")) == ""
    assert "java:3.1 is not one version" in client_versions.remark(written("linger.ms=20\n", "java:3.1"))
    assert client_versions.remark(catalogue.PROFILES["safe"]) == ""
    old = client_versions.remark(written("linger.ms=20\n", "librdkafka"))
    assert "of librdkafka 1.0 to 2.16 (acks=all, not idempotent); with 0.11: acks=1, not idempotent" in old


def test_a_release_that_does_not_start_is_said_with_its_reason() -> None:
    told = client_versions.remark(written("enable.idempotence=true\n", "librdkafka"))
    assert "0.11: does not start, for it has no enable.idempotence" in told


def test_transactions_of_the_java_client_before_4_are_as_those_of_librdkafka() -> None:
    """KIP-890: only the Java client since 4.0 asks for version 2 of transactions, in which a late end is refused."""
    text = "transactional.id=t\n"
    assert Settings.of_profile(written(text, "java"), client="java").ends_are_fenced
    assert not Settings.of_profile(written(text, "java:3.9"), client="java").ends_are_fenced
    assert not Settings.of_profile(written(text, "java")).ends_are_fenced
    newest, older = client_versions.promises(written(text, "java"))
    assert (newest.versions, newest.assumed, older.versions) == ("4.x", True, "2.1 to 3.9")
    assert older.lost == {"at_least_once": ["connections"], "exactly_once": ["connections"]} and not older.won
    assert "2.1 to 3.9: lost is at_least_once under connections" in client_versions.remark(written(text, "java"))


def test_the_explanation_gives_the_promise_of_each_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "p.properties"
    file.write_text("key.serializer=x\n")
    assert cli.main(["explain", "--producer-config", str(file)]) == 0
    text = capsys.readouterr().out
    assert "guarantees of these settings (with the defaults of 3.1.1 to 4.x, 3.0.1 and 3.0.2): under" in text
    assert "\n  2.1 to 2.8: acks=1, not idempotent\n    lost is at_least_once under leadership change, crash" in text
    assert cli.main(["explain", "--producer-config", str(file), "--json"]) == 0
    newest, announced, oldest = json.loads(capsys.readouterr().out)["versions"]
    assert (newest["assumed"], announced["assumed"], oldest["assumed"]) == (True, False, False)
    assert (announced["acks"], announced["idempotent"]) == ("all", False)
    assert cli.main(["explain", "--producer-config", str(file), "--written-for", "java:2.8"]) == 0
    text = capsys.readouterr().out
    assert "by version of the client for" not in text and "were written for the Java client 2.8;" in text
    assert "guarantees of these settings: under" in text


def test_an_override_counts_in_every_version() -> None:
    base = profiles.overridden(written("linger.ms=20\n", "java"), "acks=all\nenable.idempotence=true\n", "")
    assert client_versions.remark(base) == "these settings promise the same with the Java client 2.1 to 4.x"


def test_a_plan_and_a_run_say_whose_defaults_and_for_which_versions() -> None:
    fields = {"profile": "own", "producer_config": "linger.ms=20\n"}
    notes = scenario_from_params({**fields, "written_for": "java:3.1"}, "r").subjects[0].profile.notes
    assert any("the defaults of the Java client 3.1.0 fill the gaps" in note for note in notes)
    assert any("3.1.1 to 3.6: acks=all, idempotent" in note for note in notes)
    scenario = scenario_from_params({**fields, "written_for": "librdkafka:0.11"}, "r")
    assert scenario.subjects[0].profile.producer["acks"] == "1"
    assert any(
        note == "an arm with librdkafka has these settings with librdkafka 2.16, not with librdkafka 0.11"
        for note in scenario.subjects[0].profile.notes
    )


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("request.timeout.ms=2147483647", "request.timeout.ms", 900_000),
        ("request.timeout.ms=1", "socket.timeout.ms", 10),
        ("reconnect.backoff.max.ms=9000000", "reconnect.backoff.max.ms", 3600000),
        ("retry.backoff.ms=0", "retry.backoff.ms", 1),
    ],
)
def test_a_value_that_only_librdkafka_refuses_is_explained_for_the_java_client(
    text: str, name: str, value: int
) -> None:
    profile = written(text, "java")
    check_settings(profile)
    assert profile.producer[name] == value
    assert "2147483647" not in profile.notes[0].partition("socket.timeout.ms")[2], "the defaults are those of the run"
    given = text.partition("=")[0]
    if given == name:
        assert any(f"an arm with it exercises {value}" in note and note.startswith(given) for note in profile.notes)
    with pytest.raises(BadInput, match="outside allowed range"):
        written("message.timeout.ms=60000\nrequest.timeout.ms=2147483647", "librdkafka")


def test_a_value_that_the_java_client_refuses_too_is_refused() -> None:
    with pytest.raises(BadInput, match="does not start with it; allowed: 0 to 2147483647"):
        written("request.timeout.ms=2147483648", "java")


def test_the_limit_of_transactions_is_said_to_be_the_brokers() -> None:
    with pytest.raises(BadInput) as refused:
        written("transactional.id=t\ntransaction.timeout.ms=3600000", "java")
    told = str(refused.value)
    assert "their transaction.max.timeout.ms, which is 900000 by default" in told and "own_profile" not in told


def test_a_consumer_of_an_old_librdkafka_is_handed_what_was_aborted(tmp_path: Path) -> None:
    file = tmp_path / "c.properties"
    file.write_text("group.id=g\nenable.auto.commit=false\n")
    settings = Settings.of_profile(catalogue.PROFILES["safe"])
    for client, isolation in (("librdkafka:1.1", "read_uncommitted"), ("librdkafka:1.2", "read_committed")):
        explained = own_consumers.of_file(settings, str(file), client)
        assert {each.consumer["isolation.level"] for each in explained} == {isolation}


def test_what_was_written_is_held_to_the_names_of_a_producer() -> None:
    sent = msgspec.to_builtins(written("linger.ms=20", "java"))
    assert scenario_from_params({"own_profile": sent}, "r").subjects[0].profile.written == {"linger.ms": 20}
    sent["written"]["sasl.password"] = "hunter2"
    with pytest.raises(BadInput, match=r"sasl\.password is no producer property") as refused:
        scenario_from_params({"own_profile": sent}, "r")
    assert "hunter2" not in str(refused.value)


def test_a_version_in_a_profile_of_another_origin_must_be_known() -> None:
    sent = msgspec.to_builtins(written("linger.ms=20", "java")) | {"written_for_version": "9.9"}
    with pytest.raises(BadInput, match=r"'java:9\.9', a version whose defaults are not known"):
        scenario_from_params({"own_profile": sent}, "r")
