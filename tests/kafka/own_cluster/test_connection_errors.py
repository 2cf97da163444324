"""Every error of a connection is named by the property that is wrong, on a real cluster, within seconds. No message has
a secret."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.certificates import KEY_PASSWORD, STORE_PASSWORD
from support.secured_cluster import BROKERS, SecuredCluster

from delivery_verifier.cluster.check import cluster_check
from delivery_verifier.cluster.check.cluster_check import Checked, Unreachable
from delivery_verifier.cluster.check.facts import Members
from delivery_verifier.cluster.check.rights import READ, Wanted
from delivery_verifier.cluster.protocol.asking import Asking
from delivery_verifier.cluster.security.names import UnsupportedSecurity
from delivery_verifier.cluster.security.reading import Access
from delivery_verifier.model.inputs import BadInput

Reading = Callable[[dict[str, str]], Access]
SECRETS = ("verifier-secret-2", "hush-7", STORE_PASSWORD, KEY_PASSWORD)


def check(access: Access) -> Checked:
    return cluster_check.check(access, [READ], lambda brokers: {"kdv-t": Wanted({}, [list(brokers)])})


def mutual(cluster: SecuredCluster, name: str = "verifier", **more: str | None) -> dict[str, str]:
    """The properties of mutual TLS as `name`."""
    files = {
        "ssl_certificate_location": f"{cluster.certificates}/{name}.crt",
        "ssl_key_location": f"{cluster.certificates}/{name}.key",
    }
    none = dict.fromkeys(("sasl_mechanism", "sasl_username", "sasl_password"))
    return cluster.properties(
        **{"bootstrap_servers": cluster.servers("MTLS"), "security_protocol": "SSL", **none, **files, **more}
    )


def plain(cluster: SecuredCluster, protocol: str, **more: str | None) -> dict[str, str]:
    """The properties without TLS."""
    return cluster.properties(security_protocol=protocol, ssl_ca_location=None, **more)


NO_SASL = dict.fromkeys(("sasl_mechanism", "sasl_username", "sasl_password"))
NO_KEY = dict.fromkeys(("ssl_certificate_location", "ssl_key_location"))
ERRORS: dict[str, tuple[Callable[[SecuredCluster], dict[str, str]], str]] = {
    "a wrong password": (
        lambda cluster: cluster.properties(sasl_password="hush-7"),
        r"sasl\.username or sasl\.password: .*invalid credentials with SASL mechanism SCRAM-SHA-512",
    ),
    "a wrong password of PLAIN": (
        lambda cluster: cluster.properties(sasl_mechanism="PLAIN", sasl_password="hush-7"),
        r"sasl\.username or sasl\.password: .*Invalid username or password",
    ),
    "an unknown user": (
        lambda cluster: cluster.properties(sasl_username="nobody"),
        r"sasl\.username or sasl\.password: ",
    ),
    "a mechanism that the broker lacks": (
        lambda cluster: cluster.properties(sasl_mechanism="SCRAM-SHA-256"),
        r"sasl\.mechanism: .* does not offer SCRAM-SHA-256; it offers: .*(SCRAM-SHA-512, PLAIN|PLAIN, SCRAM-SHA-512)",
    ),
    "another authority": (
        lambda cluster: cluster.properties(ssl_ca_location=f"{cluster.folder}/other/ca.pem"),
        r"ssl\.ca\.location: its authority has not signed the certificate",
    ),
    "an authority of the same name with another key": (
        lambda cluster: cluster.properties(ssl_ca_location=f"{cluster.folder}/renewed/ca.pem"),
        r"ssl\.ca\.location: its authority has not signed the certificate",
    ),
    "no authority": (
        lambda cluster: cluster.properties(ssl_ca_location=None),
        r"ssl\.ca\.location: missing, and this host does not trust",
    ),
    "a certificate of the broker that has expired": (
        lambda cluster: mutual(cluster, bootstrap_servers=cluster.servers("EXPIRED"), **NO_KEY),
        r"ssl\.keystore\.location of the broker: .*certificate has expired",
    ),
    "a certificate of the broker for another host": (
        lambda cluster: mutual(cluster, bootstrap_servers=cluster.servers("MISNAMED"), **NO_KEY),
        r"ssl\.endpoint\.identification\.algorithm: .*IP address mismatch",
    ),
    "no certificate of the client": (
        lambda cluster: mutual(cluster, **NO_KEY),
        r"ssl\.certificate\.location: missing, and .* demands a certificate",
    ),
    "a certificate of the client that has expired": (
        lambda cluster: mutual(cluster, "late"),
        r"ssl\.certificate\.location: .* does not accept this certificate",
    ),
    "plain text to a port with TLS": (
        lambda cluster: plain(cluster, "PLAINTEXT", **NO_SASL),
        r"security\.protocol: PLAINTEXT, but .* closed the connection; does it want TLS",
    ),
    "SASL_PLAINTEXT to a port with TLS": (
        lambda cluster: plain(cluster, "SASL_PLAINTEXT"),
        r"security\.protocol: SASL_PLAINTEXT, but .* closed the connection; does it want TLS \(SASL_SSL\)",
    ),
    "TLS to a port with SASL": (
        lambda cluster: cluster.properties(security_protocol="SSL", **NO_SASL),
        r"security\.protocol: SSL, but .* closed the connection; does it want SASL \(SASL_SSL\)",
    ),
    "SASL to a port that wants none": (
        lambda cluster: cluster.properties(
            bootstrap_servers=cluster.servers("MISNAMED"), **{"ssl_endpoint_identification_algorithm": "none"}
        ),
        r"security\.protocol: .* asks for no SASL; did you mean SSL",
    ),
    "TLS to a port with plain text": (
        lambda cluster: cluster.properties(bootstrap_servers=cluster.servers("REPL")),
        r"security\.protocol: SASL_SSL, but .*does it speak plain text",
    ),
    "SASL to a port with plain text": (
        lambda cluster: plain(cluster, "SASL_PLAINTEXT", bootstrap_servers=cluster.servers("REPL")),
        r"security\.protocol: .* asks for no SASL; did you mean PLAINTEXT",
    ),
    "nobody listens": (
        lambda cluster: cluster.properties(bootstrap_servers="127.0.0.1:9"),
        r"bootstrap\.servers: nobody listens at 127\.0\.0\.1:9",
    ),
    "a host that nobody knows": (
        lambda cluster: cluster.properties(bootstrap_servers="kafka.invalid:9093"),
        r"bootstrap\.servers: the host kafka\.invalid is not known here",
    ),
}
"""What a test makes wrong, and what the message must say."""
REFUSED: dict[str, tuple[Callable[[SecuredCluster], dict[str, str]], str]] = {
    "a file of an authority that is missing": (
        lambda cluster: cluster.properties(ssl_ca_location="/nowhere/ca.pem"),
        r"ssl\.ca\.location is '/nowhere/ca\.pem', which cannot be read",
    ),
    "a wrong password of a key": (
        lambda cluster: mutual(
            cluster, ssl_key_location=f"{cluster.certificates}/verifier.locked.key", ssl_key_password="hush-7"
        ),
        r"ssl\.key\.password does not open the private key",
    ),
    "a key of another certificate": (
        lambda cluster: mutual(cluster, ssl_key_location=f"{cluster.certificates}/late.key"),
        r"ssl\.certificate\.location does not belong to the private key",
    ),
    "a mechanism that one client lacks": (
        lambda cluster: cluster.properties(sasl_mechanism="OAUTHBEARER"),
        r"sasl\.mechanism is OAUTHBEARER",
    ),
}
"""What is refused before anything is sent, and what the message must say."""


@pytest.mark.parametrize("wrong", ERRORS)
def test_an_error_is_named_by_its_property_within_15_seconds(
    secured: SecuredCluster, access: Reading, wrong: str
) -> None:
    properties, said = ERRORS[wrong]
    began_s = time.monotonic()
    with pytest.raises(Unreachable, match=said) as raised:
        check(access(properties(secured)))
    assert time.monotonic() - began_s < cluster_check.WITHIN_S
    assert not any(secret in str(raised.value) for secret in SECRETS)


@pytest.mark.parametrize("wrong", REFUSED)
def test_what_cannot_work_is_refused_before_anything_is_sent(
    secured: SecuredCluster, access: Reading, wrong: str
) -> None:
    properties, said = REFUSED[wrong]
    with pytest.raises((BadInput, UnsupportedSecurity), match=said) as raised:
        check(access(properties(secured)))
    assert not any(secret in str(raised.value) for secret in SECRETS)


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept = list[socket.socket]()
        threading.Thread(target=lambda: kept.append(server.accept()[0]), daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_server_that_never_answers_is_named_within_15_seconds(
    secured: SecuredCluster, access: Reading, silent: str
) -> None:
    began_s = time.monotonic()
    with pytest.raises(Unreachable, match=rf"bootstrap\.servers: {silent} does not answer"):
        check(access(secured.properties(bootstrap_servers=silent)))
    assert time.monotonic() - began_s < cluster_check.WITHIN_S


def test_one_bad_server_of_three_is_named_and_the_others_are_used(secured: SecuredCluster, access: Reading) -> None:
    first, second, _ = secured.servers().split(",")
    checked = check(access(secured.properties(bootstrap_servers=f"{first},127.0.0.1:9,{second}")))
    assert [str(each) for each in checked.beside] == [
        "bootstrap server 127.0.0.1:9: bootstrap.servers: nobody listens at 127.0.0.1:9"
    ]
    assert checked.unreached == ()
    assert sorted(checked.software) == [*BROKERS]


@pytest.mark.parametrize(
    ("listener", "name"),
    [("EXPIRED", "ssl.keystore.location of the broker"), (None, "advertised.listeners of the broker")],
)
def test_one_bad_broker_of_three_is_named(
    secured: SecuredCluster, access: Reading, monkeypatch: pytest.MonkeyPatch, listener: str | None, name: str
) -> None:
    """A broker that answers at the server's address may advertise one where nobody can reach it."""
    real = cluster_check.facts.members

    def members(asking: Asking, broker: int) -> Members:
        found = real(asking, broker)
        bad = found.brokers[1]
        elsewhere = bad.address._replace(port=9 if listener is None else secured.ports[bad.number][listener])
        return found._replace(brokers=(found.brokers[0], bad._replace(address=elsewhere), found.brokers[2]))

    monkeypatch.setattr(cluster_check.facts, "members", members)
    checked = check(access(secured.properties()))
    (bad,) = checked.unreached
    assert (bad.number, bad.cause.name) == (BROKERS[1], name)
    assert sorted(checked.software) == [BROKERS[0], BROKERS[2]]


