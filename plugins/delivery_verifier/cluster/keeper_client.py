"""Sends requests from another process to a keeper. There is one request for each method of `KeeperOperations`.

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
from delivery_verifier.cluster.keeper_operations import OPERATIONS, KeeperOperations


class _KeeperClient:
    """Sends requests to the keeper at `socket`. The client has one method per operation of a keeper."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def __getattr__(self, name: str) -> Any:
        if name not in OPERATIONS:
            raise AttributeError(f"a keeper has no operation {name!r}")
        return partial(self._request, name)

    def _request(self, operation: str, *positional: Any, **named: Any) -> Any:
        parameters, result_type = _signature(operation)
        arguments = dict(parameters.bind(self, *positional, **named).arguments)
        del arguments["self"]
        result = lease.call(self._socket, operation, **arguments)
        return msgspec.convert(result, result_type, strict=False)  # the keys of JSON objects are always text


@cache
def _signature(operation: str) -> tuple[inspect.Signature, Any]:
    declared = getattr(KeeperOperations, operation)
    return inspect.signature(declared), get_type_hints(declared)["return"]


def keeper_at(socket: Path) -> KeeperOperations:
    """Returns an object whose methods send requests to the keeper that listens at `socket`.

    Every method raises lease.ClusterGone if no keeper answers, and RuntimeError with the reason if the keeper refuses
    the request.
    """
    return cast("KeeperOperations", _KeeperClient(socket))
