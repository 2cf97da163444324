"""Tests that the scheduler of the local Airflow imports the libraries of the tasks beforehand, and that no other
process of Airflow does. `tests/e2e/test_local_airflow.py` looks at the processes of a real local Airflow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from delivery_verifier.orchestration.local.settings import MARK
from delivery_verifier.orchestration.plugin import warm

CALLED = """
import os, sys
from delivery_verifier.orchestration.plugin import warm
kind, command, mark = sys.argv[1:]
os.environ.pop("{mark}", None)
if mark:
    os.environ["{mark}"] = mark
sys.argv = ["airflow", command]
warm.on_starting(component=type(kind, (), {{}})())
print(sorted(name for name in ("great_expectations", "pandas", "pyarrow", "confluent_kafka") if name in sys.modules))
"""


@pytest.mark.parametrize(
    ("kind", "command", "mark", "loaded"),
    [
        ("Job", "scheduler", "home", True),
        ("TaskRunnerMarker", "scheduler", "home", False),
        ("Job", "triggerer", "home", False),
        ("Job", "scheduler", "", False),
    ],
)
def test_it_is_the_scheduler_of_a_local_airflow_that_imports_them(
    tmp_path: Path, kind: str, command: str, mark: str, loaded: bool
) -> None:
    script = tmp_path / "called.py"  # a file: PySpark takes `python -c` for its doctests, and exits
    script.write_text(CALLED.format(mark=MARK))
    said = subprocess.run(
        [sys.executable, script, kind, command, mark],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ).stdout.splitlines()[-1]
    assert said == (str(["confluent_kafka", "great_expectations", "pandas", "pyarrow"]) if loaded else "[]")


def test_nothing_of_our_own_is_among_them_lest_a_task_runs_what_was_edited_since() -> None:
    assert not [name for name in warm.LIBRARIES if name.startswith(("delivery_verifier", "expectations", "spark_jobs"))]
