"""Defects: what must not be HELD. Each is one change to the evidence of a sound run, and says what must follow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from delivery_verifier.model.anomalies import Anomaly, column
from delivery_verifier.model.claims import CLAIMS
from delivery_verifier.model.held_back import HeldBack
from delivery_verifier.model.history import Injection, Observation
from delivery_verifier.model.scenario import Bound, Expectation
from delivery_verifier.model.unreadable import Unreadable
from delivery_verifier.run_directory.shared_offsets import SharedOffsets
from delivery_verifier.verdict.evaluation import Validation
from support.evidence import SECOND, case, with_arm
from support.sound_runs import SoundRun

Row = dict[str, Any]


@dataclass(frozen=True)
class Defect:
    """One defect. `commit` changes the run, and `judge_otherwise` what Great Expectations said of it.

    `follows`: the anomaly that convicts the subject, or the doubt that forbids HELD. `fits`: whether a run can have it.
    """

    name: str
    follows: str
    commit: Callable[[SoundRun], object] = lambda run: None
    fits: Callable[[SoundRun], bool] = lambda run: True
    judge_otherwise: Callable[[Validation], Validation] = lambda validation: validation

    @property
    def convicts(self) -> bool:
        """Whether the subject must be VIOLATED."""
        return self.follows in set(Anomaly)


def _actions(run: SoundRun) -> set[str]:
    return {injection.action for injection in run.injections}


def _faulted(run: SoundRun) -> bool:
    return bool(run.injections)


def _transactional(run: SoundRun) -> bool:
    return bool(run.subject.transactional_id)


def _row(run: SoundRun, table: str, **where: object) -> Row:
    wanted = {"arm": run.subject.name} | where
    return next(row for row in run.rows[table] if all(row[name] == value for name, value in wanted.items()))


def _cell(run: SoundRun) -> Row:
    return _row(run, "counts/producers.parquet", producer=0, partition=0)


def _end_us(run: SoundRun) -> int:
    """Returns a time at which all faults are over, and the observer still looks."""
    return run.offsets.taken_at_us - SECOND // 10


def _move_end(run: SoundRun, by: int) -> None:
    """Makes the log of the subject's partition 0 longer or shorter, wherever its length stands."""
    row = _row(run, "counts/partitions.parquet", partition=0)
    row |= {"end": row["end"] + by, "data_records": row["data_records"] + by}
    parts = [
        msgspec.structs.replace(part, end=part.end + by, live_end=part.live_end + by)
        if (part.arm, part.partition) == (run.subject.name, 0)
        else part
        for part in run.offsets.partitions
    ]
    run.offsets = msgspec.structs.replace(run.offsets, partitions=parts)


def _held_back(run: SoundRun) -> None:
    """Leaves a transaction open at the last record of the subject's partition 0."""
    parts = [
        msgspec.structs.replace(part, held_back=HeldBack(last_stable_offset=part.end - 1))
        if (part.arm, part.partition) == (run.subject.name, 0)
        else part
        for part in run.offsets.partitions
    ]
    run.offsets = msgspec.structs.replace(run.offsets, partitions=parts)


def _shared_offset(run: SoundRun) -> None:
    """Acknowledges two attempts of the subject at one offset of a partition whose leader nobody saw."""
    ack = {"producer": 0, "session": 0, "sequence": 1, "attempt": 0, "sent_at": SECOND, "settled_at": SECOND}
    shared = SharedOffsets(1, {(99, 7): [ack, ack | {"sequence": 2}]})
    run.more["shared_offsets"] = {run.subject.name: shared}


def _damage(run: SoundRun) -> None:
    """Makes the last record of the subject's partition 0 unreadable."""
    parts = [
        msgspec.structs.replace(
            part,
            unreadable=(Unreadable(first=part.end - 1, end=part.end, shown_until=part.end - 1, detail="CRC-32C"),),
        )
        if (part.arm, part.partition) == (run.subject.name, 0)
        else part
        for part in run.offsets.partitions
    ]
    run.offsets = msgspec.structs.replace(run.offsets, partitions=parts)


def _count(run: SoundRun, kind: Anomaly, **changes: int) -> None:
    """Adds one case of `kind` after all faults, with whatever else it changes in the counts."""
    row = _cell(run)
    for name, by in ({column(kind): 1} | changes).items():
        row[name] += by
    _move_end(run, changes.get("log_records", 0))
    listed = _row(run, "counts/cases.parquet", kind=kind.value)
    listed |= {"cases": listed["cases"] + 1, "written": listed["written"] + 1}
    sent_us = _end_us(run) - SECOND // 10
    run.cases.append(case(sent_us, sent_us + 1000, kind.value, arm=run.subject.name, at=0))


