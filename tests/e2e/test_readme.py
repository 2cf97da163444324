"""Tests that execute the commands of the README literally, and compare their output with what the README says."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.airflow import free_port
from support.own_host import alive

from delivery_verifier.host.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
MARK = "KDV_TEST_README"
WITHIN_S = 580


def commands() -> list[str]:
    """Returns every line of every fenced `sh` block of the README."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip() and not line.startswith("#")]


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment variables of a user who has just cloned the repository: a new home and a free port. Stops Airflow
    afterwards."""
    folder = tmp_path_factory.mktemp("readme")
    environment = {**os.environ, "KDV_HOME": str(folder), "KDV_PORT": str(free_port()), MARK: str(folder)}
    environment.pop("KDV_RUNS", None)
    yield environment
    subprocess.run(["make", "down"], cwd=ROOT, env=environment, capture_output=True, timeout=120, check=False)
    wait_until(
        lambda: not alive(MARK, str(folder)), "everything to be gone", 30, detail=lambda: str(alive(MARK, str(folder)))
    )


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


def test_the_readme_has_the_two_commands_and_one_that_breaks() -> None:
    assert {"make verify", "make test"} <= set(commands())
    assert [line for line in commands() if not line.startswith("make ")], "an example that breaks it on purpose"
    assert all(re.match(r"make (verify|test)$|\.venv/bin/kdv ", line) for line in commands()), commands()


@pytest.mark.timeout(WITHIN_S + 20)
def test_make_verify_holds_a_million_records_and_says_where_to_look(terminal: dict[str, str]) -> None:
    code, said = typed("make verify", terminal)
    assert code == 0, said
    assert "HELD (as expected)" in said
    acknowledged = int(_found(r"All ([\d,]+) acknowledged records are in the log", said).replace(",", ""))
    assert acknowledged >= 1_000_000
    assert re.search(r"The fault took (?:none|[\d,]+) of [\d,]+ records from the control acks_0", said)
    assert re.search(r"reported records exposed to them: idempotent [1-9][\d,]*", said)
    assert re.search(r"longest gap", said) and re.search(r"\| idempotent .* [\d.]+ s \| HELD", said)
    assert Path(_found(r"^report +(\S+)$", said)).is_file()
    assert Path(_found(r"^data docs +(\S+)$", said)).is_file()
    assert f"http://127.0.0.1:{terminal['KDV_PORT']}/" in _found(r"^Airflow +(\S+)$", said)
    assert Path(_found(r"log in as admin; the password is in (\S+)", said)).is_file()


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    assert match is not None, f"{pattern} is not in:\n{text}"
    return match[1]


@pytest.mark.parametrize("command", [line for line in commands() if line.startswith(".venv/bin/kdv run ")])
def test_the_example_that_breaks_ends_violated_with_the_exit_code_the_readme_states(
    command: str, terminal: dict[str, str]
) -> None:
    code, said = typed(command, terminal)
    if code == 2:  # the run says itself that it was not put to the test: once more, and only then
        code, said = typed(command, terminal)
    text = " ".join((ROOT / "README.md").read_text().split(command)[1].split())
    assert code == int(_found(r"exit code (\d+)", text)) == 1, said
    assert "VIOLATED (NOT as expected)" in said
    assert re.search(r"Of [\d,]+ acknowledged records, [1-9][\d,]* lost", said)


def test_what_the_readme_names_is_there(terminal: dict[str, str]) -> None:
    text = (ROOT / "README.md").read_text()
    missing = [link for link in re.findall(r"\]\(([^)#:]+)\)", text) if not (ROOT / link).exists()]
    assert not missing
    for command in set(re.findall(r"`(\.venv/bin/kdv (?:list|plan|run --help|doctor)[^`]*)`", text)):
        if "--heal" not in command:
            code, said = typed(command, terminal)
            assert code in (0, 1) and "Traceback" not in said, said
