"""The part of the Docker engine's API that the fault gateway uses. The fault gateway sees only containers and networks
with certain labels, and carries out only the operations in `OPERATIONS`.

Source: Docker Engine API v1.41, https://docs.docker.com/reference/api/engine/version/v1.41/. If an engine no longer
supports this version (e.g. Docker 29), the fault gateway uses the oldest version that the engine supports. A client of
the fault gateway can only choose a container, an operation of `OPERATIONS` and the options of this operation.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from delivery_verifier.cluster.docker.nodes import (
    ADDRESS_LABEL,
    ALIAS_LABEL,
    ALLOWED,
    FAULT_LABEL,
    PROJECT_LABEL,
    Node,
    node_of,
)
from delivery_verifier.host.http_clients import WITHOUT_AUTHORITIES
from delivery_verifier.model.errors import VerifierError

VERSION = (1, 41)
"""The version of the engine's API that the gateway uses, unless the oldest version that the engine supports is
later."""
TIMEOUT_S = 10.0
STOP_S = 30
"""Seconds that the engine waits in the operations `stop` and `restart`. If the container has not ended on SIGTERM by
then, the engine kills it."""
SIGNALS = ("SIGKILL", "SIGTERM")
"""The signals that the operation `kill` may send."""
ON_A_PROCESS = ("kill", "pause", "unpause", "start", "stop", "restart")
ON_A_NETWORK = ("connect", "disconnect")
OPERATIONS = (*ON_A_PROCESS, *ON_A_NETWORK)
"""All operations that the gateway carries out."""


class EngineError(VerifierError, RuntimeError):
    """The Docker engine does not answer, or refuses a request. The message contains the engine's reason."""


class Refusal(VerifierError, RuntimeError):
    """The fault gateway does not allow a request, because of the request's operation, options, container or network."""


