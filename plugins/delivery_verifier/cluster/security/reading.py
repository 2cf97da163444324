"""Reads the properties of a connection, whoever's names they have, into an `Access`: bootstrap servers and security.

What is not understood is refused by its name, or left out and named if it is no property of a connection. No message
shows the value of a property that may be secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from delivery_verifier.cluster.connection import Address
from delivery_verifier.cluster.security import jaas, names, stores
from delivery_verifier.cluster.security.names import UnsupportedSecurity
from delivery_verifier.model.inputs import BadInput, bad_input, choice, nearest

SERVERS = "bootstrap.servers"
OTHER_CLIENTS = {
    "bootstrap_servers": SERVERS,
    "bootstrap-servers": SERVERS,
    "brokers": SERVERS,
    "security_protocol": names.PROTOCOL,
    "sasl_mechanism": names.MECHANISM,
    "sasl_plain_username": "sasl.username",
    "sasl_plain_password": "sasl.password",
    "sasl_username": "sasl.username",
    "sasl_password": "sasl.password",
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_keyfile": "ssl.key.location",
    "ssl_password": "ssl.key.password",
    "ssl_check_hostname": "ssl.endpoint.identification.algorithm",
    "spring.kafka.bootstrap-servers": SERVERS,
    "spring.kafka.security.protocol": names.PROTOCOL,
    "spring.kafka.ssl.trust-store-location": "ssl.truststore.location",
    "spring.kafka.ssl.key-store-location": "ssl.keystore.location",
    "tls.ca": "ssl.ca.location",
    "tls.cert": "ssl.certificate.location",
    "tls.certkey": "ssl.key.location",
}
"""Maps the names that other clients have (kafka-python, aiokafka, Spring Boot, kafkactl) to the right one."""
CALLBACKS = frozenset({"error_cb", "throttle_cb", "stats_cb", "log_cb", "oauth_cb", "on_commit", "ssl_context"})
"""Properties of Python's clients that name code. Nothing here ever imports or runs it."""
_SECURITY_PREFIXES = ("sasl", "ssl", "security", "enable.ssl", "enable.sasl", "tls")
_STORES = {"ssl.truststore": "ssl.truststore.certificates", "ssl.keystore": "ssl.keystore.key"}


@dataclass(frozen=True, repr=False)
class Access:
    """How one reaches a cluster: the servers to ask first, and the security properties under librdkafka's names.

    `left_out` has the names of the properties that are no part of a connection, e.g. `acks`.
    """

    servers: tuple[Address, ...]
    security: Mapping[str, str]
    left_out: tuple[str, ...] = ()

    def __repr__(self) -> str:
        addresses = ",".join(map(str, self.servers))
        return f"Access({addresses}, security: {', '.join(sorted(self.security)) or 'none'})"


def access_of(entries: Mapping[str, str], source: str, addresses: Callable[[str], Sequence[Address]]) -> Access:
    """Returns the access that the properties `entries` describe, in Java's names or in librdkafka's. `source` says
    where they come from; messages show it. `addresses` reads the servers.

    Raises BadInput and UnsupportedSecurity as `command_config.read` does.
    """
    entries = names.usual(entries)
    _require_known(entries, source)
    if not entries.get(SERVERS):
        raise BadInput(
            f"{source}: {SERVERS} is missing; allowed: HOST:PORT, e.g. --bootstrap-server broker.example:9093"
        )
    own = {name: value for name, value in entries.items() if name in names.NAMES or _is_store(name)}
    security = _from_java(own) if _is_java(own, source) else _complete(own)
    _check(security)
    left_out = sorted(entries.keys() - own.keys() - {SERVERS})
    return Access(tuple(addresses(entries[SERVERS])), security, tuple(left_out))


def _is_store(name: str) -> bool:
    return name in ("ssl.truststore.password", "ssl.truststore.type", "ssl.keystore.type")


def _require_known(entries: Mapping[str, str], source: str) -> None:
    """Raises BadInput for every name that another client has, that names code, or that looks like security and is in no
    row of the table."""
    for name in entries:
        if (right := OTHER_CLIENTS.get(name.lower())) is not None:
            raise BadInput(f"{source}: {name} is the name of another client; write {right} (the value is not shown)")
        if name in CALLBACKS or name.endswith((".callback.handler.class", ".login.class", "engine.factory.class")):
            raise UnsupportedSecurity(f"{source}: {name} names code, which is never loaded here; leave it out")
        if name in names.NAMES or _is_store(name) or not name.lower().startswith(_SECURITY_PREFIXES):
            continue
        if name.startswith(("sasl.kerberos.", "sasl.oauthbearer.")):
            mechanism = "GSSAPI" if "kerberos" in name else "OAUTHBEARER"
            names.require_common_mechanism({names.MECHANISM: mechanism})
        near = nearest(name, (known for known in names.NAMES if known.count(".") == name.count(".")))
        raise UnsupportedSecurity(
            f"{source}: {name} is a property that the verifier, librdkafka and Spark cannot all use; "
            + (f"did you mean {near}?" if near and near != name else "leave it out")
        )


