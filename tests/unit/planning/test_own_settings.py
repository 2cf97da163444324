"""Tests of a user's own settings: each setting is applied, or left out with a note, or refused by name. No secret is
stored or shown."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import KafkaException, Producer

from delivery_verifier import catalogue
from delivery_verifier.command_line import main as cli
from delivery_verifier.contract.settings import Settings
from delivery_verifier.load.layout import queue_room
from delivery_verifier.model.client import Client
from delivery_verifier.model.data import dumps
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import Profile
from delivery_verifier.planning.build import scenario_from_params
from delivery_verifier.planning.consistency import check_settings
from delivery_verifier.planning.own_settings import clients, producer_names, profiles, properties, releases, topic

SECRETS = ("hunter2", "swordfish", "prod-1")
ORDERS = """\
# the orders service
! its cluster
bootstrap.servers=prod-1:9093
sasl.jaas.config=PlainLoginModule required \\
    username="orders" password="hunter2";
ssl.key.password : swordfish
key.serializer org.apache.kafka.common.serialization.StringSerializer
partitioner.class=org.example.Mine
acks = all
enable.idempotence true
max.in.flight.requests.per.connec\\u0074ion:5
delivery.timeout.ms=60000
buffer.memory=67108864
max.block.ms=5000
max.request.size=2097152
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KDV_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def of_files(
    tmp_path: Path,
    producer: str | None = None,
    topic: str | None = None,
    consumer: str | None = None,
    client: Client | None = None,
    base: Profile | None = None,
) -> Profile:
    files: list[str | None] = []
    for name, text in (("producer", producer), ("topic", topic), ("consumer", consumer)):
        files.append(None if text is None else str(tmp_path / f"{name}.properties"))
        if text is not None:
            mark = (
                "key.serializer=org.example.Serializer\n" if name == "producer" else ""
            )  # a Java file, unless text has names of librdkafka
            (tmp_path / f"{name}.properties").write_text(mark + text)
    return profiles.from_files(base, *files, client)  # type: ignore[call-arg]


def test_a_java_file_gives_its_settings_under_the_names_that_the_producer_takes(tmp_path: Path) -> None:
    profile = of_files(tmp_path, ORDERS)
    assert profile.producer == {
        **releases.newest("java").defaults,
        "acks": "all",
        "enable.idempotence": True,
        "max.in.flight.requests.per.connection": 5,
        "delivery.timeout.ms": 60000,
        "socket.timeout.ms": 30000,
        "queue.buffering.max.kbytes": 65536,
        "message.max.bytes": 2097152,
    }
    assert profile.topic == {
        "min.insync.replicas": 1,
        "unclean.leader.election.enable": False,
        "flush.messages": 2**63 - 1,
    }
    check_settings(profile)


def test_what_is_left_out_and_what_fills_the_gaps_is_reported_by_name(tmp_path: Path) -> None:
    told = "\n".join(of_files(tmp_path, ORDERS, "retention.ms=1").notes)
    for name in (
        "bootstrap.servers",
        "sasl.jaas.config",
        "ssl.key.password",
        "key.serializer",
        "partitioner.class",
        "max.block.ms",
        "retention.ms",
    ):
        assert name in told
    assert "the defaults of the Java client 4.x fill the gaps: retries=2147483647" in told
    assert "Kafka's own defaults fill the gaps of the topic: min.insync.replicas=1" in told


