"""Tests of the fault gateway on a real engine, with containers that run nothing but a shell.

`KDV_TEST_ENGINE` names the engine's socket; without it the tests are skipped. `KDV_TEST_IMAGE` names an image with `sh`
and `nc`, by default that of the brokers.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from support.gateways import TOKEN, Gateway, GatewayProcess, gateway_process
from support.patience import PATIENCE_S

from delivery_verifier.cluster.docker.gateway_client import GatewayClient, GatewayRefused
from delivery_verifier.cluster.docker.nodes import ADDRESS_LABEL, ALIAS_LABEL, ALLOWED, FAULT_LABEL, PROJECT_LABEL
from delivery_verifier.host.waiting import wait_until

ENGINE = os.environ.get("KDV_TEST_ENGINE", "")
IMAGE = os.environ.get("KDV_TEST_IMAGE", "apache/kafka:4.3.1")
pytestmark = pytest.mark.skipif(not ENGINE, reason="no engine is named in KDV_TEST_ENGINE: run make test-compose")

PROJECT = f"kdvt{uuid.uuid4().hex[:6]}"
REPLICATION, CLIENTS, GATEWAY = (f"{PROJECT}_{name}" for name in ("replication", "kafka", "gateway"))
SUBNET = "10.213.94"
SHELL = "trap 'exit 143' TERM; echo ready; while :; do sleep 0.1; done"


def docker(*arguments: str, check: bool = True) -> str:
    command = ["docker", "-H", f"unix://{ENGINE}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done.stdout.strip()


def inspected(container: str) -> dict[str, object]:
    [found] = json.loads(docker("inspect", f"{PROJECT}-{container}"))
    return found


def run(name: str, node: int, role: str, *networks: str, **labels: str) -> None:
    """Runs a container with the gateway's labels. `labels` replaces labels; an empty value removes one."""
    own = {FAULT_LABEL: ALLOWED, PROJECT_LABEL: PROJECT}
    if role == "broker":
        own |= {ALIAS_LABEL: f"{name}.replication", ADDRESS_LABEL: f"{SUBNET}.1{node}"}
    options = [option for key, value in (own | labels).items() if value for option in ("--label", f"{key}={value}")]
    environment = ["-e", f"KAFKA_NODE_ID={node}", "-e", f"KAFKA_PROCESS_ROLES={role}"]
    fixed = ["--network-alias", f"{name}.replication", "--ip", f"{SUBNET}.1{node}"] if role == "broker" else []
    docker(
        *("run", "-d", "--name", f"{PROJECT}-{name}", "--network", networks[0], *fixed, *options, *environment),
        *("--entrypoint", "sh", IMAGE, "-c", SHELL),
    )
    for network in networks[1:]:
        docker("network", "connect", network, f"{PROJECT}-{name}")


@pytest.fixture(scope="module", autouse=True)
def _containers() -> Iterator[None]:
    mine = ("--label", f"{PROJECT_LABEL}={PROJECT}")
    try:
        allowed = ("--label", f"{FAULT_LABEL}={ALLOWED}")
        docker("network", "create", "--internal", "--subnet", f"{SUBNET}.0/24", *mine, *allowed, REPLICATION)
        docker("network", "create", "--internal", *mine, CLIENTS)
        docker("network", "create", "--internal", *mine, GATEWAY)
        run("controller", 100, "controller", REPLICATION)
        for broker in (1, 2):
            run(f"kafka-{broker}", broker, "broker", REPLICATION, CLIENTS)
        run("stranger", 7, "stranger", CLIENTS, **{FAULT_LABEL: ""})
        yield
    finally:
        for kind, remove in (("container", ("rm", "-f", "-v")), ("network", ("network", "rm"))):
            listed = docker(kind, "ls", "-q", *(["-a"] if kind == "container" else []), "--filter", "label=" + mine[1])
            if listed:
                docker(*remove, *listed.split(), check=False)


@pytest.fixture
def gateway() -> Iterator[GatewayProcess]:
    with gateway_process(Path(ENGINE), PROJECT) as gateway:
        yield gateway


def starts(container: str) -> int:
    """How often the shell of the container has begun to handle SIGTERM."""
    return docker("logs", container).count("ready")


def states(client: GatewayClient) -> dict[int, tuple[str, int | None, bool]]:
    return {node.node: (node.state, node.exit_code, bool(node.cut)) for node in client.nodes()}


WHOLE = dict.fromkeys((1, 2, 100), ("running", None, False))


