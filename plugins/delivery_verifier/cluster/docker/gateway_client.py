"""Sends requests from the tasks of a run to the fault gateway (see `docker.gateway`)."""

from __future__ import annotations

import os
from typing import Any

import httpx
import msgspec

from delivery_verifier.cluster.docker.nodes import Node
from delivery_verifier.host import variables
from delivery_verifier.host.http_clients import client_of
from delivery_verifier.model.errors import VerifierError

ANSWER_S = 10.0
"""Seconds to wait for an answer. A gateway that has not answered by then counts as dead."""
HEAL_S = 60.0
"""Seconds to wait for the answer to a request that heals."""


class GatewayGone(VerifierError, RuntimeError):
    """The fault gateway does not answer. So nobody knows the states of the brokers' containers any more."""


class GatewayRefused(VerifierError, RuntimeError):
    """The fault gateway or the engine refused a request. The message contains the reason."""


class GatewayClient:
    """Sends requests to the fault gateway at `url`.

    Every method raises GatewayGone if the fault gateway does not answer in time, and GatewayRefused with the reason if
    it refuses the request.
    """

    def __init__(self, url: str, token: str, answer_s: float = ANSWER_S) -> None:
        self._http = client_of(url, headers={"Authorization": f"Bearer {token}"}, timeout=answer_s)

    def nodes(self) -> list[Node]:
        """Returns the brokers and controllers that Docker Compose runs, sorted by node id."""
        return self._nodes(self._request("GET", "/nodes"))

    def begin(self, holder: str, seconds: float) -> str:
        """Asks the fault gateway to heal all containers, and to begin a lease of `seconds` for `holder`. Returns the id
        of the lease."""
        return str(self._request("POST", "/leases", {"holder": holder, "seconds": seconds}, HEAL_S))

    def renew(self, lease: str) -> list[Node]:
        """Renews a lease. Returns the brokers and controllers that Docker Compose runs."""
        return self._nodes(self._request("PUT", f"/leases/{lease}"))

    def end(self, lease: str) -> list[str]:
        """Ends a lease, and asks the fault gateway to heal all containers. Returns in words what was damaged."""
        return msgspec.convert(self._request("DELETE", f"/leases/{lease}", patience_s=HEAL_S), list[str])

    def heal(self) -> list[str]:
        """Asks the fault gateway to heal all containers. Returns in words what was damaged. The fault gateway refuses
        this request while a lease runs."""
        return msgspec.convert(self._request("POST", "/heal", patience_s=HEAL_S), list[str])

    def carry_out(self, lease: str, container: str, operation: str, **options: str) -> None:
        """Asks the fault gateway to carry out an operation (see `engine.OPERATIONS`) on a container. `lease` is the id
        of a running lease."""
        self._request("POST", f"/containers/{container}/{operation}", {"lease": lease, **options})

    def _nodes(self, content: Any) -> list[Node]:
        return msgspec.convert(content, list[Node])

    def _request(self, method: str, path: str, body: Any = None, patience_s: float | None = None) -> Any:
        timeout = httpx.USE_CLIENT_DEFAULT if patience_s is None else patience_s
        try:
            answer = self._http.request(method, path, json=body, timeout=timeout)
        except httpx.HTTPError as error:
            raise GatewayGone(f"the fault gateway does not answer: {type(error).__name__} {error}".rstrip()) from None
        try:
            content = answer.json()
        except ValueError:
            raise GatewayGone(f"what answers is no fault gateway: status {answer.status_code}") from None
        if answer.status_code != 200:
            reason = content.get("error", "") if isinstance(content, dict) else ""
            raise GatewayRefused(
                f"the fault gateway refused {method} {path.split('/')[1]}: {reason or answer.status_code}"
            )
        return content


def gateway() -> GatewayClient | None:
    """Returns a client of the fault gateway. KDV_GATEWAY_URL holds the fault gateway's URL, and KDV_GATEWAY_TOKEN holds
    the token.

    Returns None if KDV_GATEWAY_URL is unset. Raises BadInput if the value of KDV_GATEWAY_URL is not a URL.
    """
    if not os.environ.get("KDV_GATEWAY_URL"):
        return None
    return GatewayClient(
        variables.url("KDV_GATEWAY_URL", "http://fault-gateway:8700"), os.environ.get("KDV_GATEWAY_TOKEN", "")
    )
