"""Tests of what `make setup` says: a line for each stage that it has to do, so that minutes do not pass without one."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STAGES = (
    "setup 1 of 3: the Python environment",
    "setup 2 of 3: the jars of Kafka 4.3.1",
    "setup 3 of 3: the class archives",
)


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """The Makefile in a folder that has nothing but the files from which `make setup` makes things."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("pyproject.toml", "uv.lock"):
        (tmp_path / name).touch()
    return tmp_path


def said(folder: Path) -> list[str]:
    """Returns the lines that `make setup` would print before its stages."""
    done = subprocess.run(
        ("make", "-n", "setup", "KAFKA=4.3.1"), cwd=folder, capture_output=True, text=True, check=True
    )
    return re.findall(r'echo "(setup [^"]*)"', done.stdout)


def test_each_stage_says_what_it_does_before_it_does_it(bare: Path) -> None:
    lines = said(bare)
    assert [line[: len(stage)] for line, stage in zip(lines, STAGES, strict=True)] == [*STAGES]


def test_a_stage_that_is_done_says_nothing(bare: Path) -> None:
    for name in (".venv-uv/bin/uv", ".venv/.synced", ".venv/.archives-4.3.1"):
        (bare / name).parent.mkdir(parents=True, exist_ok=True)
        (bare / name).touch()
    assert said(bare) == []
