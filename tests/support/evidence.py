"""The evidence of a tiny run made by hand. It has one subject, one weak control and the canary. A leader is killed
once.

Nothing is wrong in this run. Tests change one thing at a time and check what the judge says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa

from delivery_verifier.advice.doubts import with_remedies
from delivery_verifier.canary import expected_counts
from delivery_verifier.catalogue import FAULTS, PROFILES, scenario
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.history import Injection, Observation
from delivery_verifier.model.scenario import Load, Scenario
from delivery_verifier.model.snapshot import Offsets, PartitionSnapshot
from delivery_verifier.model.verdict import ArmVerdict, RunVerdict
from delivery_verifier.run_directory.anomalies import ANOMALIES
from delivery_verifier.run_directory.effect_tables import EFFECT_COUNTS
from delivery_verifier.run_directory.replicas import REPLICAS
from delivery_verifier.run_directory.table import arrow_schema
from delivery_verifier.run_directory.tally import COUNTS, TABLES, Tally
from delivery_verifier.verdict.cases import COLUMNS
from delivery_verifier.verdict.evaluation import (
    CANARY,
    INVARIANTS,
    INVARIANTS_OF_EFFECTS,
    INVARIANTS_OF_PARTITIONS,
    Evaluated,
    ExpectedEvaluation,
    Validation,
    expected_evaluations,
)
from delivery_verifier.verdict.evidence import Evidence
from delivery_verifier.verdict.judge import judge

SECOND = 1_000_000
EFFECT_AT, HEALED, RECOVERED, LAST = 100 * SECOND, 105 * SECOND, 108 * SECOND, 112 * SECOND
RECORDS = 1200
Rows = dict[str, list[dict[str, Any]]]
Change = Callable[[Rows], object]


def a_scenario(profile: str = "idempotent", fault: str = "kill_leader", **more: Any) -> Scenario:
    """Returns a scenario with one subject, its controls and the canary. Each arm has three partitions."""
    return scenario("run-1", profile=PROFILES[profile], fault=FAULTS[fault], load=Load(), records=RECORDS, **more)


def the_rows(of: Scenario) -> Rows:
    """Returns the tables of a run in which nothing is wrong: lists of rows, by the path of the table."""
    rows: Rows = {name: [] for name in TABLES}
    planted = expected_counts(of)
    for arm in of.arms:
        for producer in (-1, *range(arm.producers)):
            rows["counts/producers.parquet"] += [
                {"arm": arm.name, "producer": producer, "session": min(producer, 0), "partition": at}
                | (
                    _canary_counts(planted, producer, at)
                    if arm.role == "canary"
                    else _load_counts(arm.profile.name, producer)
                )
                for at in range(3)
            ]
        for at in range(3):
            rows["counts/partitions.parquet"].append(
                {
                    "arm": arm.name,
                    "topic": arm.topic_name,
                    "partition": at,
                    "start": 0,
                    "end": 400,
                    "data_records": 400,
                    "control_records": 0,
                    "tail_records": 0,
                }
            )
        rows["counts/invariants.parquet"] += [
            {
                "invariant": invariant,
                "arm": arm.name,
                "partition": at,
                "left_name": "one",
                "left": 7,
                "right_name": "other",
                "right": 7,
            }
            for invariant in INVARIANTS
            if invariant != CANARY and (invariant not in INVARIANTS_OF_EFFECTS or arm.name in of.applied)
            for at in (range(3) if invariant in INVARIANTS_OF_PARTITIONS else (-1,))
        ]
        rows["counts/cases.parquet"] += [
            {"arm": arm.name, "kind": kind.value, "cases": 0, "written": 0, "cut": False} for kind in Anomaly
        ]
        rows["counts/gaps.parquet"].append(
            {"arm": arm.name, "partition": 0, "longest_gap_s": 3.5, "gap_start_us": EFFECT_AT}
        )
        rows["timeline/load.parquet"] += [
            {
                "arm": arm.name,
                "at_us": at,
                "sent": 9,
                "reported": 9,
                "indeterminate": 0,
                "failed": 0,
                "latency_ms_p50": 1.0,
                "latency_ms_p99": 2.0,
            }
            for at in (EFFECT_AT - SECOND, LAST)
        ]
    for name in of.applied:
        counts = dict.fromkeys((count.name for count in EFFECT_COUNTS), 0)
        healthy = dict.fromkeys(("visible", "applied", "lines", "copies", "in_time"), 400) | {
            "effects": 401,
            "markers": 1,
            "drained": 1,
        }
        of_effects = {key.removeprefix("effects_"): count for key, count in planted.items()}
        rows["counts/effects.parquet"] += [
            {"arm": name, "partition": at}
            | counts
            | (healthy if name != of.canary.name else {key: of_effects[key] if not at else 0 for key in counts})
            for at in range(3)
        ]
    rows["counts/exposure.parquet"] = [
        {"arm": arm.name, "injection": 1, "reported": 150, "outstanding": 20} for arm in of.loaded if of.fault.steps
    ]
    return rows


def _load_counts(profile: str, producer: int) -> dict[str, int]:
    counts = dict.fromkeys(COUNTS, 0)
    if producer >= 0:
        counts |= dict.fromkeys(("attempted", "reported", "found", "log_records", "first_copies"), 400)
        counts["sent" if profile == "acks_0" else "acked"] = 400
    return counts


def _canary_counts(planted: Mapping[str, int], producer: int, partition: int) -> dict[str, int]:
    return {name: planted.get(name, 0) if (producer, partition) == (0, 0) else 0 for name in COUNTS}


def the_injections(of: Scenario) -> list[Injection]:
    """Returns one recovered injection, which killed the leader of partition 0; none if the scenario has no fault."""
    hit = {arm.topic_name: [0] for arm in of.arms}
    kill = Injection(
        id=1,
        cycle=1,
        action="kill",
        brokers=[1],
        hit=hit,
        requested_at_us=EFFECT_AT - 1,
        effect_at_us=EFFECT_AT,
        healed_at_us=HEALED,
        recovered_at_us=RECOVERED,
        took_effect=True,
    )
    return [kill] if of.fault.steps else []


def partition(of: Scenario, at_us: int, arm: str, at: int, leader: int, epoch: int, isr: list[int]) -> Observation:
    """Returns one observation of an arm's partition. `at` is the number of the partition."""
    return Observation(
        at_us=at_us,
        kind="partition",
        topic=of.arm(arm).topic_name,
        partition=at,
        leader=leader,
        leader_epoch=epoch,
        isr=isr,
    )


