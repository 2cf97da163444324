"""The form of a row of counts/invariants.parquet, and the inputs from which the rows are computed.

An invariant says that two counts are equal. It has a row for each arm or partition in which it must hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.snapshot import Offsets
from spark_jobs.matching.committed import NONE, Views

Rows = list[dict[str, Any]]
"""The rows of a table. Each row maps columns to values."""


class Invariant(NamedTuple):
    """One row of counts/invariants.parquet: two counts, `left` and `right`, that the invariant `invariant` requires to
    be equal.

    `left_name` and `right_name` say what was counted. `partition` is -1 if the counts are about the whole arm. A
    missing count is -1.
    """

    invariant: str
    arm: str
    partition: int
    left_name: str
    left: int
    right_name: str
    right: int


class InvariantInputs(NamedTuple):
    """Everything that the invariants compare.

    * `producers`: PRODUCERS. `ledger_census`, `log_census`: the two parts of the `Census`.
    * `announced`: the counts of produce.json and of settle.json. `read`: the counts of read_topic.json.
    * `written`: the number of rows that anomalies/ really has per (arm, kind). `bound`: the maximum number of rows that
      are written per arm and kind.
    * `summarized`: maps each arm to two counts of its attempts. The first was made for the timeline, the second for
      silences and exposure.
    * `views`: counts of the committed view; NONE if no arm writes transactions.
    * `missing`: the counts `missing/...` of the manifest (`run_directory.tally.MISSING`).
    * `effects`: EFFECT_TALLY; None if no arm has an application.
    * `opinion`: the counts of `spark_jobs.checks.second_opinion`; None if the run has no second opinion.
    """

    scenario: Scenario
    offsets: Offsets
    producers: pa.Table
    ledger_census: pa.Table
    log_census: pa.Table
    announced: Mapping[str, int]
    read: Mapping[str, int]
    written: Mapping[tuple[str, str], int]
    bound: int
    summarized: Mapping[str, tuple[int, int]] = {}
    views: Views = NONE
    missing: Mapping[str, int] = {}
    effects: pa.Table | None = None
    opinion: Mapping[str, Mapping[str, int]] | None = None
