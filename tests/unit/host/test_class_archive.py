"""Tests of the class data archive: who writes one, what is kept, and whose unfinished archives are removed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.patience import PATIENCE_S

from delivery_verifier.host.java.class_archive import ClassArchive, patience_s

ROOT = Path(__file__).resolve().parents[3]


def test_an_archive_that_is_kept_leaves_the_unfinished_archives_of_living_processes_alone(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path / "kafka-4.3.1-java-17-ab12.jsa")
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait(PATIENCE_S)
    living, dead = (archive.file.with_suffix(f".{pid}.part") for pid in (os.getppid(), ended.pid))
    for file in (archive.written, living, dead):
        file.write_text(file.name)
    archive.keep()
    assert sorted(tmp_path.iterdir()) == sorted([archive.file, living])
    assert archive.file.read_text() == archive.written.name


def test_only_a_setup_has_an_archive_written_and_everybody_uses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = ClassArchive(tmp_path / "archives" / "kafka.jsa")
    monkeypatch.delenv("KDV_WRITE_ARCHIVES", raising=False)
    assert archive.options() == [] and patience_s(5) == 5
    monkeypatch.setenv("KDV_WRITE_ARCHIVES", "1")
    assert f"-XX:ArchiveClassesAtExit={archive.written}" in archive.options() and patience_s(5) > 500
    archive.file.write_text("classes")
    for value in ("0", "1"):
        monkeypatch.setenv("KDV_WRITE_ARCHIVES", value)
        assert f"-XX:SharedArchiveFile={archive.file}" in archive.options()


def test_the_rule_of_the_archives_is_the_only_one_that_has_them_written() -> None:
    makefile, image = ((ROOT / name).read_text() for name in ("Makefile", "docker/Dockerfile"))
    rule = makefile[makefile.index(".venv/.archives-$(KAFKA):") :].split("\n\n")[0]
    assert makefile.count("KDV_WRITE_ARCHIVES=1") == rule.count("KDV_WRITE_ARCHIVES=1") == 1
    assert image.count("KDV_WRITE_ARCHIVES=1") == 1
