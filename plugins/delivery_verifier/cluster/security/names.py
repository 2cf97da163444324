"""The security properties of Kafka's Java clients and of librdkafka, as one table that is read in both directions.

Sources: librdkafka's CONFIGURATION.md, Kafka's documentation ("Admin Configs", 7.2 and 7.4), and KIP-651 for PEM.
librdkafka's names are the ones that a `Connection` has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from delivery_verifier.cluster.security import jaas
from delivery_verifier.model.errors import VerifierError

Properties = dict[str, str]
PROTOCOL, MECHANISM = "security.protocol", "sasl.mechanism"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = tuple(jaas.MODULES)
"""The SASL mechanisms that the verifier's own requests, librdkafka and Spark all speak."""
NOT_EVERYWHERE = {
    "GSSAPI": "Kerberos needs a ticket in each process, and its library is in neither librdkafka's wheel nor here",
    "OAUTHBEARER": "a token must reach librdkafka, Spark and the verifier's requests, and each renews it differently",
    "AWS_MSK_IAM": "only Java clients with Amazon's library, and no librdkafka, speak it",
}
"""The SASL mechanisms that one of the three clients does not speak, each with the reason."""


class UnsupportedSecurity(VerifierError, RuntimeError):
    """A client of this verifier cannot use one of the connection's security properties. The message names the
    property."""

    exit_code = 64


class Row(NamedTuple):
    """One row of the table: the properties of Java that mean the same as those of librdkafka.

    A row applies to properties that have all names in `java_needs` or, in the other direction, `librdkafka_needs`.
    Beside them, a row also takes the other names in `java` and `librdkafka`. Both functions get only names of the row.
    """

    java: tuple[str, ...]
    librdkafka: tuple[str, ...]
    java_needs: tuple[str, ...]
    librdkafka_needs: tuple[str, ...]
    from_java: Callable[[Properties], Properties]
    to_java: Callable[[Properties], Properties]


def _same(name: str) -> Row:
    """A row for a property with the same name and the same values on both sides."""
    return Row((name,), (name,), (name,), (name,), dict, dict)


def _renamed(java: str, librdkafka: str, **fixed: str) -> Row:
    """A row for a property with the same values under another name. `fixed` is what else Java needs beside it."""
    more = {name.replace("_", "."): value for name, value in fixed.items()}
    return Row(
        (java, *more),
        (librdkafka,),
        (java,),
        (librdkafka,),
        lambda values: {librdkafka: values[java]},
        lambda values: {java: values[librdkafka], **more},
    )


def _login_from_java(values: Properties) -> Properties:
    module, login = jaas.read(values[jaas.PROPERTY])
    if (needed := jaas.MODULES.get(values[MECHANISM])) != module:
        raise UnsupportedSecurity(
            f"{MECHANISM} is {values[MECHANISM]}, but {jaas.PROPERTY} names the login module {module}; "
            f"allowed: {needed or ', '.join(MECHANISMS)}"
        )
    return {MECHANISM: values[MECHANISM], "sasl.username": login.username, "sasl.password": login.password}


def _login_to_java(values: Properties) -> Properties:
    login = jaas.Login(values["sasl.username"], values["sasl.password"])
    return {MECHANISM: values[MECHANISM], jaas.PROPERTY: jaas.written(values[MECHANISM], login)}


TABLE: tuple[Row, ...] = (
    Row(
        (PROTOCOL,),
        (PROTOCOL,),
        (PROTOCOL,),
        (PROTOCOL,),
        lambda values: {PROTOCOL: values[PROTOCOL].upper()},
        lambda values: {PROTOCOL: values[PROTOCOL].upper()},  # librdkafka takes lower case, too, and Java does not
    ),
    Row(
        (MECHANISM, jaas.PROPERTY),
        (MECHANISM, "sasl.username", "sasl.password"),
        (MECHANISM, jaas.PROPERTY),
        (MECHANISM, "sasl.username", "sasl.password"),
        _login_from_java,
        _login_to_java,
    ),
    _renamed("ssl.truststore.location", "ssl.ca.location", ssl_truststore_type="PEM"),
    _renamed("ssl.truststore.certificates", "ssl.ca.pem", ssl_truststore_type="PEM"),
    Row(
        ("ssl.keystore.location", "ssl.keystore.type"),
        ("ssl.certificate.location", "ssl.key.location"),
        ("ssl.keystore.location",),
        ("ssl.certificate.location", "ssl.key.location"),
        lambda values: dict.fromkeys(("ssl.certificate.location", "ssl.key.location"), values["ssl.keystore.location"]),
        lambda values: {"ssl.keystore.type": "PEM", "ssl.keystore.location": values["ssl.certificate.location"]},
    ),
    Row(
        ("ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.keystore.type"),
        ("ssl.key.pem", "ssl.certificate.pem"),
        ("ssl.keystore.key", "ssl.keystore.certificate.chain"),
        ("ssl.key.pem", "ssl.certificate.pem"),
        lambda values: {
            "ssl.key.pem": values["ssl.keystore.key"],
            "ssl.certificate.pem": values["ssl.keystore.certificate.chain"],
        },
        lambda values: {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": values["ssl.key.pem"],
            "ssl.keystore.certificate.chain": values["ssl.certificate.pem"],
        },
    ),
    Row(
        ("ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.type"),
        ("ssl.keystore.location", "ssl.keystore.password"),
        ("ssl.keystore.location", "ssl.keystore.password"),
        ("ssl.keystore.location", "ssl.keystore.password"),
        lambda values: {name: values[name] for name in ("ssl.keystore.location", "ssl.keystore.password")},
        lambda values: {"ssl.keystore.type": "PKCS12", **values},
    ),
    _same("ssl.key.password"),
    Row(
        ("ssl.endpoint.identification.algorithm",),
        ("ssl.endpoint.identification.algorithm",),
        ("ssl.endpoint.identification.algorithm",),
        ("ssl.endpoint.identification.algorithm",),
        lambda values: {name: value or "none" for name, value in values.items()},
        lambda values: {name: "" if value == "none" else value for name, value in values.items()},
    ),
)
"""Every security property that the verifier's own requests, librdkafka and Spark can all use."""

