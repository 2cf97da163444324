"""The fault gateway: the only service that may change the brokers' containers. It carries out only the operations in
`engine.OPERATIONS`.

A process with access to the Docker engine's socket can do anything to the host. So only the fault gateway has the
socket. The fault gateway and the tasks of a run share a network that no other service is in.

The fault gateway answers these requests, and answers any other request with status 403:

* `GET /health`: returns 200. Every other request needs the token in KDV_GATEWAY_TOKEN. Without this token, the status
  is 401.
* `GET /nodes`: returns the nodes (`nodes.Node`).
* `POST /leases` with `holder` and `seconds`: heals the containers, and returns the id of a new lease. Status 409 if
  another lease runs.
* `PUT /leases/ID`: renews a lease, and returns the nodes. Status 409 if this lease does not run.
* `DELETE /leases/ID`: ends a lease, and heals the containers. Status 409 if this lease does not run.
* `POST /containers/NAME/OPERATION` with `lease` and the options of the operation: changes a container. Status 409 if
  this lease does not run.
* `POST /heal`: heals the containers, and returns in words what was damaged. Status 409 if a lease runs.

The bodies of requests and answers are JSON. If the engine fails, the answer has status 502.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from delivery_verifier.cluster.docker.engine import Engine, EngineError, Refusal
from delivery_verifier.cluster.docker.leases import Conflict, LeasedEngine, log
from delivery_verifier.cluster.docker.nodes import NotANode

PORT = 8700
SOCKET = "/var/run/docker.sock"
SHORTEST_TOKEN = 16
MOST_BYTES = 4096
"""The greatest size of a request's body in bytes."""
_STATUS: dict[type[Exception], int] = {Refusal: 403, Conflict: 409, EngineError: 502, NotANode: 502}
"""Maps the class of an error that a request can cause to the HTTP status with which the gateway answers the request."""


class _Routes:
    """The routes (paths and methods) that the fault gateway serves. Every request except `GET /health` needs the token
    `token`."""

    def __init__(self, leased: LeasedEngine, token: str) -> None:
        self._leased, self._token = leased, token

    def all(self) -> list[Route]:
        """Returns all routes of the fault gateway."""
        return [
            Route("/health", _health, methods=["GET"]),
            self._guarded("/nodes", "GET", self._nodes),
            self._guarded("/leases", "POST", self._begin),
            self._guarded("/leases/{lease}", "PUT", self._renew),
            self._guarded("/leases/{lease}", "DELETE", self._end),
            self._guarded("/heal", "POST", self._heal),
            self._guarded("/containers/{container}/{operation}", "POST", self._carry_out),
        ]

    async def _nodes(self, request: Request) -> object:
        return await self._leased.nodes()

    async def _begin(self, request: Request) -> object:
        body = await _body(request)
        holder, seconds = body.get("holder"), body.get("seconds")
        if not isinstance(holder, str) or not isinstance(seconds, int | float):
            raise Refusal("a lease needs a holder and seconds")
        return await self._leased.begin(holder, seconds)

    async def _renew(self, request: Request) -> object:
        self._leased.renew(request.path_params["lease"])
        return await self._leased.nodes()

    async def _end(self, request: Request) -> object:
        return await self._leased.end(request.path_params["lease"])

    async def _heal(self, request: Request) -> object:
        return await self._leased.heal()

    async def _carry_out(self, request: Request) -> object:
        options = await _body(request)
        container, operation = request.path_params["container"], request.path_params["operation"]
        await self._leased.carry_out(str(options.pop("lease", "")), container, operation, options)
        log(f"{operation} of {container} {options or ''}".rstrip())
        return None

    def _guarded(self, path: str, method: str, answer: Callable[[Request], Awaitable[object]]) -> Route:
        """Returns a route that refuses requests without the token. The route calls `answer` for all other requests.

        If `answer` raises an error, the route returns the status that `_STATUS` gives for this error.
        """

        async def endpoint(request: Request) -> Response:
            expected = f"Bearer {self._token}".encode()
            if not hmac.compare_digest(request.headers.get("authorization", "").encode(), expected):
                return _answer(401, {"error": "the token of KDV_GATEWAY_TOKEN is missing or wrong"})
            try:
                return _answer(200, await answer(request))
            except tuple(_STATUS) as error:
                return _answer(_STATUS[type(error)], {"error": str(error)})

        return Route(path, endpoint, methods=[method])


def app(engine: Engine, token: str) -> Starlette:
    """Returns the fault gateway's web application. Raises ValueError if the token has less than `SHORTEST_TOKEN`
    characters."""
    if len(token) < SHORTEST_TOKEN:
        raise ValueError(f"KDV_GATEWAY_TOKEN needs {SHORTEST_TOKEN} characters or more")
    leased = LeasedEngine(engine)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        watch = asyncio.create_task(leased.watch())
        watch.add_done_callback(_end_with)
        yield
        watch.cancel()
        await engine.close()

    gateway = Starlette(
        routes=_Routes(leased, token).all(), exception_handlers={HTTPException: _forbidden}, lifespan=lifespan
    )
    gateway.router.redirect_slashes = False
    return gateway


def _end_with(watch: asyncio.Task[None]) -> None:
    """Ends this process if the task `watch` has failed. `watch` heals the containers after a lease has ended.

    A fault gateway that no longer heals must not look alive.
    """
    if not watch.cancelled() and (error := watch.exception()) is not None:
        log(f"the watch over the lease ended: {type(error).__name__}: {error}")
        os._exit(1)


async def _health(request: Request) -> Response:
    return PlainTextResponse("the gateway listens\n")


async def _forbidden(request: Request, error: Exception) -> Response:
    return _answer(403, {"error": f"{request.method} {request.url.path} is not allowed"})


async def _body(request: Request) -> dict[str, Any]:
    """Returns the JSON object in the body of a request. Raises Refusal if the body is anything else."""
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > MOST_BYTES:
            raise Refusal(f"a body may have at most {MOST_BYTES} bytes")
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise Refusal(f"the body is no JSON object: {error}") from None


def _answer(status: int, content: object) -> Response:
    return Response(msgspec.json.encode(content), status, media_type="application/json")


def main() -> None:
    """Serves the fault gateway. The environment variable KDV_GATEWAY_PROJECT names the brokers' Compose project.

    KDV_GATEWAY_PORT holds the port. If KDV_GATEWAY_PORT is unset, the port is `PORT`.
    """
    project, token = os.environ.get("KDV_GATEWAY_PROJECT", ""), os.environ.get("KDV_GATEWAY_TOKEN", "")
    if not project:
        sys.exit("gateway: KDV_GATEWAY_PROJECT is empty: name the Compose project of the brokers")
    if len(token) < SHORTEST_TOKEN:
        sys.exit(f"gateway: KDV_GATEWAY_TOKEN needs {SHORTEST_TOKEN} characters or more")
    engine = Engine(Path(os.environ.get("KDV_GATEWAY_ENGINE") or SOCKET), project)
    port = int(os.environ.get("KDV_GATEWAY_PORT") or PORT)
    uvicorn.run(app(engine, token), host="0.0.0.0", port=port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
