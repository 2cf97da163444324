"""A check that the command line refuses a command, and a host on which nothing is configured."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from delivery_verifier.command_line import main as cli
from delivery_verifier.command_line.parsers import BAD_INPUT


def bare_host(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes a host whose home, lock and workspaces are set, and no other KDV variable. Returns `folder`."""
    for name in [name for name in os.environ if name.startswith("KDV_") and not name.startswith("KDV_TEST_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("KDV_HOME", str(folder / "home"))
    monkeypatch.setenv("KDV_WORKSPACES", "/tmp/kdv-t")
    monkeypatch.setenv("KDV_LOCK", str(folder / "lock"))
    return folder


def refused(capsys: pytest.CaptureFixture[str], line: list[str], *parts: str, code: int = BAD_INPUT) -> None:
    """Asserts that the command `line` ends with `code`, prints one line with all `parts`, and shows no traceback."""
    capsys.readouterr()
    try:
        ended: Any = cli.main(line)
    except SystemExit as end:
        ended = end.code
    out, err = capsys.readouterr()
    assert ended == code, err
    assert out == ""
    assert "Traceback" not in err
    told = [one for one in err.splitlines() if one.startswith("kdv: ") and "warning" not in one]
    assert len(told) == 1, err
    for part in parts:
        assert part in told[0], (part, told[0])
