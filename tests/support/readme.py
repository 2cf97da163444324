"""The commands of the README, executed as a user executes them who has just cloned the repository."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from delivery_verifier.run_directory.run_directory import RunDirectory
from support.own_host import wait_until_gone
from support.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
MARK = "KDV_TEST_README"
WITHIN_S = 800


def commands() -> list[str]:
    """Returns every line of every fenced `sh` block of the README."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip() and not line.startswith("#")]


def typed(command: str, environment: dict[str, str]) -> tuple[int, str]:
    """Executes `command` at the root of the repository. Returns the exit code and everything that the command
    prints."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    return done.returncode, done.stdout


def quoted(pattern: str, text: str) -> str:
    """Returns the first group of the first match of `pattern` in `text`. Asserts that there is a match."""
    match = re.search(pattern, text, re.MULTILINE)
    assert match is not None, f"{pattern} is not in:\n{text}"
    return match[1]


@pytest.fixture(scope="session")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment variables of a user who has just cloned the repository, with a new home. Stops Airflow
    afterwards."""
    folder = tmp_path_factory.mktemp("readme")
    environment = {**os.environ, "KDV_HOME": str(folder), MARK: str(folder)}
    for name in ("KDV_RUNS", "SPARK_SUBMIT_OPTS"):  # the tests of a tier have the second one (tests/tiers.py)
        environment.pop(name, None)
    yield environment
    subprocess.run(["make", "down"], cwd=ROOT, env=environment, capture_output=True, timeout=PATIENCE_S, check=False)
    wait_until_gone(MARK, str(folder))


class Example(NamedTuple):
    """The README's example that breaks: the command, its exit code, what it printed, and its run."""

    command: str
    code: int
    said: str
    run: RunDirectory


@pytest.fixture(scope="session")
def breaking_example(terminal: dict[str, str]) -> Example:
    """The README's example with acks=1, a frozen leader and the claim at_least_once, executed once."""
    (command,) = (line for line in commands() if line.startswith(".venv/bin/kdv run "))
    code, said = typed(command, terminal)
    if code == 2:  # the run says itself that it was not put to the test: once more, and only then
        code, said = typed(command, terminal)
    return Example(command, code, said, RunDirectory(Path(quoted(r"^report +(\S+)$", said)).parent))
