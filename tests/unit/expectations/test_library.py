"""Tests of the import of Great Expectations, and of SQLAlchemy, without what is not needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
HEAVY = ("altair.vegalite", "pyspark", "scipy.optimize", "sqlalchemy")
"""A module of each library that a whole import of Great Expectations loads."""
CODE = """
import sys, threading
sys.path[:0] = {path}
from expectations import library, suites

def loaded():
    return [name for name in {heavy} if name in sys.modules]

def load():
    import sqlalchemy
    print("another thread:", loaded())

print("suites:", loaded())
with library._lean_imports():
    try:
        import sqlalchemy
    except ModuleNotFoundError as error:
        print(error)
    thread = threading.Thread(target=load)
    thread.start()
    thread.join()
import altair, pyspark.ml, pyspark.sql.connect
from scipy import stats
print("later:", altair.Chart.__name__, pyspark.ml.__name__, stats.norm.cdf(0))
"""


SPARK_FIRST = """
import sys
sys.path[:0] = {path}
import pyspark.sql
from expectations import library
import delivery_verifier.run.steps.settle, delivery_verifier.applications.own.process
print([name for name in ("pyspark.ml", "pyspark.sql.connect", "sqlalchemy") if name in sys.modules])
"""


def said_by(code: str, tmp_path: Path) -> list[str]:
    """Runs `code` in a process of its own. Returns the lines that it prints."""
    script = tmp_path / "script.py"  # a file: PySpark takes `python -c` for its doctests, and exits
    script.write_text(code.format(path=sys.path, heavy=HEAVY))
    return subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stdout.splitlines()


def test_great_expectations_is_imported_without_what_the_suites_do_not_need_and_all_else_gets_it(
    tmp_path: Path,
) -> None:
    said = said_by(CODE, tmp_path)
    assert said == [
        "suites: []",
        "sqlalchemy is withheld from Great Expectations",
        "another thread: ['sqlalchemy']",
        "later: Chart pyspark.ml 0.5",
    ]


def test_where_spark_is_already_loaded_no_more_of_it_is_and_sqlalchemy_only_for_a_table(tmp_path: Path) -> None:
    assert said_by(SPARK_FIRST, tmp_path) == ["[]"]
