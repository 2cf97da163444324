"""Run directories as a run leaves them, made up: held, violated, inconclusive, failed early, hostile and large."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from delivery_verifier.anomalies import Anomaly
from delivery_verifier.catalogue import FAULTS, PROFILES, scenario
from delivery_verifier.injection import Injection, Observation, Offsets, PartitionSnapshot
from delivery_verifier.runs import RunDirectory
from delivery_verifier.scenario import Load, Scenario
from delivery_verifier.verdict import ArmVerdict, Doubt, Exposure, Finding, RunVerdict

START_US = 1_790_000_000_000_000
S = 1_000_000
PARTITIONS = 3
_US = pa.timestamp("us", tz="UTC")
ANOMALIES = pa.schema(
    [("arm", pa.string()), ("kind", pa.string()), ("also", pa.list_(pa.string())), ("producer", pa.int32()),
     ("session", pa.int32()), ("sequence", pa.int64()), ("attempt", pa.int32()), ("partition", pa.int32()),
     ("partition_sequence", pa.int64()), ("outcome", pa.string()), ("acked_offset", pa.int64()),
     ("offsets", pa.list_(pa.int64())), ("sent_at", _US), ("settled_at", _US), ("error", pa.string()),
     ("detail", pa.string())]
)  # fmt: skip
LOG = pa.schema(
    [("arm", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("view", pa.string()),
     ("timestamp", _US), ("header_run", pa.string()), ("header_arm", pa.int32()), ("producer", pa.int32()),
     ("session", pa.int32()), ("sequence", pa.int64()), ("attempt", pa.int32()), ("partition_sequence", pa.int64()),
     ("parsed", pa.bool_()), ("crc_ok", pa.bool_()), ("foreign", pa.bool_())]
)  # fmt: skip


def held(runs: Path, run_id: str = "2026-11-21-held") -> tuple[Path, RunVerdict]:
    """A run whose subject was HELD; acks=0 beside it lost records, which it may."""
    plan = _scenario(run_id, "safe")
    cases = _planted() + [_case("control-acks_0", "LOST", 500 + i, outcome="SENT") for i in range(37)]
    arms = [_arm(plan, "safe", "HELD", {}), _arm(plan, "control-acks_0", "HELD", {"LOST": 1204})]
    sentence = (
        "safe kept its promise: of 41,210 records it reported as delivered, none was lost, duplicated or reordered "
        "while the leader of a third of its partitions was killed. The same fault took 1,204 records from acks=0."
    )
    return _write(runs, plan, cases, {("control-acks_0", "LOST"): 1204}, arms, "HELD", sentence)


def violated(runs: Path, run_id: str = "2026-11-21-violated") -> tuple[Path, RunVerdict]:
    """A run that refutes the claim exactly_once of acks=all: records were lost and duplicated."""
    plan = _scenario(run_id, "acks_all", claim="exactly_once")
    cases = _planted() + [_case("acks_all", "LOST", 4000 + 3 * i) for i in range(23)]
    cases += [_case("acks_all", "DUPLICATED", 7000 + 3 * i, offsets=[2400 + i, 2470 + i]) for i in range(61)]
    cases += [_case("control-acks_0", "LOST", 500 + i, outcome="SENT") for i in range(37)]
    subject = _arm(plan, "acks_all", "VIOLATED", {"LOST": 23, "DUPLICATED": 61}, as_expected=False)
    arms = [subject, _arm(plan, "control-acks_0", "HELD", {"LOST": 37})]
    sentence = (
        "acks_all does not give exactly_once: of 41,210 records it reported as delivered, 23 were lost and 61 stand in "
        "the log more than once after one leader was killed."
    )
    return _write(runs, plan, cases, {}, arms, "VIOLATED", sentence)


def inconclusive(runs: Path, run_id: str = "2026-11-21-inconclusive") -> tuple[Path, RunVerdict]:
    """A run with one checker and one coverage doubt, and a law that does not balance."""
    plan = _scenario(run_id, "safe")
    doubts = [
        Doubt(kind="coverage", name="fault_did_not_bite", detail="injection 1 (kill broker 2): no leader moved in 8 s"),
        Doubt(kind="checker", name="books_unbalanced", detail="reported_sum: 13,737 = 13,736 does not hold on safe/1"),
    ]
    arms = [_arm(plan, "safe", "INCONCLUSIVE", {}, doubts=doubts, as_expected=False)]
    arms.append(_arm(plan, "control-acks_0", "HELD", {}))
    sentence = "Nothing can be said about safe: the fault did not take effect, and one of the books does not balance."
    return _write(runs, plan, _planted(), {}, arms, "INCONCLUSIVE", sentence, broken_law=True, bit=False)


def failed_early(runs: Path, run_id: str = "2026-11-21-failed") -> tuple[Path, None]:
    """A run that ended while the cluster was starting: a scenario and nothing else."""
    run = RunDirectory(runs / run_id)
    with run.writing("plan") as output:
        output.write_json("scenario.json", _scenario(run_id, "safe"))
    return run.path, None


def quiet(runs: Path, run_id: str = "2026-11-21-quiet") -> tuple[Path, RunVerdict]:
    """A HELD run with no case of any anomaly at all."""
    plan = _scenario(run_id, "safe")
    arms = [_arm(plan, "safe", "HELD", {}), _arm(plan, "control-acks_0", "HELD", {})]
    return _write(runs, plan, [], {}, arms, "HELD", "safe kept its promise.")


def large(runs: Path, rows: int = 10_000, run_id: str = "2026-11-21-large") -> tuple[Path, RunVerdict]:
    """A VIOLATED run whose list of cases was cut at its bound."""
    plan = _scenario(run_id, "acks_all")
    cases = [_case("acks_all", "LOST", 3 * i) for i in reversed(range(rows))]
    arms = [_arm(plan, "acks_all", "VIOLATED", {"LOST": 31_337}, as_expected=False)]
    return _write(runs, plan, cases, {("acks_all", "LOST"): 31_337}, arms, "VIOLATED", "acks_all lost 31,337 records.")


def hostile(runs: Path, text: str) -> tuple[Path, RunVerdict]:
    """A VIOLATED run with `text` in every field that can hold free text, the run id of the verdict included."""
    path, verdict = violated(runs, "2026-11-21-hostile")
    cases = [_case("acks_all", "LOST", 4000, error=text, detail=text, outcome="INDETERMINATE", also=[text])]
    cases += [_case(text, text, 1, error=text, detail=text)]
    pq.write_table(pa.Table.from_pylist(cases, ANOMALIES), path / "anomalies" / "part-0.parquet")
    laws = [{"law": text, "arm": text, "partition": 1, "left_name": text, "left": 1, "right_name": text, "right": 2}]
    pq.write_table(pa.Table.from_pylist(laws), path / "books" / "laws.parquet")
    injections = [_injection(_scenario("x", "acks_all"), action=text, proof={text: text, "n": [text]})]
    (path / "injections.json").write_bytes(msgspec.json.encode(injections))
    raw = msgspec.to_builtins(verdict)
    for arm in raw["arms"]:
        arm |= {"arm": text, "profile": text, "expected": text, "sentence": text}
        arm["doubts"] = [{"kind": "checker", "name": text, "detail": text}]
        arm["findings"] = [one | dict.fromkeys(("anomaly", "rule", "sentence", "source"), text) for one in arm["findings"]]
    raw |= {"run_id": text, "scenario": text, "sentence": text, "limits": [text], "notes": [text]}
    return path, msgspec.convert(raw, RunVerdict)


def _scenario(run_id: str, profile: str, **more: Any) -> Scenario:
    return scenario(
        run_id, profile=PROFILES[profile], fault=FAULTS["kill_leader"], load=Load(), records=40_000, seed=7,
        created_at="2026-11-21T02:00:00Z", commit="337a7bb",
        versions={"kafka": "4.3.1", "confluent-kafka": "2.16.1", "pyspark": "4.2.0", "great-expectations": "1.24.1"},
        command=f"kdv run --profile {profile} --fault kill_leader --records 40000 --seed 7", **more,
    )  # fmt: skip


def _case(arm: str, kind: str, sequence: int, *, offsets: list[int] | None = None, outcome: str = "ACKED",
          error: str | None = None, detail: str = "", also: list[str] | None = None) -> dict[str, Any]:  # fmt: skip
    sent = START_US + int(2.9 * S) + sequence % 1000 * 100
    copies = offsets or []
    told = detail or f"{kind.lower()}: {outcome}, found at {copies if copies else 'no offset'}"
    return {
        "arm": arm, "kind": kind, "also": also or [], "producer": 0, "session": 0, "sequence": sequence, "attempt": 0,
        "partition": 1, "partition_sequence": sequence // 3, "outcome": outcome,
        "acked_offset": sequence // 3 if outcome == "ACKED" else None, "offsets": copies,
        "sent_at": datetime.fromtimestamp(sent / 1e6, UTC), "settled_at": datetime.fromtimestamp((sent + 4200) / 1e6, UTC),
        "error": error, "detail": told,
    }  # fmt: skip


def _planted() -> list[dict[str, Any]]:
    return [_case("canary", kind.value, 10 + place, offsets=[place]) for place, kind in enumerate(Anomaly)]


def _arm(plan: Scenario, name: str, verdict: str, counts: dict[str, int], *, doubts: list[Doubt] | None = None,
         as_expected: bool = True) -> ArmVerdict:  # fmt: skip
    arm, weak = plan.arm(name), "acks_0" in name
    books = {"attempted": 41_300, "acked": 0 if weak else 41_210, "sent": 41_210 if weak else 0, "failed": 0,
             "indeterminate": 90, "reported": 41_210, "log_records": 41_240}  # fmt: skip
    books |= {kind.value.lower(): counts.get(kind.value, 0) for kind in Anomaly}
    return ArmVerdict(
        arm=name, role=arm.role, profile=arm.profile.name, claim=arm.claim, verdict=verdict, as_expected=as_expected,
        expected=" or ".join(arm.expectation.verdicts), doubts=doubts or [], books=books, longest_gap_s=3.412,
        sentence=_arm_sentence(weak, counts), findings=_findings(weak, counts),
        exposure=[Exposure(injection=1, reported=6_120, outstanding=48)],
    )  # fmt: skip


def _arm_sentence(weak: bool, counts: dict[str, int]) -> str:
    found = ", ".join(f"{count:,} {kind.lower()}" for kind, count in counts.items()) or "no anomaly"
    return f"{found} among 41,210 reported records" + (" (permitted: nobody asked for an acknowledgement)." if weak else ".")


def _findings(weak: bool, counts: dict[str, int]) -> list[Finding]:
    permitted = {"LOST", "MISPLACED"} if weak else {"RESENT"}
    return [
        Finding(
            anomaly=kind.value, ruling="PERMITTED" if kind.value in permitted else "FORBIDDEN",
            ruled_by="contract", rule=f"{'acks_0' if weak else 'acks_all'}.{kind.value.lower()}",
            sentence="acks=0 waits for no acknowledgement: what the socket took may be lost without a word."
            if kind.value in permitted else "A record that all in-sync replicas acknowledged survives the loss of one broker.",
            source="Kafka 4.3 producer configuration, acks", tolerance=None if kind.value in permitted else 0,
            count=counts.get(kind.value, 0), also=0,
        )
        for kind in Anomaly
    ]  # fmt: skip


def _write(runs: Path, plan: Scenario, cases: list[dict[str, Any]], counted: dict[tuple[str, str], int],
           arms: list[ArmVerdict], verdict: str, sentence: str, *, broken_law: bool = False,
           bit: bool = True) -> tuple[Path, RunVerdict]:  # fmt: skip
    run = RunDirectory(runs / plan.run_id)
    with run.writing("plan") as output:
        output.write_json("scenario.json", plan)
    with run.writing("inject_fault") as output:
        output.write_json("injections.json", [_injection(plan, bit=bit)])
        output.write_json("observations.json", list(_observations(plan)))
    with run.writing("settle") as output:
        output.write_json("offsets.json", _offsets(plan))
    with run.writing("reconcile") as output:
        _reconciled(output.staging, plan, cases, counted, broken_law)
    canary = _arm(plan, "canary", "HELD", {kind.value: 1 for kind in Anomaly})
    canary = msgspec.structs.replace(
        canary, exposure=[], longest_gap_s=None, sentence="All 7 kinds of planted errors were found, and nothing else.",
        books={"attempted": 120, "acked": 118, "lost": 1, "duplicated": 1},
        findings=[msgspec.structs.replace(one, tolerance=1, also=0) for one in canary.findings],
    )  # fmt: skip
    limits = ["1 injection: a fault like it breaks the promise in less than 95 % of cases (95 % confidence).",
              "6,120 reported records were exposed to it."]  # fmt: skip
    everything = [*arms, canary]
    return run.path, RunVerdict(
        run_id=plan.run_id, scenario=plan.name, verdict=verdict, green=all(arm.as_expected for arm in everything),
        sentence=sentence, limits=limits, arms=everything,
    )  # fmt: skip


def _injection(plan: Scenario, action: str = "kill", bit: bool = True, proof: dict[str, object] | None = None) -> Injection:
    shown: dict[str, object] = {"process": "exit code -9 of pid 4711", "leader_epoch": {"partition 1": [0, 1]},
                                "client_errors": 3}  # fmt: skip
    return Injection(
        id=1, cycle=1, action=action, brokers=[2], hit={arm.topic_name: [1] for arm in plan.arms},
        requested_at_us=START_US + int(2.95 * S), bite_at_us=START_US + 3 * S, healed_at_us=START_US + 7 * S,
        recovered_at_us=START_US + int(9.4 * S), bit=bit, proof=shown if proof is None else proof,
    )  # fmt: skip


def _observations(plan: Scenario) -> list[Observation]:
    rows: list[tuple[float, int, int, int, list[int]]] = [(-1, p, p + 1, 0, [1, 2, 3]) for p in range(PARTITIONS)]
    rows += [(4.2, 1, -1, 0, [2]), (6.1, 1, 3, 1, [1, 3]), (6.2, 0, 1, 0, [1, 3]), (6.2, 2, 3, 0, [1, 3])]
    rows += [(9.2, 0, 1, 0, [1, 2, 3]), (9.3, 1, 3, 1, [1, 2, 3]), (9.4, 2, 3, 0, [1, 2, 3])]
    found = [
        Observation(at_us=START_US + int(at * S), kind="partition", topic=arm.topic_name, partition=partition,
                    leader=leader, leader_epoch=epoch, isr=isr)
        for arm in plan.arms
        for at, partition, leader, epoch, isr in rows
    ]  # fmt: skip
    return [*found, Observation(at_us=START_US + 3 * S, kind="process", broker=2, state="exited", exit_code=-9)]


def _offsets(plan: Scenario) -> Offsets:
    parts = [
        PartitionSnapshot(arm=arm.name, topic=arm.topic_name, partition=p, start=0, end=13_740, live_end=13_742,
                          leader=p + 1, leader_epoch=1)
        for arm in plan.arms
        for p in range(PARTITIONS)
    ]  # fmt: skip
    return Offsets(bootstrap_servers="127.0.0.1:9092", taken_at_us=START_US + 14 * S, partitions=parts)


def _reconciled(to: Path, plan: Scenario, cases: list[dict[str, Any]], counted: dict[tuple[str, str], int],
                broken: bool) -> None:  # fmt: skip
    tables = {
        "timeline/load": _load(plan),
        "books/laws": pa.Table.from_pylist(_laws(plan, broken)),
        "books/cases": pa.Table.from_pylist(_counts(cases, counted)) if cases else None,
        "books/gaps": pa.Table.from_pylist(
            [{"arm": arm.name, "partition": p, "longest_gap_s": 0.2 + 3.2 * (p == 1), "gap_start_us": START_US + 3 * S}
             for arm in plan.loaded for p in range(PARTITIONS)]
        ),
        "anomalies/part-0": pa.Table.from_pylist(cases, ANOMALIES),
        "log/part-0": pa.Table.from_pylist(
            [{"arm": "acks_all", "partition": 1, "offset": 4000 // 3, "view": "raw", "timestamp": None, "header_run": "x",
              "header_arm": 1, "producer": 0, "session": 0, "sequence": 4077, "attempt": 0, "partition_sequence": 1359,
              "parsed": True, "crc_ok": True, "foreign": False}], LOG,
        ),
    }  # fmt: skip
    for name, table in tables.items():
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        empty = pa.table({"arm": pa.array([], pa.string()), "kind": pa.array([], pa.string()),
                          **{c: pa.array([], pa.int64()) for c in ("cases", "written")}, "cut": pa.array([], pa.bool_())})  # fmt: skip
        pq.write_table(empty if table is None else table, to / f"{name}.parquet")


def _counts(cases: list[dict[str, Any]], counted: dict[tuple[str, str], int]) -> list[dict[str, Any]]:
    written: dict[tuple[str, str], int] = {}
    for case in cases:
        written[case["arm"], case["kind"]] = written.get((case["arm"], case["kind"]), 0) + 1
    return [
        {"arm": arm, "kind": kind, "cases": counted.get((arm, kind), rows), "written": rows,
         "cut": counted.get((arm, kind), rows) > rows}
        for (arm, kind), rows in written.items()
    ]  # fmt: skip


def _laws(plan: Scenario, broken: bool) -> list[dict[str, Any]]:
    laws = {"offsets_accounted": ("end - start", "data + control records"), "reported_sum": ("reported", "found + lost"),
            "outcomes_sum": ("attempted", "acked + sent + failed + indeterminate"), "log_moved": ("tail records", "zero"),
            "log_sum": ("log records", "first copies + extra copies + phantoms + unattributed")}  # fmt: skip
    return [
        {"law": law, "arm": arm.name, "partition": p, "left_name": left, "left": 0 if law == "log_moved" else 13_737,
         "right_name": right,
         "right": 0 if law == "log_moved" else 13_736 if broken and (law, p) == ("reported_sum", 1) else 13_737}
        for law, (left, right) in laws.items() for arm in plan.arms for p in range(PARTITIONS)
    ]  # fmt: skip


def _load(plan: Scenario) -> pa.Table:
    """13 s of load in intervals of 200 ms, with a dip and a backlog around the fault."""
    noise, rows = np.random.default_rng(7), []
    for arm in plan.loaded:
        scale = 650 if arm.role == "subject" else 80
        for step in range(65):
            at, down = step * 0.2, 3 <= step * 0.2 < 6.2
            reported = int(scale * (0.62 if down else 1.7 if 6.2 <= at < 7.6 else 1) * noise.uniform(0.92, 1.08))
            slow = 2800.0 if 6.2 <= at < 6.6 else 9.0
            rows.append({"arm": arm.name, "at_us": START_US + step * 200_000, "sent": scale, "reported": reported,
                         "indeterminate": 9 if 4 <= at < 5 else 0, "failed": 3 if 5 <= at < 5.4 else 0,
                         "latency_ms_p50": 2.2 * noise.uniform(0.9, 1.2), "latency_ms_p99": slow * noise.uniform(0.8, 1.4)})  # fmt: skip
    return pa.Table.from_pylist(rows)
