"""Kafka's messages, encoded and decoded by kafka-python. Nothing else of it is used, least of all its network.

kafka-python is imported with the first message, because it takes 0.1 s of CPU time.
"""

from __future__ import annotations

import io
import struct
import threading
from functools import cache
from typing import Any

from delivery_verifier.cluster.connection import Address

Answer = bytes | bytearray
"""The bytes of an answer, without the size field that precedes them."""
CLIENT_ID = "kdv"
"""The client.id of all requests. Brokers write it into their logs."""
_CORRELATION = 1
"""The correlation id of all requests, until a channel gives each its own."""
_HEADER_BYTES = 1024
"""More bytes than the header of an answer has. It has a correlation id, and tagged fields, of which Kafka defines
none."""
_UNREADABLE = (struct.error, IndexError, ValueError, TypeError, AssertionError, OverflowError)
"""What kafka-python raises if bytes are not the answer that it expects."""
_lock = threading.Lock()
"""Held while kafka-python works. It compiles the functions for a message when it first meets the message, and two
threads that meet it at once would disturb each other."""


def encoded(name: str, version: int, **fields: object) -> bytes:
    """Returns the request `name` of Kafka's protocol (e.g. `Fetch`) with its header.

    `fields` are the fields of the request, in the names that kafka-python gives them: Kafka's own names in lower case,
    with underscores. A field that is missing has Kafka's default. An item of an array of structures is a tuple of all
    fields that the structure has in `version`. Raises ValueError if the request has no such field.
    """
    with _lock:
        request = _classes(name)[0](version=version, **fields)
        request.with_header(_CORRELATION, CLIENT_ID)
        return bytes(request.encode(header=True))


def decoded(name: str, version: int, answer: Answer, address: Address) -> Any:
    """Returns the answer to the request `name`, with its fields as attributes. Strings and arrays may be None.

    Raises ConnectionError if `answer` is no such answer. The error names `address`, the address of the broker.
    """
    response, content = _classes(name)[1], memoryview(answer)
    try:
        with _lock:
            header = io.BytesIO(content[:_HEADER_BYTES])
            response.parse_header(header, version)  # apart from the rest, of which it would make two copies
            return response.decode(content[header.tell() :], version)
    except _UNREADABLE as error:
        raise unreadable(address, str(error) or type(error).__name__) from None


def api_key(name: str) -> int:
    """Returns the number of the request `name` in Kafka's protocol."""
    return int(_classes(name)[0].API_KEY)


def unreadable(address: Address, why: str) -> ConnectionError:
    """Returns the error for an answer that makes no sense."""
    return ConnectionError(f"the broker at {address} gave no answer that can be read: {why}")


@cache
def _classes(name: str) -> tuple[Any, Any]:
    """Returns kafka-python's classes of the request `name` and of its answer."""
    from kafka.protocol import admin, consumer, metadata, producer, sasl

    modules = (admin, consumer, metadata, producer, sasl)
    (module,) = (module for module in modules if hasattr(module, f"{name}Request"))
    return getattr(module, f"{name}Request"), getattr(module, f"{name}Response")