def the_observations(of: Scenario) -> list[Observation]:
    """Returns the first observation of every partition and, if there is a fault, the effects of the kill."""
    names = of.arm_names
    seen = [partition(of, 1, name, at, at + 1, 0, [1, 2, 3]) for name in names for at in range(3)]
    if of.fault.steps:
        seen.append(Observation(at_us=EFFECT_AT, kind="process", broker=1, state="exited", exit_code=-9))
        seen += [partition(of, EFFECT_AT + 3 * SECOND, name, 0, 2, 1, [2, 3]) for name in names]
    return seen


def beat(at_us: int, pause_us: int = 100_000) -> Observation:
    """Returns one heartbeat of the observer."""
    return Observation(at_us=at_us, kind="heartbeat", pause_us=pause_us)


def beats(first_us: int = 1, last_us: int = LAST, without: tuple[int, int] = (0, 0)) -> list[Observation]:
    """Returns a heartbeat per second. Those between the times `without` are left out; the next one names the pause."""
    looks = [at for at in range(first_us, last_us + 1, SECOND) if not without[0] < at < without[1]]
    pauses = [now - before for before, now in zip([looks[0], *looks], looks, strict=False)]
    return [beat(at, pause if pause > SECOND else 100_000) for at, pause in zip(looks, pauses, strict=True)]


def looks(without: tuple[int, int] = (0, 0)) -> list[Observation]:
    """Returns a look at the settings of topics per second, but not between the times `without`."""
    return [msgspec.structs.replace(each, kind="look") for each in beats(without=without)]


CUT = 300
"""The end that the log of each new leader has in a hand-made run, unless a test says what the leaders answer."""
ABOVE = 350
"""An offset above all ends of logs at elections. By default, lost records were acknowledged there."""


def answered(observations: Sequence[Observation]) -> list[Observation]:
    """Returns the observations, and what each new leader says of its log right after it was seen: that its log ended at
    CUT when it was elected. If a test has said what leaders answer, nothing is added."""
    epochs: dict[tuple[str, int], list[int]] = {}
    result: list[Observation] = []
    for seen in observations:
        result.append(seen)
        if seen.kind != "partition" or any(it.kind == "epochs" for it in observations):
            continue
        known = epochs.setdefault((seen.topic, seen.partition), [])
        if seen.leader >= 0 and seen.leader_epoch > max(known, default=-1):
            known.append(seen.leader_epoch)
            if len(known) > 1:
                result.append(answer(seen, {known[0]: 0, seen.leader_epoch: CUT}))
    return result