def test_no_value_of_a_connection_or_security_name_gets_any_further(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    (tmp_path / "o.properties").write_text(ORDERS)
    for command in ("explain", "plan"):
        for more in ([], ["--json"], ["--save-profile", "orders"], ["--producer-override", "sasl.password=hunter2"]):
            assert cli.main([command, "--producer-config", str(tmp_path / "o.properties"), *more]) == 0
    told = capsys.readouterr()
    seen = told.out + told.err + "".join(file.read_text() for file in home.rglob("*") if file.is_file())
    assert "sasl.jaas.config" in seen
    assert not [secret for secret in SECRETS if secret in seen]


@pytest.mark.parametrize(
    "text",
    ["sasl.jaas.config=x\nhunter2SwordFish0123456789abcdef", "hunter2/+==", "acks=\\uhunter2", "password hunter2"],
)
def test_a_secret_in_a_broken_line_is_not_shown_either(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadInput) as refused:
        of_files(tmp_path, text)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lingr.ms=5", "lingr.ms is no producer property of Kafka; did you mean linger.ms?"),
        ("Acks=all", "did you mean acks?"),
        ("test.mock.num.brokers=1", "it replaces the cluster under test"),
        ("delivery.report.only.error=true", "delivery.report.only.error cannot be verified"),
        ("acks=", "acks has no value"),
        ("retries=5\nmessage.send.max.retries=6", "message.send.max.retries says the same as retries"),
        (
            "delivery.timeout.ms=1000",
            "the Java client 4.x does not start: delivery.timeout.ms is 1000, and it asks for at least linger.ms + "
            "request.timeout.ms, which is 30005",
        ),
        ("buffer.memory=lots", "buffer.memory is 'lots'; allowed: a whole number"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        of_files(tmp_path, text)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "acks=1\nenable.idempotence=true",
            "the Java client 4.x does not start: enable.idempotence=true needs acks=all",
        ),
        ("message.timeout.ms=9\nlinger.ms=9", "`message.timeout.ms` must be greater than `linger.ms`"),
        (
            "max.in.flight.requests.per.connection=6",
            "the Java client 4.x does not start: enable.idempotence, which is on",
        ),
        ("acks=2", "acks is '2', and the Java client does not start with it; allowed: all, -1, 0, 1"),
        (
            "retry.backoff.ms=-1",
            "retry.backoff.ms is '-1', and the Java client does not start with it; allowed: 0 to 9223372036854775807",
        ),
        (
            "compression.type=brotli",
            "compression.type is 'brotli', and the Java client does not start with it; allowed: none",
        ),
        ("socket.max.fails=3", "socket.max.fails is 3; allowed: 1; with another value librdkafka keeps a connection"),
        ("socket.max.fails=0", "later requests before it tries that one again, even with one request in flight"),
        ("buffer.memory=100000", "leaves room for 993 records of payload_bytes=100"),
    ],
)
def test_a_contradiction_is_refused_before_anything_starts_with_the_clients_own_reason(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(BadInput) as refused:
        own = of_files(tmp_path, text)
        scenario_from_params({"own_profile": json.loads(dumps(own))}, "r")
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "idempotent"),
    [
        ("", True),
        ("acks=1", False),
        ("acks=0", False),
        ("retries=0", False),
        ("acks=-1", True),
        ("message.timeout.ms=9", False),
    ],
)
def test_idempotence_is_on_where_the_client_would_have_it_on(tmp_path: Path, text: str, idempotent: bool) -> None:
    """The default differs by client. Java's client enables idempotence unless another setting forbids it. librdkafka
    enables idempotence only on request."""
    assert Settings.of_profile(of_files(tmp_path, text)).enable_idempotence is idempotent


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("request.timeout.ms=20000", "socket.timeout.ms", 20000),
        ("request.timeout.ms=400000", "delivery.timeout.ms", 400005),
        ("request.timeout.ms=400000", "socket.timeout.ms", 300000),
        ("metadata.max.age.ms=5000", "topic.metadata.refresh.interval.ms", 5000),
        ("batch.size=0", "batch.size", 1),
        ("compression.type=zstd\ncompression.zstd.level=7", "compression.level", 7),
        ("acks=-1", "acks", "all"),
        ("message.timeout.ms=9000", "delivery.timeout.ms", 9000),
        ("socket.timeout.ms=100\nenable.idempotence=true", "max.in.flight.requests.per.connection", 5),
        ("socket.timeout.ms=100", "max.in.flight.requests.per.connection", 1_000_000),
    ],
)
def test_a_value_means_here_what_it_means_to_the_client_it_was_written_for(
    tmp_path: Path, text: str, name: str, value: object
) -> None:
    assert of_files(tmp_path, text).producer[name] == value


def test_the_last_of_two_lines_counts_as_in_java() -> None:
    assert properties.parse("acks=0\nacks : a\\\n   ll  ", "f") == {"acks": "all"}


@pytest.mark.parametrize("client", ["java", "librdkafka"])
def test_the_defaults_of_a_client_are_accepted_by_the_contract_and_by_librdkafka(
    tmp_path: Path, client: Client
) -> None:
    check_settings(of_files(tmp_path, "", client=client))


