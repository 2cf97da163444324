"""Sins: what must not be HELD. Each is one change to the evidence of a healthy run, and says what must follow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from delivery_verifier.judgement.evaluation import Validation
from delivery_verifier.model.anomalies import Anomaly, column
from delivery_verifier.model.claims import CLAIMS
from delivery_verifier.model.held_back import HeldBack
from delivery_verifier.model.history import Injection, Observation
from delivery_verifier.model.unreadable import Unreadable
from delivery_verifier.store.shared_offsets import SharedOffsets
from support.evidence import SECOND, case, with_arm
from support.healthy_runs import HealthyRun

Row = dict[str, Any]


@dataclass(frozen=True)
class Sin:
    """One sin. `commit` changes the run, and `judge_otherwise` what Great Expectations said of it.

    `follows`: the anomaly that convicts the subject, or the doubt that forbids HELD. `fits`: whether a run can have it.
    """

    name: str
    follows: str
    commit: Callable[[HealthyRun], object] = lambda run: None
    fits: Callable[[HealthyRun], bool] = lambda run: True
    judge_otherwise: Callable[[Validation], Validation] = lambda validation: validation

    @property
    def convicts(self) -> bool:
        """Whether the subject must be VIOLATED."""
        return self.follows in set(Anomaly)


def _actions(run: HealthyRun) -> set[str]:
    return {injection.action for injection in run.injections}


def _faulted(run: HealthyRun) -> bool:
    return bool(run.injections)


def _transactional(run: HealthyRun) -> bool:
    return bool(run.subject.transactional_id)


def _row(run: HealthyRun, table: str, **where: object) -> Row:
    wanted = {"arm": run.subject.name} | where
    return next(row for row in run.rows[table] if all(row[name] == value for name, value in wanted.items()))


def _cell(run: HealthyRun) -> Row:
    return _row(run, "books/producers.parquet", producer=0, partition=0)


def _end_us(run: HealthyRun) -> int:
    """Returns a time at which all faults are over, and the observer still looks."""
    return run.offsets.taken_at_us - SECOND // 10


def _move_end(run: HealthyRun, by: int) -> None:
    """Makes the log of the subject's partition 0 longer or shorter, wherever its length stands."""
    row = _row(run, "books/partitions.parquet", partition=0)
    row |= {"end": row["end"] + by, "data_records": row["data_records"] + by}
    parts = [
        msgspec.structs.replace(part, end=part.end + by, live_end=part.live_end + by)
        if (part.arm, part.partition) == (run.subject.name, 0)
        else part
        for part in run.offsets.partitions
    ]
    run.offsets = msgspec.structs.replace(run.offsets, partitions=parts)


def _held_back(run: HealthyRun) -> None:
    """Leaves a transaction open at the last record of the subject's partition 0."""
    parts = [
        msgspec.structs.replace(part, held_back=HeldBack(last_stable_offset=part.end - 1))
        if (part.arm, part.partition) == (run.subject.name, 0)
        else part
        for part in run.offsets.partitions
    ]
    run.offsets = msgspec.structs.replace(run.offsets, partitions=parts)


def _shared_offset(run: HealthyRun) -> None:
    """Acknowledges two attempts of the subject at one offset of a partition whose leader nobody saw."""
    ack = {"producer": 0, "session": 0, "sequence": 1, "attempt": 0, "sent_at": SECOND, "settled_at": SECOND}
    shared = SharedOffsets(1, {(99, 7): [ack, ack | {"sequence": 2}]})
    run.more["shared_offsets"] = {run.subject.name: shared}


def _damage(run: HealthyRun) -> None:
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


def _count(run: HealthyRun, kind: Anomaly, **changes: int) -> None:
    """Adds one case of `kind` after all faults, with whatever else it changes in the books."""
    row = _cell(run)
    for name, by in ({column(kind): 1} | changes).items():
        row[name] += by
    _move_end(run, changes.get("log_records", 0))
    listed = _row(run, "books/cases.parquet", kind=kind.value)
    listed |= {"cases": listed["cases"] + 1, "written": listed["written"] + 1}
    sent_us = _end_us(run) - SECOND // 10
    run.cases.append(case(sent_us, sent_us + 1000, kind.value, arm=run.subject.name, at=0))


