"""Evaluations: the expectations that a run must evaluate, and the results of Great Expectations (validation.json).

All functions are pure. The counts are the tables of counts that the reconciliation wrote. An `ExpectedEvaluation` is
derived from the contract and the counts. An `Evaluated` is one result of Great Expectations.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Literal

import msgspec
import pyarrow as pa
from msgspec import Struct

from delivery_verifier.run_directory.tally import SECOND_OPINION, START_ZERO, has_second_opinion
from delivery_verifier.verdict.evidence import ArmEvidence, Evidence
from delivery_verifier.verdict.unexplained import UNEXPLAINED, unexplained_counts

Suite = Literal["guarantee", "evidence"]
"""A suite of expectations. Each expectation of `guarantee` judges one anomaly in one arm, or its unexplained
cases. Each expectation of `evidence` judges one invariant (see INVARIANTS)."""
Pair = tuple[str, int | None, int | None]
"""The name of an invariant or of a column of the counts, and two counts that must be equal. A count that is missing is
None."""

CANARY = "canary"
"""The name of the invariant that compares the canary's counts with what was planted."""

INVARIANTS: dict[str, str] = {
    "offsets_accounted": "Every offset between start and end of a partition holds a record that was read, or a "
    "control record.",
    "outcomes_sum": "Attempts are acknowledged, sent, failed or indeterminate, and nothing else.",
    "reported_sum": "Reported records are found or lost.",
    "log_sum": "Log records are first copies, extra copies, phantoms or unattributed.",
    "ledger_complete": "The ledger has as many attempts as were announced, and as the producer counted at its exit.",
    "outcomes_agree": "The ledger has as many attempts of each outcome as the producer counted when the reports came.",
    "partitions_complete": "The counts have every planned partition.",
    "anomaly_rows": "As many cases were written down as were counted, or the stated bound where they were cut.",
    "log_moved": "Nothing but markers stands behind the end of the snapshot.",
    START_ZERO: "The log still starts at offset 0: nothing was deleted.",
    "view_rows": "Each view of the log has as many rows as its offsets account for.",
    "views_agree": "What stands in the committed view stands in the raw view, at the same offset, as the same record.",
    "effects_read": "effects/ has as many rows as the members of applications counted.",
    "effects_sum": "Every effect is a first one, a further one, a ghost, a marker or unparsed. Every record that "
    "consumers see is applied, skipped or pending.",
    "incarnations": "Every incarnation of a member was counted, and those that were killed are those that were to be "
    "killed.",
    SECOND_OPINION: "In every arm without damaged records, DuckDB counts as many reported, found and lost attempts and "
    "as many extra copies as Spark. The two share no code that matches.",
    CANARY: "The anomalies that were planted are found, all of them and no others.",
}
"""Maps the name of an invariant of the counts to the invariant in words. An invariant says that two counts must be
equal in every arm or partition. If they are not, the counts cannot be trusted. One expectation of the evidence suite
judges each invariant."""

INVARIANTS_OF_EFFECTS = ("effects_read", "effects_sum", "incarnations")
"""The invariants about applications. Only the arms in `Scenario.applied` have them."""

INVARIANTS_OF_PARTITIONS = frozenset(
    {"offsets_accounted", "outcomes_sum", "reported_sum", "log_sum", "log_moved", START_ZERO}
)
"""The invariants for which counts/invariants must have a row for every partition of every arm. For every other
invariant, except CANARY, counts/invariants must have one row for every arm, with -1 as the partition."""


class ExpectedEvaluation(Struct, frozen=True, kw_only=True):
    """One expectation that must be evaluated.

    * `about`: what the expectation judges: an anomaly, an invariant (a key of INVARIANTS), or the unexplained cases of
      an anomaly (a value of UNEXPLAINED).
    * `arm`: empty in the suite `evidence`.
    * `rows`: the number of rows that the expectation must see.
    * `count`: how many records show the anomaly, or how many pairs of counts break the invariant. The judge reads this
      number from the counts, without Great Expectations.
    * `tolerance`: the greatest permitted count. None: any count is permitted.
    """

    suite: Suite
    arm: str
    about: str
    tolerance: int | None
    rows: int
    count: int

    @property
    def key(self) -> tuple[str, str, str]:
        """The values that identify the expectation in a run: suite, arm and `about`."""
        return self.suite, self.arm, self.about


