"""The wheel that `make dist` builds: it holds all that the packages need, and its `kdv` works outside a checkout.

Nothing is fetched. The wheel is installed without its dependencies, beside those of this environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
UV = next(
    (file for home in (ROOT, Path(sys.prefix).parent) if (file := home / ".venv-uv/bin/uv").is_file()), Path("uv")
)
PACKAGES = {
    "plugins/delivery_verifier": "delivery_verifier",
    "spark_jobs": "spark_jobs",
    "expectations": "expectations",
}
"""The folders whose files must be in the wheel, and their names in it."""

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not UV.is_file(), reason="uv is missing: make setup")]


def called(*command: str | Path, cwd: Path, **variables: str) -> str:
    """Executes a command and returns what it prints. Asserts that it succeeds."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(command, cwd=cwd, env=kept | variables, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    called(UV, "build", "--quiet", "--offline", "--wheel", "--out-dir", folder, cwd=ROOT)
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment that has the wheel, and the dependencies of this environment."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / "bin" / "python"
    called(UV, "pip", "install", "--quiet", "--offline", "--no-deps", "--python", python, wheel, cwd=folder)
    site = called(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])", cwd=folder).strip()
    Path(site, "dependencies.pth").write_text(f"{DEPENDENCIES}\n")
    return python


DEPENDENCIES = sysconfig.get_paths()["purelib"]
"""The folder of the dependencies. Its own .pth files, which point into the checkout, are not read from there."""


def tracked() -> Iterator[str]:
    """Yields the names in the wheel of all files of the packages that git knows."""
    for folder, package in PACKAGES.items():
        listed = called("git", "ls-files", "--", folder, cwd=ROOT).splitlines()
        yield from (package + name.removeprefix(folder) for name in listed if not name.endswith(".airflowignore"))


def test_the_wheel_holds_every_file_of_the_packages_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert {name for name in names if not name.startswith(tuple(PACKAGES.values()))} == set()
    assert set(tracked()) - names == set()
    assert {"delivery_verifier/reporting/templates/page.css", "delivery_verifier/host/java/jars.lock.json"} <= names


def test_the_installed_command_plans_and_explains_without_a_checkout(installed: Path, tmp_path: Path) -> None:
    kdv, home = installed.with_name("kdv"), {"KDV_HOME": str(tmp_path)}
    place = called(installed, "-c", "import delivery_verifier; print(delivery_verifier.__file__)", cwd=tmp_path)
    assert Path(place.strip()).is_relative_to(installed.parents[1])
    assert "run" in called(kdv, "--help", cwd=tmp_path, **home)
    assert "acks_1.frozen_followers" in called(kdv, "list", "scenarios", cwd=tmp_path, **home)
    assert "at_least_once" in called(kdv, "explain", "--profile", "acks_1", cwd=tmp_path, **home)


def test_the_installed_packages_find_their_templates_and_suites(installed: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from importlib.util import find_spec; from pathlib import Path; "
        "from delivery_verifier.reporting.html import asset, environment; "
        "places = [Path(find_spec(name).origin) for name in ('expectations', 'spark_jobs')]; "
        "assert all(place.is_relative_to(sys.prefix) for place in places), places; "
        "assert (places[0].parent / 'guarantee.json').is_file(); "
        "environment().get_template('page.html.j2'); print(len(asset('page.css')))"
    )
    assert int(called(installed, "-c", code, cwd=tmp_path)) > 1000


def test_without_a_checkout_airflow_is_refused_with_the_way_that_works(installed: Path, tmp_path: Path) -> None:
    command = [installed.with_name("kdv"), "up"]
    done = subprocess.run(
        command, cwd=tmp_path, env={"KDV_HOME": str(tmp_path), "PATH": os.defpath}, capture_output=True
    )
    assert done.returncode == 64
    assert b"a checkout of this project" in done.stderr and b"kdv run --direct" in done.stderr
