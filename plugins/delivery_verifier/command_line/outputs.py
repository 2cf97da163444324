"""The output of a command: text that fits the terminal, JUnit XML for a CI server, and the bundle (the files of a run,
to attach to a ticket)."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from delivery_verifier.host.optional import optional, warned
from delivery_verifier.model.inputs import BadInput, bad_input
from delivery_verifier.model.verdict import RunVerdict

JUNIT_S = 60.0
"""How long the writing of a JUnit file may take, in seconds."""
VerdictWriter = Callable[[RunVerdict], None]
"""A function that writes a verdict as JUnit XML, if --junit is given."""


def write_text(text: str) -> None:
    """Prints `text`. On a terminal, wraps the lines between words at the terminal's width. In a pipe, leaves the lines
    whole."""
    if not sys.stdout.isatty():
        sys.stdout.write(text)
        return
    width = max(40, shutil.get_terminal_size().columns)
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        print(textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False))


def try_to_print(what: str, work: Callable[[], object]) -> None:
    """Calls `work`, which prints a stored result to stdout. If this fails, e.g. because the reader of a pipe has gone,
    logs a warning that names `what`: the result stands, and its exit code, too."""
    try:
        work()
        sys.stdout.flush()
    except Exception as error:
        warned(what, error)
        if isinstance(error, BrokenPipeError):  # else Python would fail at its end, when it flushes the rest
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def add_junit(group: argparse._ActionsContainer) -> None:
    """Adds the option --junit to `group`, which may be a parser."""
    group.add_argument("--junit", metavar="FILE", help="write the verdict as JUnit XML, for a CI server")


def add_bundle(parser: argparse.ArgumentParser) -> None:
    """Adds the options --bundle and --bundle-full to `parser`."""
    parser.add_argument("--bundle", metavar="FILE.zip", help="zip the evidence for a ticket; secrets are taken out")
    parser.add_argument("--bundle-full", action="store_true", help="with the raw ledger and log in the bundle")


def destination(field: str, name: str) -> Path:
    """Returns the file name `name` as a path. Raises BadInput if no file can be written there. The message names the
    option `field`."""
    file, allowed = Path(name), "a file in a folder that is there and can be written"
    try:
        folder = file.absolute().parent
        is_writable = bool(name) and not file.is_dir() and folder.is_dir() and os.access(folder, os.W_OK)
    except OSError as error:
        raise bad_input(field, name, allowed, str(error.strerror)) from None
    if not is_writable:
        raise bad_input(field, name, allowed, f"make the folder, or name another, e.g. {field} kdv.out")
    return file


@contextmanager
def junit(name: str | None, run_id: str) -> Iterator[VerdictWriter]:
    """Yields a function that writes the verdict as JUnit XML to the file `name`. If `name` is None, this function does
    nothing.

    If the `with` block raises an error, writes the error to the file in place of a verdict, under the name `run_id`.
    Then raises the same error again. Raises BadInput if the file cannot be written when the block begins. If it cannot
    be written later, a warning says so, because the verdict is there, and its exit code, too.
    """
    if name is None:
        yield lambda verdict: None
        return
    file = destination("--junit", name)
    file.unlink(missing_ok=True)  # if this run is killed, no file of an earlier run may remain
    from delivery_verifier.reporting import junit as xml

    def write_verdict(verdict: RunVerdict) -> None:
        optional(f"--junit {name}", lambda: xml.write(file, verdict), JUNIT_S)

    try:
        yield write_verdict
    except BaseException as error:
        failure = error
        optional(f"--junit {name}", lambda: xml.write_failure(file, run_id, failure), JUNIT_S)
        raise


def bundle(arguments: argparse.Namespace, run_dir: Path) -> None:
    """If --bundle is given, writes the bundle of the run in `run_dir`, and prints the file name of the bundle on
    stderr.

    Raises BadInput if the file that --bundle names cannot be written, or if --bundle-full is given without --bundle.
    """
    if arguments.bundle is None:
        if arguments.bundle_full:
            raise BadInput("--bundle-full is given without --bundle; allowed: both; add --bundle FILE.zip")
        return
    from delivery_verifier.maintenance import bundle as bundles

    file = destination("--bundle", arguments.bundle)
    about = bundles.write(run_dir, file, full=arguments.bundle_full)
    redacted_count = sum(about.redacted.values())
    print(f"bundle     {file} ({len(about.members)} files; secrets taken out: {redacted_count})", file=sys.stderr)
