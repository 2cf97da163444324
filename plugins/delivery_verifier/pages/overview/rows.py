"""The rows of the page: one per run directory, read leniently, for a newer version must still list old runs.

A verdict is taken only as `conclude` sealed it. Whatever is missing, void or damaged is no verdict, and never green.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

import msgspec
from msgspec import Struct

from delivery_verifier.host.folders import DATA_DOCS
from delivery_verifier.model.steps import STEPS
from delivery_verifier.model.verdict import Exposure, exposed
from delivery_verifier.store.run_directory import Manifest

NO_VERDICT = "NO VERDICT"
READ_AT_MOST = 2000
"""Run directories that are looked at, the newest first."""
_KEPT = 4 * READ_AT_MOST


class _Named(Struct, frozen=True):
    name: str = ""


class _Arm(Struct, frozen=True):
    name: str
    role: str
    profile: _Named = _Named()


class _Scenario(Struct, frozen=True):
    name: str = ""
    created_at: str = ""
    fault: _Named = _Named()
    arms: list[_Arm] = []


class _ArmVerdict(Struct, frozen=True):
    role: str
    books: dict[str, int] = {}
    exposure: list[Exposure] = []
    longest_gap_s: float | None = None


class _Verdict(Struct, frozen=True):
    verdict: str
    green: bool
    sentence: str = ""
    arms: list[_ArmVerdict] = []


class Figures(Struct, frozen=True, kw_only=True):
    """What the subjects' books say, summed over the subjects; None where a book has no such count.

    `longest_gap_s` is the longest of any subject. `exposed` are reported records exposed to injections, of the subject
    that had the fewest, for that one decides what was tested; None where nothing was injected.
    """

    lost: int | None = None
    duplicated: int | None = None
    reordered: int | None = None
    longest_gap_s: float | None = None
    exposed: int | None = None


class StoredRunRow(Struct, frozen=True, kw_only=True):
    """One run. `verdict` is NO VERDICT where there is none, and `why` then says what is known of the reason."""

    name: str
    at: datetime
    scenario: str
    fault: str
    profiles: tuple[str, ...]
    verdict: str = NO_VERDICT
    green: bool = False
    sentence: str = ""
    why: str = ""
    report: bool = False
    figures: Figures = Figures()


def rows(runs: Path) -> list[StoredRunRow]:
    """All runs below `runs`, newest first; at most READ_AT_MOST are read. Empty if there is no such folder."""
    found = [run for run in runs.glob("*/scenario.json") if _is_run(run.parent)]
    newest = sorted(((_stamp(file)[0], file.parent) for file in found), reverse=True)[:READ_AT_MOST]
    return sorted((read(run) for _, run in newest), key=lambda row: (row.at, row.name), reverse=True)


def profiles(listed: Iterable[StoredRunRow]) -> list[str]:
    """Names of all subjects' profiles, sorted."""
    return sorted({name for row in listed for name in row.profiles})


def faults(listed: Iterable[StoredRunRow]) -> list[str]:
    """Names of all fault plans, sorted."""
    return sorted({row.fault for row in listed if row.fault})


def _is_run(run: Path) -> bool:
    return run.name != DATA_DOCS and not run.name.startswith(".")


def read(run: Path) -> StoredRunRow:
    """One run, whether its directory exists or not.

    Files are decoded again only when one of them, or the set of finished steps, has changed.
    """
    files = [_stamp(run / name) for name in ("scenario.json", "verdict.json", "conclude.json", "report.html")]
    return _decoded(run, tuple(files), _last_step(run) if files[2] == _ABSENT else "conclude")


_ABSENT = (0, -1)


def _stamp(file: Path) -> tuple[int, int]:
    try:
        stat = file.stat()
    except OSError:
        return _ABSENT
    return stat.st_mtime_ns, stat.st_size


def _last_step(run: Path) -> str:
    return next((step for step in reversed(STEPS) if (run / f"{step}.json").is_file()), "")


@lru_cache(maxsize=_KEPT)
def _decoded(run: Path, stamps: tuple[tuple[int, int], ...], last_step: str) -> StoredRunRow:
    planned_at = datetime.fromtimestamp(stamps[0][0] / 1e9, UTC)
    try:
        plan = msgspec.json.decode((run / "scenario.json").read_bytes(), type=_Scenario)
    except FileNotFoundError:
        return StoredRunRow(
            name=run.name, at=planned_at, scenario="", fault="", profiles=(), why="it was never planned"
        )
    except (OSError, msgspec.MsgspecError) as error:
        why = f"scenario.json cannot be read: {error}"
        return StoredRunRow(name=run.name, at=planned_at, scenario="", fault="", profiles=(), why=why)
    subjects = tuple(dict.fromkeys(arm.profile.name for arm in plan.arms if arm.role == "subject"))
    row = StoredRunRow(
        name=run.name,
        at=_time(plan.created_at) or planned_at,
        scenario=plan.name,
        fault=plan.fault.name,
        profiles=subjects,
        report=stamps[3] != _ABSENT,
    )
    return _judged(row, run, last_step)


def _judged(row: StoredRunRow, run: Path, last_step: str) -> StoredRunRow:
    if last_step != "conclude":
        step = f"last finished step: {last_step}" if last_step else "no step finished"
        return msgspec.structs.replace(row, why=step)
    try:
        found = _sealed_verdict(run)
    except (OSError, ValueError) as error:  # msgspec's errors are ValueErrors
        return msgspec.structs.replace(row, why=f"verdict.json cannot be believed: {error}")
    return msgspec.structs.replace(
        row,
        verdict=found.verdict,
        green=found.green and found.verdict != NO_VERDICT,
        sentence=found.sentence,
        figures=_figures([arm for arm in found.arms if arm.role == "subject"]),
    )


def _sealed_verdict(run: Path) -> _Verdict:
    """The verdict as `conclude` wrote it. Raises OSError, ValueError or msgspec.MsgspecError."""
    sealed = msgspec.json.decode((run / "conclude.json").read_bytes(), type=Manifest).files.get("verdict.json")
    text = (run / "verdict.json").read_bytes()
    if hashlib.sha256(text).hexdigest() != sealed:
        raise ValueError("it is not as step conclude wrote it")
    return msgspec.json.decode(text, type=_Verdict)


def _figures(subjects: list[_ArmVerdict]) -> Figures:
    gaps = [arm.longest_gap_s for arm in subjects if arm.longest_gap_s is not None]
    hurt = [exposed(arm.exposure) for arm in subjects if arm.exposure]
    return Figures(
        lost=_sum(subjects, "lost"),
        duplicated=_sum(subjects, "duplicated"),
        reordered=_sum(subjects, "reordered"),
        longest_gap_s=max(gaps, default=None),
        exposed=min(hurt, default=None),
    )


def _sum(subjects: list[_ArmVerdict], count: str) -> int | None:
    known = [arm.books[count] for arm in subjects if count in arm.books]
    return sum(known) if known else None


def _time(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
