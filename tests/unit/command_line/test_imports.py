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


def test_the_process_of_a_command_ends_without_a_search_for_cycles() -> None:
    code = """
import atexit, gc
atexit.register(lambda: print("frozen:", gc.get_freeze_count() > 0))
from delivery_verifier.command_line.main import main
main(["completion", "bash"])
print(gc.get_freeze_count())
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-2:] == ["0", "frozen: True"]
