"""Tests of clients on real brokers: a producer that is killed or terminated and started again, and an application
that sends records of unknown outcome again."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, TopicPartition
from support.log_reader import read_log
from support.patience import PATIENCE_S

from delivery_verifier.catalogue.entry import ArmPlan, Entry, build
from delivery_verifier.catalogue.parts import AT_ONCE, FULL, SETTLED, step
from delivery_verifier.catalogue.profiles import PROFILES, profile_of
from delivery_verifier.cluster import topics
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.protocol.fetch import whole_batches
from delivery_verifier.faults.action import ActionContext, Done
from delivery_verifier.faults.actions import ACTIONS, heal
from delivery_verifier.faults.runner import FaultRunner
from delivery_verifier.host.waiting import DeadlinePassed, wait_until
from delivery_verifier.load import handle
from delivery_verifier.load.handle import RunningLoad
from delivery_verifier.load.live_ledger import Gate, State, Word
from delivery_verifier.load.pool import ProducerPool
from delivery_verifier.load.producer_process import ProducerDied
from delivery_verifier.load.publish_ledger import counted_outcomes, publish_ledger
from delivery_verifier.load.spec import ProducerSpec
from delivery_verifier.model import record
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep
from delivery_verifier.model.history import Injection
from delivery_verifier.model.outcomes import Outcome
from delivery_verifier.model.scenario import Load, Scenario
from delivery_verifier.run_directory.ledger import MISCOUNTED

BLOCK, PARTITIONS = 20, 2
SENT = BLOCK * PARTITIONS
PATIENT = profile_of(
    "patient", "All replicas must have it.", {"min.insync.replicas": 3}, enable_idempotence=True, linger_ms=20
)
PATIENT_ARM = ArmPlan(name="patient", role="subject", profile=PATIENT)
HASTY = profile_of(
    "hasty",
    "Gives up soon.",
    {"min.insync.replicas": 3},
    enable_idempotence=True,
    linger_ms=20,
    delivery_timeout_ms=10_000,  # a host that stalls for less times out no block that is to be acknowledged
)


class Stage:
    """The producers of a scenario at work on a cluster, and the fault plan that runs at the same time."""

    def __init__(self, cluster: Cluster, workspace: Path, plan: FaultPlan, *arms: ArmPlan) -> None:
        load = Load(partitions=PARTITIONS, pacing="scripted", block=BLOCK, transaction_records=2 * SENT)
        entry = Entry(
            name="clients",
            title="",
            promise="",
            source="",
            tags=(),
            arms=arms,
            load=load,
            fault=plan,
        )
        self.cluster, self.workspace, self.injections = cluster, workspace, list[Injection]()
        self.scenario: Scenario = build(entry, workspace.name)
        topics.create(self.scenario, cluster.connection)
        names = [arm.topic_name for arm in self.scenario.arms]
        wait_until(lambda: cluster.isr_full(names), "all replicas to be in sync", PATIENCE_S)
        self.pool = ProducerPool(self.scenario, {"librdkafka": cluster.connection.client_properties()}, workspace)
        self.running_load = RunningLoad(self.scenario, workspace)
        self.pool.wait_for(State.READY)
        self.pool.open(Gate.WARM_UP)
        self.pool.wait_for(State.WARM)
        self.pool.open(Gate.GO)

    def play(self) -> list[dict[str, Any]]:
        """Runs the plan and the load until both have ended. Returns the ledger of the first arm as rows."""
        raised: list[BaseException] = []

        def inject() -> None:
            try:
                self.injections = FaultRunner(self.cluster, self.scenario, self.running_load).run()
            except BaseException as error:
                raised.append(error)

        beside = threading.Thread(target=inject)
        beside.start()
        wait_until(lambda: self.look() and not beside.is_alive(), "the plan to end", PATIENCE_S)
        if raised:
            raise raised[0]
        self.pool.open(Gate.RELEASE)
        self.pool.wait_for(State.DONE)
        return self.ledger()

    def appended(self) -> int:
        """Returns how many records the leaders of the first arm's topic have appended, acknowledged or not.

        No request of a client can tell, so this reads the leaders' files.
        """
        states, ends = self.cluster.partitions([self.scenario.arms[0].topic_name]), list[int]()
        for (topic, partition), state in states.items():
            segment = self.cluster.workspace / f"data/{state.leader}/{topic}-{partition}/{0:020}.log"
            ends += [0, *(batch.end for batch in whole_batches(segment.read_bytes()))][-1:]
        return sum(ends)

    def look(self) -> bool:
        self.pool.apply_commands(lambda pid: None)
        return self.pool.check()

    def ledger(self) -> list[dict[str, Any]]:
        producer, file = self.pool.producers[0], self.workspace / "ledger.parquet"
        self.announced = publish_ledger(
            producer.folder, file, producer.arm.name, 0, 0, producer.layout, producer.spec.transaction_records
        )
        return list(pq.read_table(file).to_pylist())


@pytest.fixture
def workspace(cluster: Cluster, tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    heal(cluster)


def plan(*steps: FaultStep) -> FaultPlan:
    return FaultPlan(name="planned", summary="planned", steps=steps)


def attempt_of(row: dict[str, Any] | record.Header) -> tuple[int, int, int]:
    told = (
        row
        if isinstance(row, dict)
        else {name: getattr(row, name) for name in ("sequence", "attempt", "partition_sequence")}
    )
    return told["sequence"], told["attempt"], told["partition_sequence"]


def read_to_the_end(spec: ProducerSpec, isolation: str) -> Counter[int]:
    """Counts the records of each sequence that a consumer with this isolation.level is handed."""
    consumer = Consumer(
        {
            **spec.connection,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(spec.topic, partition, 0) for partition in range(spec.partitions)])
    counts, ended = Counter[int](), set[int | None]()

    def is_read() -> bool:
        for message in consumer.consume(1000, timeout=0.2):
            if message.error() is not None:
                assert message.error().name() == "_PARTITION_EOF"
                ended.add(message.partition())
                continue
            header = record.parse(message.value() or b"")
            assert header is not None and header.crc_ok
            counts[header.sequence] += 1
        return len(ended) == spec.partitions

    wait_until(is_read, "all records to be read", PATIENCE_S)
    consumer.close()
    return counts


def tally_of(stage: Stage, rows: list[dict[str, Any]]) -> Counter[str]:
    """Returns counts from the ledger `rows` and the log: attempts per outcome, records, and sequences with several
    records.

    Also asserts that every acknowledged attempt stands at its acknowledged offset, and that the partition sequences
    number the sends to each partition without a gap.
    """
    log = read_log(stage.pool.producers[0].spec, token=stage.scenario.run_token)
    for row in rows:
        if row["outcome"] == "ACKED" and row["offset"] is not None:
            assert attempt_of(log[row["partition"], row["offset"]]) == attempt_of(row)
    for at in range(PARTITIONS):
        numbered = sorted(row["partition_sequence"] for row in rows if row["partition"] == at)
        assert numbered == list(range(len(numbered)))
        sent = [
            row["partition_sequence"] for row in sorted(rows, key=lambda it: it["sent_at"]) if row["partition"] == at
        ]
        assert sent == sorted(sent) or len({row["sent_at"] for row in rows}) < len(rows)
    assert {attempt_of(header) for header in log.values()} <= {attempt_of(row) for row in rows}
    together = Counter(header.sequence for header in log.values())
    counted = Counter(f"{row['outcome']} {row['attempt']} {row['made_by']}" for row in rows)
    counted["sequences in the log more than once"] = sum(count > 1 for count in together.values())
    counted["records in the log"] = len(log)
    return counted


def test_a_killed_producer_starts_again_and_sends_again_what_it_was_not_answered(
    cluster: Cluster, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The producer is killed after the leader has appended records and before it acknowledges them. Each of these
    records is in the log twice, and the counts balance."""
    stage = Stage(
        cluster,
        workspace,
        plan(
            step(AT_ONCE, "pause", "other_follower", ()),
            step(AT_ONCE, "send"),
            step(AT_ONCE, "kill_producer", "none"),
            step(AT_ONCE, "resume", "other_follower"),
            step(FULL, "restart_producer", "none"),
            step(SETTLED, "send"),
        ),
        PATIENT_ARM,
    )
    kill = stage.running_load.kill

    def kill_once_appended() -> None:
        wait_until(lambda: stage.appended() == 2 * SENT, "the leaders to append the records", PATIENCE_S)
        kill()

    monkeypatch.setattr(stage.running_load, "kill", kill_once_appended)
    rows = stage.play()
    assert tally_of(stage, rows) == {
        "ACKED 0 client": 3 * SENT,
        "INDETERMINATE 0 recovery": SENT,
        "ACKED 1 client": SENT,
        "sequences in the log more than once": SENT,
        "records in the log": 5 * SENT,
    }
    (producer,) = stage.pool.producers
    assert stage.announced == len(rows) == producer.control[Word.ATTEMPTED] and producer.spec.incarnation == 1
    counts = counted_outcomes(producer.control, "all")
    assert counts == dict.fromkeys((*Outcome, MISCOUNTED), 0) | {Outcome.ACKED: 4 * SENT}
    killed = stage.injections[1]
    assert killed.took_effect and killed.action == "kill_producer" and killed.brokers == []
    assert killed.proof["process_before_heal"] == {"producer patient/0": "exit code -9 (killed by SIGKILL)"}
    assert killed.hit == {stage.scenario.subjects[0].topic_name: [0, 1]}
    assert killed.effect_at_us < (killed.healed_at_us or 0) <= (killed.recovered_at_us or 0)


