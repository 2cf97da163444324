"""Tests of what a shell asks of kdv: completions, the report of a run, and a profile of the user's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import report_material
from support.refusals import bare_host, refused

from delivery_verifier.command_line import main as cli
from delivery_verifier.command_line import outputs
from delivery_verifier.command_line.completion import SHELLS
from delivery_verifier.host import folders
from delivery_verifier.planning.own_settings import profiles


@pytest.fixture(autouse=True)
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return bare_host(tmp_path, monkeypatch)


def completed(line: str, folder: Path) -> set[str]:
    """Returns what kdv proposes at the end of `line`, as a shell asks for it."""
    answer = folder / "answer"
    asked = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "_ARGCOMPLETE_IFS": "\n",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    program = "from delivery_verifier.command_line.main import main; main()"
    subprocess.run([sys.executable, "-c", program], env={**os.environ, **asked}, check=False)
    return {word.strip() for word in answer.read_text().split("\n") if word.strip()}


def test_commands_and_the_values_of_options_are_completed(tmp_path: Path) -> None:
    assert completed("kdv comp", tmp_path) == {"compare", "completion"}
    assert completed("kdv run --profile acks_", tmp_path) == {"acks_0", "acks_1", "acks_all"}
    assert "pause_leader" in completed("kdv run --fault p", tmp_path)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_for_each_shell_asks_kdv(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "_ARGCOMPLETE" in script
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_the_latest_run_is_opened(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", "")
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    refused(capsys, ["open"], "there is no run yet")
    path, _ = report_material.held(folders.runs_dir(), "judged")
    folders.point_latest_at(path)
    refused(capsys, ["open"], "report.html is missing")
    (path / "report.html").write_text("")
    for line, browser in ((["open"], ""), (["open", "judged"], "firefox")):
        monkeypatch.setenv("BROWSER", browser)
        assert cli.main(line) == 0
        assert capsys.readouterr().out == f"{path / 'report.html'}\n"
    assert opened == [(path / "report.html").as_uri()]


def test_a_profile_is_made_from_a_file_and_found_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "my orders.properties"
    file.write_text("acks=1\nenable.idempotence=false\nlinger.ms=3\n")
    assert cli.main(["init", str(file)]) == 0
    assert "verify     kdv run --profile my-orders\n" in capsys.readouterr().out
    assert profiles.known()["my-orders"].producer["linger.ms"] == 3
    refused(capsys, ["init", str(file), "--name", "safe"], "a name of the catalogue, or reserved")


def test_without_a_file_and_a_terminal_nothing_can_be_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", open(os.devnull))  # noqa: SIM115
    refused(capsys, ["init"], "no terminal", "kdv init application.yml")


def test_five_answers_make_a_profile(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    answers = iter(["librdkafka", "1", "false", "0", "2"])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("rich.prompt.Prompt.ask", lambda *_, **__: next(answers))
    assert cli.main(["init", "--name", "asked"]) == 0
    profile = profiles.known()["asked"]
    assert (profile.written_for, profile.producer["acks"], profile.topic["min.insync.replicas"]) == (
        "librdkafka",
        "1",
        2,
    )
    assert "kdv explain --profile asked" in capsys.readouterr().out


@pytest.mark.parametrize("columns", [60, 120])
def test_a_terminal_gets_lines_of_its_own_width_and_a_pipe_whole_lines(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "  " + "a long sentence about a promise " * 12 + "\nshort\n"
    outputs.write_text(text)
    assert capsys.readouterr().out == text
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    outputs.write_text(text)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns and lines[-1] == "short"
    assert all(line.startswith("    ") for line in lines[1:-1])
