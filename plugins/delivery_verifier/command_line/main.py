"""The command `kdv`, which runs the verifier from a terminal.

Exit codes: 0 everything as expected, 1 an arm did not end as expected, 2 INCONCLUSIVE, 64 bad input, 69 UNAVAILABLE
(this host or the named cluster lacks what the scenario needs), 70 the run or the program failed (there is no verdict;
of `kdv plan`: it is not known whether the named cluster has what the scenario needs), 75 another run holds this host.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import signal
import subprocess
import sys
import traceback
from collections.abc import Sequence
from typing import Any

from delivery_verifier import __version__
from delivery_verifier.command_line import audit, catalogue, completion, host, init, opening, stored
from delivery_verifier.command_line import compare as comparing
from delivery_verifier.command_line import price as pricing
from delivery_verifier.command_line import prune as pruning
from delivery_verifier.command_line import run as running
from delivery_verifier.command_line.parsers import BAD_INPUT, Parser
from delivery_verifier.host import variables
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.run_directory.run_directory import IncompleteRun

GROUPS = (running, init, catalogue, audit, stored, opening, comparing, pricing, host, pruning, completion)
"""The modules that add commands, in the order in which the help shows their commands."""
HOST_ERRORS = (OSError, subprocess.SubprocessError)
"""Errors of the host, for example a full disk or a missing tool. Their messages are printed without a traceback."""


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point of kdv. Returns the exit code. Prints the message of an error on stderr.

    Also prints the traceback of an unexpected error, i.e. a bug. `argv` holds the arguments. If it is None, the
    arguments of this process are used.
    """
    parser = _parser()
    completion.answer(parser)
    arguments = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, _terminate)
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)  # else Python would search the many objects of libraries for cycles at the end
    try:
        for warning in variables.check():
            print(f"kdv: {warning}", file=sys.stderr)
        return int(arguments.command(arguments) or 0)
    except KeyboardInterrupt as interruption:
        return _fail(130, "interrupted; the run has been ended", interruption)
    except Exception as error:  # a failure has its own exit code: nobody may take it for a verdict
        return _fail(_exit_code(error, arguments), str(error), error)


def _exit_code(error: Exception, arguments: argparse.Namespace) -> int:
    """Returns the exit code for `error`. If `error` is neither a VerifierError nor one of HOST_ERRORS, also prints its
    traceback."""
    if isinstance(error, IncompleteRun) and arguments.reads_stored_run:
        return BAD_INPUT
    if isinstance(error, VerifierError):
        return error.exit_code
    if not isinstance(error, HOST_ERRORS):
        traceback.print_exception(error)
    return VerifierError.exit_code


def _terminate(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def _fail(code: int, text: str, error: BaseException) -> int:
    for line in (text, *getattr(error, "__notes__", ())):
        print(f"kdv: {line}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="kdv",
        description="Finds out, record by record, whether Kafka settings lose or duplicate.",
        epilog=__doc__.split("\n\n", 1)[1] if __doc__ else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"kdv {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Any, text: str, **more: Any) -> argparse.ArgumentParser:
        sub = commands.add_parser(
            name, help=text, description=text, formatter_class=argparse.RawDescriptionHelpFormatter, **more
        )
        sub.set_defaults(command=command, reads_stored_run=False)
        return sub

    for group in GROUPS:
        group.register(add)
    return parser
