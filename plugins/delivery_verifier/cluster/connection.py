"""The connection: how clients reach a cluster. The module also converts a connection into the settings of each kind of
client.

Security properties have the names that librdkafka gives them (its CONFIGURATION.md). Their values stay secret: the repr
of a connection shows only names, and no code writes a connection into a run directory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from delivery_verifier.cluster.security import names, portable
from delivery_verifier.model.client import Client

PREFIXES = ("sasl.", "ssl.")
"""Prefixes of the names of security properties. Only the property `security.protocol` has no such prefix."""


class Address(NamedTuple):
    """The address at which one broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, repr=False)
class Connection:
    """How clients reach a cluster.

    * `brokers`: the address of each broker, by broker id.
    * `security`: the properties `security.protocol`, `sasl.*` and `ssl.*` under librdkafka's names. An empty mapping
      means plain TCP.
    * `may_move`: whether a broker may come back at another address, as a pod of Kubernetes does. Whoever does not reach
      it then asks the others where it is.

    The constructor raises ValueError if `security` has any other property.
    """

    brokers: Mapping[int, Address]
    security: Mapping[str, str] = field(default_factory=dict)
    may_move: bool = False

    def __post_init__(self) -> None:
        for name in self.security:
            if name != names.PROTOCOL and not name.startswith(PREFIXES):
                raise ValueError(f"{name} is no security property; allowed: {names.PROTOCOL}, sasl.*, ssl.*")

    def __repr__(self) -> str:
        return f"Connection({self.bootstrap_servers}, security: {', '.join(sorted(self.security)) or 'none'})"

    @property
    def bootstrap_servers(self) -> str:
        """The brokers' addresses in the form that every client takes: host:port, separated by commas."""
        return ",".join(str(self.brokers[broker]) for broker in sorted(self.brokers))

    def client_properties(self) -> dict[str, str]:
        """Returns the properties that an admin client, a producer or a consumer of confluent_kafka needs to connect."""
        return {"bootstrap.servers": self.bootstrap_servers, **self.security}

    def java_properties(self) -> dict[str, str]:
        """Returns the properties that a Java client of Kafka needs to connect. They hold the secrets, so Spark is never
        given them as options (see `security.spark_options`).

        Raises UnsupportedSecurity for a property that `names.to_java` cannot translate, and BadInput if a file with a
        key cannot be read.
        """
        return {"bootstrap.servers": self.bootstrap_servers, **names.to_java(portable.security(self.security))}

    def properties_of(self, client: Client) -> dict[str, str]:
        """Returns the properties that a producer of `client` needs to connect. Raises as `java_properties`."""
        return self.java_properties() if client == "java" else self.client_properties()

    def address(self, broker: int) -> Address:
        """Returns the address of `broker`."""
        return self.brokers[broker]