def _anomaly(
    kind: Anomaly, fits: Callable[[SoundRun], bool] = lambda run: True, name: str = "", **changes: int
) -> Defect:
    return Defect(name or f"a record {kind}", kind.value, lambda run: _count(run, kind, **changes), fits)


def _never_permitted(run: SoundRun) -> bool:
    """Whether no rule permits anomalies of transactions: after an unclean election or a late end, they would be a
    doubt."""
    return _transactional(run) and not {"elect_unclean", "delay_end"} & _actions(run)


def _invariant(run: SoundRun, name: str) -> None:
    _row(run, "counts/invariants.parquet", invariant=name)["right"] -= 1


def _observe(run: SoundRun, *observations: Observation) -> None:
    run.observations = sorted([*run.observations, *observations], key=lambda observation: observation.at_us)


def _partition(run: SoundRun, **changes: Any) -> Observation:
    """Returns the last observation of the subject's partition 0, with changes, at the end of the run."""
    topic = run.subject.topic_name
    last = [seen for seen in run.observations if (seen.topic, seen.partition) == (topic, 0)][-1]
    return msgspec.structs.replace(last, **{"at_us": _end_us(run), "leader_epoch": last.leader_epoch + 1} | changes)


def _led_by_another(run: SoundRun) -> None:
    """Lets another broker lead the subject's partition 0 at the end, by no plan."""
    leader = next(part.leader for part in run.offsets.partitions if part.arm == run.subject.name)
    seen = _partition(run, leader=leader % 3 + 1)
    _observe(run, seen)
    parts = [
        msgspec.structs.replace(part, leader=seen.leader, leader_epoch=seen.leader_epoch)
        if (part.arm, part.partition) == (run.subject.name, 0)
        else part
        for part in run.offsets.partitions
    ]
    run.offsets = msgspec.structs.replace(run.offsets, partitions=parts)


def _unseen(run: SoundRun) -> None:
    """Lets the snapshot have a later leader epoch than the observer saw."""
    parts = [msgspec.structs.replace(part, leader_epoch=part.leader_epoch + 1) for part in run.offsets.partitions]
    run.offsets = msgspec.structs.replace(run.offsets, partitions=parts)


def _blind(run: SoundRun) -> None:
    """Takes the heartbeats of five seconds around the first effect; all of them if there is no fault."""
    first, last = 0, run.offsets.taken_at_us
    if run.injections:
        first, last = run.injections[0].effect_at_us - SECOND, run.injections[0].effect_at_us + 4 * SECOND
    run.observations = [seen for seen in run.observations if seen.kind != "heartbeat" or not first < seen.at_us < last]


def _injection(run: SoundRun, **changes: Any) -> None:
    run.injections[-1] = msgspec.structs.replace(run.injections[-1], **changes)


def _expose(run: SoundRun, **changes: int) -> None:
    _row(run, "counts/exposure.parquet").update(changes)


def _not_exercised(run: SoundRun) -> None:
    """Takes whatever shows that the faults could hurt an arm."""
    run.cases = []
    for row in run.rows["counts/exposure.parquet"]:
        row["outstanding"] = 0
    for row in run.rows["timeline/load.parquet"]:
        row["indeterminate"] = 0


def _unanswered(run: SoundRun) -> None:
    """Adds as many unanswered attempts as the producer has attempts, outside all faults, twice."""
    row = _cell(run)
    more = 2 * sum(cell["attempted"] for cell in run.rows["counts/producers.parquet"] if cell["arm"] == row["arm"])
    for name in ("attempted", "indeterminate", "resolved_absent"):
        row[name] += more


def _transactions(run: SoundRun, **counts: int) -> None:
    run.transactions[run.subject.name] = run.transactions[run.subject.name]._replace(**counts)


def _evaluated(**changes: Any) -> Callable[[Validation], Validation]:
    """Returns a change of what Great Expectations said of LOST in the subject, which stands first."""
    return lambda said: msgspec.structs.replace(
        said, evaluated=[msgspec.structs.replace(said.evaluated[0], **changes), *said.evaluated[1:]]
    )


def _canary(run: SoundRun, by: int) -> None:
    _row(run, "counts/producers.parquet", arm=run.scenario.canary.name, producer=0, partition=0)["duplicated"] += by


def _replica(**changes: object) -> Callable[[SoundRun], None]:
    def commit(run: SoundRun) -> None:
        follower = next(part.leader % 3 + 1 for part in run.offsets.partitions if part.arm == run.subject.name)
        run.replica_changes[f"{run.subject.name}/0/{follower}"] = {"detail": "by hand", **changes}

    return commit


