"""Tests of the Java client's side in Python: settings, errors, and what is refused before anything starts. The classes
of the JVM belong to their source. tests/kafka/calm_cluster/test_java_load.py has the JVM on real brokers."""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import KafkaError

from delivery_verifier.catalogue import PROFILES, SCENARIOS, build
from delivery_verifier.host.java import build as builds
from delivery_verifier.host.java import jars, jvm, runtime
from delivery_verifier.host.java.jars import JarError
from delivery_verifier.host.java.runtime import JavaError
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.load import error_codes
from delivery_verifier.load import pool as pools
from delivery_verifier.load.java import errors, settings
from delivery_verifier.load.java.client import require_java
from delivery_verifier.load.pool import ProducerPool, require_client
from delivery_verifier.load.spec import ProducerSpec
from delivery_verifier.model.client import CLIENTS
from delivery_verifier.model.inputs import BadInput

RUN = build(SCENARIOS["acks_1.frozen_followers"], "a-run")
SPEC = ProducerSpec(
    folder="none",
    connection={},
    settings=PROFILES["idempotent"].producer,
    topic="t",
    run_token="abcdefgh",
    arm=1,
    producer=0,
    session=0,
    records=1,
    rate=None,
    block=1,
    partitions=1,
    payload_bytes=100,
    deadline_s=1.0,
    client="java",
)


def of_program(name: str) -> Path:
    """The source of the program `name`."""
    (source,) = (each for each in builds.SOURCES if each.stem == name)
    return source


@pytest.mark.parametrize("source", builds.SOURCES, ids=lambda source: source.stem)
def test_the_classes_are_made_from_the_source_beside_them(source: Path) -> None:
    built = json.loads(builds.record_of(source).read_text())
    digests = builds.digests(source, source.parent)
    assert built["sha256"] == digests, "run `python -m delivery_verifier.host.java.build`"


@pytest.mark.skipif(not shutil.which("javac"), reason="there is no compiler on this host")
@pytest.mark.parametrize("source", builds.SOURCES, ids=lambda source: source.stem)
def test_the_source_compiles_to_these_classes(source: Path, tmp_path: Path) -> None:
    builds.compiled(source, tmp_path)
    built = json.loads(builds.record_of(source).read_text())
    assert {file.name for file in tmp_path.iterdir()} | {source.name} == built["sha256"].keys()
    if built["compiler"] == builds.compiler():
        assert builds.digests(source, tmp_path) == built["sha256"]


def test_a_class_that_was_not_made_anew_is_noticed(tmp_path: Path) -> None:
    assert {source.stem for source in builds.SOURCES} == {"LoadClient", "MemberClient"}
    source = of_program("LoadClient")
    for file in source.parent.glob("LoadClient*"):
        shutil.copy(file, tmp_path)
    copy = tmp_path / source.name
    assert builds.digests(copy, tmp_path) == builds.digests(source, source.parent)
    copy.write_text(copy.read_text() + "// changed\n")
    assert builds.digests(copy, tmp_path) != builds.digests(source, source.parent) | {"LoadClient.java": ""}
    with pytest.raises(AssertionError, match="run `python -m"):
        test_the_classes_are_made_from_the_source_beside_them(copy)


def test_a_code_of_an_error_of_the_java_client_keeps_its_meaning() -> None:
    assert [error_codes.error_name(code) for code in range(2001, 2006)] == [
        "TimeoutException",
        "BufferExhaustedException",
        "SerializationException",
        "IllegalStateException",
        "InterruptException",
    ]
    assert error_codes.error_name(1008) == "_MSG_TIMED_OUT"


def test_only_what_send_itself_refuses_before_it_appends_is_failed() -> None:
    named = {row.type.rpartition(".")[2]: (row.begins, error_codes.error_name(row.code)) for row in errors.REFUSALS}
    assert named == {
        "BufferExhaustedException": ("", "BufferExhaustedException"),
        "TimeoutException": ("", "TimeoutException"),
        "RecordTooLargeException": ("", "MSG_SIZE_TOO_LARGE"),
        "SerializationException": ("", "SerializationException"),
        "IllegalStateException": ("Cannot perform operation after producer has been closed", "IllegalStateException"),
    }
    assert errors.table(errors.REFUSALS).splitlines()[2].split("\t")[1:] == ["", "10"]


