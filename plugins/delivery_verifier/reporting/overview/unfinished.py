"""Runs without a verdict: runs that have not ended, and runs that Airflow knows but that have no run directory.

A run without a verdict may have ended, or may still run. For a run that Airflow started, Airflow's database says
whether the run has ended. For a run that a command started, the run directory names the process of the command. Once
this process has ended, the run has ended, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from delivery_verifier.host.processes import process_of
from delivery_verifier.reporting.overview.rows import NO_VERDICT, QUEUED, RUNNING, StoredRunRow
from delivery_verifier.run_directory.run_directory import IncompleteRun, RunDirectory


class AirflowRun(Struct, frozen=True, kw_only=True):
    """A run as Airflow knows it.

    `name`: the name of the run directory, whether or not this directory exists. `page`: the address of the DAG run in
    Airflow's UI, relative to the page of all runs. `state`: the state of the DAG run. `begun_at`: the time from which
    Airflow may start the DAG run. `run_id`: the id of the DAG run. `is_sentinel`: whether it is one of a sentinel.
    """

    name: str
    page: str
    state: Literal["queued", "running", "success", "failed"]
    begun_at: datetime
    run_id: str = ""
    is_sentinel: bool = False

    @property
    def has_ended(self) -> bool:
        """Returns whether the run has ended. After its end, none of its tasks changes any more."""
        return self.state in ("success", "failed")


_WITHOUT_DIRECTORY = {
    "queued": "it waits until the host is free",
    "running": "it is being planned",
    "success": "its run directory was removed",
    "failed": "it failed before it was planned, or its run directory was removed; Airflow has its log",
}
"""Why a run of Airflow has no run directory, by the state of the DAG run."""


def merged(stored: Sequence[StoredRunRow], in_airflow: Mapping[str, AirflowRun], runs: Path) -> list[StoredRunRow]:
    """Returns the rows in `stored`, and a row for each run in `in_airflow` that has no run directory. The newest run
    comes first. A sentinel's run that has ended without a directory is left out: the page of the sentinels has it.

    `in_airflow`: the runs that Airflow knows, by the name of the run directory. `runs`: the folder of the run
    directories. In a row without a verdict, the field `verdict` becomes RUNNING if the run still runs, and QUEUED if
    the run waits.
    """
    owners = _living_owners(stored, in_airflow, runs)
    newest_of_owner = {owner: name for name, owner in reversed(owners.items())}  # `stored` begins with the newest
    rows = []
    for row in stored:
        if row.name in in_airflow:
            rows.append(_known_to_airflow(row, in_airflow[row.name]))
        elif row.name in owners:
            rows.append(_of_command(row, newest=newest_of_owner[owners[row.name]] == row.name))
        else:
            rows.append(row)
    known = {row.name for row in stored}
    listed = (run for run in in_airflow.values() if not (run.is_sentinel and run.has_ended))
    rows += [_without_directory(run) for run in listed if run.name not in known]
    return sorted(rows, key=lambda row: (row.planned_at, row.name), reverse=True)


def _known_to_airflow(row: StoredRunRow, run: AirflowRun) -> StoredRunRow:
    linked = replace(row, airflow_page=run.page)
    if run.state == "failed" and row.green:
        why = f"its verdict is {row.verdict}, but a step failed"
        return replace(linked, verdict=NO_VERDICT, green=False, sentence="", why=why)
    if row.concluded or run.has_ended:
        return linked
    return replace(linked, verdict=QUEUED if run.state == "queued" else RUNNING)


def _of_command(row: StoredRunRow, newest: bool) -> StoredRunRow:
    """Returns the row of a run that has no verdict, and whose command still runs. A command may do several runs one
    after another.

    `newest`: whether the run is the newest run of the command. The newest run is at work. An older run may have failed,
    or may be judged now: the files do not tell which of the two.
    """
    if newest:
        return replace(row, verdict=RUNNING)
    return replace(row, why=f"{row.why}; its command still runs, and this run may be judged now")


def _without_directory(run: AirflowRun) -> StoredRunRow:
    verdict = {"queued": QUEUED, "running": RUNNING}.get(run.state, NO_VERDICT)
    return StoredRunRow(
        name=run.name,
        planned_at=run.begun_at,
        scenario="",
        fault="",
        profiles=(),
        verdict=verdict,
        why=_WITHOUT_DIRECTORY[run.state],
        airflow_page=run.page,
    )


def _living_owners(stored: Sequence[StoredRunRow], in_airflow: Mapping[str, AirflowRun], runs: Path) -> dict[str, str]:
    """Maps each run that is not concluded to the command that started the run. Leaves out a run if its command has
    ended, or if Airflow knows the run.

    The newest run comes first.
    """
    owners = {}
    for row in stored:
        if not row.concluded and row.name not in in_airflow:
            try:
                owner = RunDirectory(runs / row.name).manifest("plan").notes.get("owner", "")
            except IncompleteRun:
                continue
            process = process_of(owner)
            if process is not None and process.alive:
                owners[row.name] = owner
    return owners