def test_what_is_exercised_is_known_to_librdkafka_and_stands_in_one_table_only() -> None:
    for name in producer_names.EXERCISED:
        try:
            Producer({name: "?", "log_level": 0})
        except KafkaException as error:
            assert "No such configuration property" not in error.args[0].str(), name
    tables = (
        producer_names.EXERCISED,
        set(producer_names.SAME) - {"message.max.bytes"},
        set(producer_names.LEFT_OUT),
        set(producer_names.REFUSED),
    )
    assert sum(len(table) for table in tables) == len(set().union(*tables))
    assert set(producer_names.SAME.values()) <= producer_names.EXERCISED
    for row in (*releases.RELEASES["java"], *releases.RELEASES["librdkafka"]):
        assert set(row.defaults) <= producer_names.EXERCISED
    assert set(topic.DEFAULTS) <= set(topic.EXERCISED)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("min.insync.replica=2", "did you mean min.insync.replicas?"),
        ("cleanup.policy=compact", "cleanup.policy is 'compact'; allowed: delete"),
        ("remote.storage.enable=true", "remote.storage.enable is 'true'; allowed: false"),
        ("min.insync.replicas=two", "min.insync.replicas is 'two'; allowed: a whole number"),
        ("unclean.leader.election.enable=1", "unclean.leader.election.enable is '1'; allowed: true, false"),
        ("min.cleanable.dirty.ratio=half", "allowed: a number"),
    ],
)
def test_a_topic_property_is_checked_by_name_and_value(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        of_files(tmp_path, topic=text)
    assert said in str(refused.value)


def test_a_topic_property_must_be_known_to_the_brokers_under_test() -> None:
    params = {"topic_overrides": "max.decompressed.message.bytes=1000000", "kafka_version": "4.4.0"}
    assert scenario_from_params(params, "r").subjects[0].profile.topic["max.decompressed.message.bytes"] == 1_000_000
    with pytest.raises(BadInput, match=r"unknown to Kafka 4\.3\.1: it exists since 4\.4"):
        scenario_from_params({**params, "kafka_version": "4.3.1"}, "r")


def test_consumer_settings_are_checked_and_said_not_to_be_exercised(tmp_path: Path) -> None:
    base = catalogue.PROFILES["acks_1"]
    text = (
        "group.id=g\nmax.poll.records=1\nauto.offset.reset=none\nfetch.max.wait.ms=100\nsasl.password=hunter2\n"
        "partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    )
    own = of_files(tmp_path, consumer=text, base=base)
    assert (own.name, own.producer, own.topic) == (base.name, base.producer, base.topic)
    told = "\n".join(own.notes)
    assert "not exercised" in told and "max.poll.records" in told and "hunter2" not in told
    for wrong, said in (("grup.id=g", "did you mean group.id?"), ("isolation.level=clean", 'Invalid value "clean"')):
        with pytest.raises(BadInput) as refused:
            of_files(tmp_path, consumer=wrong)
        assert said in str(refused.value)


def test_an_override_takes_the_place_of_the_profiles_own_value() -> None:
    scenario = scenario_from_params(
        {"profile": "acks_1", "producer_overrides": "retries=0\nmax.request.size=2000\n", "topic_overrides": ""}, "r"
    )
    subject = scenario.subjects[0].profile
    assert subject.producer == {**catalogue.PROFILES["acks_1"].producer, "retries": 0, "message.max.bytes": 2000}
    assert (subject.name, subject.topic) == ("own", catalogue.PROFILES["acks_1"].topic)


@pytest.mark.parametrize("own", [{"test.mock.num.brokers": 1}, {"queuing.strategy": "lifo"}, {"error_cb": "x"}])
def test_a_profile_that_came_another_way_is_held_to_the_same_names(own: dict[str, object]) -> None:
    sent = json.loads(dumps(catalogue.PROFILES["safe"]))
    sent["producer"] |= own
    with pytest.raises(BadInput, match="is no producer property that can be verified"):
        scenario_from_params({"own_profile": sent}, "r")


def test_a_saved_profile_is_read_back_and_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    (tmp_path / "o.properties").write_text(ORDERS)
    assert cli.main(["plan", "--producer-config", str(tmp_path / "o.properties"), "--save-profile", "orders"]) == 0
    capsys.readouterr()
    assert cli.main(["plan", "--profile", "orders", "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert planned["arms"][0]["name"] == "orders" and planned["command"] == "kdv run --profile orders"
    used, known = scenario_from_params({"profile": "orders"}, "planned").subjects[0].profile, profiles.known()["orders"]
    assert msgspec.structs.replace(used, notes=known.notes) == known and used.notes[: len(known.notes)] == known.notes
    (home / "profiles" / "broken.json").write_text('{"name": "broken"}')
    assert cli.main(["list", "profiles"]) == 0
    told = capsys.readouterr().out
    assert "orders " in told and "broken.json cannot be read: Object missing required field `summary`" in told
    assert cli.main(["plan", "--profile", "broken"]) == cli.BAD_INPUT


@pytest.mark.parametrize("name", ["safe", "own", "canary", "control-x", "../x", "a b", ""])
def test_a_profile_is_not_saved_under_a_name_that_is_taken_or_no_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput, match="save_profile is"):
        profiles.save(catalogue.PROFILES["safe"], name)


def test_the_command_that_is_written_down_makes_the_same_settings_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "o.properties").write_text(ORDERS)
    assert (
        cli.main(
            [
                "plan",
                "--json",
                "--producer-config",
                str(tmp_path / "o.properties"),
                "--topic-override",
                "segment.ms=60000",
                "--min-insync-replicas",
                "2",
            ]
        )
        == 0
    )
    first = json.loads(capsys.readouterr().out)
    assert cli.main(["plan", "--json", *shlex.split(first["command"])[2:]]) == 0
    again = json.loads(capsys.readouterr().out)
    for part in ("name", "producer", "topic"):
        assert again["arms"][0]["profile"][part] == first["arms"][0]["profile"][part]
    assert again["command"] == first["command"]


@pytest.mark.parametrize(
    "line",
    [
        ["--profile", "nonsense"],
        ["--producer-config", "/no/such/file"],
        ["--profile", "safe", "--producer-config", "x"],
    ],
)
def test_a_profile_that_is_not_there_is_bad_input(line: list[str]) -> None:
    assert cli.main(["plan", *line]) == cli.BAD_INPUT


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({}, None),
        ({"queue.buffering.max.messages": 0}, None),
        ({"queue.buffering.max.messages": 7}, 7),
        ({"queue.buffering.max.kbytes": 100}, 1024),
        ({"queue.buffering.max.kbytes": 100, "queue.buffering.max.messages": 9}, 9),
    ],
)
def test_the_load_never_asks_for_more_room_than_the_settings_give(settings: dict[str, int], found: int | None) -> None:
    assert queue_room(settings, 100) == found


