"""Runs the tests of docker-compose.yml on a real engine: `make test-compose`.

Finds an engine and Compose, or brings them along. Where no registry answers, stand-ins take the official images' place.
Afterwards, everything that was brought along is removed. Where no engine can start, it says why, and returns 0.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from support import engine as engines
from support import standins
from support.engine import Engine, Missing

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".kdv" / "engine"
PROJECT = "kdv-test"
"""The name of the tests' composition. Its image is PROJECT:local."""
NO_TESTS = 5
"""The exit code of pytest if no test was chosen."""


def main() -> int:
    """Returns the exit code of pytest; 0 if this host has no engine and cannot have one."""
    try:
        with timed("engine and Compose"):
            compose, engine = engines.compose(), engines.find_or_start(FOLDER)
    except Missing as error:
        print(f"SKIPPED: docker-compose.yml was not tried: {error}")
        return 0
    added: list[str] = []
    try:
        with timed("images"):
            added = provide_images(engine, compose)
        return run_tests(engine, compose)
    except Missing as error:
        print(f"SKIPPED: docker-compose.yml was not tried: {error}")
        return 0
    finally:
        with timed("removal"):
            if not engine.own:
                for image in [*added, f"{PROJECT}:local"]:
                    subprocess.run(["docker", "rmi", image], env=engine.environment, capture_output=True, check=False)
            engine.end()


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Prints how long the block took."""
    start = time.monotonic()
    yield
    print(f"{what}: {time.monotonic() - start:.0f} s", flush=True)


def provide_images(engine: Engine, compose: list[str]) -> list[str]:
    """Makes the engine have every official image that docker-compose.yml names. Returns the stand-ins."""
    images = official_images(compose)
    with ThreadPoolExecutor() as pool:
        present = dict(zip(images, pool.map(engine.has_image, images.values())))
    missing = {service: image for service, image in images.items() if not present[service]}
    if not missing:
        return []
    print(f"no registry gives {', '.join(missing.values())}: building stand-ins", flush=True)
    standins.build(engine, compose, missing, images["kafka"].rpartition(":")[2])
    return [*missing.values(), standins.BASE]


def official_images(compose: list[str]) -> dict[str, str]:
    """Returns the name and tag of the images of Kafka, PostgreSQL and Airflow in docker-compose.yml."""
    command = [*compose, "--file", str(ROOT / "docker-compose.yml"), "config", "--format", "json", "--no-interpolate"]
    services = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["services"]
    names = {
        "kafka": services["kafka-1"]["image"],
        "postgres": services["postgres"]["image"],
        "airflow": services["airflow-init"]["build"]["args"]["AIRFLOW_IMAGE"],
    }
    return {name: text.partition(":-")[2].removesuffix("}") for name, text in names.items()}


def run_tests(engine: Engine, compose: list[str]) -> int:
    """Runs tests/compose with this engine and this Compose. Builds our image beside the tests of the fault door, which
    do not need it. Returns the greater exit code of pytest's."""
    settings = {"KDV_TEST_ENGINE": engine.socket, "KDV_TEST_COMPOSE": " ".join(compose)}

    def code(module: str) -> int:
        command = [sys.executable, "-m", "pytest", str(ROOT / "tests" / "compose" / module), "--durations=12", "-rs"]
        result = subprocess.run([*command, *sys.argv[1:]], env=engine.environment | settings, check=False).returncode
        return 0 if result == NO_TESTS and sys.argv[1:] else result

    with timed("tests"):
        with building(engine, compose):
            door = code("test_fault_door.py")
        return max(door, code("test_composition.py"))


@contextmanager
def building(engine: Engine, compose: list[str]) -> Iterator[None]:
    """Builds our image beside the block, so that `make compose-up` finds its layers built. If the build fails, that
    command says why."""
    with tempfile.TemporaryDirectory(prefix="kdv-env-") as folder:
        variables = str(Path(folder) / ".env")
        generate = [sys.executable, str(ROOT / "docker" / "environment.py"), "--data-go", "--file", variables]
        subprocess.run(generate, stdout=subprocess.DEVNULL, check=True)
        files = ["--file", str(ROOT / "docker-compose.yml"), "--env-file", variables, "--project-name", PROJECT]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen([*compose, *files, "build", "--quiet"], env=engine.environment, **quiet):  # type: ignore[call-overload]
            yield


if __name__ == "__main__":
    sys.exit(main())
