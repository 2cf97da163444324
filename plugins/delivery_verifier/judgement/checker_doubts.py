"""Checker doubts: reasons to believe neither HELD nor VIOLATED, because the check itself may be wrong.

A doubt belongs to one arm, or to ALL arms. A doubt about the canary belongs to ALL arms: a checker that is wrong about
the canary may be wrong about every arm. All functions are pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product

from delivery_verifier.judgement import audits, external
from delivery_verifier.judgement.applications import skipped_too_early, torn_effects
from delivery_verifier.judgement.evaluation import (
    CANARY,
    LAWS_OF_EFFECTS,
    LAWS_OF_PARTITIONS,
    Evaluated,
    ExpectedEvaluation,
    Validation,
    canary_pairs,
    expected_evaluations,
    laws_of,
)
from delivery_verifier.judgement.evidence import Evidence
from delivery_verifier.judgement.observer_doubts import ALL, observer_doubts
from delivery_verifier.judgement.outputs import output_doubts
from delivery_verifier.judgement.witness import witness_doubts
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.verdict import Doubt

__all__ = ["ALL", "LAW_DOUBTS", "OwnedDoubt", "checker_doubts"]

OwnedDoubt = tuple[str, Doubt]
"""A pair: the name of an arm, and a doubt about this arm. The name ALL stands for every arm."""

LAW_DOUBTS = {
    "offsets_accounted": "read_incomplete",
    "partitions_complete": "partition_missing",
    "ledger_complete": "ledger_incomplete",
    "log_moved": "log_moved",
    "effects_read": "effects_incomplete",
}
"""Maps a law (see `evaluation.LAWS`) to the name of the doubt that is raised if the law is broken. For a law that is
missing here, the name is `books_unbalanced:<law>`."""


def checker_doubts(evidence: Evidence, validation: Validation) -> list[OwnedDoubt]:
    """Returns every doubt about the verifier's own work in this run, e.g. about its books, its canary or its observer.

    `validation` holds the results of Great Expectations.
    """
    canary = evidence.scenario.canary.name
    doubts = [
        *_tables(evidence),
        *_rows(evidence),
        *_partitions(evidence),
        *_laws(evidence),
        *_coverage_of_laws(evidence),
        *_canary(evidence),
        *_unproven(evidence),
        *(_doubt(*doubt) for doubt in (*skipped_too_early(evidence), *torn_effects(evidence))),
        *(_doubt(*doubt) for doubt in (*witness_doubts(evidence), *output_doubts(evidence))),
        *(_doubt(*doubt) for doubt in external.doubts(evidence)),
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
    for name, detail in evidence.books.problems:
        yield _doubt(ALL, name, detail)


def _rows(evidence: Evidence) -> Iterator[OwnedDoubt]:
    """Yields a doubt for each arm that lacks planned rows in books/producers. Yields another doubt for each arm that
    has unplanned or repeated rows there."""
    for arm in evidence.scenario.arms:
        rows = evidence.books.rows("producers", arm=arm.name)
        if not {"producer", "partition"} <= set(rows.column_names):
            continue  # `_tables` has raised a doubt about the missing column
        present = set(zip(rows["producer"].to_pylist(), rows["partition"].to_pylist(), strict=True))
        planned = set(product((-1, *range(arm.producers)), range(evidence.scenario.load.partitions)))
        missing, extra = len(planned - present), rows.num_rows - len(planned & present)
        if missing:
            yield _doubt(arm.name, "partition_missing", f"{arm.name}: {missing} planned rows are not in the books")
        if extra:
            yield _doubt(arm.name, "rows_unplanned", f"{arm.name}: {extra} rows of the books were not planned")


def _partitions(evidence: Evidence) -> Iterator[OwnedDoubt]:
    """Yields a doubt for each planned partition that was not read from the start offset to the end offset of the
    snapshot.

    Also yields a doubt for each partition in which anything but markers stands behind the end of the snapshot.
    """
    taken = evidence.offsets.partitions
    rows = evidence.books.rows("partitions")
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
        in_books = {row["partition"] for row in read if row["arm"] == arm.name}
        in_snapshot = {partition.partition for partition in taken if partition.arm == arm.name}
        for number in sorted(set(range(evidence.scenario.load.partitions)) - (in_books & in_snapshot)):
            yield _doubt(arm.name, "partition_missing", f"{arm.name}/{number} is not in snapshot and books")
    for row in read:
        if row["tail_records"]:
            detail = f"{row['arm']}/{row['partition']}: {row['tail_records']} records stand behind the snapshot"
            yield _doubt(row["arm"], "log_moved", detail)


def _laws(evidence: Evidence) -> Iterator[OwnedDoubt]:
    """Yields a doubt for each row of books/laws whose two counts differ. Each row has the two sides of a law."""
    rows = evidence.books.rows("laws")
    if not {"law", "arm", "partition", "left_name", "left", "right_name", "right"} <= set(rows.column_names):
        return
    for row in rows.to_pylist():
        if row["left"] != row["right"]:
            where = f"{row['arm']}/{row['partition']}" if row["partition"] != -1 else row["arm"]
            detail = f"{where}: {row['left_name']} = {row['left']}, but {row['right_name']} = {row['right']}"
            name = LAW_DOUBTS.get(row["law"], f"books_unbalanced:{row['law']}")
            yield _doubt(row["arm"] if row["arm"] in evidence.scenario.arm_names else ALL, name, detail)


def _coverage_of_laws(evidence: Evidence) -> Iterator[OwnedDoubt]:
    """Yields a doubt for each law and arm for which the table books/laws lacks a row.

    Also yields a doubt for each law in books/laws that the run does not have. No expectation judges such a law.
    """
    rows = evidence.books.rows("laws")
    if not {"law", "arm", "partition"} <= set(rows.column_names):
        return
    present = set(zip(*(rows[name].to_pylist() for name in ("law", "arm", "partition")), strict=True))
    for law in laws_of(evidence):
        if law == CANARY:
            continue  # the books have no rows of this law: `_canary` compares the counts
        scenario = evidence.scenario
        for arm in scenario.applied if law in LAWS_OF_EFFECTS else scenario.arm_names:
            yield from _missing_law(present, law, arm, evidence.scenario.load.partitions)
    for law in sorted({law for law, _, _ in present} - set(laws_of(evidence))):
        yield _doubt(ALL, "expectation_not_evaluated", f"no expectation judges the law {law}")


def _missing_law(present: set[tuple[str, str, int]], law: str, arm: str, partitions: int) -> Iterator[OwnedDoubt]:
    """Yields a doubt if the table books/laws has no row for the law `law` and the arm `arm`.

    A law about partitions needs a row for each partition. `present` has (law, arm, partition) of each row.
    """
    detail = f"{arm}: the law {law} is not in the books"
    if law in LAWS_OF_PARTITIONS:
        missing = [partition for partition in range(partitions) if (law, arm, partition) not in present]
        if missing:
            yield _doubt(arm, "law_missing", f"{detail} of partitions {missing}")
    elif (law, arm, -1) not in present:
        yield _doubt(arm, "law_missing", detail)


def _canary(evidence: Evidence) -> Iterator[OwnedDoubt]:
    """Yields a doubt for each count in the canary's books that differs from the planted number.

    Also yields a doubt if no anomaly was planted.
    """
    for name, planted, counted in canary_pairs(evidence):
        if planted != counted:
            detail = f"the canary's {name} must be {planted}, the reconciliation found {counted}"
            yield _doubt(ALL, "canary_wrong", detail)
    if not evidence.canary_expected:
        yield _doubt(ALL, "canary_wrong", "nothing was planted, so nothing shows that the check can find anything")


def _unproven(evidence: Evidence) -> Iterator[OwnedDoubt]:
    """Yields a doubt for each arm and anomaly if the books count cases of an anomaly that the canary does not have: a
    kind of effects, although no arm has an application. Nothing shows that such a count is right."""
    for arm in evidence.loaded:
        for anomaly in (kind for kind in Anomaly if kind not in evidence.searched):
            if count := sum(arm.cases(anomaly)):
                detail = f"{arm.name}: the books count {count} {anomaly}, but no arm has an application"
                yield _doubt(arm.name, "anomaly_unproven", detail)


def _exposure(evidence: Evidence) -> Iterator[OwnedDoubt]:
    """Yields a doubt for each arm with load and each injection, unless books/exposure has exactly one row for the
    two."""
    for arm in evidence.scenario.loaded:
        for injection in evidence.injections:
            count = evidence.books.rows("exposure", arm=arm.name, injection=injection.id).num_rows
            if count != 1:
                detail = f"{arm.name}: the books have {count} exposures to injection {injection.id}, must be 1"
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
    for key in expected_by_key.keys() - times.keys():
        yield _doubt(key[1], "expectation_not_evaluated", f"{_name(key)} was not evaluated")
    for key in times.keys() - expected_by_key.keys():
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
    planned, it read nulls, or its result contradicts the counts in the files below `books/`.
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
        detail = f"{name}: Great Expectations says {outcome}, the books count {expected.count}"
        yield _doubt(expected.arm, "expectation_alarm", detail)


def _name(key: tuple[str, str, str]) -> str:
    """Returns the name of an expectation in words, e.g. `expectation LOST of safe` for the arm `safe`."""
    suite, arm, about = key
    return f"expectation {about}" + (f" of {arm}" if arm else f" of the {suite}")
