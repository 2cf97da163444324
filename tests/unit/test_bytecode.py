"""`make setup` compiles all modules to bytecode, also modules that no process has imported yet.

Python compiles a module without bytecode when it imports the module. Where PYTHONDONTWRITEBYTECODE is set, each process
does so anew.
"""

from __future__ import annotations

from importlib.util import cache_from_source, find_spec
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "name", ["great_expectations", "pyspark", "airflow", "delivery_verifier", "spark_jobs", "expectations"]
)
def test_make_setup_compiled_every_module(name: str) -> None:
    spec = find_spec(name)
    assert spec is not None and spec.submodule_search_locations
    sources = [source for folder in spec.submodule_search_locations for source in Path(folder).rglob("*.py")]
    uncompiled = [str(source) for source in sources if not Path(cache_from_source(source)).is_file()]
    assert sources and not uncompiled, "make setup compiles them"
