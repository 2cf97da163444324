"""Test of the import of Great Expectations without what the suites do not need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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


def test_great_expectations_is_imported_without_what_the_suites_do_not_need_and_all_else_gets_it(
    tmp_path: Path,
) -> None:
    script = tmp_path / "script.py"  # a file: PySpark takes `python -c` for its doctests, and exits
    script.write_text(CODE.format(path=sys.path, heavy=HEAVY))
    said = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == [
        "suites: []",
        "sqlalchemy is withheld from Great Expectations",
        "another thread: ['sqlalchemy']",
        "later: Chart pyspark.ml 0.5",
    ]
