"""The step validate: Great Expectations checks the books, that is, the counts that reconcile has made of every arm.

Great Expectations evaluates expectations of every anomaly of every arm, and of the evidence itself.
"""

from __future__ import annotations

from pathlib import Path


def validate(run_dir: Path) -> None:
    """Writes validation.json and the Data Docs (the pages of Great Expectations).

    Raises IncompleteRun if the books are not whole, and filelock.Timeout if another process writes the Data Docs for
    too long.
    """
    from expectations.checkpoint import validate as evaluate  # imports Great Expectations, which takes seconds

    evaluate(run_dir)