class Evaluated(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The result of Great Expectations for one expectation. `suite`, `arm` and `about` are as in ExpectedEvaluation.

    * `expectation`: the type of the expectation.
    * `tolerance`: the tolerance that was really used.
    * `element_count`: how many rows the expectation saw. `missing_count`: how many of these rows are null.
      `unexpected_count`: how many of these rows break the expectation. None: Great Expectations gave no number.
    * `expected_rows`, `count`: the fields `rows` and `count` of the ExpectedEvaluation. Both are 0 if the expectation
      was not planned.
    * `exception`: the exception that the evaluation raised; empty if there was none.
    * `url`: the page in Data Docs, relative to the folder that holds all run directories.
    """

    suite: Suite
    arm: str
    about: str
    expectation: str
    tolerance: int | None
    expected_rows: int
    element_count: int | None
    missing_count: int | None
    unexpected_count: int | None
    success: bool
    exception: str
    count: int
    url: str

    @property
    def key(self) -> tuple[str, str, str]:
        """The values that identify the expectation in a run: suite, arm and `about`."""
        return self.suite, self.arm, self.about


class Validation(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The content of validation.json: every expectation that was evaluated, with its result."""

    run_id: str
    great_expectations_version: str
    evaluated: list[Evaluated]


def read_validation(text: bytes) -> Validation:
    """Decodes `text`, the content of validation.json, strictly. Raises msgspec.MsgspecError, naming the field, if one
    is wrong."""
    return msgspec.json.decode(text, type=Validation)


def invariants_of(evidence: Evidence) -> tuple[str, ...]:
    """Returns the names of the invariants that the counts of the run must have.

    Two kinds of invariants are not in every run. The invariant SECOND_OPINION depends on the run's size. The run has
    INVARIANTS_OF_EFFECTS only if an arm has an application.
    """
    is_counted_twice = has_second_opinion(evidence.offsets)
    absent = {
        *(() if is_counted_twice else (SECOND_OPINION,)),
        *(() if evidence.scenario.applied else INVARIANTS_OF_EFFECTS),
    }
    absent |= {START_ZERO} if evidence.scenario.audit else set()  # the log of others may have lost its beginning
    return tuple(invariant for invariant in INVARIANTS if invariant not in absent)


def expected_evaluations(evidence: Evidence) -> list[ExpectedEvaluation]:
    """Returns every expectation that the run must evaluate: the results of `expected_guarantees` and
    `expected_evidence` together."""
    return [*expected_guarantees(evidence), *expected_evidence(evidence)]


def expected_guarantees(evidence: Evidence) -> list[ExpectedEvaluation]:
    """Returns one expectation for each pair of an arm with load and an anomaly for which the run was searched.

    The contract and the claim decide the tolerance of such an expectation. The list also has expectations about
    unexplained cases, with the tolerance 0.
    """
    unexplained = [
        ExpectedEvaluation(
            suite="guarantee",
            arm=arm.name,
            about=UNEXPLAINED[anomaly],
            tolerance=0,
            rows=producer_rows(arm),
            count=count,
        )
        for arm in evidence.loaded
        for anomaly, count in unexplained_counts(arm).items()
    ]
    return unexplained + [
        ExpectedEvaluation(
            suite="guarantee",
            arm=arm.name,
            about=anomaly.value,
            tolerance=ruling.tolerance,
            rows=producer_rows(arm),
            count=sum(arm.cases(anomaly)),
        )
        for arm in evidence.loaded
        for anomaly, ruling in arm.rulings.items()
    ]


def expected_evidence(evidence: Evidence) -> list[ExpectedEvaluation]:
    """Returns one expectation per invariant of the run. It demands that the two sides of the invariant are equal
    wherever the invariant applies.

    Each side is a count. The counts of the invariant CANARY come from `canary_pairs`. All other counts come from the
    counts.
    """
    expected, by_invariant = [], _pairs(evidence)
    for invariant in invariants_of(evidence):
        pairs = canary_pairs(evidence) if invariant == CANARY else by_invariant[invariant]
        unequal = sum(first != second for _, first, second in pairs)
        expected.append(
            ExpectedEvaluation(suite="evidence", arm="", about=invariant, tolerance=0, rows=len(pairs), count=unequal)
        )
    return expected


def producer_rows(arm: ArmEvidence) -> int:
    """Returns how many rows of the arm the table counts/producers must have.

    Every partition has one row for each producer, and one row for records that no planned producer sent.
    """
    return arm.run.scenario.load.partitions * (arm.spec.producers + 1)


def canary_pairs(evidence: Evidence) -> list[Pair]:
    """Returns (column of the counts, planted count, found count) for every column of counts in the canary's counts.

    A found count of -1 stands for a column that the counts lack. The last pair is about shared offsets. It is missing
    if they were not counted, and in an audit, whose canary compares them itself.
    """
    totals = evidence.canary.totals
    from delivery_verifier.canary import FORGOTTEN

    pairs: list[Pair] = [
        (name, planted, totals.get(name, -1)) for name, planted in sorted(evidence.canary_expected.items())
    ]
    shared = None if evidence.scenario.audit else evidence.shared_offsets.get(evidence.scenario.canary.name)
    return pairs if shared is None else [*pairs, ("shared offsets", FORGOTTEN, shared.total)]


def evidence_table(evidence: Evidence) -> pa.Table:
    """Returns the table that the evidence suite sees: invariant, arm, partition, left_name, left, right_name, right.

    `left` and `right` are the two counts that must be equal. The table has all rows of counts/invariants, and further
    rows for the invariant `canary`. In these further rows, `left` is a planted total of the canary, and `right` is the
    total in the counts.
    """
    canary, pairs = evidence.scenario.canary.name, canary_pairs(evidence)
    planted = {
        "invariant": [CANARY] * len(pairs),
        "arm": [canary] * len(pairs),
        "partition": [-1] * len(pairs),
        "left_name": [f"planted {name}" for name, _, _ in pairs],
        "left": [planted_count for _, planted_count, _ in pairs],
        "right_name": [f"found {name}" for name, _, _ in pairs],
        "right": [found_count for _, _, found_count in pairs],
    }
    invariants = evidence.tally.rows("invariants")
    return pa.concat_tables([invariants, pa.table(planted)], promote_options="permissive")


def _pairs(evidence: Evidence) -> dict[str, list[Pair]]:
    """Maps each invariant to its pairs: (invariant, left count, right count) for each row about the invariant in
    counts/invariants."""
    rows, pairs = evidence.tally.rows("invariants"), defaultdict[str, list[Pair]](list)
    if {"invariant", "left", "right"} <= set(rows.column_names):
        for invariant, left, right in zip(
            *(rows[name].to_pylist() for name in ("invariant", "left", "right")), strict=True
        ):
            pairs[invariant].append((invariant, left, right))
    return pairs
