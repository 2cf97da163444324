"""Why a broker cannot be reached, named by the property that is wrong.

A raw connection says more than a client does: librdkafka reports `_TRANSPORT` or nothing for most of these. The codes
of OpenSSL are those of its manual page x509_verify_cert_error_string(3).
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from delivery_verifier.cluster.connection import Address
from delivery_verifier.cluster.protocol.authentication import (
    FAILED,
    ILLEGAL_STATE,
    UNSUPPORTED_MECHANISM,
    NotAuthenticated,
)
from delivery_verifier.cluster.security import names, tls
from delivery_verifier.model.errors import VerifierError

SERVERS = "bootstrap.servers"
_EXPIRED, _NOT_YET = 10, 9
_UNTRUSTED = (2, 7, 18, 19, 20, 21)
_OTHER_NAME = (62, 64)
_OWN_CERTIFICATE = (
    "CERTIFICATE_REQUIRED",
    "BAD_CERTIFICATE",
    "CERTIFICATE_UNKNOWN",
    "UNKNOWN_CA",
    "CERTIFICATE_EXPIRED",
)
"""What a broker's alert is called if it refuses the client's certificate, or misses one."""


class Cause(NamedTuple):
    """Why a broker cannot be reached. `name`: the property that is wrong. `why`: the rest of the sentence."""

    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


def cause(error: Exception, security: Mapping[str, str], address: Address) -> Cause:
    """Returns the cause of `error`, which a connection to `address` with the properties `security` raised. The text
    shows no value that may be secret."""
    security = names.usual(security)
    for kind, read in _READERS.items():
        if isinstance(error, kind):
            return read(error, security, address)
    if isinstance(error, VerifierError):
        name, _, rest = str(error).partition(" ")
        return Cause(name.rstrip(":"), rest)
    return _of_network(error, address)


def _of_network(error: Exception, address: Address) -> Cause:
    if isinstance(error, socket.gaierror):
        return Cause(SERVERS, f"the host {address.host} is not known here ({error.strerror})")
    if isinstance(error, ConnectionRefusedError):
        return Cause(SERVERS, f"nobody listens at {address}")
    if isinstance(error, TimeoutError):
        return Cause(
            "bootstrap.servers", f"{address} does not answer; a firewall, a frozen broker, or another protocol?"
        )
    return Cause(SERVERS, f"{address} cannot be reached ({error})")


def _of_sasl(error: NotAuthenticated, security: Mapping[str, str], address: Address) -> Cause:
    if error.code == UNSUPPORTED_MECHANISM:
        theirs = ", ".join(error.mechanisms) or "none"
        return Cause(names.MECHANISM, f"{address} does not offer {security[names.MECHANISM]}; it offers: {theirs}")
    if error.code == ILLEGAL_STATE:
        other = security[names.PROTOCOL].upper().removeprefix("SASL_")
        return Cause(names.PROTOCOL, f"{address} asks for no SASL; did you mean {other}?")
    if error.code == FAILED:
        return Cause("sasl.username or sasl.password", f"{error}")
    return Cause("sasl.password", f"{error}")


def _of_certificate(error: ssl.SSLCertVerificationError, security: Mapping[str, str], address: Address) -> Cause:
    said = f"{error.verify_message}"
    if error.verify_code in (_EXPIRED, _NOT_YET):
        return Cause(
            "ssl.keystore.location of the broker", f"{address} shows a certificate that is not valid now: {said}"
        )
    if error.verify_code in _OTHER_NAME:
        return Cause(
            "ssl.endpoint.identification.algorithm",
            f"the certificate of {address} has another name: {said}; connect by a name that it has",
        )
    if error.verify_code in _UNTRUSTED:
        name = next((each for each in ("ssl.ca.pem", "ssl.ca.location") if each in security), None)
        if name is None:
            return Cause(
                "ssl.ca.location", f"missing, and this host does not trust the certificate of {address}: {said}"
            )
        return Cause(name, f"its authority has not signed the certificate of {address}: {said}")
    return Cause("ssl.ca.location", f"the certificate of {address} is refused: {said}")


def _of_tls(error: ssl.SSLError, security: Mapping[str, str], address: Address) -> Cause:
    reason = str(error.reason or error)
    if any(alert in reason for alert in _OWN_CERTIFICATE):
        own = [
            name
            for name in ("ssl.keystore.location", "ssl.certificate.location", "ssl.certificate.pem")
            if name in security
        ]
        if not own:
            return Cause("ssl.certificate.location", f"missing, and {address} demands a certificate of the client")
        return Cause(
            own[0], f"{address} does not accept this certificate ({_words(reason)}): expired, or not signed for it?"
        )
    if (
        isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
        or "WRONG_VERSION" in reason
        or "RECORD_LAYER" in reason
    ):
        return _without_tls(security, address)
    return Cause(names.PROTOCOL, f"TLS with {address} failed: {_words(reason)}")


def _of_closed(error: ConnectionError, security: Mapping[str, str], address: Address) -> Cause:
    protocol = security.get(names.PROTOCOL, "PLAINTEXT").upper()
    if "no answer that can be read" in str(error) and "bytes" not in str(error):
        return Cause(SERVERS, f"at {address} is no broker of Kafka ({error})")
    if not tls.is_used(security):
        other = "SASL_SSL" if protocol.startswith("SASL") else "SSL or SASL_SSL"
        return Cause(names.PROTOCOL, f"{protocol}, but {address} closed the connection; does it want TLS ({other})?")
    if protocol == "SSL":
        return Cause(names.PROTOCOL, f"SSL, but {address} closed the connection; does it want SASL (SASL_SSL)?")
    return _without_tls(security, address)


def _without_tls(security: Mapping[str, str], address: Address) -> Cause:
    protocol = security.get(names.PROTOCOL, "PLAINTEXT").upper()
    return Cause(
        names.PROTOCOL, f"{protocol}, but {address} closed the connection during TLS; does it speak plain text?"
    )


def _words(reason: str) -> str:
    return reason.lower().replace("_", " ")


_READERS: dict[type[Exception], Callable[[Any, Mapping[str, str], Address], Cause]] = {
    NotAuthenticated: _of_sasl,
    ssl.SSLCertVerificationError: _of_certificate,
    ssl.SSLError: _of_tls,
    ConnectionRefusedError: lambda error, _, address: _of_network(error, address),
    ConnectionError: _of_closed,
}
"""Maps each error to the function that finds its cause. The first that fits counts."""
