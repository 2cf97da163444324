"""A composition under test: a copy of this checkout, whose Makefile starts docker-compose.yml on the test's engine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import msgspec
from support.patience import PATIENCE_S

from delivery_verifier.host.folders import CATALOGUES
from delivery_verifier.host.ports import free_ports
from delivery_verifier.model.catalogue_run import CatalogueRun
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.orchestration.client import ENDED, AirflowSilent, Client

ROOT = Path(__file__).resolve().parents[2]
PROJECT = "kdv-test"
ENDS_WITHIN_S = 900.0


class Composition:
    """The composed services, as a user starts them. `folder`: where the copy of the checkout is. `way`: docker or
    embedded, which says where the brokers run."""

    def __init__(self, folder: Path, compose: str) -> None:
        self.folder, self._compose, self.way = folder, compose, ""
        self.port, self.spark_port = free_ports(2)
        self._copy()
        self._volumes = self._all_volumes()

    def _copy(self) -> None:
        listed = subprocess.run(
            ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split("\0")
        for name in filter(None, listed):
            if (ROOT / name).is_file():
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, self.folder / name)
        # Names, ports and addresses of its own, so that it may stand beside a composition of the user's.
        choices = {
            "COMPOSE_PROJECT_NAME": PROJECT,
            "KDV_PORT": self.port,
            "KDV_SPARK_PORT": self.spark_port,
            "KDV_REPLICATION_NETWORK": "10.213.89",
        }
        (self.folder / ".env").write_text("".join(f"{name}={value}\n" for name, value in choices.items()))

    def make(self, target: str, *variables: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs `make <target>` in the copy. Raises AssertionError with the output if `check` is true and it fails."""
        command = ["make", "--no-print-directory", target, f"COMPOSE={self._compose}", *variables]
        result = subprocess.run(command, cwd=self.folder, env=os.environ, capture_output=True, text=True, check=False)
        assert not check or result.returncode == 0, f"make {target}: {result.stdout[-4000:]}\n{result.stderr[-4000:]}"
        return result

    def compose(self, *arguments: str) -> str:
        """Returns what Compose prints. Raises AssertionError with its message if it fails."""
        command = [*self._compose.split(), *arguments]
        result = subprocess.run(command, cwd=self.folder, env=os.environ, capture_output=True, text=True, check=False)
        assert result.returncode == 0, f"{result.stdout[-4000:]}\n{result.stderr[-4000:]}"
        return result.stdout

    def up(self, *variables: str) -> None:
        """Starts all services, and waits until they are healthy."""
        self.make("compose-up", *variables)

    def down(self, volumes: bool) -> None:
        """Ends all services, and removes their data if `volumes` is true."""
        self.make("compose-down", f"VOLUMES={int(volumes)}")

    def states(self) -> dict[str, str]:
        """Returns the state of each service, by name: the word of its health check, or how it ended."""
        lines = self.compose("ps", "--all", "--format", "json").splitlines()
        return {c["Service"]: c["Health"] or f"{c['State']} {c['ExitCode']}" for c in map(json.loads, lines)}

    def left(self, kind: str) -> set[str]:
        """Returns the names of what is left on the engine. `kind`: container, network or volume."""
        options = ["--filter", f"label=com.docker.compose.project={PROJECT}", "--format"]
        field = "{{.Names}}" if kind == "container" else "{{.Name}}"
        listing = ["docker", kind, "ls", *(["--all"] if kind == "container" else []), *options, field]
        output = subprocess.run(listing, env=os.environ, capture_output=True, text=True, check=True).stdout
        return {name.removeprefix(f"{PROJECT}_").removeprefix(f"{PROJECT}-") for name in output.split()}

    def anonymous_volumes(self) -> set[str]:
        """Returns the volumes that were added since the beginning and that docker-compose.yml does not name."""
        return {name for name in self._all_volumes() - self._volumes if not name.startswith(f"{PROJECT}_")}

    def _all_volumes(self) -> set[str]:
        command = ["docker", "volume", "ls", "--quiet"]
        output = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=True).stdout
        return set(output.split())

    @property
    def password(self) -> str:
        """The password of Airflow's user admin."""
        lines = (self.folder / ".env").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)["KDV_ADMIN_PASSWORD"]

    def client(self) -> Client:
        """Returns a client of Airflow's API, through the published port."""
        return Client(f"http://127.0.0.1:{self.port}", "admin", self.password)

    def run(self, dag_id: str, run_id: str, conf: dict[str, object]) -> str:
        """Triggers a run through the API, waits for its end, and returns its state."""
        client, deadline = self.client(), time.monotonic() + ENDS_WITHIN_S
        client.trigger(dag_id, run_id, conf)
        while (state := _state(client, dag_id, run_id)) not in ENDED:
            assert time.monotonic() < deadline, f"{run_id} is {state} after {ENDS_WITHIN_S:g} s"
            time.sleep(0.5)
        return state

    def file(self, path: str) -> bytes:
        """Returns a file of the runs folder, as the api-server's container sees it."""
        command = [*self._compose.split(), "exec", "-T", "airflow-api-server", "cat", f"/opt/kdv/runs/{path}"]
        return subprocess.run(command, cwd=self.folder, env=os.environ, capture_output=True, check=True).stdout

    def verdict(self, run_id: str) -> RunVerdict:
        """Returns the verdict of a run."""
        return msgspec.json.decode(self.file(f"{run_id}/verdict.json"), type=RunVerdict)

    def catalogue(self, run_id: str) -> CatalogueRun:
        """Returns the catalogue run that was triggered as `run_id`."""
        return msgspec.json.decode(self.file(f"{CATALOGUES}/{run_id}/catalogue.json"), type=CatalogueRun)

    def address(self, service: str, network: str) -> str:
        """Returns the address of a service in a network."""
        container = self.compose("ps", "--quiet", service).strip()
        field = f'{{{{(index .NetworkSettings.Networks "{PROJECT}_{network}").IPAddress}}}}'
        command = ["docker", "inspect", "--format", field, container]
        return subprocess.run(command, env=os.environ, capture_output=True, text=True, check=True).stdout.strip()

    def connects(self, service: str, address: str, port: int) -> bool:
        """Whether a process in the container of `service` can open a connection."""
        attempt = f"timeout 5 bash -c '</dev/tcp/{address}/{port}'"
        command = [*self._compose.split(), "exec", "-T", service, "bash", "-c", attempt]
        result = subprocess.run(command, cwd=self.folder, env=os.environ, capture_output=True, check=False)
        assert result.returncode in (0, 1, 124), result.stderr
        return result.returncode == 0

    def pytest_inside(self, test: str) -> str:
        """Runs a test module in the container of the tasks, with pytest of the lock. Returns the output of pytest."""
        place, tools = "/tmp/kdv-tests", [f"{name}=={version(name)}" for name in ("pytest", "pytest-timeout")]
        self.compose("exec", "-T", "airflow-scheduler", "mkdir", "-p", f"{place}/tests/{Path(test).parent}")
        for name in ("pyproject.toml", "tests/support", f"tests/{test}"):
            self.compose("cp", name, f"airflow-scheduler:{place}/{name}")
        install = (".venv-uv/bin/uv", "pip", "install", "--quiet", "--python", ".venv/bin/python")
        self.compose("exec", "-T", "airflow-scheduler", *install, *tools)
        inside = ["exec", "-T", "-w", place, "-e", f"KDV_TEST_PROJECT={PROJECT}", "airflow-scheduler"]
        return self.compose(*inside, "python", "-m", "pytest", f"tests/{test}")

    def spark_applications(self) -> list[dict[str, Any]]:
        """Returns the applications that Spark's master has completed."""
        answer = httpx.get(f"http://127.0.0.1:{self.spark_port}/json/", timeout=PATIENCE_S, trust_env=False)
        applications: list[dict[str, Any]] = answer.json()["completedapps"]
        return applications


def _state(client: Client, dag_id: str, run_id: str) -> str:
    """The state of a run, or an empty text if Airflow was too busy to answer."""
    try:
        return client.state(dag_id, run_id)
    except AirflowSilent:
        return ""
