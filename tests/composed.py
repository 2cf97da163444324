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
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from support import engine as engines
from support import standins
from support.engine import Engine, Missing

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".kdv" / "engine"
PROJECT = "kdv-test"
"""The name of the tests' composition. Its image is PROJECT:local."""
OURS = "verifier"
"""The key of our own image among Images."""
Images = Mapping[str, Future[None]]
"""Maps services to the builds of their images. A build that is done has its image on the engine."""
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
        official = official_images(compose)
        with timed("registry"):
            missing = missing_images(engine, official)
        with providing(engine, compose, missing, official["kafka"]) as images:
            added = [*missing.values(), standins.BASE] if missing else []
            return run_tests(engine, compose, images)
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


def missing_images(engine: Engine, official: Mapping[str, str]) -> dict[str, str]:
    """Returns those images, by service, that the engine lacks and that no registry gives."""
    with ThreadPoolExecutor() as pool:
        present = dict(zip(official, pool.map(engine.has_image, official.values())))
    return {service: image for service, image in official.items() if not present[service]}


@contextmanager
def providing(engine: Engine, compose: list[str], missing: Mapping[str, str], kafka: str) -> Iterator[Images]:
    """Builds the stand-ins of `missing` and our image beside the block, all at once. Yields the builds, by service;
    ours is OURS. `kafka`: the official image of Kafka, whose tag is the version of the stand-in.

    Our image is built from Airflow's. Raises Missing if the base of the stand-ins cannot be made.
    """
    if missing:
        print(f"no registry gives {', '.join(missing.values())}: building stand-ins", flush=True)
    with ExitStack() as stack:
        stand_in = stack.enter_context(standins.builder(engine, compose, kafka.rpartition(":")[2])) if missing else None
        pool = stack.enter_context(ThreadPoolExecutor())
        images = {service: pool.submit(stand_in, service, image) for service, image in missing.items() if stand_in}

        def ours() -> None:
            if "airflow" in images:
                images["airflow"].result()
            build_ours(engine, compose)

        yield images | {OURS: pool.submit(ours)}


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


def run_tests(engine: Engine, compose: list[str], images: Images) -> int:
    """Runs tests/compose with this engine and this Compose. Returns the greater exit code of pytest's.

    The tests of the fault gateway need no image but Kafka's, so they run while the others are built. Raises
    CalledProcessError if a stand-in cannot be built.
    """
    settings = {"KDV_TEST_ENGINE": engine.socket, "KDV_TEST_COMPOSE": " ".join(compose)}

    def code(module: str) -> int:
        command = [sys.executable, "-m", "pytest", str(ROOT / "tests" / "compose" / module), "--durations=12", "-rs"]
        result = subprocess.run([*command, *sys.argv[1:]], env=engine.environment | settings, check=False).returncode
        return 0 if result == NO_TESTS and sys.argv[1:] else result

    if "kafka" in images:
        with timed("stand-in of Kafka"):
            images["kafka"].result()
    with timed("tests of the fault gateway"):
        gateway = code("test_fault_gateway.py")
    with timed("other images"):
        for image in images.values():
            image.result()
    with timed("tests of the composition"):
        return max(gateway, code("test_composition.py"))


def build_ours(engine: Engine, compose: list[str]) -> None:
    """Builds our image, so that `make compose-up` finds its layers built. If the build fails, that command says why."""
    with tempfile.TemporaryDirectory(prefix="kdv-env-") as folder:
        variables = str(Path(folder) / ".env")
        generate = [sys.executable, str(ROOT / "docker" / "environment.py"), "--data-go", "--file", variables]
        subprocess.run(generate, stdout=subprocess.DEVNULL, check=True)
        files = ["--file", str(ROOT / "docker-compose.yml"), "--env-file", variables, "--project-name", PROJECT]
        build = [*compose, *files, "build", "--quiet"]
        subprocess.run(build, env=engine.environment, capture_output=True, check=False)


if __name__ == "__main__":
    sys.exit(main())
