"""Tests of the producer's own counts of outcomes: they come from reports, and are sealed beside the ledger.

The brokers are librdkafka's mock cluster, which runs inside the client.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaError, Message
from support.evidence import a_scenario
from support.oracle import judge
from support.patience import PATIENCE_S

from delivery_verifier.catalogue import PROFILES
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.load import lossy_mock, publish_ledger
from delivery_verifier.load.delivery_reports import delivery_callback, record_refusals
from delivery_verifier.load.error_codes import code_of
from delivery_verifier.load.live_ledger import (
    FAILED,
    INDETERMINATE,
    SLOTS,
    Control,
    Gate,
    LiveLedger,
    Word,
    encode_error,
)
from delivery_verifier.load.lossy_mock import send_and_forget
from delivery_verifier.load.producer import SequencedProducer
from delivery_verifier.load.producer_process import ProducerDied, ProducerProcess
from delivery_verifier.load.resends import COUNTERS, recount
from delivery_verifier.load.spec import ProducerSpec
from delivery_verifier.model import record
from delivery_verifier.model.data import Setting, dumps
from delivery_verifier.model.outcomes import Outcome
from delivery_verifier.model.scenario import Arm
from delivery_verifier.run_directory.ledger import MISCOUNTED, outcomes_key
from delivery_verifier.run_directory.run_directory import RunDirectory
from delivery_verifier.settlement.sealing import seal_ledgers

MOCK: dict[str, str] = {"test.mock.num.brokers": "1"}
REFUSED, TIMED_OUT = (
    encode_error(FAILED, code_of(KafkaError._QUEUE_FULL)),
    encode_error(INDETERMINATE, code_of(KafkaError._MSG_TIMED_OUT)),
)


def spec_of(folder: Path, profile: str = "acks_all", records: int = 40, **more: Any) -> ProducerSpec:
    settings: dict[str, Setting] = {"client.id": "one-0", **PROFILES[profile].producer, "log_level": 0}
    plain: dict[str, Any] = {
        "folder": str(folder),
        "connection": MOCK,
        "settings": settings,
        "topic": "t",
        "run_token": "abcdefgh",
        "arm": 1,
        "producer": 0,
        "session": 0,
        "records": records,
        "rate": None,
        "block": 5,
        "partitions": 2,
        "payload_bytes": 100,
        "deadline_s": 20.0,
    }
    return ProducerSpec(**(plain | more))


def run_here(spec: ProducerSpec) -> SequencedProducer:
    """Runs the whole load in this process."""
    producer = SequencedProducer(spec)
    producer.control[Word.GATE] = Gate.RELEASE
    producer.run()
    return producer


def seal(spec: ProducerSpec, path: Path) -> tuple[dict[str, int], Counter[str]]:
    """Seals the producer's ledger as the step `produce` does.

    Returns the counts in produce.json, and the number of ledger rows by outcome, without rows by recovery.
    """
    arm = Arm(name="one", ordinal=1, role="subject", profile=PROFILES["acks_all"], topic_name="t")
    (Path(spec.folder) / "stderr").touch()
    ended = SimpleNamespace(wait=lambda timeout: 0, returncode=0)
    process = ProducerProcess(arm, spec, cast("subprocess.Popen[bytes]", ended), Control(Path(spec.folder)))
    path.mkdir(parents=True, exist_ok=True)
    (path / "scenario.json").write_bytes(dumps(a_scenario()))
    with RunDirectory(path).writing("produce") as output:
        seal_ledgers([process], output)
    rows = pq.read_table(path / "ledger").to_pylist()
    return dict(json.loads((path / "produce.json").read_bytes())["counts"]), Counter(
        row["outcome"] for row in rows if row["made_by"] == "client"
    )


def counted(counts: dict[str, int]) -> Counter[str]:
    """Returns the producer's own counts by outcome, without zeros."""
    return +Counter({outcome.value: counts[outcomes_key(outcome, "one/0/0")] for outcome in Outcome})


@pytest.mark.parametrize(("profile", "outcome"), [("acks_all", "ACKED"), ("acks_0", "SENT")])
def test_the_producers_own_counts_are_sealed_and_are_those_of_the_ledger(
    tmp_path: Path, profile: str, outcome: str
) -> None:
    spec = spec_of(tmp_path / "live", profile)
    run_here(spec)
    counts, in_ledger = seal(spec, tmp_path / "run")
    assert counted(counts) == in_ledger == {outcome: 40}
    assert counts[outcomes_key(MISCOUNTED, "one/0/0")] == 0


