"""Checker doubts: reasons to believe neither HELD nor VIOLATED, because the check itself may be wrong.

A doubt belongs to one arm, or to ALL arms. A doubt about the canary belongs to ALL arms: a checker that is wrong about
the canary may be wrong about every arm. All functions are pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product

from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.verdict import Doubt
from delivery_verifier.verdict import audits, external, ordered
from delivery_verifier.verdict.applications import skipped_too_early, torn_effects
from delivery_verifier.verdict.evaluation import (
    CANARY,
    INVARIANTS_OF_EFFECTS,
    INVARIANTS_OF_PARTITIONS,
    Evaluated,
    ExpectedEvaluation,
    Validation,
    canary_pairs,
    expected_evaluations,
    invariants_of,
)
from delivery_verifier.verdict.evidence import Evidence
from delivery_verifier.verdict.group_log import group_log_doubts
from delivery_verifier.verdict.observer_doubts import ALL, observer_doubts
from delivery_verifier.verdict.outputs import output_doubts

__all__ = ["ALL", "INVARIANT_DOUBTS", "OwnedDoubt", "checker_doubts"]

OwnedDoubt = tuple[str, Doubt]
"""A pair: the name of an arm, and a doubt about this arm. The name ALL stands for every arm."""

INVARIANT_DOUBTS = {
    "offsets_accounted": "read_incomplete",
    "partitions_complete": "partition_missing",
    "ledger_complete": "ledger_incomplete",
    "log_moved": "log_moved",
    "effects_read": "effects_incomplete",
}
"""Maps an invariant (see `evaluation.INVARIANTS`) to the name of the doubt that is raised if the invariant is broken.
For an invariant that is missing here, the name is `counts_unbalanced:<invariant>`."""


def checker_doubts(evidence: Evidence, validation: Validation) -> list[OwnedDoubt]:
    """Returns every doubt about the verifier's own work in this run, e.g. about its counts, its canary or its observer.

    `validation` holds the results of Great Expectations.
    """
    canary = evidence.scenario.canary.name
    doubts = [
        *_tables(evidence),
        *_rows(evidence),
        *_partitions(evidence),
        *_invariants(evidence),
        *_coverage_of_invariants(evidence),
        *_canary(evidence),
        *_unproven(evidence),
        *(_doubt(*doubt) for doubt in (*skipped_too_early(evidence), *torn_effects(evidence))),
        *(_doubt(*doubt) for doubt in (*group_log_doubts(evidence), *output_doubts(evidence))),
        *(_doubt(*doubt) for doubt in (*external.doubts(evidence), *ordered.doubts(evidence))),
        *(_doubt(*doubt) for doubt in _of_the_way(evidence)),
        *_exposure(evidence),
        *_evaluations(evidence, validation),
    ]
    return [(ALL if owner == canary else owner, doubt) for owner, doubt in doubts]


def _doubt(arm: str, name: str, detail: str) -> OwnedDoubt:
    return arm, Doubt(kind="checker", name=name, detail=detail)


def _of_the_way(evidence: Evidence) -> Iterator[tuple[str, str, str]]:
    """Yields the doubts about how the evidence was gathered: by an observer or, in an audit, from a foreign ledger."""
    audit = evidence.scenario.audit
    yield from observer_doubts(evidence) if audit is None else audits.checker(evidence, audit)


def _tables(evidence: Evidence) -> Iterator[OwnedDoubt]:
    for name, detail in evidence.tally.problems:
        yield _doubt(ALL, name, detail)


def _rows(evidence: Evidence) -> Iterator[OwnedDoubt]:
    """Yields a doubt for each arm that lacks planned rows in counts/producers. Yields another doubt for each arm that
    has unplanned or repeated rows there."""
    for arm in evidence.scenario.arms:
        rows = evidence.tally.rows("producers", arm=arm.name)
        if not {"producer", "partition"} <= set(rows.column_names):
            continue  # `_tables` has raised a doubt about the missing column
        present = set(zip(rows["producer"].to_pylist(), rows["partition"].to_pylist(), strict=True))
        planned = set(product((-1, *range(arm.producers)), range(evidence.scenario.load.partitions)))
        missing, extra = len(planned - present), rows.num_rows - len(planned & present)
        if missing:
            yield _doubt(arm.name, "partition_missing", f"{arm.name}: {missing} planned rows are not in the counts")
        if extra:
            yield _doubt(arm.name, "rows_unplanned", f"{arm.name}: {extra} rows of the counts were not planned")


def _partitions(evidence: Evidence) -> Iterator[OwnedDoubt]:
    """Yields a doubt for each planned partition that was not read from the start offset to the end offset of the
    snapshot.

    Also yields a doubt for each partition in which anything but markers stands behind the end of the snapshot.
    """
    taken = evidence.offsets.partitions
    rows = evidence.tally.rows("partitions")
    columns = ("arm", "partition", "start", "end", "tail_records")
    if not set(columns) <= set(rows.column_names):
        return
    read = rows.select(columns).to_pylist()
    snapshot = Counter((partition.arm, partition.partition, partition.start, partition.end) for partition in taken)
    differing = snapshot - Counter((row["arm"], row["partition"], row["start"], row["end"]) for row in read)
    for arm_name, number, start, end in differing:
        detail = f"{arm_name}/{number} was not read from {start} to {end}, as the snapshot says"
        yield _doubt(arm_name, "read_incomplete", detail)
    for arm in evidence.scenario.arms:
        in_tally = {row["partition"] for row in read if row["arm"] == arm.name}
        in_snapshot = {partition.partition for partition in taken if partition.arm == arm.name}
        for number in sorted(set(range(evidence.scenario.load.partitions)) - (in_tally & in_snapshot)):
            yield _doubt(arm.name, "partition_missing", f"{arm.name}/{number} is not in snapshot and counts")
    for row in read:
        if row["tail_records"]:
            detail = f"{row['arm']}/{row['partition']}: {row['tail_records']} records stand behind the snapshot"
            yield _doubt(row["arm"], "log_moved", detail)


def _invariants(evidence: Evidence) -> Iterator[OwnedDoubt]:
    """Yields a doubt for each row of counts/invariants whose two counts differ. Each row has the two sides of an
    invariant."""
    rows = evidence.tally.rows("invariants")
    if not {"invariant", "arm", "partition", "left_name", "left", "right_name", "right"} <= set(rows.column_names):
        return
    for row in rows.to_pylist():
        if row["left"] != row["right"]:
            where = f"{row['arm']}/{row['partition']}" if row["partition"] != -1 else row["arm"]
            detail = f"{where}: {row['left_name']} = {row['left']}, but {row['right_name']} = {row['right']}"
            name = INVARIANT_DOUBTS.get(row["invariant"], f"counts_unbalanced:{row['invariant']}")
            yield _doubt(row["arm"] if row["arm"] in evidence.scenario.arm_names else ALL, name, detail)


def _coverage_of_invariants(evidence: Evidence) -> Iterator[OwnedDoubt]:
    """Yields a doubt for each invariant and arm for which the table counts/invariants lacks a row.

    Also yields a doubt for each invariant in counts/invariants that the run does not have. No expectation judges such
    an invariant.
    """
    rows = evidence.tally.rows("invariants")
    if not {"invariant", "arm", "partition"} <= set(rows.column_names):
        return
    present = set(zip(*(rows[name].to_pylist() for name in ("invariant", "arm", "partition")), strict=True))
    for invariant in invariants_of(evidence):
        if invariant == CANARY:
            continue  # the counts have no rows of this invariant: `_canary` compares the counts
        scenario = evidence.scenario
        for arm in scenario.applied if invariant in INVARIANTS_OF_EFFECTS else scenario.arm_names:
            yield from _missing_invariant(present, invariant, arm, evidence.scenario.load.partitions)
    for invariant in sorted({invariant for invariant, _, _ in present} - set(invariants_of(evidence))):
        yield _doubt(ALL, "expectation_not_evaluated", f"no expectation judges the invariant {invariant}")


def _missing_invariant(
    present: set[tuple[str, str, int]], invariant: str, arm: str, partitions: int
) -> Iterator[OwnedDoubt]:
    """Yields a doubt if the table counts/invariants has no row for the invariant `invariant` and the arm `arm`.

    An invariant about partitions needs a row for each partition. `present` has (invariant, arm, partition) of each row.
    """
    detail = f"{arm}: the invariant {invariant} is not in the counts"
    if invariant in INVARIANTS_OF_PARTITIONS:
        missing = [partition for partition in range(partitions) if (invariant, arm, partition) not in present]
        if missing:
            yield _doubt(arm, "invariant_missing", f"{detail} of partitions {missing}")
    elif (invariant, arm, -1) not in present:
        yield _doubt(arm, "invariant_missing", detail)


def _canary(evidence: Evidence) -> Iterator[OwnedDoubt]:
    """Yields a doubt for each count in the canary's counts that differs from the planted number.

    Also yields a doubt if no anomaly was planted.
    """
    for name, planted, counted in canary_pairs(evidence):
        if planted != counted:
            detail = f"the canary's {name} must be {planted}, the reconciliation found {counted}"
            yield _doubt(ALL, "canary_wrong", detail)
    if not evidence.canary_expected:
        yield _doubt(ALL, "canary_wrong", "nothing was planted, so nothing shows that the check can find anything")


def _unproven(evidence: Evidence) -> Iterator[OwnedDoubt]:
    """Yields a doubt for each arm and anomaly if the tables of counts have cases of an anomaly that the canary does not
    have: a kind of effects, although no arm has an application. Nothing shows that such a count is right."""
    for arm in evidence.loaded:
        for anomaly in (kind for kind in Anomaly if kind not in evidence.searched):
            if count := sum(arm.cases(anomaly)):
                detail = f"{arm.name}: the tables of counts have {count} {anomaly}, but no arm has an application"
                yield _doubt(arm.name, "anomaly_unproven", detail)


def _exposure(evidence: Evidence) -> Iterator[OwnedDoubt]:
    """Yields a doubt for each arm with load and each injection, unless counts/exposure has exactly one row for the
    two."""
    for arm in evidence.scenario.loaded:
        for injection in evidence.injections:
            count = evidence.tally.rows("exposure", arm=arm.name, injection=injection.id).num_rows
            if count != 1:
                detail = f"{arm.name}: the counts have {count} exposures to injection {injection.id}, must be 1"
                yield _doubt(arm.name, "exposure_missing", detail)


def _evaluations(evidence: Evidence, validation: Validation) -> Iterator[OwnedDoubt]:
    """Yields a doubt for each planned expectation that was not evaluated, and for each expectation that was evaluated
    more than once or without being planned.

    Also yields a doubt for each planned expectation whose evaluation cannot be believed, and a doubt if `validation` is
    of another run.
    """
    expected_by_key = {expected.key: expected for expected in expected_evaluations(evidence)}
    if validation.run_id != evidence.scenario.run_id:
        yield _doubt(ALL, "expectation_not_evaluated", f"the validation is of another run, {validation.run_id}")
    times = Counter(evaluated.key for evaluated in validation.evaluated)
    for key in (key for key in expected_by_key if key not in times):
        yield _doubt(key[1], "expectation_not_evaluated", f"{_name(key)} was not evaluated")
    for key in (key for key in times if key not in expected_by_key):
        yield _doubt(ALL, "expectation_not_evaluated", f"{_name(key)} was evaluated, and is not in the plan")
    for evaluated in validation.evaluated:
        key = evaluated.key
        if times[key] > 1:
            yield _doubt(evaluated.arm, "expectation_not_evaluated", f"{_name(key)} was evaluated more than once")
        if key in expected_by_key:
            yield from _evaluation(expected_by_key[key], evaluated)


def _evaluation(expected: ExpectedEvaluation, evaluated: Evaluated) -> Iterator[OwnedDoubt]:
    """Yields doubts about the evaluation of one expectation. `expected` is the expectation as planned.

    If the evaluation raised an exception, yields only a doubt about the exception. Otherwise yields a doubt for each of
    these facts: the evaluation used another tolerance than planned, it read no rows or another number of rows than
    planned, it read nulls, or its result contradicts the counts in the files below `counts/`.
    """
    name = _name(expected.key)
    if evaluated.exception:
        yield _doubt(expected.arm, "expectation_not_evaluated", f"{name} raised: {evaluated.exception}")
        return
    if evaluated.tolerance != expected.tolerance:
        detail = f"{name} was evaluated with tolerance {evaluated.tolerance}, the contract says {expected.tolerance}"
        yield _doubt(expected.arm, "expectation_not_evaluated", detail)
    if evaluated.element_count != expected.rows or not expected.rows:
        detail = f"{name} saw {evaluated.element_count} rows, planned were {expected.rows}"
        yield _doubt(expected.arm, "expectation_not_evaluated", detail)
    if evaluated.missing_count != 0:
        yield _doubt(expected.arm, "nulls", f"{name} saw {evaluated.missing_count} nulls")
    must_fail = expected.tolerance is not None and expected.count > expected.tolerance
    if evaluated.success is must_fail or evaluated.count != expected.count:
        outcome = "success" if evaluated.success else "failure"
        detail = f"{name}: Great Expectations says {outcome}, the tables of counts have {expected.count}"
        yield _doubt(expected.arm, "expectation_alarm", detail)


def _name(key: tuple[str, str, str]) -> str:
    """Returns the name of an expectation in words, e.g. `expectation LOST of safe` for the arm `safe`."""
    suite, arm, about = key
    return f"expectation {about}" + (f" of {arm}" if arm else f" of the {suite}")