KAFKAS = "org.apache.kafka.common.KafkaException"


@pytest.mark.parametrize(
    ("method", "type", "kind"),
    [
        ("commit_transaction", "TimeoutException", "retriable"),
        ("abort_transaction", "TimeoutException", "retriable"),
        ("commit_transaction", "ProducerFencedException", "fatal"),
        ("commit_transaction", "OutOfOrderSequenceException", "fatal"),
        ("commit_transaction", "AuthorizationException", "fatal"),
        ("commit_transaction", "InvalidProducerEpochException", "abort"),
        ("abort_transaction", "InvalidProducerEpochException", "fatal"),
        ("begin_transaction", "InvalidProducerEpochException", "fatal"),
    ],
)
def test_an_error_of_a_call_says_what_a_program_must_do(method: str, type: str, kind: str) -> None:
    raised = errors.of_call(method, [f"org.apache.kafka.common.errors.{type}", KAFKAS, "java.lang.Exception"], 47, "x")
    error: KafkaError = raised.args[0]
    kinds = {"retriable": error.retriable(), "fatal": error.fatal(), "abort": error.txn_requires_abort()}
    assert [name for name, holds in kinds.items() if holds] == [kind] and error.str() == "x"


def test_an_error_that_is_not_kafkas_ends_the_transaction_for_good() -> None:
    error: KafkaError = errors.of_call("commit_transaction", ["java.lang.RuntimeException"], 4999, "x").args[0]
    assert error.fatal() and error.code() == KafkaError._FATAL


def translated(**more: Any) -> dict[str, str]:
    own = {name.replace("_", "."): value for name, value in more.items()}
    plain = {"acks": "all", "delivery.timeout.ms": 120_000, "linger.ms": 5}
    return settings.properties(plain | own, {}, 100, 60.0)


def test_settings_of_librdkafka_get_the_java_clients_names_units_and_limits() -> None:
    full = settings.properties(PROFILES["transactional"].producer, {}, 100, 60.0)
    same = {"acks": "all", "enable.idempotence": "true", "retries": "2147483647", "transactional.id": "kdv"}
    assert same.items() <= full.items()
    named = ("request.timeout.ms", "metadata.max.age.ms", "max.block.ms", "socket.timeout.ms", "max.request.size")
    assert [full.get(name) for name in named] == ["30000", "1000", "120000", None, "1048576"]
    assert translated(socket_timeout_ms=2000, request_timeout_ms=30_000)["request.timeout.ms"] == "2000"
    assert translated(batch_num_messages=1)["batch.size"] == translated(batch_size=1)["batch.size"] == "0"
    assert translated(batch_size=1000)["batch.size"] == "1000"
    assert translated(message_max_bytes=1500)["max.request.size"] == "1500"
    assert translated(queue_buffering_max_kbytes=8)["buffer.memory"] == "8192"
    assert translated(socket_send_buffer_bytes=0)["send.buffer.bytes"] == "-1"
    assert translated(compression_type="zstd", compression_level=3)["compression.zstd.level"] == "3"
    assert "compression.zstd.level" not in translated(compression_type="zstd", compression_level=-1)
    assert translated()["enable.idempotence"] == "false", "off in librdkafka, and on in the Java client"
    assert translated(transactional_id="x")["enable.idempotence"] == "true"


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("batch.num.messages", 800, "batch.size"),
        ("enable.gapless.guarantee", True, "leave it out"),
        ("metadata.max.age.ms", 1000, "topic.metadata.refresh.interval.ms"),
        ("message.copy.max.bytes", 1, "leave it out"),
        ("of.a.newer.release", 1, "leave it out"),
    ],
)
def test_a_setting_without_a_counterpart_is_refused_with_its_name_and_what_to_do(
    name: str, value: Any, remedy: str
) -> None:
    with pytest.raises(BadInput, match=f"^{name} is .*the Java client has no such setting; .*{remedy}"):
        settings.properties({name: value}, {}, 100, 60.0)


