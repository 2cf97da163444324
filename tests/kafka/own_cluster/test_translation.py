"""What is written in librdkafka's names connects Kafka's own Java client, too, once the table has translated it; and it
is read back as it was."""

from __future__ import annotations

import subprocess
from pathlib import Path

import javaproperties
import pytest
from support.certificates import KEY_PASSWORD, STORE_PASSWORD
from support.secured_cluster import CLUSTER_ID, SecuredCluster

from delivery_verifier.cluster.security import command_config, names, portable

WAYS: dict[str, dict[str, str]] = {
    "SCRAM": {},
    "PLAIN": {"sasl.mechanism": "PLAIN"},
    "PEM in one file": {"ssl.certificate.location": "verifier.pem", "ssl.key.location": "verifier.pem"},
    "PEM in two files": {"ssl.certificate.location": "verifier.crt", "ssl.key.location": "verifier.key"},
    "a locked key": {
        "ssl.certificate.location": "verifier.crt",
        "ssl.key.location": "verifier.locked.key",
        "ssl.key.password": KEY_PASSWORD,
    },
    "PKCS #12": {"ssl.keystore.location": "verifier.p12", "ssl.keystore.password": STORE_PASSWORD},
}


def properties(cluster: SecuredCluster, way: str) -> dict[str, str]:
    """The properties of one way of connecting, under librdkafka's names."""
    mine = cluster.properties()
    if not any(name.startswith("ssl.") for name in WAYS[way]):
        return {**mine, **WAYS[way]}
    mutual = {"security.protocol": "SSL", "bootstrap.servers": cluster.servers("MTLS")}
    files = {
        name: str(cluster.certificates / value) if name.endswith("location") else value
        for name, value in WAYS[way].items()
    }
    return {**{name: value for name, value in mine.items() if not name.startswith("sasl.")}, **mutual, **files}


@pytest.mark.parametrize("way", WAYS)
def test_kafkas_own_client_connects_with_the_translation(secured: SecuredCluster, tmp_path: Path, way: str) -> None:
    mine = properties(secured, way)
    servers = mine.pop("bootstrap.servers")
    translated = names.to_java(portable.security(mine))
    file = tmp_path / "java.properties"
    file.write_text(javaproperties.dumps(translated, timestamp=False), "latin-1")
    file.chmod(0o600)
    words = ["cluster-id", "--bootstrap-server", servers, "--command-config", str(file)]
    tool = secured.tool("org.apache.kafka.tools.ClusterTool", *words)
    ended = subprocess.run(tool, capture_output=True, text=True, check=False)
    assert CLUSTER_ID in ended.stdout, ended.stdout + ended.stderr
    back = command_config.read(servers, str(file)).security
    assert names.to_java(portable.security(back)) == translated
