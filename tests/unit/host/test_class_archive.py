"""Tests of the class data archive: what is kept, and whose unfinished archives are removed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.patience import PATIENCE_S

from delivery_verifier.host.java.class_archive import ClassArchive


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