class Engine:
    """The Docker engine at the Unix socket `socket`.

    Shows only the containers and networks of the Compose project `project` that have the label `FAULT_LABEL`.
    """

    def __init__(self, socket: Path, project: str) -> None:
        self._http = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=str(socket), verify=WITHOUT_AUTHORITIES),
            base_url="http://engine",
            timeout=TIMEOUT_S,
        )
        self._version = ""
        self._labels = {FAULT_LABEL: ALLOWED, PROJECT_LABEL: project}

    async def nodes(self) -> list[Node]:
        """Returns the nodes in all containers with the labels that the fault gateway looks for, sorted by node id.

        Raises EngineError. Raises NotANode if a container with these labels is not a node of Kafka.
        """
        networks = await self._networks()
        listed = await self._request("GET", "/containers/json", {"all": "true", "filters": self._filter()})
        inspections = (self._request("GET", f"/containers/{each['Id']}/json") for each in listed)
        containers = await asyncio.gather(*inspections)
        return sorted((node_of(container, list(networks)) for container in containers), key=lambda node: node.node)

    async def carry_out(self, container: str, operation: str, options: Mapping[str, Any]) -> None:
        """Carries out `operation` on the container with the name `container`.

        `options` holds `signal` for the operation kill, and `network` for the operations connect and disconnect. Raises
        EngineError. Raises Refusal if the fault gateway does not allow this request.
        """
        if operation not in OPERATIONS:
            raise Refusal(f"{operation} is not allowed; allowed: {', '.join(OPERATIONS)}")
        known = {"kill": {"signal"}, "connect": {"network"}, "disconnect": {"network"}}
        if unknown := sorted(options.keys() - known.get(operation, set())):
            raise Refusal(f"{operation} takes no {', '.join(unknown)}")
        inspected = await self._container(container)
        if operation in ON_A_NETWORK:
            await self._change_network(inspected, operation, options.get("network"))
            return
        query = dict[str, str]()
        if operation == "kill":
            query["signal"] = str(options.get("signal", "SIGKILL"))
            if query["signal"] not in SIGNALS:
                raise Refusal(f"kill may not send {query['signal']}; allowed: {', '.join(SIGNALS)}")
        if operation in ("stop", "restart"):
            query["t"] = str(STOP_S)
        await self._request("POST", f"/containers/{inspected['Id']}/{operation}", query)

    async def heal(self) -> list[str]:
        """Heals all damaged containers: connects them to the networks that they belong to, and resumes or starts them.

        Ignores containers that were never started. Returns in words what was damaged. If a container cannot be healed,
        first heals all other containers, and then raises EngineError.
        """
        damaged, errors = [node for node in await self.nodes() if not node.is_whole and not node.fresh], list[str]()
        for node in damaged:
            steps: list[tuple[str, dict[str, str]]] = [("connect", {"network": network}) for network in node.cut]
            if node.state != "running":
                steps.append(("unpause" if node.state == "frozen" else "start", {}))
            for operation, options in steps:
                try:
                    await self.carry_out(node.container, operation, options)
                except (EngineError, Refusal) as error:
                    errors.append(f"{node.damage}: {error}")
        if errors:
            raise EngineError("; ".join(errors))
        return [node.damage for node in damaged]

    async def close(self) -> None:
        """Closes the connections to the engine."""
        await self._http.aclose()

    async def _container(self, name: str) -> Any:
        """Returns the engine's description of the container with the name `name`.

        Raises Refusal if no container with this name has the labels that the fault gateway looks for. The id of a
        container does not count as a name.
        """
        listed = await self._request("GET", "/containers/json", {"all": "true", "filters": self._filter()})
        for each in listed:
            if f"/{name}" in each["Names"]:
                return await self._request("GET", f"/containers/{each['Id']}/json")
        raise Refusal(f"there is no container {name} with the label {FAULT_LABEL}={ALLOWED} in this project")

    async def _change_network(self, container: Any, operation: str, network: object) -> None:
        networks, labels = await self._networks(), container["Config"]["Labels"]
        if network not in networks:
            raise Refusal(f"the network {network} has no label {FAULT_LABEL}={ALLOWED}; allowed: {', '.join(networks)}")
        if ALIAS_LABEL not in labels:
            raise Refusal(f"the container has no label {ALIAS_LABEL}, so it could not be connected again")
        body: dict[str, Any] = {"Container": container["Id"]}
        if operation == "disconnect":
            body["Force"] = False
        else:
            address = labels.get(ADDRESS_LABEL)
            fixed = {"IPAMConfig": {"IPv4Address": address}} if address else {}
            body["EndpointConfig"] = {"Aliases": [labels[ALIAS_LABEL]], **fixed}
        await self._request("POST", f"/networks/{networks[str(network)]}/{operation}", body=body)

    async def _networks(self) -> dict[str, str]:
        """Returns the networks with the labels that the fault gateway looks for. Maps the name of each network to its
        id."""
        listed = await self._request("GET", "/networks", {"filters": self._filter()})
        return {each["Name"]: each["Id"] for each in listed}

    def _filter(self) -> str:
        return json.dumps({"label": [f"{name}={value}" for name, value in self._labels.items()]})

    async def _request(self, method: str, path: str, query: Mapping[str, str] | None = None, body: Any = None) -> Any:
        """Sends one request in an API version that the engine supports. Returns the JSON of the answer, or None for an
        empty answer.

        Raises EngineError.
        """
        if not self._version:
            oldest = str((await self._send("GET", "/version")).get("MinAPIVersion") or "1.0")
            major, minor = max(VERSION, tuple(int(part) for part in oldest.split(".")))
            self._version = f"v{major}.{minor}"
        return await self._send(method, f"/{self._version}{path}", query, body)

    async def _send(self, method: str, path: str, query: Mapping[str, str] | None = None, body: Any = None) -> Any:
        patience_s = TIMEOUT_S + (STOP_S if "t" in (query or {}) else 0)
        try:
            answer = await self._http.request(method, path, params=query, json=body, timeout=patience_s)
        except httpx.HTTPError as error:
            raise EngineError(f"the engine does not answer: {type(error).__name__} {error}") from None
        if answer.status_code >= 400:
            raise EngineError(f"the engine refused {method} {path.rsplit('/', 1)[1]}: {answer.text.strip()}")
        return answer.json() if answer.content else None
