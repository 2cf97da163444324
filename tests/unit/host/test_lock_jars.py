"""Tests of the tool that locks the jars."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from delivery_verifier.host.java import lock_jars


def test_ivy_runs_on_the_java_that_the_project_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = list[list[Any]]()
    monkeypatch.setattr(lock_jars, "java_home", lambda: tmp_path / "jdk")
    monkeypatch.setattr(lock_jars.subprocess, "run", lambda command, **_: commands.append(command))
    assert lock_jars._resolve(tmp_path, ["org.apache.kafka:kafka_2.13:4.3.1"], None) == []
    assert [command[0] for command in commands] == [tmp_path / "jdk/bin/java"]