def test_each_operation_takes_effect_and_is_seen(gateway: GatewayProcess) -> None:
    client = gateway.client()
    lease, broker = client.begin("run", 120), f"{PROJECT}-kafka-1"
    assert states(client) == WHOLE
    address = client.nodes()[0].started_at
    client.carry_out(lease, broker, "pause")
    assert states(client)[1] == ("frozen", None, False)
    client.carry_out(lease, broker, "kill")  # a frozen process does not wake up before it dies
    wait_until(lambda: states(client)[1] == ("exited", -9, False), "the kill to be seen", PATIENCE_S)
    before = starts(broker)
    client.carry_out(lease, broker, "start")
    assert states(client)[1] == ("running", None, False) and client.nodes()[0].started_at != address
    # The kernel drops a SIGTERM for the first process of a container, until that process has a handler.
    wait_until(lambda: starts(broker) > before, "the shell to handle SIGTERM", PATIENCE_S)
    client.carry_out(lease, broker, "kill", signal="SIGTERM")
    wait_until(lambda: states(client)[1] == ("exited", 143, False), "the orderly end to be seen", PATIENCE_S)
    client.carry_out(lease, broker, "start")
    client.carry_out(lease, broker, "disconnect", network=REPLICATION)
    assert states(client)[1] == ("running", None, True)
    assert reaches("kafka-2", f"{SUBNET}.11", "does not answer") and CLIENTS in networks("kafka-1")
    client.carry_out(lease, broker, "connect", network=REPLICATION)
    assert states(client) == WHOLE
    joined = networks("kafka-1")[REPLICATION]
    assert joined["IPAddress"] == f"{SUBNET}.11" and "kafka-1.replication" in joined["Aliases"]
    client.carry_out(lease, broker, "restart")
    client.carry_out(lease, broker, "stop")
    assert states(client)[1] == ("exited", 143, False)
    assert client.end(lease) == [f"{broker} exited"] and states(client) == WHOLE


def networks(container: str) -> dict[str, dict[str, object]]:
    return inspected(container)["NetworkSettings"]["Networks"]  # type: ignore[index,return-value]


def reaches(container: str, address: str, expected: str, port: int = 9) -> bool:
    """Whether a connection from a container to an address ends as expected: `refused` proves that packets arrive."""
    probe = f"nc -vz -w 3 {address} {port} 2>&1 || true"
    answer = docker("exec", f"{PROJECT}-{container}", "sh", "-c", probe)
    found = "refused" if "refused" in answer.lower() else ("open" if _is_open(answer) else "does not answer")
    assert found == expected, answer
    return True


def _is_open(answer: str) -> bool:
    return any(word in answer.lower() for word in ("succeeded", "open", "connected"))


def test_an_address_that_is_cut_off_is_distinguished_from_one_that_refuses() -> None:
    assert reaches("kafka-2", f"{SUBNET}.11", "refused")


def test_what_the_list_does_not_have_is_refused_and_changes_nothing(gateway: GatewayProcess) -> None:
    before = [inspected(name)["State"] for name in ("stranger", "kafka-1")]
    lease = gateway.client().begin("run", 60)
    refused = [
        ("POST", f"/containers/{PROJECT}-stranger/kill", {}),
        ("POST", f"/containers/{inspected('stranger')['Id']}/kill", {}),
        ("POST", f"/containers/{inspected('kafka-1')['Id']}/kill", {}),
        ("POST", f"/containers/{PROJECT}-kafka-1/exec", {}),
        ("POST", f"/containers/{PROJECT}-kafka-1/exec", {"Cmd": ["true"]}),
        ("POST", "/containers/create", {"Image": IMAGE, "HostConfig": {"Binds": ["/:/host"]}}),
        ("POST", f"/containers/{PROJECT}-kafka-1/disconnect", {"network": CLIENTS}),
        ("POST", f"/containers/{PROJECT}-kafka-1/connect", {"network": "bridge"}),
        ("DELETE", f"/containers/{PROJECT}-kafka-1", {}),
        ("GET", "/v1.41/info", {}),
    ]
    with httpx.Client(base_url=gateway.url, headers={"Authorization": f"Bearer {TOKEN}"}) as http:
        answers = [http.request(method, path, json={"lease": lease, **body}) for method, path, body in refused]
    assert [answer.status_code for answer in answers] == [403] * len(refused)
    assert [inspected(name)["State"] for name in ("stranger", "kafka-1")] == before
    assert set(networks("kafka-1")) == {REPLICATION, CLIENTS}


