"""Security properties in the form that Java's clients can use, too: a key and its chain in one place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from delivery_verifier.cluster.security import names, stores
from delivery_verifier.cluster.security.names import UnsupportedSecurity

KEY, CHAIN = "ssl.key.location", "ssl.certificate.location"


def security(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns `properties`, which have librdkafka's names. Texts stand in place of a key and a chain in two files,
    because Java wants both in one file.

    Raises BadInput if such a file cannot be read, and UnsupportedSecurity for a folder of trusted certificates.
    """
    named = names.usual(properties)
    if "ssl.ca.location" in named and Path(named["ssl.ca.location"]).is_dir():
        raise UnsupportedSecurity(
            "ssl.ca.location is a folder, which Spark's Kafka source is not given; allowed: a file"
        )
    if KEY in named and CHAIN in named and named[KEY] != named[CHAIN]:
        for name, text in ((KEY, "ssl.key.pem"), (CHAIN, "ssl.certificate.pem")):
            named[text] = stores.content(name, named.pop(name)).decode("latin-1")
    return named
