"""The rows of the page of all runs, one per run directory.

A run is green if it ended as expected. A run is never green if its verdict is missing or damaged, or was changed after
the step `conclude` wrote the verdict.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

import msgspec
from msgspec import Struct

from delivery_verifier.catalogue.applications import profile_and_application
from delivery_verifier.host import folders
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.steps import STEPS
from delivery_verifier.model.verdict import exposed
from delivery_verifier.reporting.anomaly_columns import ALWAYS, cases, columns, heading
from delivery_verifier.reporting.overview import recorded
from delivery_verifier.reporting.overview.recorded import RecordedArmVerdict
from delivery_verifier.run_directory.run_directory import IncompleteRun

NO_VERDICT, RUNNING, QUEUED = "NO VERDICT", "RUNNING", "QUEUED"
"""What stands in place of a verdict: the run ended without a verdict, it still runs, or it waits for its turn."""
READ_AT_MOST = 2000
"""The greatest number of run directories that are read. Those with the newest scenario.json are read."""
_CACHE_SIZE = 4 * READ_AT_MOST


class Figures(Struct, frozen=True, kw_only=True):
    """The figures of a run's subjects, from the verdict of the run. A figure is None if it is not known.

    * `lost`, `duplicated`, `reordered`: the number of cases of this anomaly in all subjects together. `others` maps
      each further anomaly that occurred to its number of cases.
    * `longest_gap_s`: the longest time in seconds for which a subject had no report on a partition.
    * `exposed`: the number of reported attempts that the faults exposed. Each subject has such a number. If a run has
      several subjects, `exposed` is the smallest of their numbers.
    * `given_up`: the number of attempts that all subjects together gave up.
    """

    lost: int | None = None
    duplicated: int | None = None
    reordered: int | None = None
    longest_gap_s: float | None = None
    exposed: int | None = None
    given_up: int = 0
    others: dict[Anomaly, int] = {}

    @property
    def cases(self) -> list[tuple[str, int]]:
        """Returns the heading and the number of cases of each anomaly with at least one case in a subject of the
        run."""
        counts = dict(zip(ALWAYS, (self.lost, self.duplicated, self.reordered), strict=True)) | self.others
        return [(heading(anomaly), count) for anomaly in Anomaly if (count := counts.get(anomaly))]


class StoredRunRow(Struct, frozen=True, kw_only=True):
    """One run as a row of the page.

    * `name`: the name of the run directory. `report`: whether the run directory has a report.html.
    * `profiles`: the profile of each subject. If the subject has an application, the name of the application follows.
    * `sentence`: the sentence of the verdict.
    * `verdict`: NO VERDICT if the verdict is missing or cannot be trusted. `why` then gives the reason or the last
      finished step. The function `unfinished.merged` replaces NO VERDICT with RUNNING or QUEUED.
    * `airflow_page`: the address of the DAG run in Airflow's UI. `unfinished.merged` sets this field. It is empty if
      Airflow does not know the run.
    * `concluded`: whether the step conclude finished.
    """

    name: str
    planned_at: datetime
    scenario: str
    fault: str
    profiles: tuple[str, ...]
    verdict: str = NO_VERDICT
    green: bool = False
    sentence: str = ""
    why: str = ""
    report: bool = False
    figures: Figures = Figures()
    kafka_version: str = ""
    airflow_page: str = ""
    concluded: bool = False


def rows(runs: Path) -> list[StoredRunRow]:
    """Returns the rows of the newest runs in the folder `runs`, newest run first. There are at most READ_AT_MOST rows.

    A run directory without scenario.json is left out, because the run was never planned. Returns an empty list if the
    folder does not exist.
    """
    newest = folders.stored_runs(runs)[:READ_AT_MOST]
    return sorted((read(run) for run in newest), key=lambda row: (row.planned_at, row.name), reverse=True)


def profiles(listed: Iterable[StoredRunRow]) -> list[str]:
    """Returns the names of the profiles of all subjects in the listed runs. The names are sorted, and each name occurs
    once."""
    return sorted({name for row in listed for name in row.profiles})


def kafka_versions(listed: Iterable[StoredRunRow]) -> list[str]:
    """Returns the Kafka versions of the listed runs, the newest version first. Each version occurs once."""
    return sorted({row.kafka_version for row in listed if row.kafka_version}, key=_version_key, reverse=True)


def _version_key(version: str) -> tuple[list[int], str]:
    """Returns a sort key, by which versions are sorted by their numbers: 4.10.0 comes after 4.9.1."""
    return [int(part) for part in re.findall(r"\d+", version)], version


def faults(listed: Iterable[StoredRunRow]) -> list[str]:
    """Returns the names of the fault plans of the listed runs. The names are sorted, and each name occurs once."""
    return sorted({row.fault for row in listed if row.fault})


def read(run: Path) -> StoredRunRow:
    """Returns the row of the run in the directory `run`. If there is no scenario.json, the row says that the run was
    never planned.

    Rows are cached. The files are decoded again only if scenario.json, verdict.json, conclude.json, report.html or the
    last finished step has changed.
    """
    files = [_stamp(run / name) for name in ("scenario.json", "verdict.json", "conclude.json", "report.html")]
    return _decode(run, tuple(files), _last_step(run) if files[2] == _ABSENT else "conclude")


_ABSENT = (0, -1)
"""The stamp of a file that does not exist. A stamp is the time of the last change (ns) and the size in bytes."""


def _stamp(file: Path) -> tuple[int, int]:
    """Returns the stamp of a file: the modification time in ns and the size in bytes. If the file changes, its stamp
    changes, too."""
    try:
        stat = file.stat()
    except OSError:
        return _ABSENT
    return stat.st_mtime_ns, stat.st_size


def _last_step(run: Path) -> str:
    """Returns the last finished step of a run, in the order of STEPS. Returns an empty text if no step finished."""
    return next((step for step in reversed(STEPS) if (run / f"{step}.json").is_file()), "")


@lru_cache(maxsize=_CACHE_SIZE)
def _decode(run: Path, stamps: tuple[tuple[int, int], ...], last_step: str) -> StoredRunRow:
    """Returns the row of one run.

    `stamps`: the stamps of scenario.json, verdict.json, conclude.json and report.html, in this order.
    """
    written_at = datetime.fromtimestamp(stamps[0][0] / 1e9, UTC)
    try:
        plan = recorded.scenario(run)
    except FileNotFoundError:
        return StoredRunRow(
            name=run.name, planned_at=written_at, scenario="", fault="", profiles=(), why="it was never planned"
        )
    except (OSError, msgspec.MsgspecError) as error:
        why = f"scenario.json cannot be read: {error}"
        return StoredRunRow(name=run.name, planned_at=written_at, scenario="", fault="", profiles=(), why=why)
    subjects = [arm for arm in plan.arms if arm.role == "subject"]
    tested = [profile_and_application(arm.profile.name, (arm.application or recorded.Named()).name) for arm in subjects]
    row = StoredRunRow(
        name=run.name,
        planned_at=_time(plan.created_at) or written_at,
        scenario=plan.name,
        fault=plan.fault.name,
        profiles=tuple(dict.fromkeys(tested)),
        report=stamps[3] != _ABSENT,
        kafka_version=plan.cluster.kafka_version,
        concluded=last_step == "conclude",
    )
    return _with_verdict(row, run, last_step)


def _with_verdict(row: StoredRunRow, run: Path, last_step: str) -> StoredRunRow:
    if last_step != "conclude":
        step = f"last finished step: {last_step}" if last_step else "no step finished"
        return msgspec.structs.replace(row, why=step)
    try:
        verdict = recorded.sealed_verdict(run)
    except (IncompleteRun, OSError, msgspec.MsgspecError) as error:
        return msgspec.structs.replace(row, why=f"verdict.json cannot be believed: {error}")
    return msgspec.structs.replace(
        row,
        verdict=verdict.verdict,
        green=verdict.green and verdict.verdict != NO_VERDICT,
        sentence=verdict.sentence,
        figures=_figures([arm for arm in verdict.arms if arm.role == "subject"]),
    )


def _figures(subjects: list[RecordedArmVerdict]) -> Figures:
    gaps = [arm.longest_gap_s for arm in subjects if arm.longest_gap_s is not None]
    exposed_records = [exposed(arm.exposure) for arm in subjects if arm.exposure]
    return Figures(
        lost=_sum(subjects, Anomaly.LOST),
        duplicated=_sum(subjects, Anomaly.DUPLICATED),
        reordered=_sum(subjects, Anomaly.REORDERED),
        longest_gap_s=max(gaps, default=None),
        exposed=min(exposed_records, default=None),
        given_up=sum(arm.given_up.attempts for arm in subjects if arm.given_up),
        others={
            anomaly: _sum(subjects, anomaly) or 0
            for anomaly in columns(arm.tally for arm in subjects)
            if anomaly not in ALWAYS
        },
    )


def _sum(subjects: list[RecordedArmVerdict], anomaly: Anomaly) -> int | None:
    """Returns the number of cases of `anomaly` in all subjects together. Returns None if the number is known for no
    subject."""
    counts = [count for arm in subjects if (count := cases(arm.tally, anomaly)) is not None]
    return sum(counts) if counts else None


def _time(text: str) -> datetime | None:
    """Returns the ISO 8601 time `text` as a datetime. If `text` has no time zone, the time is in UTC. Returns None if
    `text` is malformed."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
