"""SASL over a connection to one broker: the mechanism is agreed on, and then the client proves who it is.

The messages and SCRAM's arithmetic are kafka-python's, the socket is ours (KIP-43, KIP-84, KIP-152, KIP-368, RFC 5802).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import NamedTuple

from delivery_verifier.cluster.connection import Address
from delivery_verifier.cluster.protocol.messages import Answer, decoded, encoded
from delivery_verifier.cluster.security import names

UNSUPPORTED_MECHANISM, ILLEGAL_STATE, FAILED = 33, 34, 58
"""Kafka's error codes: UNSUPPORTED_SASL_MECHANISM; ILLEGAL_SASL_STATE, of a listener without SASL;
SASL_AUTHENTICATION_FAILED."""
LEAST_ITERATIONS = 4096
"""The least number of iterations that Kafka allows for SCRAM (KIP-84). With fewer, a broker that is none could find the
password out."""
Exchange = Callable[[bytes], Answer]
"""Sends one request, and returns its answer, which has the same correlation id."""
Tokens = Generator[bytes, bytes, None]


class NotAuthenticated(ConnectionError):
    """The broker refused the client, or did not prove that it knows the password, too. `code` is Kafka's error code, or
    0. `mechanisms` are those that the broker has, if it said so."""

    def __init__(self, why: str, code: int = 0, mechanisms: tuple[str, ...] = ()) -> None:
        self.code, self.mechanisms = code, mechanisms
        super().__init__(why)


class Session(NamedTuple):
    """What the broker allowed. `lifetime_ms`: after how many ms it ends the connection. 0: never (KIP-368)."""

    lifetime_ms: int


def authenticate(exchange: Exchange, security: Mapping[str, str], address: Address) -> Session:
    """Proves to the broker at `address` who the client is. `security` has librdkafka's names.

    Raises NotAuthenticated, with the broker's own reason and no secret, and OSError if there is no readable answer.
    """
    names.require_common_mechanism(names.usual(security), "the verifier's own requests")
    mechanism = names.usual(security)[names.MECHANISM]
    agreed = decoded("SaslHandshake", 1, exchange(encoded("SaslHandshake", 1, mechanism=mechanism)), address)
    if agreed.error_code:
        offered = tuple(agreed.mechanisms or ())
        raise NotAuthenticated(
            f"the broker at {address} refused the mechanism {mechanism} (error {agreed.error_code}); it has: "
            f"{', '.join(offered) or 'none'}",
            agreed.error_code,
            offered,
        )
    user, password = security.get("sasl.username", ""), security.get("sasl.password", "")
    tokens = _plain(user, password) if mechanism == "PLAIN" else _scram(mechanism, user, password)
    token, lifetime_ms = next(tokens), 0
    while True:
        answer = decoded("SaslAuthenticate", 1, exchange(encoded("SaslAuthenticate", 1, auth_bytes=token)), address)
        if answer.error_code:
            why = answer.error_message or "no reason was given"
            raise NotAuthenticated(
                f"the broker at {address} says: {why} (error {answer.error_code})", answer.error_code
            )
        lifetime_ms = answer.session_lifetime_ms or lifetime_ms
        try:
            token = tokens.send(bytes(answer.auth_bytes or b""))
        except StopIteration:
            return Session(lifetime_ms)


def _plain(user: str, password: str) -> Tokens:
    yield f"\0{user}\0{password}".encode()


def _scram(mechanism: str, user: str, password: str) -> Tokens:
    """Yields the client's messages of RFC 5802. Unlike RFC 5802, Kafka does not prepare names and passwords
    (`ScramFormatter.normalize`)."""
    from kafka.net.sasl.scram import ScramClient

    client = ScramClient(user.replace("=", "=3D").replace(",", "=2C"), password, mechanism)
    first = _fields((yield client.first_message()))
    if not first.get("i", "").isdecimal() or int(first["i"]) < LEAST_ITERATIONS:
        raise NotAuthenticated(
            f"the broker asks for {first.get('i')} iterations of {mechanism}; at least {LEAST_ITERATIONS}"
        )
    try:
        client.process_server_first_message(_joined(first))
        last = _fields((yield client.final_message()))
        client.process_server_final_message(_joined(last))
    except (ValueError, KeyError):
        raise NotAuthenticated(f"the broker did not prove that it knows the password ({mechanism})") from None


def _fields(message: bytes) -> dict[str, str]:
    """Returns the attributes of a message of the server, in their order. Raises NotAuthenticated if it reports an
    error, or is none."""
    try:
        fields = dict(part.split("=", 1) for part in message.decode().split(","))
    except ValueError:
        raise NotAuthenticated("the broker sent a message that is none of SCRAM's") from None
    if "e" in fields:
        raise NotAuthenticated(f"the broker says: {fields['e']}")
    return fields


def _joined(fields: Mapping[str, str]) -> bytes:
    return ",".join(f"{name}={value}" for name, value in fields.items()).encode()
