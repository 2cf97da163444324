"""Tests of docker-compose.yml, its overrides and its generated secrets, without any engine."""

from __future__ import annotations

import importlib.util
import ipaddress
import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support import engine

from delivery_verifier.cluster.broker_settings import controller_settings, settings_of
from delivery_verifier.host.java.jars import DEFAULT_KAFKA
from delivery_verifier.model.scenario import ClusterSpec

ROOT = Path(__file__).resolve().parents[2]
FILES = {
    "docker": [],
    "three controllers": ["docker/quorum.yml"],
    "embedded": ["docker/embedded.yml"],
}
"""The overrides of each way to start docker-compose.yml."""
BROKERS = ("kafka-1", "kafka-2", "kafka-3")
CONTROLLERS = ("controller", "controller-2", "controller-3")


@pytest.fixture(scope="module", autouse=True)
def _project_of_nobody() -> Iterator[None]:
    """A project that has no volume on an engine of this host."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COMPOSE_PROJECT_NAME", f"kdvu{uuid.uuid4().hex[:8]}")
        patch.delenv("KDV_IMAGE", raising=False)
        yield


def module_of(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def environment() -> ModuleType:
    """docker/environment.py as a module."""
    return module_of("docker/environment.py")


def program(file: Path, text: str) -> str:
    """Writes a shell script that first notes its arguments in the file `log` beside it. Returns its path."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f'#!/bin/sh\necho "$@" >>{file.parent}/log\n{text}\n')
    file.chmod(0o755)
    return str(file)


@pytest.fixture(scope="module")
def secrets_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generated .env."""
    file = tmp_path_factory.mktemp("env") / ".env"
    generate(file)
    return file


def generate(file: Path, *options: str) -> None:
    command = [sys.executable, str(ROOT / "docker" / "environment.py"), "--file", str(file), *options]
    subprocess.run(command, check=True, capture_output=True)


def compose(*arguments: str, env_file: Path | None, files: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs Compose with no engine and no variable of the user. Skips the test if there is no Compose."""
    try:
        command = engine.compose()
    except engine.Missing as missing:
        pytest.skip(str(missing))
    for file in ["docker-compose.yml", *files]:
        command += ["--file", str(ROOT / file)]
    command += ["--env-file", str(env_file or os.devnull), *arguments]
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "DOCKER_HOST": "unix:///nowhere"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def config(env_file: Path, files: list[str]) -> dict[str, Any]:
    """The whole model as Compose reads it, with every service."""
    result = compose("config", "--format", "json", env_file=env_file, files=files)
    assert result.returncode == 0, result.stderr
    model: dict[str, Any] = json.loads(result.stdout)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("way", FILES)
def test_compose_accepts_the_file_and_its_overrides(way: str, secrets_file: Path) -> None:
    result = compose("config", "--quiet", env_file=secrets_file, files=FILES[way])
    assert (result.returncode, result.stderr) == (0, "")


