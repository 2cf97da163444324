"""The help of every command is there at once: it imports nothing heavy."""

from __future__ import annotations

import subprocess
import sys

import pytest

LIGHT = {"delivery_verifier", "msgspec", "typing_extensions"}
"""The packages, apart from Python's own, that the help may import."""
PRINT_IMPORTS = """
import sys
before = set(sys.modules)
from delivery_verifier.command_line.main import main
try:
    main(sys.argv[1:])
finally:
    packages = {name.partition(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names
    print("imported:", *sorted(packages))
"""


def imported(*arguments: str) -> set[str]:
    ended = subprocess.run(
        [sys.executable, "-c", PRINT_IMPORTS, *arguments], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return set(ended.stdout.rpartition("imported:")[2].split())


@pytest.mark.parametrize("line", ["--help", "--version", "run --help", "catalogue --help", "doctor --help"])
def test_the_help_imports_nothing_heavy(line: str) -> None:
    assert imported(*line.split()) <= LIGHT


def test_a_command_that_needs_something_heavy_is_seen() -> None:
    assert imported("explain", "--profile", "safe") - LIGHT