def test_the_producers_own_counts_do_not_follow_a_seal_that_turns_acked_into_indeterminate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of(tmp_path / "live")
    run_here(spec)
    monkeypatch.setattr(publish_ledger, "outcome_of", lambda result: Outcome.INDETERMINATE)
    counts, in_ledger = seal(spec, tmp_path / "run")
    assert in_ledger == {"INDETERMINATE": 40}
    assert counted(counts) == {"ACKED": 40}


def test_refusals_and_errors_are_counted_apart_from_what_was_never_reported(tmp_path: Path) -> None:
    spec = spec_of(tmp_path / "live")
    live, control = LiveLedger(Path(spec.folder)), Control(Path(spec.folder))
    live.open(0, 5, 1)
    control[Word.ANNOUNCED] = 5
    record_refusals(live, control, 0, [{"_error": KafkaError(KafkaError._QUEUE_FULL)}])
    callback = delivery_callback(live, control, "all")
    callback(KafkaError(KafkaError._MSG_TIMED_OUT), report(1))
    callback(None, report(2))
    counts, in_ledger = seal(spec, tmp_path / "run")
    assert counted(counts) == in_ledger == {"FAILED": 1, "INDETERMINATE": 1, "ACKED": 1}


def test_the_largest_payload_that_a_load_may_have_is_sent(tmp_path: Path) -> None:
    """librdkafka's own default of message.max.bytes refuses a million bytes, because it counts the envelope, too."""
    spec = spec_of(tmp_path / "live", payload_bytes=1_000_000, block=1, records=3)
    run_here(spec)
    _, in_ledger = seal(spec, tmp_path / "run")
    assert in_ledger == {"ACKED": 3}


def test_reports_from_two_segments_by_turns_reach_their_slots(tmp_path: Path) -> None:
    """The callback keeps the segment of the report before."""
    live, control = LiveLedger(tmp_path), Control(tmp_path)
    live.open(SLOTS - 2, 4, 1)
    callback = delivery_callback(live, control, "all")
    for sequence in (SLOTS - 2, SLOTS, SLOTS - 1, SLOTS + 1):
        callback(None, report(sequence))
    assert [list(live.segments[0].result[SLOTS - 3 :]), list(live.segments[1].result[:3])] == [[0, 8, 8], [8, 8, 0]]
    assert control[Word.REPORTED] == 4


def report(sequence: int) -> Message:
    value = record.encode("abcdefgh", 1, 0, 0, sequence, 0, sequence, 100)
    return cast(Message, SimpleNamespace(value=lambda: value, offset=lambda: 7))


class WatchedWords:
    """Counters that note, whenever one of them is set, what the slot of attempt 0 holds at that moment."""

    def __init__(self, live: LiveLedger) -> None:
        self.words, self.noted, self._live = self, list[tuple[int, bool]](), live

    def __getitem__(self, word: int) -> int:
        return 0

    def __setitem__(self, word: int, value: int) -> None:
        self.noted.append((word, self._live.segments[0].result[0] != 0))


@pytest.mark.parametrize("word", COUNTERS)
def test_a_report_is_in_its_slot_before_it_is_counted(tmp_path: Path, word: Word) -> None:
    """Therefore a kill can leave a counter one behind, and never ahead."""
    live = LiveLedger(tmp_path)
    live.open(0, 1, 1)
    watched = WatchedWords(live)
    if word == Word.FAILED:
        record_refusals(live, cast(Control, watched), 0, [{"_error": KafkaError(KafkaError._QUEUE_FULL)}])
    else:
        error = KafkaError(KafkaError._MSG_TIMED_OUT) if word == Word.INDETERMINATE else None
        delivery_callback(live, cast(Control, watched), "all")(error, report(0))
    assert watched.noted == [(word, True)]


def killed(folder: Path, **wrong: int) -> Control:
    """Leaves the slots of a killed process: two reported, two FAILED, two INDETERMINATE and two open attempts.

    `wrong`: how much each counter differs from the slots.
    """
    live, control = LiveLedger(folder), Control(folder)
    live.open(0, 8, 1)
    for slot, result in enumerate((5, 6, REFUSED, REFUSED, TIMED_OUT, TIMED_OUT)):
        live.segments[0].result[slot] = result
    control[Word.ANNOUNCED] = 8
    for word in COUNTERS:
        control[word] = 2 + wrong.get(word.name, 0)
    return control


