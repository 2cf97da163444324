"""The parser of the command line, and the interface through which a module adds its commands."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol

from delivery_verifier.model.inputs import BadInput, choice, nearest, whole

BAD_INPUT = 64
"""The exit code of a command whose options or arguments are not allowed."""


class Parser(argparse.ArgumentParser):
    """A parser that takes no abbreviations, and exits with code 64 on a mistyped command or option. (The parser of
    argparse exits with code 2, which means INCONCLUSIVE here.)

    Before the exit, it prints the usage of the command, and the known name that is most similar to the mistyped name.
    If the command itself is unknown, it prints the usage of kdv.
    """

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**{**arguments, "allow_abbrev": False})

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(BAD_INPUT, f"kdv: {message}\n")

    def parse_known_args(self, *arguments: Any, **named: Any) -> Any:
        """Parses the arguments. If an argument is unknown, prints the usage of the command of this parser, and exits.

        Without this method, argparse would print the usage of kdv, because argparse leaves unknown arguments to the
        parser of kdv.
        """
        namespace, unknown = super().parse_known_args(*arguments, **named)
        if unknown:
            self.error(self._refusal(unknown))
        return namespace, unknown

    def _refusal(self, unknown: Sequence[str]) -> str:
        option = next((word.partition("=")[0] for word in unknown if word.startswith("-")), None)
        if option is None:
            return f"unrecognized arguments: {' '.join(unknown)}"
        longer = [known for known in self._option_string_actions if known.startswith(option)]
        near = longer[0] if len(longer) == 1 else nearest(option, longer or self._option_string_actions)
        return f"unrecognized option: {option}" + (f"; did you mean {near}?" if near else "")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Checks that `value` is one of the choices of `action`. Exits if it is not, also for an unknown command of
        kdv."""
        action_name = str(action.metavar or "".join(action.option_strings) or action.dest)
        if action.choices is not None:
            try:
                choice(action_name, value, action.choices)
            except BadInput as refusal:
                self.error(str(refusal))


def port(arguments: argparse.Namespace) -> int | None:
    """Returns the value of --port, the port of the local Airflow, or None if the option is not given.

    Raises BadInput if the value is not a port number.
    """
    return None if arguments.port is None else whole("--port", arguments.port, 1, 65535, example=8080)


class Add(Protocol):
    """A function that adds the command `name` to kdv, and returns the parser of the new command.

    The function `command` carries out the command with the parsed arguments, and returns the exit code. `text` is the
    help of the command. `more` are further arguments of argparse's `add_parser`.
    """

    def __call__(
        self, name: str, command: Callable[[argparse.Namespace], int], text: str, **more: Any
    ) -> argparse.ArgumentParser: ...
