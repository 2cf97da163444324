"""Tests that execute the commands of the README literally, and compare their output with what the README says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.readme import ROOT, WITHIN_S, Example, commands, quoted, typed

from delivery_verifier.host.ports import free_ports


def test_the_readme_has_the_two_commands_and_one_that_breaks() -> None:
    assert {"make verify", "make test"} <= set(commands())
    assert [line for line in commands() if not line.startswith("make ")], "an example that breaks it on purpose"
    assert all(re.match(r"make (verify|test)$|\.venv/bin/kdv ", line) for line in commands()), commands()


@pytest.mark.timeout(WITHIN_S + 20)
def test_make_verify_holds_a_million_records_and_says_where_to_look(terminal: dict[str, str]) -> None:
    terminal["KDV_PORT"] = str(free_ports(1)[0])  # free now, and for the commands that come later
    code, said = typed("make verify", terminal)
    assert code == 0, said
    assert "HELD (as expected)" in said
    acknowledged = int(quoted(r"All ([\d,]+) acknowledged records are in the log", said).replace(",", ""))
    assert acknowledged >= 1_000_000
    assert re.search(r"The fault took (?:none|[\d,]+) of [\d,]+ records from the control acks_0", said)
    assert re.search(r"Records exposed until recovery: [1-9][\d,]* of idempotent", said)
    assert re.search(r"longest silence", said) and re.search(r"\| idempotent .* [\d.]+ s \| HELD", said)
    assert Path(quoted(r"^report +(\S+)$", said)).is_file()
    assert Path(quoted(r"^data docs +(\S+)$", said)).is_file()
    assert f"http://127.0.0.1:{terminal['KDV_PORT']}/" in quoted(r"^Airflow +(\S+)$", said)
    assert Path(quoted(r"log in as admin; the password is in (\S+)", said)).is_file()
    code, said = typed("make down", terminal)
    assert (code, "Airflow is stopped" in said) == (0, True), said


def test_the_example_that_breaks_ends_violated_with_the_exit_code_the_readme_states(breaking_example: Example) -> None:
    """test_direct.py looks at the evidence of the same run."""
    command, code, said, _ = breaking_example
    text = " ".join((ROOT / "README.md").read_text().split(command)[1].split())
    assert code == int(quoted(r"exit code (\d+)", text)) == 1, said
    assert "VIOLATED (NOT as expected)" in said
    assert re.search(r"Of [\d,]+ acknowledged records, [1-9][\d,]* lost", said)


def test_what_the_readme_names_is_there(terminal: dict[str, str]) -> None:
    text = (ROOT / "README.md").read_text()
    missing = [link for link in re.findall(r"\]\(([^)#:]+)\)", text) if not (ROOT / link).exists()]
    assert not missing
    for command in set(re.findall(r"`(\.venv/bin/kdv (?:list|plan|run --help|doctor)[^`]*)`", text)):
        if "--heal" not in command and "HOST:PORT" not in command:  # those of tests/kafka/own_cluster have a cluster
            code, said = typed(command, terminal)
            assert code in (0, 1) and "Traceback" not in said, said
