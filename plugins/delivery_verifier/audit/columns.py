"""The columns of a foreign ledger as Arrow has them, and the checks of whole columns.

The checks find out whether anything is wrong. `misread` then finds the line and the column.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from delivery_verifier.model.ledger_line import LAST_MS

COLUMNS = pa.schema(
    [
        ("outcome", pa.string()),
        ("id", pa.string()),
        ("producer", pa.string()),
        ("sequence", pa.int64()),
        ("attempt", pa.int32()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("value_crc32", pa.int64()),
        ("value_sha256", pa.string()),
        ("sent_at", pa.int64()),
        ("settled_at", pa.int64()),
        ("error", pa.string()),
        ("transaction_outcome", pa.string()),
    ]
)
"""The columns of a ledger. A test holds them equal to the fields of `LedgerLine`."""
NUMBERS = tuple(field.name for field in COLUMNS if field.type != pa.string())
OUTCOMES = pa.array(["acked", "sent", "failed", "unknown"])
TRANSACTION_OUTCOMES = pa.array(["committed", "aborted", "unknown"])
IDENTIFYING = ("id", "producer", "sequence")
"""The columns that all lines of a ledger have, or none."""
_SHA256 = "^[0-9a-f]{64}$"


def are_sound(batch: pa.Table) -> bool:
    """Returns whether every value of `batch`, a table with COLUMNS, is allowed by `LedgerLine`.

    Raises ArrowInvalid if a text is not UTF-8.
    """
    batch.validate(full=True)
    outcome = batch["outcome"]
    return not outcome.null_count and all(
        (
            _all(pc.is_in(outcome, OUTCOMES)),
            _all(pc.is_in(batch["transaction_outcome"].drop_null(), TRANSACTION_OUTCOMES)),
            *(_all(pc.greater(pc.utf8_length(batch[name]), 0)) for name in ("id", "producer")),
            *(_all(pc.greater_equal(batch[name], 0)) for name in NUMBERS),
            _all(pc.less(batch["value_crc32"], 1 << 32)),
            *(_all(pc.less_equal(batch[name], LAST_MS)) for name in ("sent_at", "settled_at")),
            _all(pc.match_substring_regex(batch["value_sha256"], _SHA256)),
        )
    )


def unsure(table: pa.Table) -> pa.Table:
    """Returns the claims with the outcome `unknown` in place of `failed`. A failure counts only in a file that says why
    a failed attempt was not written."""
    outcome = pc.if_else(pc.equal(table["outcome"], "failed"), "unknown", table["outcome"])
    return table.set_column(table.column_names.index("outcome"), "outcome", outcome)


def contradiction(batch: pa.Table) -> tuple[int, str, str] | None:
    """Returns the first row of `batch` in which fields do not fit together: its index, the field that is one too many,
    and what is wrong. Returns None if there is no such row."""
    has_offset, acked = batch["offset"].is_valid(), pc.equal(batch["outcome"], "acked")
    for wrong, name, text in (
        (pc.and_not(has_offset, acked), "offset", "offset is given, but only an acked attempt has one; leave it out"),
        (
            pc.and_(has_offset, batch["partition"].is_null()),
            "offset",
            "partition is missing beside an offset; give both or none",
        ),
    ):
        if (index := pc.index(wrong, True).as_py()) >= 0:
            return index, name, text
    return None


def _all(column: pa.ChunkedArray) -> bool:
    """Returns whether all values of a Boolean column that are not null are true."""
    return pc.all(column, min_count=0).as_py() is not False