def _anomaly(
    kind: Anomaly, fits: Callable[[HealthyRun], bool] = lambda run: True, name: str = "", **changes: int
) -> Sin:
    return Sin(name or f"a record {kind}", kind.value, lambda run: _count(run, kind, **changes), fits)


def _never_permitted(run: HealthyRun) -> bool:
    """Whether no rule permits anomalies of transactions: after an unclean election or a late end, they would be a
    doubt."""
    return _transactional(run) and not {"elect_unclean", "delay_end"} & _actions(run)


def _law(run: HealthyRun, name: str) -> None:
    _row(run, "books/laws.parquet", law=name)["right"] -= 1


def _observe(run: HealthyRun, *observations: Observation) -> None:
    run.observations = sorted([*run.observations, *observations], key=lambda observation: observation.at_us)


def _partition(run: HealthyRun, **changes: Any) -> Observation:
    """Returns the last observation of the subject's partition 0, with changes, at the end of the run."""
    topic = run.subject.topic_name
    last = [seen for seen in run.observations if (seen.topic, seen.partition) == (topic, 0)][-1]
    return msgspec.structs.replace(last, **{"at_us": _end_us(run), "leader_epoch": last.leader_epoch + 1} | changes)


def _led_by_another(run: HealthyRun) -> None:
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


def _unseen(run: HealthyRun) -> None:
    """Lets the snapshot have a later leader epoch than the observer saw."""
    parts = [msgspec.structs.replace(part, leader_epoch=part.leader_epoch + 1) for part in run.offsets.partitions]
    run.offsets = msgspec.structs.replace(run.offsets, partitions=parts)


def _blind(run: HealthyRun) -> None:
    """Takes the heartbeats of five seconds around the first bite; all of them if there is no fault."""
    first, last = 0, run.offsets.taken_at_us
    if run.injections:
        first, last = run.injections[0].bite_at_us - SECOND, run.injections[0].bite_at_us + 4 * SECOND
    run.observations = [seen for seen in run.observations if seen.kind != "heartbeat" or not first < seen.at_us < last]


def _injection(run: HealthyRun, **changes: Any) -> None:
    run.injections[-1] = msgspec.structs.replace(run.injections[-1], **changes)


def _expose(run: HealthyRun, **changes: int) -> None:
    _row(run, "books/exposure.parquet").update(changes)


def _nothing_at_stake(run: HealthyRun) -> None:
    """Takes whatever shows that the faults could hurt an arm."""
    run.cases = []
    for row in run.rows["books/exposure.parquet"]:
        row["outstanding"] = 0
    for row in run.rows["timeline/load.parquet"]:
        row["indeterminate"] = 0


def _unanswered(run: HealthyRun) -> None:
    """Adds as many unanswered attempts as the producer has attempts, outside all faults, twice."""
    row = _cell(run)
    more = 2 * sum(cell["attempted"] for cell in run.rows["books/producers.parquet"] if cell["arm"] == row["arm"])
    for name in ("attempted", "indeterminate", "resolved_absent"):
        row[name] += more


def _transactions(run: HealthyRun, **counts: int) -> None:
    run.transactions[run.subject.name] = run.transactions[run.subject.name]._replace(**counts)


def _evaluated(**changes: Any) -> Callable[[Validation], Validation]:
    """Returns a change of what Great Expectations said of LOST in the subject, which stands first."""
    return lambda said: msgspec.structs.replace(
        said, evaluated=[msgspec.structs.replace(said.evaluated[0], **changes), *said.evaluated[1:]]
    )


def _canary(run: HealthyRun, by: int) -> None:
    _row(run, "books/producers.parquet", arm=run.scenario.canary.name, producer=0, partition=0)["duplicated"] += by


