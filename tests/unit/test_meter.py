"""Processor seconds are counted of all processes with the mark, also of those that nobody waits for."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from meter import Meter
from support.patience import PATIENCE_S

from delivery_verifier.host.waiting import wait_until

pytestmark = pytest.mark.slow
BURNS = """
import os, subprocess, sys, time

def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass

def start(*words, **more):
    return subprocess.Popen([*words, sys.executable, sys.argv[0], *more.pop("as_", ["leaf"])], **more)

if sys.argv[1] == "leaf":
    burn(0.6)
elif sys.argv[1] == "orphan":  # ends at once: its child is adopted, and nobody of ours waits for it
    start(start_new_session=True)
    burn(0.2)
elif sys.argv[1] == "agent":  # waits for its child, and ends at once
    start().wait()
else:
    burn(0.3)
    waited = [start(), start(as_=["orphan"]), start(as_=["agent"]), start("env", "-u", "KDV_TRIAL")]
    [process.wait() for process in waited]
    time.sleep(1.5)  # the adopted process ends meanwhile
"""
BURNT_S = 0.3 + 0.6 + 0.2 + 0.6 + 0.6 + 0.6


@pytest.fixture
def group() -> Iterator[Path | None]:
    """A control group that counts processor seconds; None where this host gives none."""
    folder = Path(f"/sys/fs/cgroup/cpuacct/kdv-tests-{os.getpid()}")
    try:
        folder.mkdir()
    except OSError:
        yield None
        return
    yield folder
    wait_until(lambda: not (folder / "cgroup.procs").read_text(), "the group to be empty", PATIENCE_S)
    folder.rmdir()


def test_every_process_with_the_mark_counts_once_within_a_tenth_of_a_control_group(
    group: Path | None, tmp_path: Path
) -> None:
    program = tmp_path / "burns.py"
    program.write_text(BURNS)
    enter = f"echo $$ >{group}/cgroup.procs; " if group else ""
    words = ["sh", "-c", f'{enter}exec "$@"', "sh", sys.executable, str(program), "root"]
    with Meter("KDV_TRIAL", "mine") as meter:
        begun = time.monotonic()
        subprocess.run(words, env={**os.environ, "KDV_TRIAL": "mine"}, check=True)
        ended = time.monotonic()
    counted = int((group / "cpuacct.usage").read_text()) / 1e9 if group else BURNT_S
    assert meter.used_s == pytest.approx(counted, rel=0.1)
    assert meter.used_s >= BURNT_S * 0.9
    assert 0 <= meter.until(begun) <= meter.until((begun + ended) / 2) <= meter.until(ended) <= meter.used_s


def test_a_process_without_the_mark_does_not_count(tmp_path: Path) -> None:
    program = tmp_path / "burns.py"
    program.write_text(BURNS)
    with Meter("KDV_TRIAL", "mine") as meter:
        subprocess.run([sys.executable, program, "leaf"], env={**os.environ, "KDV_TRIAL": "another"}, check=True)
    assert meter.used_s == 0.0