def test_what_a_killed_producer_had_in_an_open_transaction_is_seen_by_nobody(cluster: Cluster, workspace: Path) -> None:
    """A transaction holds two `send` steps, i.e. 80 records. The first kill comes between two transactions, so that it
    has not taken effect. The second kill comes in the middle of one."""
    kill = step(SETTLED, "kill_producer", "none", ("transactions_open",))
    start = step(AT_ONCE, "restart_producer", "none")
    send = step(SETTLED, "send")
    arm = ArmPlan(name="transactional", role="subject", profile=PROFILES["transactional"])
    stage = Stage(cluster, workspace, plan(send, kill, start, send, kill, start, send), arm)
    rows = stage.play()
    assert Counter((row["transaction"], row["transaction_outcome"], row["outcome"]) for row in rows) == {
        ("0", "COMMITTED", "ACKED"): 2 * SENT,
        ("1", "INDETERMINATE", "ACKED"): SENT,
        ("2", "COMMITTED", "ACKED"): 2 * SENT,
    }
    spec = stage.pool.producers[0].spec
    raw = read_to_the_end(spec, "read_uncommitted")
    assert raw == Counter(range(5 * SENT))
    assert read_to_the_end(spec, "read_committed") == raw - Counter(range(2 * SENT, 3 * SENT))
    missed, killed = stage.injections
    assert missed.proof["process_before_heal"] and not missed.took_effect and missed.proof["transactions_open"] == {}
    assert killed.took_effect and list(killed.proof["transactions_open"]) == ["kdv-transactional-0"]


