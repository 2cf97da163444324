"""The parser of the command line, and the interface through which a module adds its commands."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from delivery_verifier.model.inputs import whole

BAD_INPUT = 64
"""The exit code of a command whose options or arguments are not allowed."""


class Parser(argparse.ArgumentParser):
    """A parser that exits with 64 on a wrong argument. argparse itself exits with 2, which means INCONCLUSIVE here."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(BAD_INPUT, f"kdv: {message}\n")


def port(arguments: argparse.Namespace) -> int | None:
    """Returns the value of --port, the port of the local Airflow, or None if the option is not given.

    Raises BadInput if the value is not a port number.
    """
    return None if arguments.port is None else whole("--port", arguments.port, 1, 65535, example=8080)


class Add(Protocol):
    """A function that adds the command `name` to kdv and returns the parser of this command.

    `command` carries out the command with the parsed arguments, and returns the exit code. `text` is the help of the
    command. `more` are further arguments of argparse's `add_parser`.
    """

    def __call__(
        self, name: str, command: Callable[[argparse.Namespace], int], text: str, **more: Any
    ) -> argparse.ArgumentParser: ...
