"""How a command gets its parser: one that ends with 64 on a mistyped option, and the door through which groups add."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

BAD_INPUT = 64


class Parser(argparse.ArgumentParser):
    """Ends with 64 on a mistyped option: argparse's own 2 would say INCONCLUSIVE."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(BAD_INPUT, f"kdv: {message}\n")


class Add(Protocol):
    """Adds one command and returns its parser."""

    def __call__(
        self, name: str, command: Callable[[argparse.Namespace], int], text: str, **more: Any
    ) -> argparse.ArgumentParser: ...