def answer(of: Observation, starts: Mapping[int, int]) -> Observation:
    """Returns what the leader in the observation `of` says: where each leader epoch starts in its log."""
    fields = {"at_us": of.at_us, "topic": of.topic, "partition": of.partition, "leader": of.leader}
    ends = {"epochs": list(starts), "epoch_starts": list(starts.values())}
    return Observation(kind="epochs", leader_epoch=max(starts), **fields, **ends)  # type: ignore[arg-type]


def watched(of: Scenario, observations: Sequence[Observation]) -> list[Observation]:
    """Returns the observations with what new leaders say of their logs, a heartbeat per second and, if `of` is
    transactional, the coordinators' topic. On a cluster that somebody else runs, also with looks at settings."""
    coordinator = Observation(at_us=1, kind="partition", topic="__transaction_state", partition=0, leader=1, isr=[1])
    seen = [*answered(observations), *beats(), *([coordinator] if of.transactional else [])]
    if of.cluster.external is not None and not any(each.kind == "look" for each in observations):
        seen += looks()
    return sorted(seen, key=lambda item: item.at_us)


def evidence_of(of: Scenario, change: Change = lambda rows: None, raw: bool = False, **more: Any) -> Evidence:
    """Returns the evidence of the hand-made run after `change` has altered its rows. `more` overrides fields.

    The observations also get the rest of what an observer writes (see `watched`), unless they are `raw`.
    """
    rows = the_rows(of)
    change(rows)
    tables = {name: pa.Table.from_pylist(found) for name, found in rows.items() if found}
    if not rows.get("counts/exposure.parquet", True):
        tables["counts/exposure.parquet"] = pa.table({name: [] for name in TABLES["counts/exposure.parquet"]})
    observations = more.pop("observations", None) or the_observations(of)
    if not raw:
        observations = watched(of, observations)
    last = {(seen.topic, seen.partition): seen for seen in observations if seen.kind == "partition"}
    snapshot = [
        PartitionSnapshot(
            arm=arm.name,
            topic=arm.topic_name,
            partition=at,
            start=0,
            end=400,
            live_end=402,
            leader=seen.leader if seen else 1,
            leader_epoch=seen.leader_epoch if seen else -1,
        )
        for arm in of.arms
        for at in range(3)
        for seen in [last.get((arm.topic_name, at))]
    ]
    plain = Evidence(
        scenario=of,
        injections=the_injections(of),
        observations=observations,
        offsets=Offsets(bootstrap_servers="", taken_at_us=LAST, partitions=snapshot),
        tally=Tally.from_tables(tables, applied=bool(of.applied)),
        canary_expected=expected_counts(of),
        replicas=replicas(snapshot),
        foreign_writers={},
    )
    return replace(plain, **more)


def replicas(snapshot: Sequence[PartitionSnapshot], **changes: Mapping[str, object]) -> pa.Table:
    """Returns a table of three replicas of each partition, which all agree.

    `changes` are columns that differ, by the name of a replica, `<arm>/<partition>/<broker>`.
    """
    rows = [
        {"arm": part.arm, "partition": part.partition, "broker": broker}
        | {"digest": f"{part.arm}-{part.partition}", "read_until": part.end, "batches": 7}
        | {"epochs": [0], "epoch_starts": [0]}
        | dict(changes.get(f"{part.arm}/{part.partition}/{broker}", {}))
        for part in snapshot
        for broker in (1, 2, 3)
    ]
    return pa.Table.from_pylist(rows, schema=arrow_schema(REPLICAS))


def says(plan: ExpectedEvaluation) -> Evaluated:
    """Returns what Great Expectations says of the expectation `plan` if the evaluation went well."""
    failed = plan.tolerance is not None and plan.count > plan.tolerance
    return Evaluated(
        suite=plan.suite,
        arm=plan.arm,
        about=plan.about,
        expectation="expect",
        tolerance=plan.tolerance,
        expected_rows=plan.rows,
        element_count=plan.rows,
        missing_count=0,
        unexpected_count=int(failed),
        success=not failed,
        exception="",
        count=plan.count,
        url="data_docs/page.html",
    )