@pytest.mark.parametrize("names", [[], ["acks"], ["acks", "bootstrap.servers", "linger.ms"]])
def test_a_file_that_could_be_either_clients_is_not_judged_under_a_guess(names: list[str]) -> None:
    with pytest.raises(BadInput, match="say --written-for java or --written-for librdkafka"):
        clients.client_of(names)
    assert clients.client_of([*names, "enable.idempotence"]) == "java"  # nothing that depends on it is left open
    assert clients.client_of([*names, "ssl.ca.pem"]) == "librdkafka"


def test_translation_tells_whose_names_they_are() -> None:
    assert clients.client_of(["acks", "max.block.ms"]) == "java"
    assert clients.client_of(["acks", "message.timeout.ms"]) == "librdkafka"


@pytest.mark.parametrize("client", ["java", "librdkafka"])
def test_a_transactional_file_gives_a_producer_that_librdkafka_makes(tmp_path: Path, client: Client) -> None:
    profile = of_files(tmp_path, "transactional.id=orders\ntransaction.timeout.ms=20000", client=client)
    check_settings(profile)
    found = profile.producer
    assert found["enable.idempotence"] is True and found["max.in.flight.requests.per.connection"] == 5
    assert (found["delivery.timeout.ms"], found["transaction.timeout.ms"]) == (20000, 20000)
    told = "\n".join(profile.notes)
    assert "every producer has one of its own, orders-<arm>-<number>" in told
    assert "delivery.timeout.ms=20000: librdkafka allows no more than transaction.timeout.ms" in told


def test_a_transaction_timeout_without_transactions_is_left_out_and_told(tmp_path: Path) -> None:
    profile = of_files(tmp_path, "transaction.timeout.ms=20000", client="java")
    assert "transaction.timeout.ms" not in profile.producer
    assert "left out: transaction.timeout.ms (without transactional.id it does nothing; an arm with" in str(
        profile.notes
    )


def test_transactions_can_be_put_over_a_profile_that_has_none_and_changed_where_there_are(tmp_path: Path) -> None:
    over = profiles.overridden(catalogue.PROFILES["safe"], "transactional.id=mine", "")
    check_settings(over)
    assert (over.producer["transactional.id"], over.producer["transaction.timeout.ms"]) == ("mine", 60000)
    changed = profiles.overridden(catalogue.PROFILES["transactional"], "transaction.timeout.ms=90000", "")
    check_settings(changed)
    assert changed.producer["transaction.timeout.ms"] == 90000
    with pytest.raises(BadInput, match=r"must be set <= `transaction\.timeout\.ms`"):
        check_settings(profiles.overridden(catalogue.PROFILES["transactional"], "transaction.timeout.ms=30000", ""))
