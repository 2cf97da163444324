"""TLS for the verifier's own requests, from librdkafka's properties.

A failure names the property that it comes from, because OpenSSL's messages name neither a file nor a property.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping

from delivery_verifier.cluster.security import names, stores
from delivery_verifier.model.inputs import BadInput


def is_used(security: Mapping[str, str]) -> bool:
    """Returns whether `security.protocol` is one with TLS."""
    return security.get(names.PROTOCOL, "plaintext").upper() in ("SSL", "SASL_SSL")


def context(security: Mapping[str, str]) -> ssl.SSLContext | None:
    """Returns what a socket needs to speak TLS with a broker, or None if `security.protocol` is one without TLS.

    Raises BadInput, which names the property, if a file cannot be read, or holds no certificate or key, or if a
    password is wrong.
    """
    if not is_used(security):
        return None
    ssl_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ssl_context.minimum_version = ssl.TLSVersion.TLSv1_2
    ssl_context.check_hostname = security.get("ssl.endpoint.identification.algorithm", "https") != "none"
    _trust(ssl_context, security)
    if (pair := own_pair(security)) is not None:
        _present(ssl_context, pair, security)
    return ssl_context


def own_pair(security: Mapping[str, str]) -> stores.KeyPair | None:
    """Returns the private key and the certificates by which the client proves who it is, or None if it has none.

    Raises BadInput as `context` does.
    """
    if "ssl.keystore.location" in security:
        name, password = "ssl.keystore.location", security.get("ssl.keystore.password", "")
        return stores.key_pair(name, security[name], password, "ssl.keystore.password")
    if "ssl.certificate.pem" in security:
        return stores.split("ssl.key.pem", security.get("ssl.key.pem", "") + "\n" + security["ssl.certificate.pem"])
    if "ssl.certificate.location" not in security:
        return None
    files = [
        stores.content(name, security[name]).decode("latin-1")
        for name in ("ssl.key.location", "ssl.certificate.location")
        if name in security
    ]
    return stores.split("ssl.key.location", "\n".join(files))


def _trust(ssl_context: ssl.SSLContext, security: Mapping[str, str]) -> None:
    location, text = security.get("ssl.ca.location"), security.get("ssl.ca.pem")
    try:
        if text is not None:
            ssl_context.load_verify_locations(cadata=text)
        elif location is None:
            ssl_context.load_default_certs()
        elif stores.is_folder("ssl.ca.location", location):
            ssl_context.load_verify_locations(capath=location)
        else:
            ssl_context.load_verify_locations(cadata=stores.content("ssl.ca.location", location).decode("latin-1"))
    except (ssl.SSLError, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        name = "ssl.ca.location" if text is None else "ssl.ca.pem"
        shown = f" is {location!r}, which" if text is None else ""
        raise BadInput(f"{name}{shown} has no certificate that can be read; allowed: certificates in PEM") from None


def _present(ssl_context: ssl.SSLContext, pair: stores.KeyPair, security: Mapping[str, str]) -> None:
    """Gives `ssl_context` the client's own key. OpenSSL reads a key only from a file: here one in memory, which nobody
    else sees, and which is gone with its descriptor."""
    descriptor = os.memfd_create("key", os.MFD_CLOEXEC)
    password = "" if "ssl.keystore.location" in security else security.get("ssl.key.password", "")
    try:
        os.write(descriptor, (pair.key + pair.chain).encode())
        ssl_context.load_cert_chain(f"/proc/self/fd/{descriptor}", None, lambda: password)
    except ssl.SSLError as error:
        reason = str(error.reason or "")
        if "VALUES_MISMATCH" in reason:
            name, why = "ssl.certificate.location", "does not belong to the private key"
        elif password or "ENCRYPTED" in pair.key:
            name, why = "ssl.key.password", "does not open the private key (the value is not shown)"
        else:
            name, why = "ssl.key.location", "is no private key that can be read; allowed: PEM, PKCS #8 or PKCS #1"
        raise BadInput(f"{name} {why}") from None
    finally:
        os.close(descriptor)