def test_a_default_of_librdkafka_needs_no_counterpart() -> None:
    defaults = {"batch.num.messages": 10_000, "enable.gapless.guarantee": False, "socket.nagle.disable": True}
    assert settings.properties(defaults, {}, 100, 60.0).keys() & defaults.keys() == set()


def test_every_setting_that_can_be_verified_is_translated_or_refused_on_purpose() -> None:
    from delivery_verifier.planning.own_settings.producer_names import EXERCISED

    known = settings._SAME | settings._CONVERTED.keys() | settings._WITHOUT_COUNTERPART.keys() | {*settings._TIMEOUTS}
    assert known | {"compression.level"} >= EXERCISED


def test_too_short_a_time_for_the_java_client_is_refused() -> None:
    with pytest.raises(BadInput, match=r"needs at least linger.ms . request.timeout.ms, which is 30005"):
        translated(delivery_timeout_ms=3000, request_timeout_ms=30_000)
    assert translated(delivery_timeout_ms=3000, socket_timeout_ms=2000)["delivery.timeout.ms"] == "3000"


def test_what_a_user_wrote_for_the_java_client_is_not_translated_but_comes_without_address_and_foreign_code() -> None:
    plain = {"acks": "all", "batch.size": 5000, "socket.timeout.ms": 1000, "delivery.timeout.ms": 120_000}
    own = {"batch.size": "1", "request.timeout.ms": "40000", "max.block.ms": "7", "partitioner.ignore.keys": "true"}
    foreign = {"ssl.key.password": "x", "bootstrap.servers": "y:1", "interceptor.classes": "z.Z", "client.id": "orders"}
    made = settings.properties(plain | {"client.id": "a-0"}, own | foreign, 100, 60.0)
    assert own.items() <= made.items()
    rest = {name: value for name, value in made.items() if name not in own and not name.endswith(".serializer")}
    assert rest == {
        "acks": "all",
        "delivery.timeout.ms": "120000",
        "enable.idempotence": "false",
        "client.id": "a-0",
        "max.request.size": "1048576",
    }


def test_times_that_were_written_for_the_java_client_are_those_that_must_be_long_enough() -> None:
    plain = {"acks": "all", "delivery.timeout.ms": 60_000, "socket.timeout.ms": 60_000}
    with pytest.raises(BadInput, match=r"needs at least linger.ms . request.timeout.ms, which is 90005"):
        settings.properties(plain, {"request.timeout.ms": "90000"}, 100, 60.0)
    made = settings.properties(plain, {"request.timeout.ms": "90000", "delivery.timeout.ms": "120000"}, 100, 60.0)
    assert (made["request.timeout.ms"], made["delivery.timeout.ms"]) == ("90000", "120000")


def test_the_room_of_a_load_follows_the_buffer_and_the_bound_of_the_user() -> None:
    """A batch of 16,384 bytes has 15 records of 1000 bytes, each of which so takes 1093 bytes of the buffer."""
    free_bytes = (32 * 1024 * 1024 - 2 * 16_384) // 1024 * 1024
    assert settings.room({}, {}, 1000, 100, 2) == free_bytes // 1093 - 200
    assert settings.room({"buffer.memory": "1048576"}, {}, 1000, 10, 1) == 1032_192 // 1093 - 20
    assert (
        settings.room({"batch.size": "0", "buffer.memory": "1048576"}, {}, 1000, 10, 1)
        == 1047_494 // 1024 * 1024 // 1082 - 20
    )
    assert settings.room({}, {"queue.buffering.max.messages": 5000}, 100, 100, 3) == 4800


