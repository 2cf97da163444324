"""Security properties in the form that Java's clients can use, too: key and chain in one place, and not locked."""

from __future__ import annotations

from collections.abc import Mapping

from delivery_verifier.cluster.security import names, stores, tls
from delivery_verifier.cluster.security.names import UnsupportedSecurity

KEY, CHAIN, PASSWORD = "ssl.key.location", "ssl.certificate.location", "ssl.key.password"


def security(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns `properties`, which have librdkafka's names. Texts stand in place of a key and a chain in two files,
    because Java wants both in one file, and of a key with a password: before Java 19, Kafka's client opens no key that
    is locked as today's tools lock it (PBES2).

    Raises BadInput if such a file cannot be read or opened, and UnsupportedSecurity for a folder of trusted
    certificates.
    """
    named = names.usual(properties)
    if "ssl.ca.location" in named and stores.is_folder("ssl.ca.location", named["ssl.ca.location"]):
        raise UnsupportedSecurity("ssl.ca.location is a folder, which Spark's Kafka source cannot use; allowed: a file")
    is_locked = PASSWORD in named and "ssl.keystore.location" not in named
    if is_locked or named.get(KEY) != named.get(CHAIN):
        pair = tls.own_pair(named)
        password = named.pop(PASSWORD, "")
        if pair is not None:
            pair = stores.unlocked(pair, password) if is_locked else pair
            for name in (KEY, CHAIN):
                named.pop(name, None)
            named |= {"ssl.key.pem": pair.key.strip(), "ssl.certificate.pem": pair.chain.strip()}
    return named