BY_CHANCE = Expectation(verdicts=("VIOLATED",), bounds=(Bound(count="PHANTOM", op=">=", value=1),), by_chance=True)
"""What an arm of a sound run does not show, if it is expected to show it by chance."""
DEFECTS: tuple[Defect, ...] = (
    _anomaly(
        Anomaly.LOST,
        lambda run: "elect_unclean" in _actions(run),
        "a record lost long after an unclean election",
        found=-1,
        first_copies=-1,
        log_records=-1,
    ),
    _anomaly(Anomaly.LOST, found=-1, first_copies=-1, log_records=-1),
    _anomaly(Anomaly.DUPLICATED, extra_copies=1, log_records=1),
    _anomaly(Anomaly.PHANTOM, phantoms=1, log_records=1),
    _anomaly(Anomaly.CORRUPTED),
    _anomaly(Anomaly.MISPLACED),
    _anomaly(Anomaly.REORDERED),
    _anomaly(Anomaly.TORN, _never_permitted),
    _anomaly(Anomaly.ABORTED_VISIBLE, _never_permitted),
    Defect(
        "an unanswered record that lands late",
        Anomaly.REORDERED.value,
        lambda run: _cell(run).update(resolved_late=1, resolved_present=1),
        lambda run: not {"kill_producer", "terminate_producer"} & _actions(run),
    ),
    Defect("a case of the canary missed", "canary_wrong", lambda run: _canary(run, -1)),
    Defect("a case of the canary too many", "canary_wrong", lambda run: _canary(run, 1)),
    Defect("a blind observer", "observer_blind", _blind),
    Defect("a clock set back", "clock_stepped_back", lambda run: _observe(run, _heartbeat(run))),
    Defect("an election that the observer missed", "observer_blind", _unseen),
    Defect("a gap in what was read", "read_incomplete", lambda run: _short(run)),
    Defect("an attempt missing in the ledger", "ledger_incomplete", lambda run: _invariant(run, "ledger_complete")),
    Defect(
        "an outcome changed in the ledger",
        "counts_unbalanced:outcomes_agree",
        lambda run: _invariant(run, "outcomes_agree"),
    ),
    Defect(
        "a count that DuckDB does not share",
        "counts_unbalanced:second_opinion",
        lambda run: _invariant(run, "second_opinion"),
    ),
    Defect(
        "a record behind the snapshot",
        "log_moved",
        lambda run: _row(run, "counts/partitions.parquet", partition=0).update(tail_records=1),
    ),
    Defect(
        "a partition missing in the counts",
        "partition_missing",
        lambda run: run.rows["counts/producers.parquet"].remove(_cell(run)),
    ),
    Defect(
        "an expectation left out",
        "expectation_not_evaluated",
        judge_otherwise=lambda said: msgspec.structs.replace(said, evaluated=said.evaluated[1:]),
    ),
    Defect("an expectation that failed open", "expectation_not_evaluated", judge_otherwise=_evaluated(element_count=0)),
    Defect("an expectation that contradicts", "expectation_alarm", judge_otherwise=_evaluated(success=False)),
    Defect("replicas that differ", "replicas_differ", _replica(digest="other")),
    Defect("a replica that was not read", "replica_not_read", _replica(digest=None)),
    Defect("damage on the leader's disk", "log_unreadable", _damage),
    Defect("a transaction that stays open", "open_transaction", _held_back),
    Defect(
        "records of a foreign writer",
        "foreign_writer_in_topic",
        lambda run: run.more.update(foreign_writers={run.subject.name: 3}),
    ),
    Defect("two acknowledgements of one offset", "two_acks_one_offset", _shared_offset),
    Defect(
        "an invariant left out",
        "invariant_missing",
        lambda run: run.rows["counts/invariants.parquet"].remove(_last_invariant(run)),
    ),
    Defect("an expectation that saw nulls", "nulls", judge_otherwise=_evaluated(missing_count=1)),
    Defect(
        "a row that nobody planned",
        "rows_unplanned",
        lambda run: run.rows["counts/producers.parquet"].append(_cell(run) | {"producer": 9}),
    ),
    Defect("a table left out", "table_missing", lambda run: run.rows["timeline/load.parquet"].clear()),
    Defect("not one report", "nothing_reported", lambda run: _silence(run, 0)),
    Defect("hardly a report", "too_little_reported", lambda run: _silence(run, 1)),
    Defect(
        "a record lost, and nobody knows when it was acknowledged",
        "unexplained",
        lambda run: _count_lost(run, settled_after_us=None),
        lambda run: "elect_unclean" in _actions(run) and Anomaly.LOST not in CLAIMS[run.subject.claim].forbids,
    ),
    Defect(
        "a record lost, and nobody asked the new leader how far its log reached",
        "bound_unseen",
        lambda run: _count_lost(run, settled_after_us=1000),
        lambda run: "elect_unclean" in _actions(run) and Anomaly.LOST not in CLAIMS[run.subject.claim].forbids,
    ),
    Defect("a fault without proof", "fault_took_no_effect", lambda run: _injection(run, took_effect=False), _faulted),
    Defect("a fault that was not injected", "fault_took_no_effect", lambda run: run.injections.pop(), _faulted),
    Defect(
        "a fault that never recovered", "fault_not_healed", lambda run: _injection(run, recovered_at_us=None), _faulted
    ),
    Defect("too little exposed", "too_little_exposed", lambda run: _expose(run, reported=99), _faulted),
    Defect(
        "nobody counted the exposure",
        "exposure_missing",
        lambda run: run.rows["counts/exposure.parquet"].remove(_row(run, "counts/exposure.parquet")),
        _faulted,
    ),
    Defect(
        "nothing exposed",
        "not_exercised",
        _not_exercised,
        lambda run: _faulted(run) and "power_off" not in _actions(run),
    ),
    Defect(
        "a load that ended before the faults",
        "load_over_too_early",
        lambda run: _load_until(run, run.injections[-1]),
        _faulted,
    ),
    Defect(
        "a load that a fatal error ended",
        "load_ended_early",
        lambda run: run.more.update(ended_early={f"{run.subject.name}/0": "_FATAL"}),
    ),
    Defect(
        "fewer attempts than planned",
        "load_incomplete",
        lambda run: setattr(run, "scenario", with_arm(run.scenario, run.subject.name, records=10**6)),
    ),
    Defect("hardly an answer", "too_few_answered", _unanswered),
    Defect(
        "a crash by no plan",
        "unplanned_disturbance",
        lambda run: _observe(
            run, Observation(at_us=_end_us(run), kind="process", broker=1, state="exited", exit_code=-9)
        ),
    ),
    Defect("an election by no plan", "unplanned_disturbance", _led_by_another),
    Defect(
        "no transaction committed", "nothing_committed", lambda run: _transactions(run, committed=0), _transactional
    ),
    Defect(
        "a bug that chance did not let show",
        "did_not_show",
        lambda run: setattr(run, "scenario", with_arm(run.scenario, run.subject.name, expectation=BY_CHANCE)),
    ),
    Defect("no transaction aborted", "nothing_aborted", lambda run: _transactions(run, aborted=0), _transactional),
)
"""Every defect. A test commits each of them on some sound run."""


