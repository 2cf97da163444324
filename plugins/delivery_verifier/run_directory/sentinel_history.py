"""The history of the sentinels: one line per result, in one file per cluster and day (UTC). It outlives the run
directories, which need a thousand times the space.

Neither the adding of a result nor the reading of the newest ones takes longer if there are more of them.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from delivery_verifier.host import folders
from delivery_verifier.model.sentinel import SentinelResult, has_turned

DAYS = 400
"""How many files, one per day, are kept of each cluster."""
LISTED = 10_000
"""The greatest number of results of a cluster that are read: 34 days of a result each five minutes."""
_LOCK = ".lock"


class History(Struct, frozen=True):
    """The newest results of one cluster, newest first, one per run. `unreadable`: how many lines cannot be read.
    `is_cut`: whether there are older results than these."""

    results: list[SentinelResult]
    unreadable: int = 0
    is_cut: bool = False


def folder() -> Path:
    """Returns the folder of all histories. It is beside the run directories."""
    return folders.runs_dir() / folders.SENTINELS


def clusters() -> list[str]:
    """Returns the names of the clusters that have a history, sorted."""
    return sorted(unquote(path.name) for path in folder().glob("*") if path.is_dir() and path.name[0] != ".")


def add(result: SentinelResult) -> SentinelResult:
    """Adds `result` to the history of its cluster, and returns it with its `totals`. Removes files that are older than
    DAYS days. Raises OSError if the history cannot be written."""
    directory = _directory(result.cluster)
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / _LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        newest = newest_of(result.cluster, 1).results
        totals = dict(newest[0].totals) if newest else {}
        result = replace(result, totals=totals | {result.state: totals.get(result.state, 0) + 1})
        file = directory / f"{datetime.fromtimestamp(result.at_us / 1e6, UTC):%Y-%m-%d}.jsonl"
        if not file.exists():
            for old in _files(result.cluster)[DAYS - 1 :]:
                old.unlink()
        with file.open("ab+") as stream:
            is_torn = stream.tell() > 0 and os.pread(stream.fileno(), 1, stream.tell() - 1) != b"\n"
            stream.write(b"\n" * is_torn + msgspec.json.encode(result) + b"\n")
    return result


def newest_of(cluster: str, most: int = LISTED) -> History:
    """Returns the newest results of `cluster`, at most `most`. Of a run with several results, e.g. because a user has
    cleared it, the last one counts."""
    results, unreadable = dict[str, SentinelResult](), 0
    for line in _lines(cluster):
        try:
            result = msgspec.json.decode(line, type=SentinelResult)
        except msgspec.MsgspecError:
            unreadable += 1
            continue
        if result.run not in results and len(results) == most:
            return History([*results.values()], unreadable, is_cut=True)
        results.setdefault(result.run, result)
    return History([*results.values()], unreadable)


def find(run: str) -> SentinelResult | None:
    """Returns the result of the run called `run`, if it is among the newest of a cluster."""
    matching = (result for cluster in clusters() for result in newest_of(cluster).results if result.run == run)
    return next(matching, None)


def before(result: SentinelResult) -> SentinelResult | None:
    """Returns the newest result of the same cluster that is older than `result` and not SKIPPED."""
    older = (each for each in newest_of(result.cluster).results if each.run != result.run)
    return next((each for each in older if each.at_us <= result.at_us and each.state != "SKIPPED"), None)


def is_turn(result: SentinelResult) -> bool:
    """Returns whether people must be told of `result` (see `has_turned`)."""
    return has_turned(before(result), result)


def _directory(cluster: str) -> Path:
    return folder() / quote(cluster, safe="")


def _files(cluster: str) -> list[Path]:
    """Returns the files of a cluster, the newest day first."""
    return sorted(_directory(cluster).glob("????-??-??.jsonl"), reverse=True)


def _lines(cluster: str) -> Iterator[bytes]:
    """Yields the lines of a cluster's files, the newest first."""
    for file in _files(cluster):
        yield from (line for line in reversed(file.read_bytes().split(b"\n")) if line)
