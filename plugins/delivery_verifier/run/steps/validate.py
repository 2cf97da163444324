"""The step validate: on the books, Great Expectations evaluates every anomaly of every arm, and the evidence."""

from __future__ import annotations

from pathlib import Path


def validate(run_dir: Path) -> None:
    """Writes validation.json and the Data Docs. Raises IncompleteRun if the books are not whole."""
    from expectations.checkpoint import validate as evaluate  # imports Great Expectations, which takes seconds

    evaluate(run_dir)