def validation_of(evidence: Evidence) -> Validation:
    """Returns a validation in which every planned expectation was evaluated correctly."""
    return Validation(
        run_id=evidence.scenario.run_id,
        great_expectations_version="1",
        evaluated=[says(plan) for plan in expected_evaluations(evidence)],
    )


def judged(evidence: Evidence, validation: Validation | None = None) -> RunVerdict:
    """Returns the verdict of the run, with what to do about each doubt. The validation is correct unless `validation`
    is given."""
    return with_remedies(judge(evidence, validation or validation_of(evidence)))


def altered(validation: Validation, about: str, /, **changes: Any) -> Validation:
    """Returns the validation with `changes` to the first evaluation of `about`."""
    items = list(validation.evaluated)
    at = next(index for index, item in enumerate(items) if item.about == about)
    items[at] = msgspec.structs.replace(items[at], **changes)
    return msgspec.structs.replace(validation, evaluated=items)


RUN = a_scenario()
SUBJECT, WEAK, CANARY_ARM = "idempotent", "control-acks_0", "canary"


def arm(verdict: RunVerdict, name: str = SUBJECT) -> ArmVerdict:
    """Returns the verdict of one arm."""
    return next(item for item in verdict.arms if item.arm == name)


def doubts(verdict: RunVerdict, name: str = SUBJECT) -> set[tuple[str, str]]:
    """Returns the doubts of one arm as (kind, name)."""
    return {(doubt.kind, doubt.name) for doubt in arm(verdict, name).doubts}


def setting(table: str, column: str, value: Any, **where: Any) -> Change:
    """Returns a change that sets `column` to `value` in the first row of `table` that matches `where`."""

    def change(rows: Rows) -> None:
        row = next(row for row in rows[table] if all(row[key] == wanted for key, wanted in where.items()))
        row[column] = value

    return change


def case(
    sent_us: int | None,
    settled_us: int | None,
    kind: str = "LOST",
    *also: str,
    arm: str = WEAK,
    at: int = 0,
    **more: object,
) -> dict[str, object]:
    """Returns a row of anomalies/: a case in partition `at`, under way from `sent_us` to `settled_us`.

    If the acknowledged copy is gone, it stood ABOVE, and the log was written anew there. `more` overrides columns;
    times are in µs.
    """
    gone = not {"LOST", "MISPLACED"}.isdisjoint((kind, *also))
    row: dict[str, object] = {"arm": arm, "kind": kind, "also": list(also), "producer": 0, "partition": at}
    row |= {"outcome": "ACKED", "acked_offset": ABOVE if gone else 1, "overwritten": True if gone else None}
    row |= {"partitions": [] if kind == "LOST" else [at], "sent_at": sent_us, "settled_at": settled_us}
    row |= {"appended_after": None, "appended_before": None} | more
    times = ("sent_at", "settled_at", "appended_after", "appended_before")
    return row | {name: _moment(row[name]) for name in times}  # type: ignore[arg-type]


def _moment(us: int | None) -> datetime | None:
    return None if us is None else datetime.fromtimestamp(us / 1_000_000, UTC)


def cases(*rows: dict[str, object]) -> pa.Table:
    """Returns rows of anomalies/ as a table. A row without a sequence gets its place in the table as its sequence."""
    declared = arrow_schema(ANOMALIES)
    numbered = [{"session": 0, "sequence": at, "attempt": 0} | row for at, row in enumerate(rows)]
    return pa.Table.from_pylist(numbered, schema=pa.schema([declared.field(name) for name in COLUMNS]))


def lost(count: int, name: str = SUBJECT) -> Change:
    """Returns a change that makes `count` records of the arm's first partition lost."""

    def change(rows: Rows) -> None:
        row = next(row for row in rows["counts/producers.parquet"] if row["arm"] == name and row["producer"] == 0)
        row["lost"], row["found"] = count, 400 - count

    return change


def both(*changes: Change) -> Change:
    """Returns a change that makes several changes, one after the other."""

    def change(rows: Rows) -> None:
        for each in changes:
            each(rows)

    return change


def with_arm(scenario: Scenario, name: str, **changes: Any) -> Scenario:
    """Returns the scenario with `changes` to the arm `name`."""
    arms = tuple(msgspec.structs.replace(it, **changes) if it.name == name else it for it in scenario.arms)
    return msgspec.structs.replace(scenario, arms=arms)
