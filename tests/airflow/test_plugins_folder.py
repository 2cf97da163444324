"""Tests that Airflow executes the plugin in the plugins folder, but no file of the library in the same folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from airflow._shared.module_loading.file_discovery import find_path_from_directory

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"


def _executed(folder: Path) -> set[str]:
    found = find_path_from_directory(folder, ".airflowignore")
    return {str(Path(path).relative_to(folder)) for path in found if path.endswith(".py")}


def test_airflow_executes_only_the_plugin() -> None:
    assert _executed(PLUGINS) == {"delivery_plugin.py"}


def test_without_the_ignore_file_it_would_execute_the_library(tmp_path: Path) -> None:
    copy = shutil.copytree(PLUGINS, tmp_path / "plugins")
    (copy / ".airflowignore").unlink()
    assert "delivery_verifier/model/scenario.py" in _executed(copy)


def test_no_module_of_the_library_hides_an_installed_package() -> None:
    # Second line of defence: executed by stem, `docker.py` would become `docker` for the whole process.
    assert not (PLUGINS / "delivery_verifier" / "airflow").exists()
