"""Ends a run that has a verdict but is not green, with a few plain lines in the log of the task `conclude`.

Such a verdict is no crash. Airflow logs an exception with its traceback, but it logs SystemExit in one line.
"""

from __future__ import annotations

import logging
import sys
import textwrap
from collections.abc import Iterator
from typing import NoReturn

from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.orchestration.names import DAG_ID
from delivery_verifier.orchestration.tasks.addresses import report_url
from delivery_verifier.reporting.arm_rows import UNKNOWN, ArmRow, arm_rows
from delivery_verifier.reporting.doubts import doubt_groups
from delivery_verifier.reporting.words import clean

WIDTH = 110
"""The greatest number of characters in a line. In a window that is 1,400 pixels wide, Airflow's log view cuts off
longer lines."""
_log = logging.getLogger(__name__)


def end(verdict: RunVerdict, run_id: str, dag_id: str = DAG_ID) -> NoReturn:
    """Logs the lines about `verdict`, and raises SystemExit(1). Airflow then marks the task as failed."""
    for line in lines(verdict, report_url(run_id, dag_id)):
        _log.error(line)
    sys.exit(1)


def lines(verdict: RunVerdict, report: str) -> list[str]:
    """Returns the lines about a verdict: its sentence, the counts and doubts of each arm, what to do about the doubts,
    and `report`, the address of the report."""
    said = [*_wrapped(verdict.sentence), *(line for row in arm_rows(verdict.arms) for line in _of_arm(row))]
    for doubt in doubt_groups(verdict):
        said += _wrapped(f"What to do about {doubt.name}: {doubt.remedy}")
    return [*said, f"Report: {report}"]


def _of_arm(row: ArmRow) -> Iterator[str]:
    """Yields the lines about one arm: its verdict, its counts and its doubts. A count that is not known is left out."""
    arm, figures = row.arm, [row.sent[-1], *row.counts]
    counts = ", ".join(f"{cell.heading} {cell.text}" for cell in figures if cell.text != UNKNOWN)
    end = "as expected" if arm.as_expected else f"expected: {arm.expected}"
    yield from _wrapped(f"{arm.arm} ({arm.role}): {arm.verdict}, {end}. {counts}")
    for doubt in arm.doubts:
        yield from _wrapped(f"  {doubt.kind} doubt: {doubt.name}: {doubt.detail}")


def _wrapped(text: str) -> list[str]:
    """Returns `text` in lines of at most WIDTH characters. A word that is longer than WIDTH, such as an address, stays
    whole."""
    return textwrap.wrap(clean(text), WIDTH, break_long_words=False, break_on_hyphens=False, subsequent_indent="  ")
