"""Tests of producers with the Java client on real brokers: what the ledger says of a record is true of the log, and
whatever goes wrong in the JVM is loud."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.log_reader import read_log, read_view
from support.patience import PATIENCE_S
from support.planned_loads import Plan, Row, outcomes, planner, run_here, sealed

from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.host.java.jars import java_client_versions
from delivery_verifier.host.java.jvm import IDENTITY, ClientDied, await_end
from delivery_verifier.host.processes import process_of
from delivery_verifier.host.supervision import children
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.load import pool as pools
from delivery_verifier.load.java import client as java_client
from delivery_verifier.load.java.client import JavaClient
from delivery_verifier.load.live_ledger import Control, Gate, LiveLedger, State, Word
from delivery_verifier.load.producer_process import ENDED_EARLY, IN_LOAD, start_process
from delivery_verifier.load.publish_ledger import counted_outcomes
from delivery_verifier.load.spec import ProducerSpec
from delivery_verifier.model import record
from delivery_verifier.model.client import CLIENTS
from delivery_verifier.planning.build import scenario_from_params

JAVA: dict[str, Any] = {"client": "java"}


@pytest.fixture
def plan(cluster: Cluster, tmp_path: Path) -> Plan:
    return planner(cluster, tmp_path)


@pytest.fixture
def started() -> Iterator[list[children.Child]]:
    """The producer processes of a test, which are killed after it."""
    made = list[children.Child]()
    yield made
    children.kill(made)


def without_times(rows: list[Row]) -> list[Row]:
    return [{name: value for name, value in row.items() if not name.endswith("_at")} for row in rows]


def agree(spec: ProducerSpec, rows: list[Row]) -> None:
    """Asserts that the ledger has as many attempts, and as many reports of each outcome, as were counted."""
    control = Control(Path(spec.folder))
    assert len(rows) == control[Word.ANNOUNCED] + control[Word.RESENT]
    told = outcomes([row for row in rows if row["made_by"] == "client"])
    counted = {name: count for name, count in counted_outcomes(control, str(spec.settings["acks"])).items() if count}
    assert told == counted and control[Word.MISCOUNTED] == 0


def places(rows: list[Row]) -> dict[tuple[int, int], tuple[int, int]]:
    """Maps the place of each acknowledged attempt to its sequence and partition sequence."""
    acked = [row for row in rows if row["outcome"] == "ACKED"]
    found = {(row["partition"], row["offset"]): (row["sequence"], row["partition_sequence"]) for row in acked}
    assert len(found) == len(acked), "no two acknowledged attempts have one place"
    return found


def written(log: dict[tuple[int, int], record.Header]) -> dict[tuple[int, int], tuple[int, int]]:
    return {place: (header.sequence, header.partition_sequence) for place, header in log.items()}


@pytest.mark.parametrize(
    ("profile", "more"),
    [
        ("idempotent", {"records": 2000}),
        ("acks_0", {"records": 2000}),
        ("transactional", {"records": 1000, "transaction_records": 40, "abort_every": 5}),
    ],
)
def test_both_clients_write_the_same_ledger_of_the_same_load(
    plan: Plan, tmp_path: Path, profile: str, more: dict[str, Any]
) -> None:
    ledgers, words = [], []
    for client in ("librdkafka", "java"):
        spec = plan(profile, client=client, settings={"max.in.flight.requests.per.connection": 1}, **more)
        made = run_here(spec)
        rows = sealed(spec, tmp_path)
        agree(spec, rows)
        ledgers.append(without_times(rows))
        words.append({word: made.control[word] for word in Word})
        assert made.fatal is None and {row["settled_at"] >= row["sent_at"] for row in rows} == {True}
        if profile != "acks_0":
            seen = read_view(spec, "read_committed")
            visible = [row for row in rows if row["transaction_outcome"] != "ABORTED"]
            assert places(visible) == written(seen) and len(seen) == len(visible)
    assert ledgers[0] == ledgers[1] and words[0] == words[1]


@pytest.mark.slow
@pytest.mark.parametrize("version", [each for each in java_client_versions() if each != CLIENTS["java"].default])
def test_each_version_of_the_java_client_sends(plan: Plan, tmp_path: Path, version: str) -> None:
    for profile, more in (("idempotent", {}), ("transactional", {"transaction_records": 100, "abort_every": 3})):
        spec = plan(profile, client_version=version, records=1000, **JAVA, **more)
        assert run_here(spec).fatal is None
        rows = sealed(spec, tmp_path)
        agree(spec, rows)
        assert outcomes(rows) == {"ACKED": 1000}
        visible = [row for row in rows if row["transaction_outcome"] != "ABORTED"]
        assert places(visible) == written(read_view(spec, "read_committed"))


def flowing(spec: ProducerSpec, started: list[children.Child], incarnation: int = 0) -> children.Child:
    """Starts a producer process, and waits until its load flows."""
    control = Control(Path(spec.folder))
    control[Word.GATE] = Gate.GO
    control[Word.STATE] = State.STARTING
    before = control[Word.REPORTED]
    started.append(start_process(msgspec.structs.replace(spec, incarnation=incarnation)))
    wait_until(
        lambda: control[Word.REPORTED] > before + 5000 or started[-1].poll() is not None, "the load to flow", PATIENCE_S
    )
    assert started[-1].poll() is None and control[Word.STATE] == State.LOADING
    return started[-1]


@pytest.mark.parametrize("who", ["the producer process", "both"])
def test_a_killed_java_producer_and_its_next_incarnation_claim_nothing_false(
    plan: Plan, tmp_path: Path, started: list[children.Child], who: str
) -> None:
    spec = plan("idempotent", records=10_000_000, settings={"linger.ms": 50}, **JAVA)
    folder, control = Path(spec.folder), Control(Path(spec.folder))
    first = flowing(spec, started)
    jvm = process_of((folder / IDENTITY).read_text())
    assert jvm is not None and jvm.alive
    if who == "both":
        first.send_signal(signal.SIGSTOP)  # so that it does not see the death of its JVM
        jvm.kill()
    children.kill([first])
    await_end(folder)
    assert not jvm.alive
    reported = control[Word.REPORTED]
    rows = sealed(spec, tmp_path)
    acked = places(rows)
    assert 0 <= len(acked) - reported <= 1, "the kill may have kept one report from being counted"
    log = written(read_log(spec))
    assert acked.items() <= log.items(), "no acknowledged record is lost or elsewhere"
    assert set(outcomes(rows)) == {"ACKED", "INDETERMINATE"}
    assert len(set(log.values())) == len(log), "no attempt is there twice"
    assert {sequence for sequence, _ in log.values()} <= {row["sequence"] for row in rows}
    of_next_incarnation(control, 1, signal.SIGKILL)
    second = flowing(spec, started, incarnation=1)
    children.kill([second])
    await_end(folder)
    rows = sealed(spec, tmp_path)
    acked, log = places(rows), written(read_log(spec))
    assert acked.items() <= log.items() and control[Word.MISCOUNTED] == 0
    assert control[Word.RESENT] > 0 and set(outcomes(rows)) == {"ACKED", "INDETERMINATE"}
    assert len(set(log.values())) == len(log), "an attempt that is sent again is another attempt"


def test_the_jvm_of_a_killed_producer_dies_at_once_even_if_it_is_frozen(
    plan: Plan, started: list[children.Child]
) -> None:
    spec = plan("idempotent", records=10_000_000, **JAVA)
    process = flowing(spec, started)
    jvm = process_of((Path(spec.folder) / IDENTITY).read_text())
    assert jvm is not None
    jvm.send(signal.SIGSTOP)  # so that it cannot see the end of its pipe
    process.kill()
    process.wait()
    wait_until(lambda: not jvm.alive, "the JVM to end", 5.0, every_s=0.002)


def test_a_jvm_that_dies_ends_its_producer_loudly(plan: Plan, started: list[children.Child]) -> None:
    spec = plan("idempotent", records=10_000_000, **JAVA)
    process, folder = flowing(spec, started), Path(spec.folder)
    jvm = process_of((folder / IDENTITY).read_text())
    assert jvm is not None
    jvm.kill()
    assert process.wait(PATIENCE_S) == 1 and Control(folder)[Word.ATTEMPTED] == -1
    said = children.last_words(folder, 500)
    assert said.endswith("the JVM of this producer ended with exit code -9 (killed by SIGKILL)"), said


def of_next_incarnation(control: Control, number: int, ended_by: int) -> None:
    """Notes the end and the start of a producer process as its supervisor and the fault plan do."""
    control[Word.SIGNAL] = ended_by
    for word in (Word.KILLS, Word.KILLS_DONE, Word.STARTS, Word.STARTS_DONE):
        control[word] = number


@pytest.mark.slow
def test_transactions_of_a_killed_java_producer_are_what_who_reads_committed_sees(
    plan: Plan, tmp_path: Path, started: list[children.Child]
) -> None:
    """A producer of small transactions spends most of its time in commits, so a kill comes in one sooner or later."""
    more = {"transaction_records": 20, "abort_every": 7}
    spec = plan("transactional", records=10_000_000, settings={"linger.ms": 0}, **more, **JAVA)
    folder, control = Path(spec.folder), Control(Path(spec.folder))
    control[Word.GATE] = Gate.GO
    for incarnation in range(4):
        if incarnation:
            of_next_incarnation(control, incarnation, signal.SIGKILL)
        control[Word.STATE], before = State.STARTING, control[Word.COMMITTED]
        started.append(start_process(msgspec.structs.replace(spec, incarnation=incarnation)))
        wait_until(
            lambda: control[Word.COMMITTED] > before + 10 or started[-1].poll() is not None, "commits", PATIENCE_S
        )
        assert started[-1].poll() is None
        children.kill(started[-1:])
        await_end(folder)
    spec_at_end = msgspec.structs.replace(spec, incarnation=4, records=0)
    of_next_incarnation(control, 4, signal.SIGKILL)
    control[Word.GATE] = Gate.RELEASE
    started.append(start_process(spec_at_end))
    assert started[-1].wait(PATIENCE_S) == 0 and control[Word.MISCOUNTED] == 0
    rows = sealed(spec, tmp_path)
    agree(spec, rows)
    by_outcome = {name: [row for row in rows if row["transaction_outcome"] == name] for name in ENDS}
    assert all(by_outcome.values()), "transactions ended in every way"
    seen = written(read_view(spec, "read_committed"))
    assert places(by_outcome["COMMITTED"]).items() <= seen.items()
    visible = {sequence for sequence, _ in seen.values()}
    assert len(visible) == len(seen), "no attempt is there twice"
    assert not visible & {row["sequence"] for row in by_outcome["ABORTED"]}
    assert visible <= {row["sequence"] for name in ("COMMITTED", "INDETERMINATE") for row in by_outcome[name]}
    assert not control[Word.FAILED] and not control[Word.RESENT]


ENDS = ("COMMITTED", "ABORTED", "INDETERMINATE")


def test_a_fenced_java_producer_leaves_a_true_ledger_and_says_why(
    plan: Plan, tmp_path: Path, started: list[children.Child], stages: list[Stage]
) -> None:
    spec = plan("transactional", records=10_000_000, rate=2000.0, transaction_records=100, **JAVA)
    control = Control(Path(spec.folder))
    process = flowing(spec, started)
    stages.append(new := Stage(msgspec.structs.replace(spec, folder=f"{spec.folder}-new")))
    new.client.init_transactions(PATIENCE_S)
    assert process.wait(PATIENCE_S) == IN_LOAD and control[Word.STATE] == State.DONE
    said = (Path(spec.folder) / ENDED_EARLY).read_text()
    # The broker says the third if the coordinator of transactions of version 2 has ended the transaction (KIP-890).
    assert said.partition(":")[0] in {"INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "INVALID_TXN_STATE"}, said
    rows = sealed(spec, tmp_path)
    agree(spec, rows)
    committed = [row for row in rows if row["transaction_outcome"] == "COMMITTED"]
    assert places(committed) == written(read_view(spec, "read_committed")) and len(committed) > 5000
    assert not control[Word.FAILED] and control[Word.ATTEMPTED] == len(rows)


@pytest.mark.parametrize("on_sigterm", ["flush", "exit"])
def test_on_sigterm_a_java_producer_sends_what_it_has_or_drops_it(
    plan: Plan, tmp_path: Path, started: list[children.Child], on_sigterm: str
) -> None:
    spec = plan(
        "idempotent", records=10_000_000, rate=20_000.0, settings={"linger.ms": 300}, on_sigterm=on_sigterm, **JAVA
    )
    control, process = Control(Path(spec.folder)), flowing(spec, started)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0 and control[Word.AT_SIGTERM] > 0
    assert (control[Word.AT_EXIT] == 0) == (on_sigterm == "flush")
    rows = sealed(spec, tmp_path)
    agree(spec, rows)
    log = written(read_log(spec))
    assert places(rows).items() <= log.items() and len(set(log.values())) == len(log)
    if on_sigterm == "flush":
        assert places(rows) == log and outcomes(rows) == {"ACKED": len(rows)}


class Stage:
    """A Java client in this process, without a producer around it."""

    def __init__(self, spec: ProducerSpec) -> None:
        self.spec, self.control = spec, Control(Path(spec.folder))
        self.client = JavaClient(spec, self.control)
        self.ledger = LiveLedger(Path(spec.folder))
        self.hand_over = self.client.into(self.ledger)
        self.sequence = 0

    def send(self, count: int, partition: int = 0) -> None:
        encoder = record.BlockEncoder(self.spec.run_token, 1, 0, 0, 0, self.spec.payload_bytes)
        self.ledger.open(self.sequence, count, 1)
        self.control[Word.ANNOUNCED] += count
        self.hand_over(self.sequence, partition, encoder.encode(self.sequence, self.sequence, count))
        self.sequence += count

    def results(self) -> list[int]:
        return list(self.ledger.segments[0].result[: self.sequence])


@pytest.fixture
def stages() -> Iterator[list[Stage]]:
    made = list[Stage]()
    yield made
    for stage in made:
        stage.client.close()


def test_a_callback_that_throws_is_loud_and_its_record_has_no_report(
    plan: Plan, stages: list[Stage], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    layout = JavaClient._layout
    beyond = {"word.REPORTED": "4096"}  # beyond the control block, so that the count of a report throws
    monkeypatch.setattr(JavaClient, "_layout", lambda client: layout(client) | beyond)
    stages.append(Stage(plan("idempotent", **JAVA)))
    stages[0].send(10)
    with pytest.raises(ClientDied, match="ended with exit code 1"):
        stages[0].client.flush(PATIENCE_S)
    assert "the callback of a record failed: IndexOutOfBoundsException" in capfd.readouterr().err
    assert stages[0].control[Word.REPORTED] == 0


def test_a_pipe_that_stays_full_is_loud(plan: Plan, stages: list[Stage]) -> None:
    stages.append(Stage(plan("idempotent", block=2000, deadline_s=15.0, **JAVA)))
    stages[0].send(2000)
    os.kill(stages[0].client.pid, signal.SIGSTOP)
    with pytest.raises(ClientDied, match=r"has taken no (record|block) for 15 s"):
        for _ in range(100):
            stages[0].send(2000)
    assert stages[0].sequence <= 20_000, "it stops soon"


def test_the_reports_of_a_fenced_producer_come_twice_and_count_once(plan: Plan, stages: list[Stage]) -> None:
    spec = plan("transactional", transaction_records=40, settings={"linger.ms": 0}, **JAVA)
    stages.append(old := Stage(spec))
    old.client.init_transactions(PATIENCE_S)
    old.client.begin_transaction()
    old.send(10)
    assert old.client.flush(PATIENCE_S) == 0
    other = msgspec.structs.replace(spec, folder=f"{spec.folder}-new")
    stages.append(new := Stage(other))
    new.client.init_transactions(PATIENCE_S)
    old.send(10)
    assert old.client.flush(PATIENCE_S) == 0, "the producer knows now that it is fenced"
    control = old.control

    def has_told_twice() -> bool:
        """The I/O thread tells a record before send() does, or after it, or not at all: its clock decides."""
        old.send(10)
        old.client.await_taken()
        assert old.client.flush(PATIENCE_S) == 0
        return control[Word.REPEATED] > 0

    wait_until(has_told_twice, "a report that comes twice", PATIENCE_S)
    results, later = old.results(), old.sequence - 10
    assert all(result > 0 for result in results[:10]) and all(result <= -20_000 for result in results[10:])
    assert (control[Word.REPORTED], control[Word.FAILED], control[Word.INDETERMINATE]) == (10, 0, later)


def test_records_that_send_refuses_are_failed_and_those_that_a_broker_refuses_are_not(
    plan: Plan, tmp_path: Path
) -> None:
    spec = plan("idempotent", records=50, payload_bytes=2000, settings={"message.max.bytes": 1500}, **JAVA)
    run_here(spec)
    rows = sealed(spec, tmp_path)
    agree(spec, rows)
    assert outcomes(rows) == {"FAILED": len(rows)} and {row["error"] for row in rows} == {"MSG_SIZE_TOO_LARGE"}
    assert read_log(spec) == {}
    spec = plan("acks_all", {"max.message.bytes": "500"}, {"retries": 0}, records=50, payload_bytes=2000, **JAVA)
    run_here(spec)
    rows = sealed(spec, tmp_path)
    agree(spec, rows)
    assert outcomes(rows) == {"INDETERMINATE": len(rows)} and {row["error"] for row in rows} == {"MSG_SIZE_TOO_LARGE"}
    assert read_log(spec) == {}


def test_a_partition_that_there_is_not_makes_records_failed(plan: Plan, stages: list[Stage]) -> None:
    stages.append(Stage(plan("idempotent", java_properties={"max.block.ms": "300"}, **JAVA)))
    stages[0].send(2, partition=7)
    assert stages[0].client.flush(PATIENCE_S) == 0
    assert [result + 10_000 for result in stages[0].results()] == [-2001, -2001]


def test_records_for_which_the_buffer_has_no_room_are_failed(plan: Plan, stages: list[Stage]) -> None:
    own = {"max.block.ms": "1", "buffer.memory": "40000", "batch.size": "16384", "linger.ms": "5000"}
    spec = plan("idempotent", java_properties=own, **JAVA)
    stages.append(stage := Stage(spec))
    stage.client.connect(PATIENCE_S)
    stage.send(2000)
    assert stage.client.flush(PATIENCE_S) == 0
    results = stage.results()
    no_room, no_metadata = -10_000 - 2002, -10_000 - 2001  # the first records may wait for metadata for too long
    assert {no_room} <= {result for result in results if result <= 0} <= {no_room, no_metadata}
    assert any(result > 0 for result in results)
    assert stage.control[Word.FAILED] + stage.control[Word.REPORTED] == 2000


def test_settings_that_the_java_client_refuses_end_the_producer_with_its_reason(plan: Plan) -> None:
    spec = plan("idempotent", settings={"acks": "1"}, **JAVA)
    Path(spec.folder).mkdir()
    process = start_process(spec)
    assert process.wait(PATIENCE_S) == 1
    said = (Path(spec.folder) / children.OUTPUT).read_text()
    assert "producer settings refused: " in said and "Must set acks to all" in said, said


PASTED = {
    "acks": "-1",
    "batch.size": "0",
    "linger.ms": "1",
    "buffer.memory": "20000001",
    "compression.type": "lz4",
    "delivery.timeout.ms": "100000",
    "enable.metrics.push": "false",
    "max.block.ms": "50000",
    "partitioner.ignore.keys": "true",
    "metadata.recovery.rebootstrap.trigger.ms": "200000",
}
"""What a user pastes. librdkafka has no counterpart of some of it, and other units or limits for some."""


@pytest.mark.parametrize("version", [CLIENTS["java"].default, pytest.param("3.9.2", marks=pytest.mark.slow)])
def test_a_pasted_file_for_java_reaches_the_client_as_it_was_written(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """The client itself logs which values it has. Java 3.9.2 does not know each of them, and only says so."""
    foreign = {"bootstrap.servers": "production:9092", "interceptor.classes": "x.Y", "client.id": "orders"}
    text = "\n".join(f"{name}={value}" for name, value in (PASTED | foreign).items())
    fields = {"profile": "own", "producer_config": text, "written_for": "java", "clients": f"java:{version}"}
    scenario = scenario_from_params(fields, "pasted")
    made = pools._spec(scenario, scenario.subjects[0], 0, {}, tmp_path)
    spec = msgspec.structs.replace(
        plan("idempotent", records=500, client_version=version, **JAVA),
        settings=made.settings,
        java_properties=made.java_properties,
        deadline_s=made.deadline_s,
    )
    plain = java_client.command
    loggers = ("clients.producer.ProducerConfig", "common.config.AbstractConfig")  # of 3.9.2, and of 4.3.1
    says = [f"-Dorg.slf4j.simpleLogger.log.org.apache.kafka.{name}=info" for name in loggers]
    log = tmp_path / "log-of-the-client"
    into_log = ("/bin/sh", "-c", f'exec "$@" 2>{log}', "sh")
    monkeypatch.setattr(java_client, "command", lambda *of: [*into_log, plain(*of)[0], *says, *plain(*of)[1:]])
    assert run_here(spec).fatal is None
    rows = sealed(spec, tmp_path)
    assert outcomes(rows) == {"ACKED": 500} and places(rows) == written(read_log(spec))
    _, _, logged = log.read_text().partition("ProducerConfig values:")
    values = dict(line.strip().split(" = ", 1) for line in logged.splitlines() if " = " in line)
    known = {name: value for name, value in PASTED.items() if name in values}
    assert PASTED.keys() - known.keys() == (
        {"metadata.recovery.rebootstrap.trigger.ms"} if version == "3.9.2" else set()
    )
    assert known.items() <= values.items()
    assert values["client.id"] == "own-java-0" and "production" not in logged and "x.Y" not in logged
    assert (values["enable.idempotence"], values["request.timeout.ms"]) == ("true", "30000"), "defaults of Java 4.x"
