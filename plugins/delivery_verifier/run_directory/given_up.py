"""Attempts that were given up: neither reported (ACKED or SENT) nor in the log.

The client gave them up after an error, refused them, or ended before they had an outcome. An attempt does not count if
the application sent its record again, and this second attempt is in the log. The step reconcile writes the counts into
reconcile.json.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from delivery_verifier.run_directory.run_directory import RunDirectory

GIVEN_UP = "given_up/"
"""The prefix of some keys in the counts of reconcile.json. The count `given_up/<arm>` is the number of the arm's
attempts that were given up. The count `given_up/<arm>/<partition>/<error>` has a part of them; counts of 0 are left
out. The error is `none` for an attempt without one."""
_NO_ERROR = "none"


class GivenUpCount(NamedTuple):
    """The number of an arm's attempts to one partition that were given up with one error. `error` is the client's name
    of the error, e.g. `_MSG_TIMED_OUT`; empty if there is none."""

    partition: int
    error: str
    attempts: int


def given_up_counts(summary_rows: Iterable[Mapping[str, Any]], arms: Iterable[str]) -> dict[str, int]:
    """Returns the counts of reconcile.json. `summary_rows`: rows with the columns arm, partition, given_up and records,
    as Spark counts them."""
    counts = Counter(dict.fromkeys((GIVEN_UP + arm for arm in arms), 0))
    for row in summary_rows:
        if row["given_up"] is not None:
            counts[GIVEN_UP + row["arm"]] += row["records"]
            counts[f"{GIVEN_UP}{row['arm']}/{row['partition']}/{row['given_up'] or _NO_ERROR}"] += row["records"]
    return dict(counts)


def read_given_up(run: RunDirectory) -> dict[str, list[GivenUpCount]]:
    """Maps each arm to its counts, in order of partition and error."""
    counts = {
        tuple(name.removeprefix(GIVEN_UP).split("/")): count
        for name, count in run.manifest("reconcile").counts.items()
        if name.startswith(GIVEN_UP)
    }
    by_arm: dict[str, list[GivenUpCount]] = {key[0]: [] for key in counts if len(key) == 1}
    for (arm, *rest), attempts in sorted(counts.items()):
        if rest:
            partition, error = rest
            by_arm[arm].append(GivenUpCount(int(partition), error if error != _NO_ERROR else "", attempts))
    return by_arm
