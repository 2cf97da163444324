"""Tests of librdkafka in other versions: which there are, how one is fetched and checked, and what is refused.

The tests that are marked slow fetch wheels from the index of Python packages, as a user does.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
from importlib import metadata
from pathlib import Path
from threading import Thread
from typing import Any

import confluent_kafka
import pytest
from filelock import FileLock
from support.patience import PATIENCE_S

from delivery_verifier.host.librdkafka import wheels
from delivery_verifier.host.librdkafka.wheels import WheelError
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.client import CLIENTS

ROOT = Path(__file__).parents[3]
OTHER, INSTALLED = "2.13.2", CLIENTS["librdkafka"].installed
IN_A_PROCESS = "import confluent_kafka as it; print(it.__version__, it.libversion()[0], it.__file__)"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache: the folder in which the folders of the versions are."""
    monkeypatch.setenv("KDV_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "clients"


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index of packages that does not answer."""
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setenv("UV_NO_CACHE", "1")


def kept(cache: Path) -> list[str]:
    return [file.name for file in cache.iterdir() if file.name != ".lock"] if cache.exists() else []


def in_a_process(folder: Path) -> list[str]:
    """Returns the versions, and the file, of the client that a process has with `folder` first on its PYTHONPATH."""
    code = [sys.executable, "-c", IN_A_PROCESS]
    return subprocess.check_output(code, env={**os.environ, "PYTHONPATH": str(folder)}, text=True).split()


def test_the_versions_that_a_user_may_name_are_those_whose_wheels_are_locked() -> None:
    assert sorted(CLIENTS["librdkafka"].versions) == wheels.versions()
    assert confluent_kafka.libversion()[0] == INSTALLED in wheels.versions()


def test_the_checksums_of_the_installed_version_are_those_of_the_locked_environment() -> None:
    entry = wheels._entry(INSTALLED)
    assert entry["confluent-kafka"] == metadata.version("confluent-kafka")
    locked = dict(
        re.findall(
            r'confluent_kafka-[^/"]*-cp311-manylinux_2_28_(x86_64|aarch64)\.whl", hash = "sha256:(\w+)"',
            (ROOT / "uv.lock").read_text(),
        )
    )
    assert {*locked.values()} == {*entry["sha256"]} and len(locked) == 2
    assert all(len({*each["sha256"]}) == 2 for each in wheels._lock().values())


def test_the_installed_version_needs_no_folder_however_it_is_named(cache: Path, nowhere: None) -> None:
    assert wheels.environment("") is wheels.environment(INSTALLED) is None
    assert kept(cache) == []


def test_a_version_that_is_not_locked_is_refused() -> None:
    with pytest.raises(WheelError, match=r"version is '1\.9\.2'; known are 2\.13\.0, 2\.13\.2, 2\.16\.0"):
        wheels.environment("1.9.2")


def test_a_process_that_has_another_version_than_it_was_to_have_says_so() -> None:
    wheels.require_imported("")
    wheels.require_imported(INSTALLED)
    with pytest.raises(WheelError, match=r"was to have confluent-kafka 2\.13\.2 .* has 2\.16\.1 with 2\.16\.0, from /"):
        wheels.require_imported(OTHER)


@pytest.mark.parametrize("lie", ["__version__", "libversion"])
def test_both_the_package_and_the_library_in_it_must_be_those_of_the_version(
    monkeypatch: pytest.MonkeyPatch, lie: str
) -> None:
    monkeypatch.setattr(confluent_kafka, lie, "2.13.2" if lie == "__version__" else lambda: ("2.13.2", 0))
    for version in (OTHER, INSTALLED):
        with pytest.raises(WheelError, match="this process was to have"):
            wheels.require_imported(version)


def test_two_runs_at_once_fetch_a_version_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched, found, asked = list[str](), list[Path | None](), list[str]()

    def lock(*arguments: Any, **more: Any) -> FileLock:
        asked.append("the lock")
        return FileLock(*arguments, **more)

    def fetch(version: str, wheel: dict[str, Any], folder: Path) -> None:
        wait_until(lambda: len(asked) == 8, "all to ask for the lock", PATIENCE_S)
        fetched.append(version)
        folder.mkdir(exist_ok=True)

    monkeypatch.setattr(wheels, "FileLock", lock)
    monkeypatch.setattr(wheels, "_fetch", fetch)
    runs = [Thread(target=lambda: found.append(wheels.environment(OTHER))) for _ in range(8)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert fetched == [OTHER] and len(found) == 8 and len({*found}) == 1


def test_without_uv_and_pip_the_refusal_says_what_is_missing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "find_spec", lambda name: None)
    monkeypatch.setattr(wheels.sys, "prefix", str(cache))
    monkeypatch.setenv("PATH", str(cache))
    with pytest.raises(WheelError, match=r"librdkafka 2\.13\.2 is fetched with uv or pip, and there is none"):
        wheels.environment(OTHER)
    assert kept(cache) == []


@pytest.mark.slow
def test_an_index_that_does_not_answer_is_a_refusal_that_leaves_nothing(cache: Path, nowhere: None) -> None:
    with pytest.raises(WheelError, match=r"librdkafka 2\.13\.2 cannot be had: .*127\.0\.0\.1:1.*Check the network"):
        wheels.environment(OTHER)
    assert kept(cache) == []


@pytest.mark.slow
def test_a_wheel_with_a_wrong_checksum_is_refused_and_leaves_nothing(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = json.loads(wheels.LOCK_FILE.read_text())
    lock[OTHER]["sha256"] = ["0" * 64]
    monkeypatch.setattr(wheels, "LOCK_FILE", tmp_path / "lock.json")
    wheels.LOCK_FILE.write_text(json.dumps(lock))
    with pytest.raises(WheelError, match=r"librdkafka 2\.13\.2 cannot be had: .*0{64}"):
        wheels.environment(OTHER)
    assert kept(cache) == []


@pytest.mark.slow
@pytest.mark.parametrize("version", [each for each in CLIENTS["librdkafka"].versions if each != INSTALLED])
def test_a_version_is_fetched_once_and_a_process_has_it(
    cache: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    folder = wheels.environment(version)
    assert folder is not None and kept(cache) == [folder.name]
    package, library, file = in_a_process(folder)
    assert (package, library) == (wheels._entry(version)["confluent-kafka"], version)
    assert Path(file).is_relative_to(folder)
    monkeypatch.setattr(wheels, "_fetch", None)
    assert wheels.environment(version) == folder


@pytest.mark.slow
def test_pip_fetches_the_same_where_there_is_no_uv(tmp_path: Path) -> None:
    """An environment that pip made: it has the dependencies of this one, and no uv is to be found from it."""
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env/bin/python"
    (site,) = (tmp_path / "env/lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")
    code = "from delivery_verifier.host.librdkafka import wheels; print(wheels._installer('')[1:3], wheels.environment"
    alone = {name: value for name, value in os.environ.items() if not name.startswith("UV_")}
    alone |= {"PATH": os.defpath, "PYTHONPATH": str(ROOT / "plugins"), "KDV_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [python, "-c", f"{code}('{OTHER}'))"], env=alone, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    how, _, folder = done.stdout.strip().rpartition(" ")
    assert how == "['-m', 'pip']"
    assert in_a_process(Path(folder))[:2] == [OTHER, OTHER]
