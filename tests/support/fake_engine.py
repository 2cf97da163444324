"""An engine in memory: the part of the Docker Engine API that the fault gateway uses, on a Unix socket. Tests of the
gateway read from it what the gateway asked for."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from delivery_verifier.cluster.docker.nodes import ADDRESS_LABEL, ALIAS_LABEL, ALLOWED, FAULT_LABEL, PROJECT_LABEL
from delivery_verifier.host.waiting import wait_until
from support.patience import PATIENCE_S

PROJECT = "tested"
NETWORK = "tested_replication"
ADVERTISED = "CLIENT://{0}:9092,REPL://{0}.replication:9093"
_AFTER = {"kill": "exited", "stop": "exited", "start": "running", "restart": "running", "pause": "paused"}
_NEEDS = {"kill": ("running", "paused"), "pause": ("running",), "unpause": ("paused",)}


class FakeEngine:
    """Containers and networks in memory. `changes`: the requests that changed something, in order. `broken`: the paths'
    last parts of the requests that the engine refuses. `unfrozen`: how many more attempts to freeze a container fail as
    they do on a busy host. The engine speaks the versions of its API from `oldest` on."""

    def __init__(self, oldest: str = "1.12") -> None:
        self.oldest = oldest
        self.containers: dict[str, dict[str, Any]] = {}
        self.networks = {
            NETWORK: {"Id": "net-1", "Labels": {FAULT_LABEL: ALLOWED, PROJECT_LABEL: PROJECT}},
            "tested_kafka": {"Id": "net-2", "Labels": {PROJECT_LABEL: PROJECT}},
            "other_replication": {"Id": "net-3", "Labels": {FAULT_LABEL: ALLOWED, PROJECT_LABEL: "other"}},
        }
        self.changes: list[tuple[str, Any]] = []
        self.broken: set[str] = set()
        self.unfrozen = 0
        self.add("controller", 100, role="controller")
        for broker in (1, 2, 3):
            self.add(f"kafka-{broker}", broker)

    def add(self, name: str, node: int, role: str = "broker", **labels: str) -> None:
        """Adds a running container with the gateway's labels. `labels` replaces labels; an empty value removes one."""
        own = {FAULT_LABEL: ALLOWED, PROJECT_LABEL: PROJECT}
        if role == "broker":
            own |= {ALIAS_LABEL: f"{name}.replication", ADDRESS_LABEL: f"10.213.87.1{node}"}
        self.containers[name] = {
            "Id": f"id-{name}",
            "Name": f"/{name}",
            "Image": "sha256:4311",
            "State": {"Status": "running", "ExitCode": 0, "StartedAt": "1"},
            "Config": {
                "Image": "apache/kafka:4.3.1",
                "Env": [
                    f"KAFKA_NODE_ID={node}",
                    f"KAFKA_PROCESS_ROLES={role}",
                    "KAFKA_INTER_BROKER_LISTENER_NAME=REPL",
                    *([f"KAFKA_ADVERTISED_LISTENERS={ADVERTISED.format(name)}"] if role == "broker" else []),
                ],
                "Labels": {key: value for key, value in (own | labels).items() if value},
            },
            "NetworkSettings": {"Networks": {NETWORK: {}, "tested_kafka": {}}},
        }

    def state(self, name: str) -> str:
        """The state of a container: the engine's word, and its networks if it is not in all of them."""
        container = self.containers[name]
        cut = "" if NETWORK in container["NetworkSettings"]["Networks"] else ", cut off"
        return container["State"]["Status"] + cut

    def app(self) -> Starlette:
        """The web application."""
        version = "v1.41" if self.oldest < "1.41" else f"v{self.oldest}"
        return Starlette(
            routes=[
                Route("/version", self._say_version),
                Route(f"/{version}/containers/json", self._list_containers),
                Route(f"/{version}/networks", self._list_networks),
                Route(f"/{version}/containers/{{id}}/json", self._inspect),
                Route(f"/{version}/containers/{{id}}/{{operation}}", self._change, methods=["POST"]),
                Route(f"/{version}/networks/{{id}}/{{operation}}", self._change_network, methods=["POST"]),
            ]
        )

    async def _say_version(self, request: Request) -> Response:
        return JSONResponse({"ApiVersion": "1.52", "MinAPIVersion": self.oldest})

    async def _list_containers(self, request: Request) -> Response:
        found = [each for each in self.containers.values() if _has(each["Config"]["Labels"], request)]
        return JSONResponse([{"Id": each["Id"], "Names": [each["Name"]]} for each in found])

    async def _list_networks(self, request: Request) -> Response:
        found = {name: each for name, each in self.networks.items() if _has(each["Labels"], request)}
        return JSONResponse([{"Id": each["Id"], "Name": name} for name, each in found.items()])

    async def _inspect(self, request: Request) -> Response:
        return JSONResponse(self.containers[request.path_params["id"].removeprefix("id-")])

    async def _change(self, request: Request) -> Response:
        name, operation = request.path_params["id"].removeprefix("id-"), request.path_params["operation"]
        state = self.containers[name]["State"]
        if operation in self.broken or state["Status"] not in _NEEDS.get(operation, (state["Status"],)):
            return JSONResponse({"message": f"cannot {operation}"}, 409)
        if operation == "pause" and self.unfrozen:
            self.unfrozen -= 1
            return JSONResponse({"message": "OCI runtime pause failed: unable to freeze: unknown"}, 500)
        self.changes.append((f"{operation} {name}", dict(request.query_params)))
        if operation in ("kill", "stop"):
            state["ExitCode"] = 143 if request.query_params.get("signal") == "SIGTERM" else 137
        if operation in ("start", "restart"):
            state["StartedAt"] += "1"
        state["Status"] = _AFTER.get(operation, "running")
        return Response(status_code=204)

    async def _change_network(self, request: Request) -> Response:
        body, operation = await request.json(), request.path_params["operation"]
        name = body["Container"].removeprefix("id-")
        if operation in self.broken:
            return JSONResponse({"message": f"cannot {operation}"}, 500)
        self.changes.append((f"{operation} {name}", body))
        network = next(key for key, each in self.networks.items() if each["Id"] == request.path_params["id"])
        networks = self.containers[name]["NetworkSettings"]["Networks"]
        if operation == "connect":
            networks[network] = {}
        else:
            del networks[network]
        return Response(status_code=200)

    @contextmanager
    def serve(self, socket: Path) -> Iterator[None]:
        """Serves the engine at a Unix socket during the block."""
        with served(uvicorn.Config(self.app(), uds=str(socket), log_level="warning")):
            yield


@contextmanager
def served(config: uvicorn.Config) -> Iterator[None]:
    """Serves a web application in a thread during the block."""
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started, "the server to listen", PATIENCE_S)
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(30)


def _has(labels: dict[str, str], request: Request) -> bool:
    wanted = json.loads(request.query_params["filters"])["label"]
    return all(f"{key}={labels.get(key)}" in wanted for key in (FAULT_LABEL, PROJECT_LABEL)) and len(wanted) == 2
