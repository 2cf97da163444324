"""SASL of the verifier's own requests, against a server that is written from RFC 5802 alone: both sides prove that they
know the password, and no message shows it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import struct
from collections.abc import Callable

import pytest

from delivery_verifier.cluster.connection import Address
from delivery_verifier.cluster.protocol.authentication import NotAuthenticated, authenticate

ADDRESS = Address("broker", 9093)
PASSWORD = "hush-7"
SECURITY = {"sasl.username": "ve,ri=fier", "sasl.password": PASSWORD}


def text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


class Server:
    """A broker that authenticates by one mechanism. `iterations` and `signs` are what a test makes wrong."""

    def __init__(self, mechanism: str, iterations: int = 4096, signs: bool = True, lifetime_ms: int = 0) -> None:
        self.mechanism, self.iterations, self.signs, self.lifetime_ms = mechanism, iterations, signs, lifetime_ms
        self.algorithm = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
        self.tokens: list[bytes] = []

    def __call__(self, request: bytes) -> bytes:
        key, version = struct.unpack(">hh", request[:4])
        body = request[10 + len("kdv") :]
        if key == 17:
            assert version == 1
            is_known = body == text(self.mechanism)
            mechanisms = struct.pack(">i", 1) + text(self.mechanism)
            return struct.pack(">ih", 1, 0 if is_known else 33) + mechanisms
        token = body[4:]
        self.tokens.append(token)
        try:
            answer, code, why = self.answer(token), 0, struct.pack(">h", -1)
        except AssertionError:
            answer, code, why = b"", 58, text("Authentication failed")
        data = struct.pack(">i", len(answer)) + answer
        return struct.pack(">ih", 1, code) + why + data + struct.pack(">q", self.lifetime_ms)

    def answer(self, token: bytes) -> bytes:
        if self.mechanism == "PLAIN":
            assert token == f"\0ve,ri=fier\0{PASSWORD}".encode()
            return b""
        if len(self.tokens) == 1:
            self.first = token.decode().removeprefix("n,,")
            user, nonce = self.first.split(",")
            assert user == "n=ve=2Cri=3Dfier"
            self.challenge = f"{nonce}server,s={base64.b64encode(b'salt').decode()},i={self.iterations}"
            return self.challenge.encode()
        final, _, proof = token.decode().rpartition(",p=")
        salted = hashlib.pbkdf2_hmac(self.algorithm, PASSWORD.encode(), b"salt", self.iterations)
        mac = lambda secret, message: hmac.digest(secret, message, self.algorithm)  # noqa: E731
        signed = f"{self.first},{self.challenge},{final}".encode()
        key = mac(salted, b"Client Key")
        signature = mac(hashlib.new(self.algorithm, key).digest(), signed)
        expected = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        assert hmac.compare_digest(base64.b64decode(proof), expected)
        own = mac(mac(salted, b"Server Key"), signed) if self.signs else b"nothing"
        return f"v={base64.b64encode(own).decode()}".encode()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_both_sides_prove_that_they_know_the_password(mechanism: str) -> None:
    server = Server(mechanism, lifetime_ms=60_000)
    session = authenticate(server, {**SECURITY, "sasl.mechanism": mechanism}, ADDRESS)
    assert session.lifetime_ms == 60_000
    assert len(server.tokens) == (1 if mechanism == "PLAIN" else 2)


@pytest.mark.parametrize(
    ("server", "security", "said"),
    [
        (Server("PLAIN"), {"sasl.password": "hush-8"}, r"broker:9093 says: Authentication failed \(error 58\)"),
        (Server("SCRAM-SHA-512"), {"sasl.password": "hush-8"}, r"says: Authentication failed \(error 58\)"),
        (
            Server("SCRAM-SHA-512"),
            {"sasl.mechanism": "PLAIN"},
            r"refused the mechanism PLAIN \(error 33\); it has: SCRAM",
        ),
        (Server("SCRAM-SHA-512", signs=False), {}, "did not prove that it knows the password"),
        (Server("SCRAM-SHA-512", iterations=1), {}, "asks for 1 iterations of SCRAM-SHA-512; at least 4096"),
    ],
)
def test_a_refusal_on_either_side_has_its_reason_and_no_secret(
    server: Server, security: dict[str, str], said: str
) -> None:
    properties = {**SECURITY, "sasl.mechanism": server.mechanism, **security}
    with pytest.raises(NotAuthenticated, match=said) as refusal:
        authenticate(server, properties, ADDRESS)
    assert "hush" not in str(refusal.value)


@pytest.mark.parametrize("message", [b"\xff", b"no attributes", b"e=other-error"])
def test_a_message_that_is_none_of_scrams_is_a_refusal(message: bytes) -> None:
    server = Server("SCRAM-SHA-512")
    server.answer: Callable[[bytes], bytes] = lambda _: message  # type: ignore[method-assign,misc]
    with pytest.raises(NotAuthenticated, match="the broker s"):
        authenticate(server, {**SECURITY, "sasl.mechanism": "SCRAM-SHA-512"}, ADDRESS)