@pytest.mark.parametrize("late", [{}, *({word.name: -1} for word in COUNTERS)], ids=str)
def test_a_kill_explains_that_one_counter_is_one_behind(tmp_path: Path, late: dict[str, int]) -> None:
    control = killed(tmp_path, **late)
    recount(tmp_path, control, 8)
    assert [control[word] for word in (*COUNTERS, Word.ABANDONED, Word.MISCOUNTED)] == [2, 2, 2, 2, 0]


@pytest.mark.parametrize(
    ("wrong", "miscounted"),
    [
        ({"REPORTED": -2}, 2),
        ({"REPORTED": 1}, 1),
        ({"REPORTED": -1, "FAILED": -1}, 2),
        ({"REPORTED": 2, "INDETERMINATE": -2}, 4),
        ({"REPORTED": 1, "INDETERMINATE": -1}, 2),
    ],
    ids=str,
)
def test_a_kill_explains_no_other_difference(tmp_path: Path, wrong: dict[str, int], miscounted: int) -> None:
    control = killed(tmp_path, **wrong)
    recount(tmp_path, control, 8)
    assert control[Word.MISCOUNTED] == miscounted
    recount(
        tmp_path, control, 8
    )  # after a second kill, the counters are right, but the first difference is not forgotten
    assert control[Word.MISCOUNTED] == miscounted


@pytest.mark.parametrize("reported", [1, 700, 3000])
def test_the_counters_of_a_process_that_sigkill_ended_differ_by_no_more(tmp_path: Path, reported: int) -> None:
    spec = spec_of(tmp_path / "live", records=10_000_000, block=50)
    control = Control(Path(spec.folder))
    control[Word.GATE] = Gate.GO
    (tmp_path / "spec.json").write_bytes(dumps(spec))
    command = [sys.executable, "-m", "delivery_verifier.load.producer", str(tmp_path / "spec.json")]
    process = subprocess.Popen(command)
    try:
        wait_until(lambda: control[Word.REPORTED] >= reported, "reports", PATIENCE_S, every_s=0.0001)
    finally:
        process.kill()
        process.wait()
    assert control[Word.ATTEMPTED] == -1, "the process was killed before it was done"
    counts = recount(Path(spec.folder), control, control[Word.ANNOUNCED])
    assert control[Word.MISCOUNTED] == 0
    assert sum(counts.values()) - counts[Word.RESENT] == control[Word.ANNOUNCED]


def test_what_a_producer_that_starts_again_counts_is_what_its_ledger_says(tmp_path: Path) -> None:
    """Its former process left two attempts open, and had not counted its last report."""
    killed(tmp_path / "live", REPORTED=-1)
    spec = spec_of(tmp_path / "live", records=40, block=8, incarnation=1)
    run_here(spec)
    counts, in_ledger = seal(spec, tmp_path / "run")
    assert counted(counts) == in_ledger == {"FAILED": 2, "INDETERMINATE": 2, "ACKED": 2 + 4 + 32}
    assert counts[outcomes_key(MISCOUNTED, "one/0/0")] == 0


def test_the_canarys_real_producer_is_told_that_records_were_acknowledged_which_no_cluster_keeps(
    tmp_path: Path,
) -> None:
    producer = send_and_forget(a_scenario(), tmp_path / "live", 10)
    (tmp_path / "run").mkdir()
    (tmp_path / "run/scenario.json").write_bytes(dumps(a_scenario()))
    with RunDirectory(tmp_path / "run").writing("settle") as output:
        seal_ledgers([producer], output)
    rows = pq.read_table(tmp_path / "run/ledger/canary-1-0.parquet").to_pylist()
    assert [(row["outcome"], row["partition"], row["offset"]) for row in rows] == [("ACKED", 0, n) for n in range(10)]
    tally, _ = judge(rows, [], [])
    assert dict(tally) == {"attempted": 10, "acked": 10, "reported": 10, "lost": 10}
    assert output.counts[outcomes_key(Outcome.ACKED, "canary/1/0")] == output.counts["announced/canary/1/0"] == 10


def test_a_canary_without_its_real_producer_ends_the_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lossy_mock, "MOCK_CLUSTER", {"bootstrap.servers": "127.0.0.1:1"})
    monkeypatch.setattr(lossy_mock, "DEADLINE_S", 2.0)
    with pytest.raises(ProducerDied, match="canary/1/0"):
        send_and_forget(a_scenario(), tmp_path / "live", 10)
