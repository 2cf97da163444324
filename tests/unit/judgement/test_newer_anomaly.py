"""A version with one anomaly more judges its own runs on it, and older runs without it: newer_anomaly.py says how.

Both that module and test_older_runs.py run in a process in which the library knows the anomaly TRIAL.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.slow
def test_an_anomaly_more_is_demanded_of_new_runs_and_leaves_the_verdicts_on_older_ones() -> None:
    modules = [str(HERE / name) for name in ("newer_anomaly.py", "test_older_runs.py")]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "support.trial_anomaly", "--noconftest", "-n", "0", *modules],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
