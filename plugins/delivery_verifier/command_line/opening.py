"""The command `kdv open`, which opens the report of a run in a browser."""

from __future__ import annotations

import argparse
import os
import webbrowser
from pathlib import Path

from delivery_verifier.command_line.parsers import Add
from delivery_verifier.command_line.stored import run_dir_of
from delivery_verifier.host import folders
from delivery_verifier.model.inputs import bad_input


def register(add: Add) -> None:
    """Adds `kdv open` to the command line by a call of `add` (see `parsers.Add`)."""
    sub = add("open", open_, "Open the report of a run in a browser.")
    sub.add_argument("run", nargs="?", metavar="RUN_DIR", default=folders.LATEST, help="a run (default: the latest)")
    sub.add_argument("--docs", action="store_true", help="open Data Docs, the history of all validations, instead")


def open_(arguments: argparse.Namespace) -> int:
    """Carries out `kdv open`: prints the path of the report (with --docs, of Data Docs), and opens it in a browser if
    this host has one. Returns 0.

    Raises BadInput if there is no such run, or if the file is missing.
    """
    if arguments.docs:
        file = folders.runs_dir() / folders.DATA_DOCS / "index.html"
    else:
        file = run_dir_of(arguments.run) / "report.html"
    if not file.is_file():
        raise bad_input("run", arguments.run, "a run that has ended", f"{file} is missing; `kdv list runs` names them")
    print(file)
    if _has_browser():
        webbrowser.open(Path(file).absolute().as_uri())
    return 0


def _has_browser() -> bool:
    """Returns whether this host has a display, or the variable BROWSER is set. Otherwise a text browser would open, and
    take over the terminal."""
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or os.environ.get("BROWSER"))
