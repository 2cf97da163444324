"""Audits of ledgers that somebody else wrote, on a real broker: what was planted is found, all of it and no more.

One ledger is that of Kafka's own VerifiableProducer, which is killed in the middle.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession
from support.foreign_ledgers import HEADER, ForeignApplication, as_json_lines, planted
from support.new_topics import create_topics
from support.one_broker import one_broker
from support.patience import PATIENCE_S

from delivery_verifier.audit import perform, snapshot
from delivery_verifier.audit.request import AuditRequest
from delivery_verifier.catalogue import PROFILES
from delivery_verifier.host.java.jars import fetch
from delivery_verifier.host.java.runtime import java_home
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.external_cluster import ClusterAccess
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.verdict import ArmVerdict, RunVerdict
from delivery_verifier.pipeline.direct import judge

Audited = Callable[..., tuple[RunVerdict, Path]]
TOOLS = "kafka-tools-4.3.1"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The bootstrap servers of one controller and one broker, which end after the tests of the module."""
    with one_broker(tmp_path_factory.mktemp("kafka") / "w") as servers:
        yield servers


@pytest.fixture
def audited(broker: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Audited:
    """Returns a function that audits a ledger, and returns the verdict and the run directory."""
    monkeypatch.setattr(snapshot, "QUIET_S", 0.2)
    monkeypatch.setenv("KDV_RUNS", str(tmp_path / "runs"))

    def audit(file: Path, topic: str, name: str = "audit", **more: Any) -> tuple[RunVerdict, Path]:
        known = {"format": "jsonl", "profile": PROFILES["idempotent"], "claim": "contract", **more}
        access = ClusterAccess(bootstrap_server=broker)
        request = AuditRequest(run_id=name, files=(file,), topic=topic, access=access, **known)
        run_dir = tmp_path / "runs" / name
        perform.perform(request, run_dir, lambda _records: spark, lambda _text: None)
        return judge(run_dir, lambda _progress: None, lambda: spark), run_dir

    return audit


def subject(verdict: RunVerdict) -> ArmVerdict:
    return next(arm for arm in verdict.arms if arm.role == "subject")


def doubts(verdict: RunVerdict) -> set[str]:
    return {doubt.name for doubt in subject(verdict).doubts}


def cases(verdict: RunVerdict) -> dict[str, int]:
    return {finding.anomaly: finding.count + finding.also for finding in subject(verdict).findings if finding.cases}


def a_topic(broker: str, name: str, partitions: int = 2, **settings: str) -> str:
    config = {key.replace("_", "."): value for key, value in settings.items()}
    create_topics({"bootstrap.servers": broker}, NewTopic(name, partitions, 1, config=config), may_be_fenced=True)
    return name


PLANTED = {"PHANTOM": 1, "LOST": 3, "DUPLICATED": 3, "MISPLACED": 2, "REORDERED": 1}


def test_what_was_planted_is_found_exactly_and_the_foreign_writers_record_convicts_nobody(
    broker: str, audited: Audited, spark: SparkSession, tmp_path: Path
) -> None:
    topic = a_topic(broker, "planted")
    ledger = as_json_lines(
        tmp_path / "acks.jsonl", planted(broker, topic).rows, complete=True, topic=topic, identity=f"header:{HEADER}"
    )
    verdict, run_dir = audited(ledger, topic)
    assert (verdict.verdict, cases(verdict)) == ("VIOLATED", PLANTED)
    assert doubts(verdict) == {"identity_missing", "two_acks_one_offset"}
    assert {arm.verdict for arm in verdict.arms if arm.role == "canary"} == {"HELD"}
    (shared,) = [note for note in verdict.notes if note.startswith("Two acknowledgements name one offset")]
    assert "1 x, to 2 attempts in all" in shared
    assert any("without an identity: 1." in limit for limit in verdict.limits)
    assert verdict.sentence.endswith("of the claims in acks.jsonl.")
    claims = {example.anomaly: example.claims for example in subject(verdict).examples}
    assert [claim.partition(" ")[0] for claim in claims["LOST"]] == ["lost-0", "lost-1", "lost-2"]
    assert claims["PHANTOM"] == ["phantom"] and claims["REORDERED"][0].startswith("swapped-0 (acks.jsonl, line ")
    line = int(claims["LOST"][0].rpartition(" ")[2][:-1])
    assert '"lost-0"' in ledger.read_text().splitlines()[line - 1]
    report = (run_dir / "report.html").read_text()
    assert claims["LOST"][0] in report and claims["MISPLACED"][1] in report and 'id="timeline"' not in report
    assert judge(run_dir, lambda _progress: None, lambda: spark).arms == verdict.arms  # from its files alone


def test_a_sound_ledger_is_held_and_without_its_head_it_is_not(broker: str, audited: Audited, tmp_path: Path) -> None:
    topic = a_topic(broker, "sound")
    application = ForeignApplication(broker, topic)
    application.write_many([f"order-{number}" for number in range(300)])
    whole = as_json_lines(tmp_path / "whole.jsonl", application.rows, complete=True)
    verdict, _ = audited(whole, topic, "whole", identity=f"header:{HEADER}")
    assert (verdict.verdict, doubts(verdict), cases(verdict)) == ("HELD", set(), {})
    partial = as_json_lines(tmp_path / "partial.jsonl", application.rows[:-50])
    verdict, _ = audited(partial, topic, "partial", identity=f"header:{HEADER}")
    assert (verdict.verdict, doubts(verdict), cases(verdict)) == ("INCONCLUSIVE", {"ledger_partial"}, {})
    # Nothing of an identity that no record has is found, so nothing may be said.
    verdict, _ = audited(whole, topic, "blind", identity="header:no-such-header")
    assert verdict.verdict == "INCONCLUSIVE" and "canary_too_small" in doubts(verdict)
    # An identity that every record has in common makes all but one claim LOST in the canary as well: no conviction.
    verdict, _ = audited(whole, topic, "constant", identity_sql="'order-1'")
    assert verdict.verdict == "INCONCLUSIVE" and "canary_too_small" in doubts(verdict)


def test_expired_offsets_are_left_out_and_a_compacted_topic_is_refused(
    broker: str, audited: Audited, tmp_path: Path
) -> None:
    topic = a_topic(broker, "expired", 1)
    application = ForeignApplication(broker, topic)
    application.write_many([f"order-{number}" for number in range(100)])
    admin = AdminClient({"bootstrap.servers": broker})
    for future in admin.delete_records([TopicPartition(topic, 0, 40)]).values():
        future.result(PATIENCE_S)
    ledger = as_json_lines(tmp_path / "acks.jsonl", application.rows, complete=True, identity=f"header:{HEADER}")
    verdict, _ = audited(ledger, topic)
    assert (verdict.verdict, doubts(verdict), cases(verdict)) == ("INCONCLUSIVE", {"expired"}, {})
    assert any("EXPIRED, and left out: 40." in limit for limit in verdict.limits)
    assert subject(verdict).tally["reported"] == 60
    compacted = a_topic(broker, "compacted", 1, cleanup_policy="compact")
    with pytest.raises(BadInput, match="it is compacted"):
        audited(ledger, compacted, "compacted")


class Transactions(ForeignApplication):
    """An application that writes in transactions, and may write down how they ended."""

    def __init__(self, broker: str, topic: str) -> None:
        super().__init__(broker, topic, **{"transactional.id": f"kdv-{topic}"})
        self.client.init_transactions(PATIENCE_S)

    def transact(self, numbers: range, ended: str | None, attempt: int = 0) -> None:
        """Sends orders in one transaction, which ends as `ended` says: committed or aborted. None: it stays open."""
        self.client.begin_transaction()
        self._number = numbers.start  # an order keeps its number if it is sent again
        before = len(self.rows)
        self.write_many([f"order-{number}" for number in numbers])
        if ended is not None:
            end = {"committed": self.client.commit_transaction, "aborted": self.client.abort_transaction}[ended]
            end(PATIENCE_S)
        for row in self.rows[before:]:
            row |= {"attempt": attempt, "transaction_outcome": ended}


@pytest.fixture
def transactions(broker: str) -> Callable[[str], Transactions]:
    """Writes to a new topic: 40 orders that were committed, and 20 that were aborted and then committed."""

    def write(name: str) -> Transactions:
        application = Transactions(broker, a_topic(broker, name, 1))
        application.transact(range(40), "committed")
        application.transact(range(40, 60), "aborted")
        application.transact(range(40, 60), "committed", attempt=1)
        return application

    return write


def transactional(tmp_path: Path, application: Transactions, **more: str) -> dict[str, Any]:
    """The ledger and the settings of `application`."""
    identity = f"header:{HEADER}"
    ledger = as_json_lines(tmp_path / "acks.jsonl", application.rows, complete=True, identity=identity)
    return {"file": ledger, "topic": application.topic, "profile": PROFILES["transactional"], **more}


def test_a_topic_with_transactions_is_held_if_the_ledger_says_how_they_ended(
    audited: Audited, tmp_path: Path, transactions: Callable[[str], Transactions]
) -> None:
    application = transactions("transactional")
    verdict, _ = audited(**transactional(tmp_path, application), name="held")
    assert (verdict.verdict, doubts(verdict), cases(verdict)) == ("HELD", set(), {})
    tally = subject(verdict).tally
    assert (tally["acked"], tally["failed"], tally["found"]) == (60, 20, 60)
    assert any("none of the 20 records of aborted transactions and 0 of open ones" in limit for limit in verdict.limits)
    for row in application.rows:
        del row["transaction_outcome"]
    verdict, _ = audited(**transactional(tmp_path, application), name="unknown")
    assert (verdict.verdict, doubts(verdict), cases(verdict)) == ("INCONCLUSIVE", {"transaction_unknown"}, {})
    assert subject(verdict).tally["found"] == 60


def test_what_is_aborted_though_it_was_committed_is_lost_where_that_is_forbidden(
    audited: Audited, tmp_path: Path, transactions: Callable[[str], Transactions]
) -> None:
    """A late end of a transaction explains it, and the contract of librdkafka does not forbid that."""
    application = transactions("contradicted")
    application.transact(range(60, 62), "aborted")
    application.rows[-1]["transaction_outcome"] = "committed"
    application.rows[3]["transaction_outcome"] = "aborted"
    for claim, expected in (("exactly_once", "VIOLATED"), ("contract", "INCONCLUSIVE")):
        verdict, _ = audited(**transactional(tmp_path, application, claim=claim), name=f"contradicted-{claim}")
        assert (verdict.verdict, cases(verdict)) == (expected, {"LOST": 1, "PHANTOM": 1})
        unproven = {"unproven:LOST", "unproven:PHANTOM"} if claim == "contract" else set()
        assert doubts(verdict) == unproven
        assert sum("transaction" in note for note in verdict.notes) == 2


def test_a_transaction_that_is_open_is_neither_held_nor_violated(
    audited: Audited, tmp_path: Path, transactions: Callable[[str], Transactions]
) -> None:
    application = transactions("open")
    application.transact(range(60, 65), None)
    verdict, _ = audited(**transactional(tmp_path, application), name="open")
    assert (verdict.verdict, cases(verdict)) == ("INCONCLUSIVE", {})
    assert doubts(verdict) == {"transaction_open", "transaction_unknown"}
    application.client.abort_transaction(PATIENCE_S)


def test_a_record_that_the_identity_misses_is_found_where_it_was_acknowledged(
    broker: str, audited: Audited, tmp_path: Path
) -> None:
    topic = a_topic(broker, "missed", 1)
    application = ForeignApplication(broker, topic)
    application.write_many([f"order-{number}" for number in range(30)])
    offset, value = application.write(None, value=b"order 30")
    application.claim("order-30", 0, offset, value)
    ledger = as_json_lines(tmp_path / "acks.jsonl", application.rows, complete=True, identity=f"header:{HEADER}")
    verdict, _ = audited(ledger, topic)
    assert (verdict.verdict, cases(verdict)) == ("HELD", {})
    assert any("found by acknowledged offset and checksum: 1." in limit for limit in verdict.limits)


def verifiable_producer(
    broker: str, topic: str, out: Path, *more: str, also: tuple[Path, ...] = ()
) -> subprocess.Popen[bytes]:
    """Starts Kafka's VerifiableProducer, whose lines go to `out`. It runs in the folder of `out`. `also`: further
    folders of its class path."""
    path = ":".join(map(str, (*also, *fetch(TOOLS))))
    command = [str(java_home() / "bin/java"), "-Xmx128m", "-cp", path, "org.apache.kafka.tools.VerifiableProducer"]
    options = ["--bootstrap-server", broker, "--topic", topic, "--value-prefix", "7", *more]
    return subprocess.Popen([*command, *options], cwd=out.parent, stdout=out.open("wb"), stderr=subprocess.DEVNULL)


def test_the_lines_of_a_verifiable_producer_that_was_killed_are_right_and_those_of_a_whole_one_held(
    broker: str, audited: Audited, tmp_path: Path
) -> None:
    topic = a_topic(broker, "verifiable")
    out = tmp_path / "killed.txt"
    producer = verifiable_producer(broker, topic, out, "--throughput", "3000")
    try:
        wait_until(lambda: out.read_bytes().count(b"\n") > 5000, "5000 answers", PATIENCE_S)
    finally:
        producer.kill()
        producer.wait()
    answers = out.read_bytes().count(b"producer_send_success")
    verdict, _ = audited(out, topic, "killed", format="verifiable-producer")
    tally = subject(verdict).tally
    assert (verdict.verdict, cases(verdict)) == ("INCONCLUSIVE", {})
    assert doubts(verdict) == {"ledger_cut", "ledger_partial"}
    assert answers - 1 <= tally["acked"] == tally["found"] <= answers and tally["lost"] == 0
    topic = a_topic(broker, "verifiable-whole")
    whole = tmp_path / "whole.txt"
    assert verifiable_producer(broker, topic, whole, "--max-messages", "2000").wait(PATIENCE_S) == 0
    verdict, _ = audited(whole, topic, "whole", format="verifiable-producer")
    assert (verdict.verdict, doubts(verdict)) == ("HELD", set())
    assert subject(verdict).tally["found"] == 2000


def test_the_wrapper_of_the_page_writes_a_ledger_that_is_held(broker: str, audited: Audited, tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/audit.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    named: dict[str, Any] = {}
    exec(code, named)
    topic = a_topic(broker, "wrapped", 1)
    producer = Producer({"bootstrap.servers": broker, "enable.idempotence": True})
    with (tmp_path / "acks.jsonl").open("w") as ledger:
        for number in range(100):
            named["recorded"](producer, ledger, topic, b"order %d" % number)
        assert producer.flush(PATIENCE_S) == 0
    verdict, _ = audited(tmp_path / "acks.jsonl", topic, identity="header:record-id", complete=True)
    assert (verdict.verdict, doubts(verdict), subject(verdict).tally["found"]) == ("HELD", set(), 100)


def test_the_interceptor_of_the_page_writes_a_ledger_of_which_all_but_the_values_is_judged(
    broker: str, audited: Audited, spark: SparkSession, tmp_path: Path
) -> None:
    """Janino, which comes with Spark, compiles the class. Kafka's VerifiableProducer stands for the application."""
    page = (Path(__file__).resolve().parents[2] / "docs/audit.md").read_text()
    (code,) = re.findall(r"```java\n(package shop;.*?)```", page, re.DOTALL)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/Ledger.java").write_text(code)
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    jvm: Any = gateway.jvm
    paths = [[str(jar) for jar in fetch(TOOLS)], [str(tmp_path / "shop/Ledger.java")]]
    arrays = [gateway.new_array(jvm.java.io.File, len(names)) for names in paths]
    for array, names in zip(arrays, paths, strict=True):
        for index, name in enumerate(names):
            array[index] = jvm.java.io.File(name)
    compiler = jvm.org.codehaus.janino.Compiler()
    compiler.setClassPath(arrays[0])
    compiler.setDestinationDirectory(jvm.java.io.File(str(tmp_path)), False)
    compiler.compile(arrays[1])
    (tmp_path / "producer.properties").write_text("interceptor.classes=shop.Ledger\n")
    topic = a_topic(broker, "intercepted")
    config = ("--command-config", str(tmp_path / "producer.properties"))
    producer = verifiable_producer(
        broker, topic, tmp_path / "out.txt", "--max-messages", "500", *config, also=(tmp_path,)
    )
    assert producer.wait(PATIENCE_S) == 0
    (ledger,) = tmp_path.glob("*-*.jsonl")
    verdict, _ = audited(ledger, topic)
    assert (verdict.verdict, doubts(verdict), cases(verdict)) == ("INCONCLUSIVE", {"values_not_hashed"}, {})
    assert subject(verdict).tally["found"] == 500
    lines = ledger.read_text().splitlines(keepends=True)
    ledger.write_text("".join([*lines[:7], *lines[8:]]))  # one answer is missing
    verdict, _ = audited(ledger, topic, "missing")
    assert doubts(verdict) == {"values_not_hashed", "ledger_cut", "complete_contradicted"}
