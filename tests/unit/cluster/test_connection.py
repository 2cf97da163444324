"""Tests of connections to a cluster. Each client gets the settings under its own property names, and no output shows a
secret."""

from __future__ import annotations

import pytest

from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.cluster.security.names import UnsupportedSecurity

BROKERS = {2: Address("b", 9093), 1: Address("a", 9092)}
SASL = {
    "security.protocol": "sasl_ssl",
    "sasl.mechanisms": "SCRAM-SHA-512",
    "sasl.username": "verifier",
    "sasl.password": 'se"cret',
    "ssl.ca.location": "/etc/ca.pem",
}


def test_a_plain_connection_is_its_addresses() -> None:
    plain = Connection(BROKERS)
    assert plain.client_properties() == {"bootstrap.servers": "a:9092,b:9093"}
    assert plain.java_properties() == {"bootstrap.servers": "a:9092,b:9093"}
    assert plain.address(2) == ("b", 9093)


def test_a_secured_connection_is_given_to_every_client_in_its_own_names() -> None:
    secured = Connection(BROKERS, SASL)
    assert secured.client_properties() == {"bootstrap.servers": "a:9092,b:9093", **SASL}
    assert secured.java_properties() == {
        "bootstrap.servers": "a:9092,b:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="verifier" password="se\\"cret";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/etc/ca.pem",
    }


def test_no_secret_is_shown() -> None:
    shown = repr(Connection(BROKERS, SASL)) + str(Connection(BROKERS, SASL))
    assert "cret" not in shown and "verifier" not in shown and "sasl.password" in shown


@pytest.mark.parametrize(
    ("name", "value"), [("sasl.mechanism", "GSSAPI"), ("ssl.engine.id", "x"), ("sasl.kerberos.keytab", "y")]
)
def test_what_spark_cannot_be_given_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(UnsupportedSecurity, match=name):
        Connection(BROKERS, {name: value}).java_properties()


def test_other_client_settings_are_no_part_of_a_connection() -> None:
    with pytest.raises(ValueError, match="acks is no security property"):
        Connection(BROKERS, {"acks": "all"})
