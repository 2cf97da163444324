"""The step validate: lets Great Expectations check the counts (the counts of each arm) that the step reconcile has
written.

One suite has expectations about the anomalies of each arm. Another suite has expectations about the evidence itself,
for example that counts from independent sources are equal.
"""

from __future__ import annotations

from pathlib import Path


def validate(run_dir: Path) -> None:
    """Writes validation.json and the Data Docs (the pages of Great Expectations).

    Raises IncompleteRun if the output of the step reconcile is missing or altered. Raises filelock.Timeout if another
    process takes too long to write the Data Docs.
    """
    from expectations.validation import validate as evaluate  # imports Great Expectations, which takes seconds

    evaluate(run_dir)
