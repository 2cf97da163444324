"""The checker doubts of a run made by hand, and rows that are taken out of its counts."""

from __future__ import annotations

from typing import Any

from delivery_verifier.verdict.checker_doubts import checker_doubts
from delivery_verifier.verdict.evaluation import Validation
from delivery_verifier.verdict.evidence import Evidence
from support.evidence import Change, Rows, validation_of


def owned_doubts(evidence: Evidence, validation: Validation | None = None) -> list[tuple[str, str, str]]:
    """Returns each doubt: its owner, its name, its detail. The validation is correct unless it is given."""
    owned = checker_doubts(evidence, validation or validation_of(evidence))
    assert all(doubt.kind == "checker" for _, doubt in owned)
    return [(owner, doubt.name, doubt.detail) for owner, doubt in owned]


def without(table: str, count: int = 1, **where: Any) -> Change:
    """Returns a change that takes the first `count` rows that match out of a table."""

    def change(rows: Rows) -> None:
        hit = [row for row in rows[table] if all(row[key] == value for key, value in where.items())][:count]
        assert len(hit) == count
        rows[table] = [row for row in rows[table] if not any(row is each for each in hit)]

    return change
