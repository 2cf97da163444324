"""Runs the tests of docker-compose.yml on a real engine: `make test-compose`.

Finds an engine and Compose, or brings them along. Where no registry answers, stand-ins take the official images' place.
Afterwards, everything that was brought along is removed. Where no engine can start, it says why, and returns 0.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support import engine as engines
from support import standins
from support.engine import Engine, Missing

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".kdv" / "engine"
IMAGE = "kdv-test:local"
"""The name that the tests give to our own image."""


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
                for image in [*added, IMAGE]:
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
    missing = {service: image for service, image in images.items() if not engine.has_image(image)}
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
    """Runs tests/compose with this engine and this Compose. Returns pytest's exit code."""
    settings = {"KDV_TEST_ENGINE": engine.socket, "KDV_TEST_COMPOSE": " ".join(compose)}
    command = [sys.executable, "-m", "pytest", str(ROOT / "tests" / "compose"), "--durations=12", "-rs", *sys.argv[1:]]
    return subprocess.run(command, env=engine.environment | settings, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