def _replica(**changes: object) -> Callable[[HealthyRun], None]:
    def commit(run: HealthyRun) -> None:
        follower = next(part.leader % 3 + 1 for part in run.offsets.partitions if part.arm == run.subject.name)
        run.replica_changes[f"{run.subject.name}/0/{follower}"] = {"detail": "by hand", **changes}

    return commit


SINS: tuple[Sin, ...] = (
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
    Sin(
        "an unanswered record that lands late",
        Anomaly.REORDERED.value,
        lambda run: _cell(run).update(resolved_late=1, resolved_present=1),
        lambda run: not {"kill_producer", "terminate_producer"} & _actions(run),
    ),
    Sin("a case of the canary missed", "canary_wrong", lambda run: _canary(run, -1)),
    Sin("a case of the canary too many", "canary_wrong", lambda run: _canary(run, 1)),
    Sin("a blind observer", "observer_blind", _blind),
    Sin("a clock set back", "clock_stepped_back", lambda run: _observe(run, _heartbeat(run))),
    Sin("an election that the observer missed", "observer_blind", _unseen),
    Sin("a gap in what was read", "read_incomplete", lambda run: _short(run)),
    Sin("an attempt missing in the ledger", "ledger_incomplete", lambda run: _law(run, "ledger_complete")),
    Sin("an outcome changed in the ledger", "books_unbalanced:outcomes_agree", lambda run: _law(run, "outcomes_agree")),
    Sin(
        "a count that DuckDB does not share", "books_unbalanced:second_opinion", lambda run: _law(run, "second_opinion")
    ),
    Sin(
        "a record behind the snapshot",
        "log_moved",
        lambda run: _row(run, "books/partitions.parquet", partition=0).update(tail_records=1),
    ),
    Sin(
        "a partition missing in the books",
        "partition_missing",
        lambda run: run.rows["books/producers.parquet"].remove(_cell(run)),
    ),
    Sin(
        "an expectation left out",
        "expectation_not_evaluated",
        judge_otherwise=lambda said: msgspec.structs.replace(said, evaluated=said.evaluated[1:]),
    ),
    Sin("an expectation that failed open", "expectation_not_evaluated", judge_otherwise=_evaluated(element_count=0)),
    Sin("an expectation that contradicts", "expectation_alarm", judge_otherwise=_evaluated(success=False)),
    Sin("replicas that differ", "replicas_differ", _replica(digest="other")),
    Sin("a replica that was not read", "replica_not_read", _replica(digest=None)),
    Sin("damage on the leader's disk", "log_unreadable", _damage),
    Sin("a transaction that stays open", "open_transaction", _held_back),
    Sin("records of a stranger", "stranger_in_topic", lambda run: run.more.update(strangers={run.subject.name: 3})),
    Sin("two acknowledgements of one offset", "two_acks_one_offset", _shared_offset),
    Sin("a law left out", "law_missing", lambda run: run.rows["books/laws.parquet"].remove(_last_law(run))),
    Sin("an expectation that saw nulls", "nulls", judge_otherwise=_evaluated(missing_count=1)),
    Sin(
        "a row that nobody planned",
        "rows_unplanned",
        lambda run: run.rows["books/producers.parquet"].append(_cell(run) | {"producer": 9}),
    ),
    Sin("a table left out", "table_missing", lambda run: run.rows["timeline/load.parquet"].clear()),
    Sin("not one report", "nothing_reported", lambda run: _silence(run, 0)),
    Sin("hardly a report", "too_little_reported", lambda run: _silence(run, 1)),
    Sin(
        "a record lost, and nobody knows when it was acknowledged",
        "unexplained",
        lambda run: _count_lost(run, settled_after_us=None),
        lambda run: "elect_unclean" in _actions(run) and Anomaly.LOST not in CLAIMS[run.subject.claim].forbids,
    ),
    Sin(
        "a record lost, and nobody asked the new leader how far its log reached",
        "bound_unseen",
        lambda run: _count_lost(run, settled_after_us=1000),
        lambda run: "elect_unclean" in _actions(run) and Anomaly.LOST not in CLAIMS[run.subject.claim].forbids,
    ),
    Sin("a fault without proof", "fault_did_not_bite", lambda run: _injection(run, bit=False), _faulted),
    Sin("a fault that was not injected", "fault_did_not_bite", lambda run: run.injections.pop(), _faulted),
    Sin(
        "a fault that never recovered", "fault_not_healed", lambda run: _injection(run, recovered_at_us=None), _faulted
    ),
    Sin("too little exposed", "too_little_exposed", lambda run: _expose(run, reported=99), _faulted),
    Sin(
        "nobody counted the exposure",
        "exposure_missing",
        lambda run: run.rows["books/exposure.parquet"].remove(_row(run, "books/exposure.parquet")),
        _faulted,
    ),
    Sin(
        "nothing at stake",
        "nothing_at_stake",
        _nothing_at_stake,
        lambda run: _faulted(run) and "power_off" not in _actions(run),
    ),
    Sin(
        "a load that ended before the faults",
        "load_over_too_early",
        lambda run: _load_until(run, run.injections[-1]),
        _faulted,
    ),
    Sin(
        "a load that a fatal error ended",
        "load_ended_early",
        lambda run: run.more.update(ended_early={f"{run.subject.name}/0": "_FATAL"}),
    ),
    Sin(
        "fewer attempts than planned",
        "load_incomplete",
        lambda run: setattr(run, "scenario", with_arm(run.scenario, run.subject.name, records=10**6)),
    ),
    Sin("hardly an answer", "too_few_answered", _unanswered),
    Sin(
        "a crash by no plan",
        "unplanned_disturbance",
        lambda run: _observe(
            run, Observation(at_us=_end_us(run), kind="process", broker=1, state="exited", exit_code=-9)
        ),
    ),
    Sin("an election by no plan", "unplanned_disturbance", _led_by_another),
    Sin("no transaction committed", "nothing_committed", lambda run: _transactions(run, committed=0), _transactional),
    Sin("no transaction aborted", "nothing_aborted", lambda run: _transactions(run, aborted=0), _transactional),
)
"""Every sin. A test commits each of them on some healthy run."""


