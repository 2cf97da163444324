"""The command `kdv prune`, which removes the oldest runs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from delivery_verifier.command_line.parsers import Add
from delivery_verifier.host import folders
from delivery_verifier.model.inputs import BadInput, decimal, whole

if TYPE_CHECKING:
    from delivery_verifier.maintenance.retention import Retained

_TEXT = """Remove the oldest runs. One that is in progress stays, and whatever is no run directory. The runs of a
catalogue run stay or go with it."""


def register(add: Add) -> None:
    """Adds `kdv prune` to the command line by a call of `add` (see `parsers.Add`)."""
    sub = add("prune", prune, _TEXT)
    sub.add_argument(
        "--keep", metavar="N", help="keep at most N runs; a catalogue run counts as one, with all its runs"
    )
    sub.add_argument("--max-gb", metavar="G", help="keep at most G GB of runs")
    sub.add_argument("--dry-run", action="store_true", help="only say which would go")


def prune(arguments: argparse.Namespace) -> int:
    """Carries out `kdv prune`: removes the oldest runs. With --dry-run, only prints the names of these runs. Returns 0.

    Raises BadInput if neither --keep nor --max-gb is given, or if a value is not allowed.
    """
    from delivery_verifier.maintenance import retention

    if arguments.keep is None and arguments.max_gb is None:
        raise BadInput("neither --keep nor --max-gb is given; allowed: one or both; e.g. kdv prune --keep 50 --dry-run")
    keep = None if arguments.keep is None else whole("--keep", arguments.keep, 0, 10**6, example=50)
    max_bytes = None if arguments.max_gb is None else decimal("--max-gb", arguments.max_gb, 0, 1e6) * 1e9
    if not arguments.dry_run:
        retention.finish_removals(folders.runs_dir())
    removable = retention.surplus(folders.runs_dir(), keep, max_bytes)
    for run in removable:
        verb = "would remove" if arguments.dry_run else "removed"
        print(f"{verb} {run.path}{_with_runs(run)} ({run.size / 1e6:,.1f} MB)", flush=True)
        if not arguments.dry_run:
            retention.remove(run)
    untouched = " (nothing was removed)" if arguments.dry_run else ""
    print(f"{len(removable)} runs, {sum(run.size for run in removable) / 1e6:,.1f} MB{untouched}")
    return 0


def _with_runs(unit: Retained) -> str:
    return f" with {len(unit.runs)} runs" if unit.runs else ""
