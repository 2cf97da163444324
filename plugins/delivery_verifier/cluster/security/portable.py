"""Security properties in the form that Java's clients can use, too: key and chain in one place, and not locked."""

from __future__ import annotations

from collections.abc import Mapping

from delivery_verifier.cluster.security import names, stores, tls
from delivery_verifier.cluster.security.names import UnsupportedSecurity

KEY, CHAIN, PASSWORD = "ssl.key.location", "ssl.certificate.location", "ssl.key.password"
AUTHORITIES, STORE = "ssl.ca.location", "ssl.keystore.location"


def security(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns `properties`, which have librdkafka's names. Texts stand in place of a key and a chain in two files,
    because Java wants both in one file, and of a key with a password: before Java 19, Kafka's client opens no key that
    is locked as today's tools lock it (PBES2).

    Raises BadInput if such a file cannot be read or opened, and UnsupportedSecurity for a folder of trusted
    certificates.
    """
    named = names.usual(properties)
    _require_no_folder(named)
    return _with_pair_in_texts(named) if _is_locked(named) or named.get(KEY) != named.get(CHAIN) else named


def texts(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns `properties`, which have librdkafka's names, with texts in PEM in place of every file, for a client on
    another host. Raises BadInput and UnsupportedSecurity as `security` does."""
    named = names.usual(properties)
    _require_no_folder(named)
    if AUTHORITIES in named:
        named["ssl.ca.pem"] = stores.content(AUTHORITIES, named.pop(AUTHORITIES)).decode("latin-1")
    return _with_pair_in_texts(named)


def _require_no_folder(named: Mapping[str, str]) -> None:
    if AUTHORITIES in named and stores.is_folder(AUTHORITIES, named[AUTHORITIES]):
        raise UnsupportedSecurity(f"{AUTHORITIES} is a folder, which Spark's Kafka source cannot use; allowed: a file")


def _is_locked(named: Mapping[str, str]) -> bool:
    return PASSWORD in named and STORE not in named


def _with_pair_in_texts(named: dict[str, str]) -> dict[str, str]:
    """Returns `named` with the key and its chain as texts, and without what is needed to open them."""
    pair, is_locked = tls.own_pair(named), _is_locked(named)
    password = named.pop(PASSWORD, "")
    if pair is None:
        return named
    pair = stores.unlocked(pair, password) if is_locked else pair
    for name in (KEY, CHAIN, STORE, "ssl.keystore.password"):
        named.pop(name, None)
    return named | {"ssl.key.pem": pair.key.strip(), "ssl.certificate.pem": pair.chain.strip()}