def _last_invariant(run: SoundRun) -> Row:
    return [row for row in run.rows["counts/invariants.parquet"] if row["arm"] == run.subject.name][-1]


def _silence(run: SoundRun, reported: int) -> None:
    """Leaves only so many reported attempts of each producer and partition: of all others, nobody knows the outcome."""
    for row in run.rows["counts/producers.parquet"]:
        if row["arm"] == run.subject.name and row["producer"] >= 0:
            unknown = row["attempted"] - reported
            row |= dict.fromkeys(("acked", "reported", "found"), reported)
            row |= {"indeterminate": unknown, "resolved_present": row["first_copies"] - reported}
            row["resolved_absent"] = unknown - row["resolved_present"]


def _count_lost(run: SoundRun, settled_after_us: int | None) -> None:
    _count(run, Anomaly.LOST, found=-1, first_copies=-1, log_records=-1)
    sent_us = run.injections[0].effect_at_us
    settled_us = None if settled_after_us is None else sent_us + settled_after_us
    run.cases[-1] = case(sent_us, settled_us, Anomaly.LOST.value, arm=run.subject.name, at=0)


def _heartbeat(run: SoundRun) -> Observation:
    return Observation(at_us=_end_us(run), kind="heartbeat", pause_us=-1000)


def _short(run: SoundRun) -> None:
    _row(run, "counts/partitions.parquet", partition=0)["data_records"] -= 1
    _cell(run)["first_copies"] -= 1


def _load_until(run: SoundRun, injection: Injection) -> None:
    for row in run.rows["timeline/load.parquet"]:
        if row["arm"] == run.subject.name and row["at_us"] > injection.effect_at_us:
            row["sent"] = row["reported"] = 0