WAYS: dict[str, Callable[[SecuredCluster], dict[str, str]]] = {
    "SCRAM": lambda cluster: cluster.properties(),
    "PLAIN": lambda cluster: cluster.properties(sasl_mechanism="PLAIN"),
    "mutual TLS": mutual,
    "mutual TLS with a locked key": lambda cluster: mutual(
        cluster, ssl_key_location=f"{cluster.certificates}/verifier.locked.key", ssl_key_password=KEY_PASSWORD
    ),
    "mutual TLS with PKCS #12": lambda cluster: mutual(
        cluster,
        **NO_KEY,
        ssl_keystore_location=f"{cluster.certificates}/verifier.p12",
        ssl_keystore_password=STORE_PASSWORD,
    ),
    "mutual TLS with texts": lambda cluster: mutual(
        cluster,
        **NO_KEY,
        ssl_certificate_pem=_one_line(cluster.certificates / "verifier.crt"),
        ssl_key_pem=_one_line(cluster.certificates / "verifier.key"),
    ),
}


def _one_line(path: Path) -> str:
    """Returns the text of a file as one value of a file of properties."""
    return path.read_text().replace("\n", "\\n")


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_proving_who_one_is_reaches_all_brokers(
    secured: SecuredCluster, access: Reading, way: str
) -> None:
    checked = check(access(WAYS[way](secured)))
    assert (sorted(checked.software), checked.unreached) == ([*BROKERS], ())
    assert checked.principal == ("User:CN=verifier" if "TLS" in way else "User:verifier")