def test_compose_refuses_a_misspelt_override(secrets_file: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yml"
    wrong.write_text("services:\n  kafka-1: {depends_on: {kafka-9: {condition: service_healthy}}}\n")
    assert compose("config", "--quiet", env_file=secrets_file, files=[str(wrong)]).returncode != 0


def test_without_secrets_compose_names_the_command_that_makes_them() -> None:
    result = compose("config", "--quiet", env_file=None, files=[])
    assert result.returncode != 0
    assert "make compose-env" in result.stderr


def test_no_file_holds_a_secret(environment: ModuleType) -> None:
    text = "".join(file.read_text() for file in [ROOT / "docker-compose.yml", *(ROOT / "docker").glob("*.yml")])
    for name in environment.SECRETS:
        assert set(re.findall(rf"\$\{{{name}([^}}]*)\}}", text)) <= {
            "",
            ":?the secrets are missing - run make compose-env",
        }
    assert not re.search(r"(?i)(password|token|secret|key): [^$\n]*[a-z0-9]{8}", text)


def test_ports_are_on_the_loopback_alone(secrets_file: Path) -> None:
    ports = [port for service in config(secrets_file, [])["services"].values() for port in service.get("ports", [])]
    assert ports
    assert {port["host_ip"] for port in ports} == {"127.0.0.1"}


def test_only_the_gateway_reaches_the_engine_and_only_the_tasks_reach_the_gateway(secrets_file: Path) -> None:
    services = config(secrets_file, ["docker/quorum.yml"])["services"]
    mounted = {name for name, service in services.items() if "docker.sock" in json.dumps(service.get("volumes", []))}
    at_door = {name for name, service in services.items() if "gateway" in service.get("networks", {})}
    with_token = {name for name, service in services.items() if "KDV_GATEWAY_TOKEN" in service.get("environment", {})}
    assert mounted == {"fault-gateway"}
    assert at_door == with_token == {"fault-gateway", "airflow-scheduler"}
    assert list(services["fault-gateway"]["networks"]) == ["gateway"]
    assert not services["fault-gateway"].get("privileged")


def test_no_policy_restarts_a_node_that_a_fault_has_killed(secrets_file: Path) -> None:
    services = config(secrets_file, ["docker/quorum.yml"])["services"]
    labelled = {
        name
        for name, service in services.items()
        if service.get("labels", {}).get("kafka-delivery-verifier.fault") == "allowed"
    }
    assert labelled == {*BROKERS, *CONTROLLERS}
    assert {services[name].get("restart") for name in labelled} == {None}


def test_nodes_write_to_named_volumes(secrets_file: Path) -> None:
    model = config(secrets_file, ["docker/quorum.yml"])
    for name in (*BROKERS, *CONTROLLERS):
        service = model["services"][name]
        assert service["environment"]["KAFKA_LOG_DIRS"] == "/var/lib/kafka/data"
        assert [(v["type"], v["source"], v["target"]) for v in service["volumes"]] == [
            ("volume", name, "/var/lib/kafka/data")
        ]
        assert service["environment"]["KAFKA_HEAP_OPTS"]


def test_every_node_votes_for_the_same_controllers(secrets_file: Path) -> None:
    services = config(secrets_file, ["docker/quorum.yml"])["services"]
    voters = {services[name]["environment"]["KAFKA_CONTROLLER_QUORUM_VOTERS"] for name in (*BROKERS, *CONTROLLERS)}
    expected = {f"{services[name]['environment']['KAFKA_NODE_ID']}@{name}:9093" for name in CONTROLLERS}
    assert [set(text.split(",")) for text in voters] == [expected]


def test_brokers_have_the_settings_of_the_embedded_cluster(secrets_file: Path) -> None:
    """A scenario must mean the same on both."""
    services = config(secrets_file, [])["services"]
    composed = {
        key.removeprefix("KAFKA_").lower().replace("_", "."): value
        for key, value in services["kafka-1"]["environment"].items()
        if key.startswith("KAFKA_")
    }
    expected = settings_of(ClusterSpec())
    assert {key: composed.get(key) for key in expected} == expected
    for key in controller_settings(ClusterSpec()):
        name = f"KAFKA_{key.upper().replace('.', '_')}"
        assert services["controller"]["environment"][name] == expected[key], "the controller acts by it"
    assert services["kafka-1"]["image"].endswith(f":{DEFAULT_KAFKA}")
    internal = {key: value for key, value in composed.items() if key.endswith(("replication.factor", "min.isr"))}
    assert {int(value) for key, value in internal.items() if key.endswith("replication.factor")} == {3}
    assert {int(value) for key, value in internal.items() if key.endswith("min.isr")} == {2}
    assert composed["min.insync.replicas"] == "2"


@pytest.mark.parametrize("way", FILES)
def test_limits_fit_8_gb(way: str, secrets_file: Path) -> None:
    services = config(secrets_file, FILES[way])["services"]
    limits = {name: int(service["mem_limit"]) for name, service in services.items() if name != "airflow-init"}
    assert sum(limits.values()) <= 8 * 1024**3, limits


@pytest.mark.parametrize("way", FILES)
def test_every_service_has_a_health_check_and_waits_for_what_it_needs(way: str, secrets_file: Path) -> None:
    services = config(secrets_file, FILES[way])["services"]
    assert {name for name, service in services.items() if "healthcheck" not in service} == {"airflow-init"}
    waits = {
        (name, needed, how["condition"])
        for name, service in services.items()
        for needed, how in service.get("depends_on", {}).items()
    }
    assert {how for _, _, how in waits} <= {"service_healthy", "service_completed_successfully", "service_started"}
    # Spark's worker shares the scheduler's network in one way. Compose itself adds this dependency.
    assert {(name, needed) for name, needed, how in waits if how == "service_started"} <= {
        ("spark-worker", "airflow-scheduler")
    }


def test_brokers_have_addresses_that_the_engine_gives_to_nobody_else(secrets_file: Path) -> None:
    model = config(secrets_file, [])
    [pool] = model["networks"]["replication"]["ipam"]["config"]
    subnet, others = ipaddress.ip_network(pool["subnet"]), ipaddress.ip_network(pool["ip_range"])
    for name in BROKERS:
        service = model["services"][name]
        address = ipaddress.ip_address(service["networks"]["replication"]["ipv4_address"])
        assert address in subnet and address not in others
        assert service["labels"]["kafka-delivery-verifier.address"] == str(address)
    amazon = ipaddress.ip_network("172.31.0.0/16")
    assert not subnet.overlaps(amazon), "hosts there would lose a part of their own network"


def test_dags_expect_what_each_way_to_run_brokers_lacks(secrets_file: Path) -> None:
    for way, words in (("docker", {"proxy", "power", "acks_0.frozen_leader"}), ("embedded", {"network", "power"})):
        services = config(secrets_file, FILES[way])["services"]
        for name in ("airflow-dag-processor", "airflow-scheduler"):
            expected = {word.strip() for word in services[name]["environment"]["KDV_EXPECT_UNAVAILABLE"].split(",")}
            assert words <= expected and (words == expected or way == "docker"), (way, name)


def test_images_can_be_named_by_variables(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    generate(file)
    names = {"KDV_KAFKA_IMAGE": "a", "KDV_POSTGRES_IMAGE": "b", "KDV_AIRFLOW_IMAGE": "c", "KDV_IMAGE": "d"}
    with file.open("a") as stream:
        stream.writelines(f"{name}={image}\n" for name, image in names.items())
    services = config(file, [])["services"]
    assert {service["image"] for service in services.values()} == {"a", "b", "d"}
    assert services["airflow-init"]["build"]["args"]["AIRFLOW_IMAGE"] == "c"


def test_the_environment_file_is_private_and_keeps_its_secrets(tmp_path: Path, environment: ModuleType) -> None:
    file = tmp_path / ".env"
    generate(file)
    first = environment.read(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert all(len(first[name]) >= 16 for name in environment.SECRETS)
    with file.open("a") as stream:
        stream.write("KDV_PORT=9999\n")
    generate(file, "--cluster", "embedded")
    second = environment.read(file)
    assert {name: second[name] for name in environment.SECRETS} == {name: first[name] for name in environment.SECRETS}
    assert (second["KDV_PORT"], second["COMPOSE_FILE"]) == ("9999", "docker-compose.yml:docker/embedded.yml")
    generate(file)
    assert environment.read(file)["KDV_CLUSTER"] == "embedded"


def test_what_a_user_chose_in_the_environment_file_stays(
    tmp_path: Path, environment: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    file = tmp_path / ".env"
    chosen = {"KDV_DOCKER_SOCKET": "/run/user/1000/docker.sock", "KDV_GATEWAY_USER": "0:0"}
    environment.write(file, chosen | {"COMPOSE_FILE": "docker-compose.yml:docker/quorum.yml:mine.yml"})
    generate(file)
    kept = environment.read(file)
    assert {name: kept[name] for name in chosen} == chosen
    assert kept["COMPOSE_FILE"] == "docker-compose.yml:docker/quorum.yml:mine.yml"
    generate(file, "--cluster", "embedded", "--quorum", "0")
    assert environment.read(file)["COMPOSE_FILE"] == "docker-compose.yml:docker/embedded.yml:mine.yml"
    monkeypatch.setenv("DOCKER_HOST", "unix:///another.sock")
    generate(file)
    assert environment.read(file)["KDV_DOCKER_SOCKET"] == "/another.sock", "another engine has another socket"


def test_new_secrets_are_refused_beside_a_database_with_older_ones(tmp_path: Path, environment: ModuleType) -> None:
    program(tmp_path / "bin" / "docker", 'test "$3" = kafka-delivery-verifier_postgres')
    file, own = tmp_path / ".env", {name: os.environ[name] for name in os.environ if name != "COMPOSE_PROJECT_NAME"}
    own["PATH"] = f"{tmp_path / 'bin'}:{own['PATH']}"

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(ROOT / "docker" / "environment.py"), "--file", str(file), *options]
        return subprocess.run(command, env=own, capture_output=True, text=True, check=False)

    refused = run()
    assert refused.returncode == 2 and "make compose-down VOLUMES=1" in refused.stderr and not file.exists()
    assert "COMPOSE_PROJECT_NAME" in refused.stderr
    environment.write(file, {"COMPOSE_PROJECT_NAME": "second"})
    assert run().returncode == 0
    file.unlink()
    assert run("--data-go").returncode == 0, "make compose-down VOLUMES=1 must work without secrets"
    assert run().returncode == 0, "a file with secrets is kept"


def test_an_image_that_was_given_once_is_taken_by_every_later_command(tmp_path: Path, environment: ModuleType) -> None:
    (tmp_path / "docker").mkdir()
    for name in ("Makefile", "docker/environment.py"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    compose = program(tmp_path / "bin" / "compose", "")

    def builds(*variables: str) -> bool:
        (tmp_path / "bin" / "log").unlink(missing_ok=True)
        command = ["make", "--no-print-directory", "compose-up", f"COMPOSE={compose}", f"PYTHON={sys.executable}"]
        subprocess.run([*command, *variables], cwd=tmp_path, check=True, capture_output=True)
        return "build --quiet" in (tmp_path / "bin" / "log").read_text()

    assert builds()
    assert not builds("KDV_IMAGE=registry.example/kdv:7")
    assert environment.read(tmp_path / ".env")["KDV_IMAGE"] == "registry.example/kdv:7"
    assert not builds(), "it would be built over the name of the given image"


@pytest.mark.parametrize("services", ["postgres", "kafka-1 postgres"])
def test_composed_brokers_that_a_choice_leaves_out_end_before_their_controller(services: str, tmp_path: Path) -> None:
    (tmp_path / "docker").mkdir()
    for name in ("Makefile", "docker/environment.py"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    compose = program(tmp_path / "bin" / "compose", f'if [ "$1" = config ]; then printf "%s\\n" {services}; fi')
    command = ["make", "--no-print-directory", "compose-up", f"COMPOSE={compose}", f"PYTHON={sys.executable}"]
    subprocess.run([*command, "KDV_IMAGE=any"], cwd=tmp_path, check=True, capture_output=True)
    stop = ["--file docker-compose.yml stop fault-gateway kafka-1 kafka-2 kafka-3"] * ("kafka-1" not in services)
    asked = (tmp_path / "bin" / "log").read_text().splitlines()
    assert asked == ["config --services", *stop, "up --detach --no-build --remove-orphans --wait"]


@pytest.mark.parametrize("down", ["airflow-scheduler", "kafka-2"])
def test_a_run_starts_no_service_and_names_those_that_are_down(down: str, tmp_path: Path) -> None:
    services = ["airflow-api-server", "airflow-scheduler", "controller", "fault-gateway", "kafka-2", "spark-worker"]
    listing = "printf '%s\\n'"
    compose = program(
        tmp_path / "compose",
        f'case "$1 $2" in\n"config --services") {listing} airflow-init {" ".join(services)};;\n'
        f'"ps --services") {listing} {" ".join(name for name in services if name != down)};;\nesac',
    )
    command = ["make", "--no-print-directory", "-C", str(ROOT), "compose-verify", f"COMPOSE={compose}", "OPTIONS=--x"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    asked = [line.split()[0] for line in (tmp_path / "log").read_text().splitlines()]
    if down == "kafka-2":  # a run may have killed it; if not, the gateway starts it
        assert result.returncode == 0 and sorted(asked) == ["config", "exec", "ps"]
    else:
        assert result.returncode and sorted(asked) == ["config", "ps"]
        assert "not running: airflow-scheduler; start the services with: make compose-up" in result.stderr


def test_two_environment_files_share_no_secret(tmp_path: Path, environment: ModuleType) -> None:
    files = tmp_path / "a", tmp_path / "b"
    for file in files:
        generate(file)
    first, second = (environment.read(file) for file in files)
    assert all(first[name] != second[name] for name in environment.SECRETS)


def test_three_controllers_and_an_embedded_cluster_are_refused(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        generate(tmp_path / ".env", "--cluster", "embedded", "--quorum", "1")


def test_the_gateway_may_open_the_socket_and_is_root_only_where_it_must(
    tmp_path: Path, environment: ModuleType
) -> None:
    socket = tmp_path / "docker.sock"
    socket.touch()
    os.chown(socket, -1, os.getgid())
    socket.chmod(0o600)
    assert environment.gateway_user(socket) == "0:0"
    socket.chmod(0o660)
    assert environment.gateway_user(socket) == (f"50000:{os.getgid()}" if os.getgid() else "0:0")
    assert environment.gateway_user(tmp_path / "none") == "0:0"


def test_the_image_has_the_versions_of_the_lock() -> None:
    dockerfile, lock = (ROOT / "docker" / "Dockerfile").read_text(), (ROOT / "uv.lock").read_text()
    airflow = re.search(r'name = "apache-airflow"\nversion = "([^"]+)"', lock)
    uv = re.search(r"install --quiet --disable-pip-version-check uv==(\S+)", (ROOT / "Makefile").read_text())
    assert airflow is not None and uv is not None
    image = f"apache/airflow:{airflow[1]}-python3.11"
    assert f"ARG AIRFLOW_IMAGE={image}\n" in dockerfile
    assert f"KDV_AIRFLOW_IMAGE:-{image}}}" in (ROOT / "docker-compose.yml").read_text()
    assert f" uv=={uv[1]}\n" in dockerfile
    assert "VIRTUAL_ENV=/opt/kdv/.venv " in dockerfile, "the official image names another environment"
    users = re.findall(r"^USER (\S+)", dockerfile, re.MULTILINE)
    assert users[-1] == "airflow"


def test_the_tests_inside_the_container_take_the_locked_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The official image names another environment in VIRTUAL_ENV."""
    composition = module_of("tests/compose/composition.py")
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(composition.Composition, "compose", lambda _, *arguments: calls.append(arguments) or "")
    composition.Composition.pytest_inside(composition.Composition.__new__(composition.Composition), "compose/t.py")
    [install] = [call for call in calls if "pip" in call]
    assert install[install.index("--python") + 1] == ".venv/bin/python"
