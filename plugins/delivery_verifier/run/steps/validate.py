"""validate: Great Expectations evaluates every (arm, anomaly) and the evidence, over the books."""

from __future__ import annotations

from pathlib import Path


def validate(run_dir: Path) -> None:
    """Writes validation.json and the Data Docs. Raises IncompleteRun if the books are not whole."""
    from expectations.checkpoint import validate as evaluate  # imports Great Expectations: seconds

    evaluate(run_dir)