def broken(client: GatewayClient, seconds: float) -> str:
    """Begins a lease, and damages every container under it. Returns the lease."""
    lease = client.begin("killed", seconds)
    client.carry_out(lease, f"{PROJECT}-kafka-1", "pause")
    client.carry_out(lease, f"{PROJECT}-kafka-2", "disconnect", network=REPLICATION)
    client.carry_out(lease, f"{PROJECT}-kafka-2", "kill")
    client.carry_out(lease, f"{PROJECT}-controller", "kill", signal="SIGTERM")
    wait_until(lambda: states(client)[2][0] == states(client)[100][0] == "exited", "the ends to be seen", PATIENCE_S)
    assert states(client) == {1: ("frozen", None, False), 2: ("exited", -9, True), 100: ("exited", 143, False)}
    return lease


TASK = """
import sys
from delivery_verifier.cluster.docker.gateway_client import GatewayClient
url, token, project, network = sys.argv[1:]
client = GatewayClient(url, token)
lease = client.begin("killed", 5.0)
client.carry_out(lease, f"{project}-kafka-1", "pause")
client.renew(lease)
client.carry_out(lease, f"{project}-kafka-2", "disconnect", network=network)
client.renew(lease)
client.carry_out(lease, f"{project}-kafka-2", "kill")
client.renew(lease)
client.carry_out(lease, f"{project}-controller", "kill", signal="SIGTERM")
client.renew(lease)
print(lease, flush=True)
sys.stdin.read()
"""
"""A task that damages every container under a lease of 5 s, and then does nothing more."""


def test_a_task_that_is_killed_in_the_middle_leaves_no_damage_beyond_its_lease(gateway: GatewayProcess) -> None:
    task = _killed_task(gateway)
    client = gateway.client()
    wait_until(lambda: states(client) == WHOLE, "the containers to be healed", PATIENCE_S)
    with pytest.raises(GatewayRefused, match="this lease does not run"):
        client.renew(task)


def _killed_task(gateway: Gateway) -> str:
    """Starts a process that damages all containers, and kills it. Returns its lease."""
    with subprocess.Popen(
        [sys.executable, "-c", TASK, gateway.url, TOKEN, PROJECT, REPLICATION],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        lease = process.stdout.readline().strip()
        assert inspected("kafka-1")["State"]["Status"] == "paused"  # type: ignore[index]
        process.kill()
    assert lease
    return lease


def test_a_gateway_that_was_killed_heals_at_its_next_start(gateway: GatewayProcess) -> None:
    lease = broken(gateway.client(), 120)
    gateway.send(signal.SIGKILL)
    assert inspected("kafka-1")["State"]["Status"] == "paused"  # type: ignore[index]
    gateway.start()
    client = gateway.client()
    wait_until(lambda: states(client) == WHOLE, "the containers to be healed", PATIENCE_S)
    with pytest.raises(GatewayRefused, match="the gateway was started anew"):
        client.carry_out(lease, f"{PROJECT}-kafka-1", "kill")


def test_the_network_of_the_gateway_is_not_reached_from_that_of_the_brokers() -> None:
    """A container that stands where the gateway stands is reached from its own network, and not from a broker's."""
    name = f"{PROJECT}-listener"
    labels = ("--label", f"{PROJECT_LABEL}={PROJECT}")
    listen = "while :; do nc -l -p 8700 >/dev/null 2>&1 || nc -l 8700 >/dev/null 2>&1; done"
    for container, script in ((name, listen), (f"{PROJECT}-tasks", SHELL)):
        docker(
            *("run", "-d", "--name", container, "--network", GATEWAY, *labels, "--entrypoint", "sh", IMAGE),
            "-c",
            script,
        )
    docker("network", "connect", CLIENTS, f"{PROJECT}-tasks")
    address = str(networks("listener")[GATEWAY]["IPAddress"])

    def listens() -> bool:
        probe = docker("exec", f"{PROJECT}-tasks", "sh", "-c", f"nc -vz -w 3 {address} 8700 2>&1 || true")
        return _is_open(probe)

    wait_until(listens, "the tasks to reach the gateway's place", PATIENCE_S)
    with ThreadPoolExecutor() as pool:  # an attempt that is in vain takes seconds
        unreached = (
            pool.submit(reaches, container, address, "does not answer", port=8700)
            for container in ("kafka-1", "controller", "stranger")
        )
        assert all(attempt.result() for attempt in list(unreached))