def _last_law(run: HealthyRun) -> Row:
    return [row for row in run.rows["books/laws.parquet"] if row["arm"] == run.subject.name][-1]


def _silence(run: HealthyRun, reported: int) -> None:
    """Leaves only so many reported attempts of each producer and partition: of all others, nobody knows the outcome."""
    for row in run.rows["books/producers.parquet"]:
        if row["arm"] == run.subject.name and row["producer"] >= 0:
            unknown = row["attempted"] - reported
            row |= dict.fromkeys(("acked", "reported", "found"), reported)
            row |= {"indeterminate": unknown, "resolved_present": row["first_copies"] - reported}
            row["resolved_absent"] = unknown - row["resolved_present"]


def _count_lost(run: HealthyRun, settled_after_us: int | None) -> None:
    _count(run, Anomaly.LOST, found=-1, first_copies=-1, log_records=-1)
    sent_us = run.injections[0].bite_at_us
    settled_us = None if settled_after_us is None else sent_us + settled_after_us
    run.cases[-1] = case(sent_us, settled_us, Anomaly.LOST.value, arm=run.subject.name, at=0)


def _heartbeat(run: HealthyRun) -> Observation:
    return Observation(at_us=_end_us(run), kind="heartbeat", pause_us=-1000)


def _short(run: HealthyRun) -> None:
    _row(run, "books/partitions.parquet", partition=0)["data_records"] -= 1
    _cell(run)["first_copies"] -= 1


def _load_until(run: HealthyRun, injection: Injection) -> None:
    for row in run.rows["timeline/load.parquet"]:
        if row["arm"] == run.subject.name and row["at_us"] > injection.bite_at_us:
            row["sent"] = row["reported"] = 0
