"""Sends requests from another process to a cluster agent. There is one request for each method of `AgentOperations`.

A request holds the arguments of the method as JSON, under the names of the method's parameters. The client converts the
result to the type that the method declares.
"""

from __future__ import annotations

import inspect
from functools import cache, partial
from pathlib import Path
from typing import Any, cast, get_type_hints

import msgspec

from delivery_verifier.cluster import lease
from delivery_verifier.cluster.agent_operations import OPERATIONS, AgentOperations


class _AgentClient:
    """Sends requests to the cluster agent at `socket`. The client has one method per operation of a cluster agent."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def __getattr__(self, name: str) -> Any:
        if name not in OPERATIONS:
            raise AttributeError(f"a cluster agent has no operation {name!r}")
        return partial(self._request, name)

    def _request(self, operation: str, *positional: Any, **named: Any) -> Any:
        parameters, result_type = _signature(operation)
        arguments = dict(parameters.bind(self, *positional, **named).arguments)
        del arguments["self"]
        result = lease.call(self._socket, operation, **arguments)
        return msgspec.convert(result, result_type, strict=False)  # the keys of JSON objects are always text


@cache
def _signature(operation: str) -> tuple[inspect.Signature, Any]:
    declared = getattr(AgentOperations, operation)
    return inspect.signature(declared), get_type_hints(declared)["return"]


def agent_at(socket: Path) -> AgentOperations:
    """Returns an object whose methods send requests to the cluster agent that listens at `socket`.

    Every method raises lease.ClusterGone if no cluster agent answers, and RuntimeError with the reason if the cluster
    agent refuses the request.
    """
    return cast("AgentOperations", _AgentClient(socket))
