"""Tests of what Spark's JVM says: its warning about an incubator module is left out, and nothing else is."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest
from pyspark import SparkConf
from pyspark.errors import PySparkRuntimeError

from spark_jobs.session import jvm

INCUBATOR = "WARNING: Using incubator modules: jdk.incubator.vector"


def test_a_jvm_that_does_not_start_has_said_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "bin" / "spark-submit"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{INCUBATOR}' >&2\necho 'Error: no memory' >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    open_before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(PySparkRuntimeError):
        jvm.launch(SparkConf(loadDefaults=False))
    assert capsys.readouterr().err == "Error: no memory\n"
    # Both ends of the pipe are closed. Whatever else this process has open may be closed meanwhile.
    assert len(os.listdir("/proc/self/fd")) <= open_before


def test_other_warnings_and_bytes_that_are_no_text_are_passed_on(capsys: pytest.CaptureFixture[str]) -> None:
    jvm._pass_on(io.BytesIO(f"{INCUBATOR}\nWARNING: other\nno end \xff".encode("latin-1")))
    assert capsys.readouterr().err == "WARNING: other\nno end \ufffd"


def test_a_jvm_is_read_to_its_end_even_if_nobody_reads_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise its pipe would be full, and the JVM would stand still."""
    closed, words = io.StringIO(), io.BytesIO(b"one\ntwo\n")
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    jvm._pass_on(words)
    assert words.closed