def test_what_timed_out_is_sent_again_by_the_living_producer(cluster: Cluster, workspace: Path) -> None:
    stage = Stage(
        cluster,
        workspace,
        plan(
            step(AT_ONCE, "pause", "other_follower", ()),
            step(AT_ONCE, "send"),
            step(SETTLED, "resume", "other_follower"),
            step(FULL, "resend", "none"),
            step(SETTLED, "send"),
        ),
        ArmPlan(name="hasty", role="subject", profile=HASTY),
        ArmPlan(name="patient", role="control", profile=PATIENT),
    )
    rows = stage.play()
    assert tally_of(stage, rows) == {
        "ACKED 0 client": 3 * SENT,
        "INDETERMINATE 0 client": SENT,
        "ACKED 1 client": SENT,
        "sequences in the log more than once": SENT,
        "records in the log": 5 * SENT,
    }
    assert {row["error"] for row in rows if row["outcome"] == "INDETERMINATE"} == {"_MSG_TIMED_OUT"}
    counts = counted_outcomes(stage.pool.producers[0].control, "all")
    assert counts == dict.fromkeys((*Outcome, MISCOUNTED), 0) | {Outcome.ACKED: 4 * SENT, Outcome.INDETERMINATE: SENT}
    resent = stage.injections[1]
    assert resent.took_effect and resent.proof["process"] == {"resent by hasty": SENT, "resent by patient": 0}


def test_with_nothing_to_send_again_a_resend_took_no_effect(cluster: Cluster, workspace: Path) -> None:
    stage = Stage(
        cluster,
        workspace,
        plan(step(AT_ONCE, "send"), step(SETTLED, "resend", "none")),
        PATIENT_ARM,
    )
    rows = stage.play()
    assert tally_of(stage, rows)["ACKED 0 client"] == len(rows) == 3 * SENT
    assert [injection.took_effect for injection in stage.injections] == [False]