def test_a_buffer_in_which_send_could_block_is_refused_with_names_and_a_remedy() -> None:
    small = {"buffer.memory": "1000000", "batch.size": "300000"}
    with pytest.raises(BadInput) as raised:
        settings.require_room(small, payload_bytes=100, block=500, partitions=3)
    least = re.search(
        r"^buffer.memory is 1000000: .*batch.size, 300000 .*; set buffer.memory to at least (\d+), or lower",
        str(raised.value),
    )
    assert least is not None, raised.value
    settings.require_room({**small, "buffer.memory": least[1]}, 100, 500, 3)
    with pytest.raises(BadInput):
        settings.require_room({**small, "buffer.memory": str(int(least[1]) - 1)}, 100, 500, 3)
    settings.require_room({**small, "batch.size": "16384"}, 100, 500, 3)
    settings.require_room({}, payload_bytes=1_000_000, block=1, partitions=3)


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A mirror of Maven that has a wrong file for every jar, and an empty cache."""

    class Wrong(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"not the jar")

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Wrong)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("KDV_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KDV_MAVEN_MIRROR", f"http://127.0.0.1:{server.server_port}")
    yield
    server.shutdown()


def test_a_jar_with_a_wrong_checksum_is_refused(mirror: None) -> None:
    with pytest.raises(JarError, match=r"has SHA-256 .* but jars.lock.json names .*: refused"):
        require_client(msgspec.structs.replace(SPEC, client_version="4.1.1"))


def test_a_version_that_cannot_be_fetched_or_is_not_known_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(JarError, match=r"version is '1.0.0'; known are 3.9.2, 4.1.1, 4.1.2, 4.3.1, 4.4.0"):
        require_client(msgspec.structs.replace(SPEC, client_version="1.0.0"))
    monkeypatch.setenv("KDV_CACHE", str(tmp_path))
    monkeypatch.setenv("KDV_MAVEN_MIRROR", "http://127.0.0.1:1")
    with pytest.raises(JarError, match=r"cannot fetch http://127.0.0.1:1/.*Check the network"):
        require_client(SPEC)


def test_without_java_nothing_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise JavaError("Java 17+ was not found")

    monkeypatch.setattr(jvm, "java_home", none)
    monkeypatch.setattr(jvm, "java_client_jars", lambda version: [])
    made, plain = list[ProducerSpec](), pools._spec
    monkeypatch.setattr(pools, "_spec", lambda *each: msgspec.structs.replace(plain(*each), client="java"))
    monkeypatch.setattr(pools, "start_process", made.append)
    with pytest.raises(JavaError, match="Java 17"):
        ProducerPool(RUN, {client: {"bootstrap.servers": "127.0.0.1:1"} for client in CLIENTS}, tmp_path)
    assert made == [] and not (tmp_path / "live").exists()


def test_a_password_of_a_connection_is_in_no_command() -> None:
    _, command = require_java(msgspec.structs.replace(SPEC, connection={"sasl.jaas.config": "password=secret"}))
    assert "secret" not in " ".join(command) and CLIENTS["java"].default in " ".join(command)
    assert int(builds.RELEASE) == runtime.MINIMUM


def test_the_versions_that_a_user_may_name_are_those_whose_jars_are_locked() -> None:
    assert sorted(CLIENTS["java"].versions) == jars.java_client_versions()
    assert CLIENTS["java"].default in CLIENTS["java"].versions


def test_options_that_are_meant_for_every_jvm_do_not_reach_the_client(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A heap dump of this JVM would hold passwords, and what they print would stand between its answers."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+HeapDumpOnOutOfMemoryError")
    made = jvm.Jvm(tmp_path, ["/bin/sh", "-c", 'echo "options: $JAVA_TOOL_OPTIONS"; read _'], 10.0, "producer")
    try:
        lines: list[str] = []
        wait_until(lambda: bool(lines.extend(made.lines(0.1)) or lines), "its line", 10)
        assert lines == ["options: "]
    finally:
        made.close()


def test_an_interval_of_never_is_the_longest_one() -> None:
    own = settings.properties({"acks": "all", "topic.metadata.refresh.interval.ms": -1}, {}, 100, 10.0)
    assert own["metadata.max.age.ms"] == str(2**63 - 1)
