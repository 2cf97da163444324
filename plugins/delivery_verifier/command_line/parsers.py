"""The parser of the command line, which ends with 64 on a mistyped option, and how a module adds its commands."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from delivery_verifier.model.inputs import whole

BAD_INPUT = 64


class Parser(argparse.ArgumentParser):
    """A parser that ends with 64 on a mistyped option: argparse itself ends with 2, which here means INCONCLUSIVE."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(BAD_INPUT, f"kdv: {message}\n")


def port(arguments: argparse.Namespace) -> int | None:
    """The value of --port; None where it is not given. Raises BadInput."""
    return None if arguments.port is None else whole("--port", arguments.port, 1, 65535, example=8080)


class Add(Protocol):
    """Adds one command and returns its parser."""

    def __call__(
        self, name: str, command: Callable[[argparse.Namespace], int], text: str, **more: Any
    ) -> argparse.ArgumentParser: ...