def test_producers_that_the_signal_did_not_reach_have_not_been_killed(
    cluster: Cluster, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunningLoad, "kill", lambda load: None)
    stage = Stage(
        cluster,
        workspace,
        plan(step(AT_ONCE, "send"), step(SETTLED, "kill_producer", "none")),
        PATIENT_ARM,
    )
    stage.play()
    (made,) = stage.injections
    assert not made.took_effect and made.proof["process"] == made.proof["process_before_heal"] == {}


def test_a_program_that_exits_on_sigterm_drops_its_queue_and_one_that_flushes_has_it_in_the_log(
    cluster: Cluster, workspace: Path
) -> None:
    slow = profile_of("slow", "Sends late.", enable_idempotence=True, linger_ms=5000)
    stage = Stage(
        cluster,
        workspace,
        plan(
            step(AT_ONCE, "send", "none"),
            step(AT_ONCE, "terminate_producer", "none"),
            step(AT_ONCE, "restart_producer", "none"),
            step(AT_ONCE, "send", "none"),
        ),
        ArmPlan(name="exits", role="subject", profile=slow, on_sigterm="exit"),
        ArmPlan(name="flushes", role="control", profile=slow, on_sigterm="flush"),
    )
    assert tally_of(stage, stage.play()) == {
        "ACKED 0 client": 3 * SENT,
        "INDETERMINATE 0 recovery": SENT,
        "sequences in the log more than once": 0,
        "records in the log": 3 * SENT,
    }
    assert len(read_log(stage.pool.producers[1].spec, token=stage.scenario.run_token)) == 4 * SENT
    (made,) = stage.injections
    assert made.took_effect and made.proof["process"] == made.proof["process_before_heal"] == {
        "producer exits/0": f"{SENT} records in progress when SIGTERM came, {SENT} when it ended; exit code 0",
        "producer flushes/0": f"{SENT} records in progress when SIGTERM came, 0 when it ended; exit code 0",
        "left by exits": SENT,
        "left by flushes": 0,
    }


def test_producers_with_nothing_in_progress_have_not_been_terminated(cluster: Cluster, workspace: Path) -> None:
    stage = Stage(
        cluster,
        workspace,
        plan(step(AT_ONCE, "send"), step(SETTLED, "terminate_producer", "none")),
        ArmPlan(name="patient", role="subject", profile=PATIENT, on_sigterm="exit"),
    )
    rows = stage.play()
    assert tally_of(stage, rows)["ACKED 0 client"] == len(rows) == 3 * SENT
    (made,) = stage.injections
    assert not made.took_effect and made.proof["process"] == made.proof["process_before_heal"] == {}


def test_a_plan_that_ends_early_leaves_no_producer_dead(cluster: Cluster, workspace: Path) -> None:
    stage = Stage(
        cluster,
        workspace,
        plan(
            step(AT_ONCE, "send"),
            step(SETTLED, "kill_producer", "none"),
        ),
        PATIENT_ARM,
    )
    rows = stage.play()
    assert tally_of(stage, rows)["ACKED 0 client"] == len(rows) == 3 * SENT
    assert (
        stage.pool.producers[0].spec.incarnation == 1
        and stage.injections[0].took_effect
        and stage.injections[0].healed_at_us
    )


def test_a_crash_that_nobody_ordered_is_no_part_of_the_plan(
    cluster: Cluster, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(
        cluster,
        workspace,
        plan(step(AT_ONCE, "send")),
        PATIENT_ARM,
    )
    now = ActionContext(cluster, [], {}, stage.scenario, stage.running_load)
    monkeypatch.setattr(handle, "HANDOVER_DEADLINE_S", 0.2)
    with pytest.raises(DeadlinePassed, match="produce to kill all producers"):
        ACTIONS["kill_producer"].do(now)  # nobody obeys
    assert ACTIONS["kill_producer"].proof(now, Done(0)) == {}
    stage.pool.producers[0].process.kill()
    stage.pool.producers[0].process.wait()
    with pytest.raises(ProducerDied, match="killed by SIGKILL"):
        stage.pool.check()
    assert ACTIONS["kill_producer"].proof(now, Done(0)) == {}
