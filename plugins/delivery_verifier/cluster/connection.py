"""The connection: how clients reach a cluster. The module also converts a connection into the settings of each kind of
client.

Security properties have the names that librdkafka gives them (its CONFIGURATION.md). Their values stay secret: the repr
of a connection shows only names, and no code writes a connection into a run directory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from delivery_verifier.model.errors import VerifierError

PREFIXES = ("sasl.", "ssl.")
"""Prefixes of the names of security properties. Only the property `security.protocol` has no such prefix."""
PROTOCOL = "security.protocol"
RAW_PROTOCOLS = ("plaintext",)
"""The values of the property `security.protocol`, in lower case, that the requests of `cluster.protocol` can use."""
SAME_NAME_IN_JAVA = (
    PROTOCOL,
    "ssl.key.password",
    "ssl.keystore.password",
    "ssl.cipher.suites",
)
"""Security properties that have the same name and the same values in librdkafka and in Kafka's Java clients."""
LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
"""The Java login module of each SASL mechanism that has a user name and a password (Kafka's documentation, 7.4)."""


class UnsupportedSecurity(VerifierError, RuntimeError):
    """A client of this verifier cannot use one of the connection's security properties. The message names the
    property."""


class Address(NamedTuple):
    """The address at which one broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, repr=False)
class Connection:
    """How clients reach a cluster.

    * `brokers`: the address of each broker, by broker id.
    * `security`: the properties `security.protocol`, `sasl.*` and `ssl.*` under librdkafka's names. An empty mapping
      means plain TCP.

    The constructor raises ValueError if `security` has any other property.
    """

    brokers: Mapping[int, Address]
    security: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.security:
            if name != PROTOCOL and not name.startswith(PREFIXES):
                raise ValueError(f"{name} is no security property; allowed: {PROTOCOL}, sasl.*, ssl.*")

    def __repr__(self) -> str:
        return f"Connection({self.bootstrap_servers}, security: {', '.join(sorted(self.security)) or 'none'})"

    @property
    def bootstrap_servers(self) -> str:
        """The brokers' addresses in the form that every client takes: host:port, separated by commas."""
        return ",".join(str(self.brokers[broker]) for broker in sorted(self.brokers))

    def client_properties(self) -> dict[str, str]:
        """Returns the properties that an admin client, a producer or a consumer of confluent_kafka needs to connect."""
        return {"bootstrap.servers": self.bootstrap_servers, **self.security}

    def spark_options(self) -> dict[str, str]:
        """Returns the options that Spark's Kafka source needs to connect. Their names are Java's property names with
        the prefix `kafka.`.

        Raises UnsupportedSecurity for a property that `java_security` cannot translate.
        """
        properties = {"bootstrap.servers": self.bootstrap_servers, **java_security(self.security)}
        return {f"kafka.{name}": value for name, value in properties.items()}

    def address(self, broker: int) -> Address:
        """Returns the address of `broker`. The requests of `cluster.protocol` connect to this address with a plain
        socket.

        Raises UnsupportedSecurity if the connection is not plain TCP.
        """
        protocol = self.security.get(PROTOCOL, "plaintext")
        if protocol.lower() not in RAW_PROTOCOLS:
            raise UnsupportedSecurity(
                f"{PROTOCOL} is {protocol}, which the verifier's own requests do not speak; "
                f"they speak: {', '.join(RAW_PROTOCOLS)}"
            )
        return self.brokers[broker]


def java_security(security: Mapping[str, str]) -> dict[str, str]:
    """Translates the security properties `security` from librdkafka's names to the names of Kafka's Java clients.

    Texts in PEM (librdkafka's `ssl.*.pem`) stay unchanged, because Java's properties take the same texts (KIP-651).
    Raises UnsupportedSecurity if a property cannot be translated. The message names these properties.
    """
    properties = {name: security[name] for name in SAME_NAME_IN_JAVA if name in security}
    if PROTOCOL in properties:
        properties[PROTOCOL] = properties[PROTOCOL].upper()
    known = {*SAME_NAME_IN_JAVA, *_sasl(security, properties), *_stores(security, properties)}
    if unknown := sorted(set(security) - known):
        raise UnsupportedSecurity(f"Spark's Kafka source is given no {', '.join(unknown)}: leave it out")
    return properties


def _sasl(security: Mapping[str, str], properties: dict[str, str]) -> Iterable[str]:
    """Translates the SASL properties in `security` from librdkafka's names to Java's names, and adds the results to
    `properties`.

    Returns librdkafka's names of the SASL properties that this function can translate. Returns no names if `security`
    names no SASL mechanism. Raises UnsupportedSecurity for a mechanism that is missing from `LOGIN_MODULES`.
    """
    names = ("sasl.mechanism", "sasl.mechanisms")
    mechanism = next((security[name] for name in names if name in security), None)
    if mechanism is None:
        return ()
    if mechanism not in LOGIN_MODULES:
        raise UnsupportedSecurity(
            f"sasl.mechanism is {mechanism}, which Spark's Kafka source is not given here; "
            f"allowed: {', '.join(LOGIN_MODULES)}"
        )
    user, password = (_quoted(security.get(name, "")) for name in ("sasl.username", "sasl.password"))
    properties["sasl.mechanism"] = mechanism
    properties["sasl.jaas.config"] = f"{LOGIN_MODULES[mechanism]} required username={user} password={password};"
    return (*names, "sasl.username", "sasl.password")


def _quoted(text: str) -> str:
    """Returns `text` as a quoted string in the syntax of a JAAS configuration."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _stores(security: Mapping[str, str], properties: dict[str, str]) -> Iterable[str]:
    """Translates the properties in `security` that concern the trust store, the key store and the check of host names.

    Adds the results to `properties`, under Java's names. Returns librdkafka's names of all properties that this
    function can translate, even those that `security` does not contain.
    """
    if "ssl.ca.location" in security:
        properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": security["ssl.ca.location"]}
    if "ssl.ca.pem" in security:
        properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": security["ssl.ca.pem"]}
    if "ssl.certificate.pem" in security:
        properties |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": security["ssl.certificate.pem"],
            "ssl.keystore.key": security.get("ssl.key.pem", ""),
        }
    if "ssl.keystore.location" in security:
        properties |= {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": security["ssl.keystore.location"]}
    algorithm = security.get("ssl.endpoint.identification.algorithm")
    if algorithm is not None:  # librdkafka's `none` is an empty text in Java
        properties["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
    return (
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.pem",
        "ssl.key.pem",
        "ssl.keystore.location",
        "ssl.endpoint.identification.algorithm",
    )
