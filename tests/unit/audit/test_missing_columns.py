"""Tests of what each missing column of a ledger takes away: exactly the kinds that it alone shows, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.foreign_histories import History
from support.matched_ledgers import judged, matched

from delivery_verifier.model.inputs import BadInput

Row = dict[str, Any]


def planted() -> History:
    """Returns a complete ledger with every column, in which each kind of anomaly stands once."""
    claims: list[Row] = []
    found: list[Row] = []

    def send(name: str, offset: int | None, attempt: int = 0, outcome: str = "acked", sequence: int = -1) -> None:
        number = len(claims)
        row = {"outcome": outcome, "id": name, "producer": "p", "sequence": sequence if sequence >= 0 else number}
        row |= {"attempt": attempt, "value_crc32": 7, "sent_at": 1, "settled_at": 2, "line": number + 1}
        claims.append(row | ({"partition": 0, "offset": offset} if offset is not None else {}))

    def stand(name: str, hashed: str = "7") -> int:
        offset = len(found)
        row = {"partition": 0, "offset": offset, "id": name, "producer": None, "sequence": None, "hash": hashed}
        found.append(row)
        return offset

    send("sound", stand("sound"))
    send("lost", 90)
    send("twice", stand("twice"))
    stand("twice")
    send("elsewhere", 91)
    stand("elsewhere")
    stand("unclaimed")
    late = len(claims)
    send("late", None)
    send("overtaking", stand("overtaking"))
    claims[late] |= {"partition": 0, "offset": stand("late")}
    send("damaged", stand("damaged", "8"))
    send("again", None, outcome="unknown")
    stand("again")
    send("again", stand("again"), attempt=1, sequence=claims[-1]["sequence"])
    return History(claims=claims, found=found, starts={0: 0}, complete=True)


WHOLE = {"LOST": 1, "DUPLICATED": 1, "MISPLACED": 1, "PHANTOM": 1, "REORDERED": 1, "CORRUPTED": 1, "RESENT": 2}


def without(*names: str) -> Callable[[History], History]:
    def change(history: History) -> History:
        return replace(history, claims=[{k: v for k, v in row.items() if k not in names} for row in history.claims])

    return change


def with_attempts_as_ids(history: History) -> History:
    """Without `attempt`, an id may stand in one line alone: the application names its second attempt in the same way
    only in the log."""
    return replace(without("attempt")(history), claims=without("attempt")(history).claims[:-1])


MISSING: dict[str, tuple[Callable[[History], History], dict[str, int]]] = {
    "nothing": (lambda history: history, {}),
    # Nothing shows whose the damaged record was, so its attempt is absent: a loss that is not proven.
    "offsets": (without("partition", "offset"), {"MISPLACED": 0, "LOST": 2}),
    "order": (without("producer", "sequence"), {"REORDERED": 0}),
    "checksums": (without("value_crc32"), {"CORRUPTED": 0}),
    "attempts": (with_attempts_as_ids, {"RESENT": 0, "DUPLICATED": 2}),
    "times": (without("sent_at", "settled_at"), {}),
    "complete": (lambda history: replace(history, complete=False), {"PHANTOM": 0}),
    "a topic of its own": (lambda history: replace(history, others_write=True), {"PHANTOM": 0}),
}
"""What is missing, and the kinds whose number changes by it."""


@pytest.mark.parametrize("missing", MISSING)
def test_a_missing_column_takes_away_what_it_alone_shows_and_nothing_else(tmp_path: Path, missing: str) -> None:
    change, difference = MISSING[missing]
    result, rows, log = matched(tmp_path, change(planted()))
    counts = judged(rows, log)
    del counts["attempted"]
    assert dict(+counts) == {kind: count for kind, count in (WHOLE | difference).items() if count}
    assert result.unproven["unproven_lost"] == (missing == "offsets")


@pytest.mark.parametrize("column", ["id", "outcome"])
def test_without_an_identity_or_an_outcome_no_line_is_a_claim(tmp_path: Path, column: str) -> None:
    with pytest.raises(BadInput, match=r"no line has an id|outcome: Object missing"):
        matched(tmp_path, without(column, "producer", "sequence")(planted()))
