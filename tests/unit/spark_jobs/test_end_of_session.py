"""Tests of the end of a Spark session: whatever its JVM does, its caller goes on, and no JVM is left."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from delivery_verifier.host.java.class_archive import ClassArchive
from spark_jobs.session import classic

ENDS = "import sys; sys.stdin.read()"
"""A program that ends as a JVM does: when its standard input ends."""
NEVER_ENDS = "import signal; signal.pause()"
FAILS = "import sys; sys.stdin.read(); sys.exit(3)"


@pytest.fixture
def end(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., int]]:
    """A function that ends a session whose JVM runs a Python program. Returns the exit code of the program."""
    made: list[subprocess.Popen[bytes]] = []

    def do(program: str, stop: Callable[[], object] = lambda: None) -> int:
        process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
        made.append(process)
        gateway: Any = SimpleNamespace(proc=process, shutdown=lambda: None)
        monkeypatch.setattr(SparkContext, "_gateway", gateway)
        classic.end(cast(SparkSession, SimpleNamespace(stop=stop)))
        assert SparkContext._gateway is None, "the next session gets a JVM of its own"
        code = process.poll()
        assert code is not None, "no JVM is left"
        return code

    yield do
    for process in made:
        process.kill()
        process.wait()


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClassArchive:
    """An archive that a JVM has just written."""
    made = ClassArchive(tmp_path / "spark.jsa")
    made.written.write_text("classes")
    monkeypatch.setattr(classic, "class_archive", lambda: made)
    return made


def test_a_jvm_that_ends_by_itself_is_no_warning_and_its_archive_is_kept(
    end: Callable[..., int], archive: ClassArchive, caplog: pytest.LogCaptureFixture
) -> None:
    assert end(ENDS) == 0
    assert caplog.text == "" and archive.file.exists()


def test_an_archive_is_not_kept_if_its_jvm_failed(end: Callable[..., int], archive: ClassArchive) -> None:
    assert end(FAILS) == 3
    assert not archive.file.exists()


def test_a_jvm_that_does_not_end_in_time_is_killed_with_a_warning(
    end: Callable[..., int],
    archive: ClassArchive,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(classic, "END_S", 0.3)
    assert end(NEVER_ENDS) == -9
    assert "warning: the end of Spark failed" in caplog.text and not archive.file.exists()


def test_a_session_that_does_not_stop_costs_only_its_time(
    end: Callable[..., int], archive: ClassArchive, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(classic, "END_S", 0.3)
    over = threading.Event()
    assert end(ENDS, stop=lambda: over.wait(60)) == -9
    assert "warning: the end of Spark failed: it did not end within 0.3 s" in caplog.text
    over.set()


def test_a_session_whose_stop_fails_is_a_warning(
    end: Callable[..., int], archive: ClassArchive, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ConnectionError("no answer")

    end(ENDS, stop=fail)
    assert "warning: the end of Spark failed: ConnectionError: no answer" in caplog.text