def _is_java(own: Mapping[str, str], source: str) -> bool:
    """Returns whether `own` has Java's names. Raises BadInput if names of both stand in it."""
    java = sorted(own.keys() & {*names.JAVA_ONLY, "ssl.truststore.password"})
    librdkafka = sorted(own.keys() & names.LIBRDKAFKA_ONLY)
    if java and librdkafka:
        raise BadInput(
            f"{source} mixes names of Java's clients ({', '.join(java)}) and of librdkafka ({', '.join(librdkafka)}); "
            "allowed: those of one of the two"
        )
    return bool(java)


def _from_java(own: dict[str, str]) -> dict[str, str]:
    """Returns properties with Java's names under librdkafka's. Opens the stores, whose format decides."""
    own = dict(own)
    trust_password = own.pop("ssl.truststore.password", "")
    for store, in_text in _STORES.items():
        name = f"{store}.location"
        if name not in own or in_text in own:
            continue
        kind = stores.require_no_jks(name, own[name])
        own[f"{store}.type"] = kind
        if store == "ssl.truststore" and kind == "PKCS12":
            own[in_text] = stores.trusted(name, own.pop(name), trust_password, "ssl.truststore.password")
        elif kind == "PKCS12":
            own.setdefault("ssl.keystore.password", "")
    mechanism = own.get(names.MECHANISM)
    if _uses_sasl(own) or jaas.PROPERTY in own:
        _require_mechanism(mechanism)
    if mechanism is not None and jaas.PROPERTY not in own:
        raise BadInput(
            f"{jaas.PROPERTY} is missing; allowed: {jaas.MODULES[mechanism]} required username=... password=...;"
        )
    return names.from_java(own)


def _complete(own: dict[str, str]) -> dict[str, str]:
    """Checks properties with librdkafka's names, and returns them."""
    for name in ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location"):
        if name in own and not (name == "ssl.ca.location" and stores.is_folder(name, own[name])):
            kind = stores.require_no_jks(name, own[name])
            if kind != "PEM":
                raise bad_input(name, own[name], "a file in PEM", "a key store in PKCS #12 is ssl.keystore.location")
    if (
        "ssl.keystore.location" in own
        and stores.require_no_jks("ssl.keystore.location", own["ssl.keystore.location"]) == "PEM"
    ):
        raise bad_input(
            "ssl.keystore.location",
            own["ssl.keystore.location"],
            "a store in PKCS #12",
            "PEM is ssl.certificate.location and ssl.key.location, or beside it ssl.keystore.type=PEM",
        )
    for name, other in (("ssl.certificate.location", "ssl.key.location"), ("ssl.certificate.pem", "ssl.key.pem")):
        if (name in own) != (other in own):
            missing = other if name in own else name
            raise BadInput(f"{missing} is missing beside {name if name in own else other}; allowed: both or none")
    if _uses_sasl(own):
        _require_mechanism(own.get(names.MECHANISM))
        if absent := [name for name in ("sasl.username", "sasl.password") if not own.get(name)]:
            raise BadInput(f"{' and '.join(absent)} missing; {names.MECHANISM} {own[names.MECHANISM]} needs both")
    return own


def _uses_sasl(own: Mapping[str, str]) -> bool:
    return own.get(names.PROTOCOL, "").upper().startswith("SASL_")


def _require_mechanism(mechanism: str | None) -> None:
    if mechanism is None:
        raise UnsupportedSecurity(
            f"{names.MECHANISM} is missing, which means GSSAPI to Kafka's clients; "
            f"allowed: {', '.join(names.MECHANISMS)}; the reason: {names.NOT_EVERYWHERE['GSSAPI']}"
        )
    names.require_common_mechanism({names.MECHANISM: mechanism})


def _check(security: Mapping[str, str]) -> None:
    """Raises BadInput if the protocol does not exist, or does not use what is given beside it, and if others may read
    the file of a private key."""
    for name in ("ssl.key.location", "ssl.keystore.location"):
        if name in security and (path := stores.path_of(name, security[name])).is_file():
            stores.require_private(name, path, stores.OWNER_AND_GROUP, ["a private key"])
    protocol = security.get(names.PROTOCOL, "PLAINTEXT")
    choice(names.PROTOCOL, protocol.upper(), names.PROTOCOLS)
    if names.MECHANISM in security and not _uses_sasl(security):
        raise bad_input(names.PROTOCOL, protocol, "SASL_SSL, SASL_PLAINTEXT", f"{names.MECHANISM} is given beside it")
    tls = sorted(name for name in security if name.startswith("ssl."))
    if tls and "SSL" not in protocol.upper().removeprefix("SASL_"):
        raise bad_input(names.PROTOCOL, protocol, "SASL_SSL, SSL", f"{', '.join(tls)} is given beside it")