ALIASES = {"sasl.mechanisms": MECHANISM, "metadata.broker.list": "bootstrap.servers"}
"""Maps each alias that librdkafka has for a property of a connection to the property's usual name."""
JAVA_ONLY = frozenset(name for row in TABLE for name in row.java) - frozenset(
    name for row in TABLE for name in row.librdkafka
)
LIBRDKAFKA_ONLY = frozenset(name for row in TABLE for name in row.librdkafka) - frozenset(
    name for row in TABLE for name in row.java
)
NAMES = frozenset(name for row in TABLE for name in (*row.java, *row.librdkafka))
SECRETS = frozenset(
    {
        "sasl.password",
        jaas.PROPERTY,
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.key",
        "ssl.keystore.password",
        "ssl.truststore.password",
    }
)
"""The properties whose values are secret. The password of a trust store protects nothing secret, but may also be that
of another store."""


def from_java(properties: Mapping[str, str]) -> Properties:
    """Returns the properties of a connection under librdkafka's names. `properties` has Java's names, and stores are
    described as PEM or PKCS12 by their types.

    Raises UnsupportedSecurity for a property that no row takes, and BadInput for a JAAS configuration that is not read.
    """
    named = dict(properties)
    is_pem = named.get("ssl.keystore.type", "").upper() == "PEM"
    if is_pem:
        named.pop("ssl.keystore.password", None)  # Java demands that there is none (KIP-651)
    return _translated(named, lambda row: (row.java, row.java_needs, row.from_java), "librdkafka")


def to_java(security: Mapping[str, str]) -> Properties:
    """Returns the security properties of a connection under the names of Kafka's Java clients. `security` has
    librdkafka's names.

    Texts in PEM stay unchanged, because Java's properties take the same texts (KIP-651). Raises UnsupportedSecurity if
    a property cannot be translated. The message names these properties.
    """
    named = usual(security)
    require_common_mechanism(named, "Spark's Kafka source")
    if "ssl.keystore.location" in named:
        named.setdefault("ssl.keystore.password", "")
    return _translated(named, lambda row: (row.librdkafka, row.librdkafka_needs, row.to_java), "Spark's Kafka source")


def usual(security: Mapping[str, str]) -> Properties:
    """Returns `security` with the usual name in place of each alias."""
    return {ALIASES.get(name, name): value for name, value in security.items()}


def require_common_mechanism(security: Mapping[str, str], client: str = "one of the clients") -> None:
    """Raises UnsupportedSecurity if `security` names a SASL mechanism that `client` does not speak."""
    mechanism = security.get(MECHANISM)
    if mechanism is not None and mechanism not in MECHANISMS:
        reason = NOT_EVERYWHERE.get(mechanism)
        raise UnsupportedSecurity(
            f"{MECHANISM} is {mechanism}, which {client} is not given here; "
            f"allowed: {', '.join(MECHANISMS)}" + (f"; the reason: {reason}" if reason else "")
        )


def _translated(
    properties: Properties,
    side: Callable[[Row], tuple[tuple[str, ...], tuple[str, ...], Callable[[Properties], Properties]]],
    client: str,
) -> Properties:
    """Applies each row whose needed names are all there. A row with more needed names goes first, so that no other row
    takes its names. Raises UnsupportedSecurity for a name that no row has taken."""
    rest, results = dict(properties), Properties()
    for names, needs, translate in sorted((side(row) for row in TABLE), key=lambda row: -len(row[1])):
        if all(name in rest for name in needs):
            results |= translate({name: rest[name] for name in names if name in rest})
            for name in needs:
                del rest[name]
    rest.pop("ssl.truststore.type", None)
    rest.pop("ssl.keystore.type", None)
    if rest:
        raise UnsupportedSecurity(f"{client} is given no {', '.join(sorted(rest))}: leave it out")
    return results
