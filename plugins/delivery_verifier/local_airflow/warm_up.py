"""Warms up the Spark Connect server of the local Airflow: reconciles a stored run a few times. The server's JVM then
compiles the code that the next reconciliation needs.

Nobody reads the results of these reconciliations, and nothing waits for their end.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from delivery_verifier.cluster import lease
from delivery_verifier.host import folders, variables
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.local_airflow import settings, spark_server

LISTENS_WITHIN_S = 120.0
MOST_BYTES = 32 << 20
"""The most bytes that ledger/ and log/ of the stored run may have together. A larger run would take too long."""
FIRST_RUN = Path(sys.prefix) / "first-run"
"""The folder of the run that `make setup` has made."""
_FOLDERS = ("ledger", "log")
_PREFIX = "warm-up-"


def newest_small_run(runs: Path, least: int = 0) -> Path | None:
    """Returns the reconciled run directory in the folder `runs` that was reconciled last and has `least` to MOST_BYTES
    bytes. Returns None if there is no such directory."""
    files = (file for file in runs.glob("*/reconcile.json") if not file.parent.is_symlink())
    sealed = sorted(files, key=lambda file: file.stat().st_mtime, reverse=True)
    return next((file.parent for file in sealed if least <= _bytes(file.parent) <= MOST_BYTES), None)


def run_to_reconcile() -> Path | None:
    """Returns the run directory that is reconciled. Returns None if there is none.

    It is the newest small run of the user that is no smaller than the run of `make setup`. Spark plans the queries of a
    smaller run in another way. If there is no such run, it is the run of `make setup`.
    """
    first = newest_small_run(FIRST_RUN)
    return newest_small_run(folders.runs_dir(), _bytes(first) if first else 0) or first


def _bytes(run: Path) -> int:
    return sum(file.stat().st_size for folder in _FOLDERS for file in (run / folder).glob("*"))


def warm_up(run: Path, port: int) -> None:
    """Reconciles a copy of `run` on the server at `port` up to as many times as KDV_WARM_UP says. Removes the copy.

    Begins no pass while a run uses the host, because the two would share the processors. Also removes copies of earlier
    warm-ups that were killed.
    """
    wait_until(lambda: spark_server.listens(port), "the Spark Connect server listens", LISTENS_WITHIN_S, every_s=0.5)
    for remains in settings.airflow_home().glob(f"{_PREFIX}*"):
        shutil.rmtree(remains, ignore_errors=True)
    for _ in range(variables.warm_up_passes()):
        if lease.holder() is not None:
            return
        _reconcile_copy(run, port)


def _reconcile_copy(run: Path, port: int) -> None:
    from spark_jobs.reconcile import reconcile
    from spark_jobs.session.connect import connect_session

    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=settings.airflow_home()) as folder:
        copy = Path(shutil.copytree(run, Path(folder) / run.name))
        with connect_session(spark_server.url(port)) as spark:
            reconcile(copy, True, spark)


def main() -> int:
    """The entry point. Returns 0 if a run was reconciled, or if there is no suitable run. Every failure is raised as an
    exception."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--port", type=int, required=True)
    port = parser.parse_args().port
    os.nice(10)
    if variables.warm_up_passes() and (run := run_to_reconcile()) is not None:
        warm_up(run, port)
    return 0


if __name__ == "__main__":
    sys.exit(main())
