"""The rows of anomalies/: the order in which cases are listed, and the names of their records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

ORDER = ("partition", "sequence", "attempt")
"""The columns by which cases are ordered. Nulls come last."""
CASES_LISTED = 20
"""How many cases of one arm and anomaly people are shown: the first ones."""


def record_name(row: Mapping[str, Any]) -> str:
    """Returns the name of the record of a case: `producer/session/sequence/attempt`, which is unique in its arm.

    A record that nobody sent has the name `@partition/offset`, with the offset of its first copy. `row`: the row of the
    case in anomalies/.
    """
    if row["sequence"] is None:
        return f"@{row['partition']}/{row['offsets'][0] if row['offsets'] else ''}"
    return f"{row['producer']}/{row['session']}/{row['sequence']}/{row['attempt']}"


def first_rows(table: pa.Table, arm: str, kind: str, count: int) -> list[dict[str, Any]]:
    """Returns the first `count` rows of one arm and kind from `table`, in the order of partition, sequence and attempt.

    `table`: the table `anomalies` of the run.
    """
    cases = table.filter(pc.and_(pc.equal(table["arm"], arm), pc.equal(table["kind"], kind)))
    order = pc.sort_indices(cases, [(column, "ascending") for column in ORDER])
    rows: list[dict[str, Any]] = cases.take(order[:count]).to_pylist()
    return rows
