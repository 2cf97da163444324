"""Made-up run directories for tests of the report: held, violated, inconclusive, failed early, quiet, large and
hostile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from delivery_verifier.catalogue import FAULTS, PROFILES, scenario
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.history import Injection, Observation, read_observations
from delivery_verifier.model.scenario import Arm, Load, Scenario, VerdictName
from delivery_verifier.model.snapshot import Offsets, PartitionSnapshot
from delivery_verifier.model.verdict import ArmVerdict, CheckedInvariant, Doubt, Exposure, Finding, GivenUp, RunVerdict
from delivery_verifier.run_directory.run_directory import RunDirectory
from delivery_verifier.verdict.evaluation import INVARIANTS, Evaluated, ExpectedEvaluation, Validation
from support.advised import advised
from support.evidence import says
from support.report_tables import ANOMALIES, PARTITIONS, START_US, Row, S, case, planted
from support.run_builder import RunBuilder, write_verdict

Made = tuple[Path, RunVerdict]
"""A run directory, and the verdict of its run."""
LIMITS = [
    "1 fault took effect. Records in flight at that moment: 48 of safe. Records exposed until recovery: 6,120 of safe.",
    "One fault proves little: an anomaly not seen here may still occur in up to 95 % of such faults (95 % confidence).",
    "One run on one cluster: other fault timings, other loads and other versions may give another result.",
]


def held(runs: Path, run_id: str = "2026-11-21-held") -> Made:
    """Makes a run whose subject HELD. The control with acks=0 lost records, which its settings permit."""
    plan = _scenario(run_id, "safe")
    cases = planted() + [case("control-acks_0", "LOST", 500 + i, outcome="SENT") for i in range(37)]
    arms = [_arm(plan, "safe", "HELD", {}), _arm(plan, "control-acks_0", "HELD", {"LOST": 1204})]
    sentence = (
        "HELD: all 41,210 acknowledged records are in the log exactly once and in order; the leader was killed once, "
        "with 48 records in flight at the fault and 6,120 records exposed until recovery. The fault took 1,204 of "
        "41,210 records from acks_0."
    )
    return _write(runs, plan, cases, arms, "HELD", sentence, counted={("control-acks_0", "LOST"): 1204})


def gave_up(runs: Path, run_id: str = "2026-11-21-gave-up", replicas: int = 3) -> Made:
    """Makes a run whose subject HELD, and gave up 597 of its records, because the leader was away for too long. With
    three `replicas` another broker led in the end."""
    plan, away_s = _scenario(run_id, "safe"), 6.4 if replicas > 1 else 10.2
    plan = msgspec.structs.replace(plan, load=msgspec.structs.replace(plan.load, replication_factor=replicas))
    if replicas == 1:
        plan = msgspec.structs.replace(plan, arms=tuple(map(_of_one_replica, plan.arms)))
    fact = (
        "597 of 41,300 records (1.45 %) were not acknowledged and are not in the log: given up after "
        f"delivery.timeout.ms=3000 (message.timeout.ms). One of their partitions had no running leader for {away_s} s."
    )
    changes = [
        f"To lose none of them, set delivery.timeout.ms longer than the longest outage, which was {away_s} s here.",
        "The price: failures are known later, and until then the records fill the program's memory.",
    ]
    given_up = GivenUp(
        attempts=597,
        attempted=41_300,
        errors={"_MSG_TIMED_OUT": 597},
        away_s=away_s,
        sentence=fact,
        changes=changes,
    )
    sentence = f"HELD: all 41,210 acknowledged records are in the log exactly once and in order{given_up.in_a_sentence}"
    sentence += "; the leader was frozen once, with 48 records in flight at the fault and 6,120 exposed until recovery."
    subject = msgspec.structs.replace(_arm(plan, "safe", "HELD", {}), given_up=given_up, sentence=sentence)
    arms = [subject, _arm(plan, "control-acks_0", "HELD", {"LOST": 37})]
    lost = [case("control-acks_0", "LOST", 500 + i, outcome="SENT") for i in range(37)]
    return _write(runs, plan, planted() + lost, arms, "HELD", sentence)


def violated(runs: Path, run_id: str = "2026-11-21-violated") -> Made:
    """Makes a run that refutes the claim exactly_once of a subject with acks=all: records were lost and duplicated."""
    plan = _scenario(run_id, "acks_all", claim="exactly_once")
    cases = planted() + [case("acks_all", "LOST", 4000 + 3 * i) for i in range(23)]
    cases += [case("acks_all", "DUPLICATED", 7000 + 3 * i, offsets=[2400 + i, 2470 + i]) for i in range(61)]
    cases += [case("control-acks_0", "LOST", 500 + i, outcome="SENT") for i in range(37)]
    subject = _arm(plan, "acks_all", "VIOLATED", {"LOST": 23, "DUPLICATED": 61}, as_expected=False)
    arms = [subject, _arm(plan, "control-acks_0", "HELD", {"LOST": 37})]
    sentence = (
        "VIOLATED: of 41,210 acknowledged records, 23 lost, 61 duplicated, which the claim forbids; the "
        "leader was killed once, with 48 records in flight at the fault and 6,120 records exposed until recovery."
    )
    return _write(runs, plan, cases, arms, "VIOLATED", sentence)


def inconclusive(runs: Path, run_id: str = "2026-11-21-inconclusive") -> Made:
    """Makes an INCONCLUSIVE run with one checker doubt, one coverage doubt, and an invariant that does not balance."""
    plan = _scenario(run_id, "safe")
    doubts = [
        Doubt(
            kind="coverage", name="fault_took_no_effect", detail="injection 1 (kill) has no proof that it took effect"
        ),
        Doubt(kind="checker", name="counts_unbalanced:reported_sum", detail="reported = 13737, not 13736"),
    ]
    arms = [_arm(plan, "safe", "INCONCLUSIVE", {}, doubts=doubts, as_expected=False)]
    arms.append(_arm(plan, "control-acks_0", "HELD", {}, doubts=doubts[1:]))
    sentence = "INCONCLUSIVE: no verdict, because injection 1 (kill) has no proof that it took effect."
    invariant = "reported_sum"
    return _write(runs, plan, planted(), arms, "INCONCLUSIVE", sentence, broken_invariant=invariant, took_effect=False)


def failed_early(runs: Path, run_id: str = "2026-11-21-failed") -> tuple[Path, None]:
    """Makes a run that ended while the cluster was starting. The run has a scenario and nothing else."""
    return RunBuilder(_scenario(run_id, "safe")).write(runs).path, None


def quiet(runs: Path, run_id: str = "2026-11-21-quiet") -> Made:
    """Makes a HELD run without a case of any anomaly."""
    plan = _scenario(run_id, "safe")
    arms = [_arm(plan, "safe", "HELD", {}), _arm(plan, "control-acks_0", "HELD", {})]
    return _write(runs, plan, [], arms, "HELD", "safe kept its promise.")


def large(runs: Path, rows: int = 10_000, run_id: str = "2026-11-21-large") -> Made:
    """Makes a VIOLATED run whose list of cases was cut at `rows` cases."""
    plan = _scenario(run_id, "acks_all")
    cases = [case("acks_all", "LOST", 3 * i) for i in reversed(range(rows))]
    arms = [_arm(plan, "acks_all", "VIOLATED", {"LOST": 31_337}, as_expected=False)]
    counted = {("acks_all", "LOST"): 31_337}
    return _write(runs, plan, cases, arms, "VIOLATED", "acks_all lost 31,337 records.", counted=counted)


def hostile(runs: Path, text: str) -> Made:
    """Makes a VIOLATED run with `text` in every field of free text, including the run id of the verdict."""
    path, verdict = violated(runs, "2026-11-21-hostile")
    lost = case("acks_all", "LOST", 4000, error=text, detail=text, outcome="INDETERMINATE", also=[text])
    cases = [lost, case(text, text, 1, error=text, detail=text)]
    pq.write_table(pa.Table.from_pylist(cases, ANOMALIES), path / "anomalies" / "part-0.parquet")
    names = dict.fromkeys(("invariant", "arm", "left_name", "right_name"), text)
    invariants = [names | {"partition": 1, "left": 1, "right": 2}]
    pq.write_table(pa.Table.from_pylist(invariants), path / "counts" / "invariants.parquet")
    made = _injection(_scenario("x", "acks_all"))
    bad = msgspec.structs.replace(made, action=text, proof={text: text, "n": [text]})
    (path / "injections.json").write_bytes(msgspec.json.encode([bad]))
    raw = msgspec.to_builtins(verdict)
    for arm in raw["arms"]:
        arm |= dict.fromkeys(("arm", "profile", "expected", "sentence"), text)
        arm["doubts"] = [{"kind": "checker", "name": text, "detail": text}]
        for one in arm["findings"]:
            one |= dict.fromkeys(("anomaly", "rule", "sentence", "source"), text)
    raw |= {"run_id": text, "scenario": text, "sentence": text, "limits": [text], "notes": [text]}
    return path, msgspec.convert(raw, RunVerdict)


def evaluated(about: str, success: bool = True, exception: str = "") -> Evaluated:
    """Returns a made-up result of Great Expectations for the invariant `about`."""
    plan = ExpectedEvaluation(suite="evidence", arm="", about=about, tolerance=0, rows=3, count=int(not success))
    return msgspec.structs.replace(says(plan), exception=exception)


def sealed(
    runs: Path, run_id: str = "judged", make: Callable[..., Made] = held, broken: str = ""
) -> tuple[RunDirectory, RunVerdict]:
    """Makes a run that `make` makes, with sealed validation and verdict. If `broken` is not empty, the invariant of
    this name does not hold."""
    path, verdict = make(runs, run_id)
    verdict = msgspec.structs.replace(verdict, invariants=checked_invariants(broken))
    run = RunDirectory(path)
    with run.writing("validate") as output:
        invariants = [evaluated(invariant, success=invariant != broken) for invariant in INVARIANTS]
        output.write_json(
            "validation.json", Validation(run_id=run_id, great_expectations_version="1", evaluated=invariants)
        )
    with run.writing("conclude") as output:
        write_verdict(output, verdict)
    return run, verdict


def _scenario(run_id: str, profile: str, **more: Any) -> Scenario:
    versions = {"kafka": "4.3.1", "confluent-kafka": "2.16.1", "pyspark": "4.2.0"}
    return scenario(
        run_id,
        profile=PROFILES[profile],
        fault=FAULTS["kill_leader"],
        load=Load(),
        records=40_000,
        seed=7,
        created_at="2026-11-21T02:00:00Z",
        commit="337a7bb",
        versions=versions,
        command=f"kdv run --profile {profile} --fault kill_leader --records 40000 --seed 7",
        **more,
    )


def _arm(
    plan: Scenario,
    name: str,
    verdict: VerdictName,
    counts: dict[str, int],
    *,
    as_expected: bool = True,
    doubts: list[Doubt] | None = None,
) -> ArmVerdict:
    weak = "acks_0" in name
    tally = {"attempted": 41_300, "acked": 0 if weak else 41_210, "sent": 41_210 if weak else 0, "failed": 0}
    tally |= {"indeterminate": 90, "reported": 41_210, "log_records": 41_240}
    tally |= {kind.value.lower(): counts.get(kind.value, 0) for kind in Anomaly}
    found = ", ".join(f"{count:,} {kind.lower()}" for kind, count in counts.items()) or "no anomaly"
    fields = {"tally": tally, "findings": _findings(weak, counts), "doubts": doubts or [], "as_expected": as_expected}
    fields |= {"sentence": f"{verdict}: of 41,210 records, {found}.", "longest_gap_s": 3.412}
    fields["exposure"] = [Exposure(injection=1, reported=6_120, outstanding=48)]
    return RunBuilder(plan).arm(name, verdict, **fields).arms[0]


def _of_one_replica(arm: Arm) -> Arm:
    profile = msgspec.structs.replace(arm.profile, topic={**arm.profile.topic, "min.insync.replicas": 1})
    return msgspec.structs.replace(arm, profile=profile)


def _findings(weak: bool, counts: dict[str, int]) -> list[Finding]:
    permitted = {"LOST", "MISPLACED"} if weak else {"RESENT"}
    why = {
        True: "acks=0 waits for no acknowledgement: what the socket took may be lost without a word.",
        False: "A record that all in-sync replicas acknowledged survives the loss of one broker.",
    }
    return [
        Finding(
            anomaly=kind.value,
            ruling="PERMITTED" if kind.value in permitted else "FORBIDDEN",
            ruled_by="contract",
            rule=f"{'acks_0' if weak else 'acks_all'}.{kind.value.lower()}",
            sentence=why[kind.value in permitted],
            source="Kafka 4.3 producer configuration, acks",
            tolerance=None if kind.value in permitted else 0,
            count=counts.get(kind.value, 0),
            also=0,
        )
        for kind in Anomaly
    ]


def _write(
    runs: Path,
    plan: Scenario,
    cases: list[Row],
    arms: list[ArmVerdict],
    verdict: VerdictName,
    sentence: str,
    *,
    counted: dict[tuple[str, str], int] | None = None,
    broken_invariant: str = "",
    took_effect: bool = True,
) -> Made:
    kill = msgspec.structs.replace(_injection(plan), took_effect=took_effect)
    run = RunBuilder(plan).fault(kill, observations=_observations(plan)).settled(_offsets(plan))
    run.anomalies(*cases, counted=counted, broken_invariant=broken_invariant).arms += [*arms, _canary(plan)]
    path = run.write(runs).path
    judged = run.verdict(
        verdict, sentence, limits=LIMITS, invariants=checked_invariants(broken_invariant), repeat=plan.command
    )
    return path, advised(path, judged)


def checked_invariants(broken: str = "") -> list[CheckedInvariant]:
    """Returns the invariants of the counts as a verdict has them. If `broken` is not empty, this invariant does not
    hold."""
    return [
        CheckedInvariant(
            invariant=invariant,
            meaning=meaning,
            rows=3,
            broken=int(invariant == broken),
            holds=invariant != broken,
            exception="",
        )
        for invariant, meaning in INVARIANTS.items()
    ]


def _canary(plan: Scenario) -> ArmVerdict:
    canary = _arm(plan, "canary", "HELD", {kind.value: 1 for kind in Anomaly})
    return msgspec.structs.replace(
        canary,
        exposure=[],
        longest_gap_s=None,
        sentence="HELD: found exactly the 7 planted anomalies. The checker works.",
        tally={"attempted": 120, "acked": 118, "lost": 1, "duplicated": 1},
        findings=[msgspec.structs.replace(one, tolerance=1) for one in canary.findings],
    )


def _injection(plan: Scenario) -> Injection:
    return Injection(
        id=1,
        cycle=1,
        action="kill",
        brokers=[2],
        hit={arm.topic_name: [1] for arm in plan.arms},
        requested_at_us=START_US + int(2.95 * S),
        effect_at_us=START_US + 3 * S,
        healed_at_us=START_US + 7 * S,
        recovered_at_us=START_US + int(9.4 * S),
        took_effect=True,
        proof={"process": "exit code -9 of pid 4711", "leader_epoch": {"partition 1": [0, 1]}},
    )


def _observations(plan: Scenario) -> list[Observation]:
    rows: list[tuple[float, int, int, int, list[int]]] = []
    rows += [(-1, p, p + 1, 0, [1, 2, 3]) for p in range(PARTITIONS)]
    rows += [(4.2, 1, -1, 0, [2]), (6.1, 1, 3, 1, [1, 3]), (6.2, 0, 1, 0, [1, 3]), (6.2, 2, 3, 0, [1, 3])]
    rows += [(9.2, 0, 1, 0, [1, 2, 3]), (9.3, 1, 3, 1, [1, 2, 3]), (9.4, 2, 3, 0, [1, 2, 3])]
    found = [
        Observation(
            at_us=START_US + int(at * S),
            kind="partition",
            topic=arm.topic_name,
            partition=partition,
            leader=leader,
            leader_epoch=epoch,
            isr=isr,
        )
        for arm in plan.arms
        for at, partition, leader, epoch, isr in rows
    ]
    died = Observation(at_us=START_US + 3 * S, kind="process", broker=2, state="exited", exit_code=-9)
    return [*found, died]


def _offsets(plan: Scenario) -> Offsets:
    parts = [
        PartitionSnapshot(
            arm=arm.name,
            topic=arm.topic_name,
            partition=partition,
            start=0,
            end=13_740,
            live_end=13_742,
            leader=partition + 1,
            leader_epoch=1,
        )
        for arm in plan.arms
        for partition in range(PARTITIONS)
    ]
    return Offsets(bootstrap_servers="127.0.0.1:9092", taken_at_us=START_US + 14 * S, partitions=parts)


# ---- A run of several hours.

MANY, KILLS, HOURS, ARMS, BOUND = 1000, 24, 5, 12, 10_000
EVERY_S = HOURS * 3600 // KILLS


def huge(runs: Path) -> Made:
    """Makes the run of `violated`, as large as the bounds of a scenario permit: hours, with 1,000 partitions, many
    faults and many arms. Every list of cases is full."""
    path, verdict = violated(runs, "2026-11-21-huge")
    plan = RunDirectory(path).read_scenario()
    topic = plan.subjects[0].topic_name
    seen = [one for one in read_observations((path / "observations.json").read_bytes()) if one.kind == "process"]
    (path / "injections.json").write_bytes(
        msgspec.json.encode([_one_of_many_kills(number, topic) for number in range(KILLS)])
    )
    (path / "observations.json").write_bytes(msgspec.json.encode([*seen, *_many_moves(topic)]))
    pq.write_table(_load_of_hours(), path / "timeline" / "load.parquet")
    pq.write_table(_full_lists(), path / "anomalies" / "part-0.parquet")
    counted = [
        {"arm": "acks_all", "kind": kind, "cases": 10_000_000, "written": BOUND, "cut": True}
        for kind in ("LOST", "DUPLICATED", "REORDERED")
    ]
    pq.write_table(pa.Table.from_pylist(counted), path / "counts" / "cases.parquet")
    return path, verdict


def _one_of_many_kills(number: int, topic: str) -> Injection:
    effect_at = START_US + (number * EVERY_S + 60) * S
    return Injection(
        id=number,
        cycle=number,
        action="kill",
        brokers=[number % 3 + 1],
        hit={topic: list(range(number % 3, MANY, 3))},
        requested_at_us=effect_at - S,
        effect_at_us=effect_at,
        healed_at_us=effect_at + 20 * S,
        recovered_at_us=effect_at + 40 * S,
        took_effect=True,
        proof={"leader_epoch": {f"{topic}-{p}": [number, number + 1] for p in range(number % 3, MANY, 3)}},
    )


def _many_moves(topic: str) -> list[Observation]:
    found = [(START_US - S, p, p % 3 + 1, 0, [1, 2, 3]) for p in range(MANY)]
    for number in range(KILLS):
        effect_at = START_US + (number * EVERY_S + 60) * S
        broker = number % 3 + 1
        for p in range(number % 3, MANY, 3):
            others = [one for one in (1, 2, 3) if one != broker]
            found.append((effect_at + 3 * S + p, p, others[p % 2], number + 1, others))
            found.append((effect_at + 39 * S + p, p, others[p % 2], number + 1, [1, 2, 3]))
    return [
        Observation(at_us=at, kind="partition", topic=topic, partition=p, leader=leader, leader_epoch=epoch, isr=isr)
        for at, p, leader, epoch, isr in found
    ]


def _load_of_hours() -> pa.Table:
    count = HOURS * 3600
    noise = np.random.default_rng(7)
    arms = ["acks_all", "control-acks_0", *(f"arm-{number}" for number in range(ARMS - 2))]
    steps = {"sent": 500, "reported": 500, "indeterminate": 0, "failed": 0}
    columns = {"arm": np.repeat(arms, count), "at_us": np.tile(START_US + np.arange(count) * S, ARMS)}
    columns |= {name: np.full(count * ARMS, value) for name, value in steps.items()}
    columns |= {f"latency_ms_p{share}": share * noise.uniform(0.9, 1.2, count * ARMS) for share in (50, 99)}
    return pa.table(columns)


def _full_lists() -> pa.Table:
    one = [case("acks_all", kind, 4000) for kind in ("LOST", "DUPLICATED", "REORDERED")]
    rows = pa.Table.from_pylist(one, ANOMALIES).to_pandas()
    rows = rows.loc[rows.index.repeat(BOUND)].reset_index(drop=True)
    rows["sequence"] = np.tile(np.arange(BOUND), len(one))
    return pa.Table.from_pandas(rows, ANOMALIES, preserve_index=False)
