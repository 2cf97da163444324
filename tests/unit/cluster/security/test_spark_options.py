"""What Spark is given of a connection: no option has a secret, and their file is private and short-lived."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import javaproperties
import pytest
from support.certificates import KEY_PASSWORD, STORE_PASSWORD, Authority

from delivery_verifier.cluster import workspaces
from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.cluster.security import names, spark_options
from delivery_verifier.cluster.security.spark_options import HERE, MOUNT, SecretsOutOfReach, of_master, of_server
from delivery_verifier.model.inputs import BadInput

BROKERS = {1: Address("a", 9093)}
SCRAM = {
    "security.protocol": "sasl_ssl",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "verifier",
    "sasl.password": 'hu"sh-\xe47',
    "ssl.ca.location": "/etc/ca.pem",
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("certificates"))
    made.sign("own")
    return made


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    path = tmp_path / "abcd1234"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """Lets every new file be readable by all, as a careless host does."""
    before = os.umask(0)
    yield
    os.umask(before)


def ways(authority: Authority) -> dict[str, dict[str, str]]:
    """Every way to prove who one is, under librdkafka's names."""
    files = {"ssl.certificate.location": str(authority.folder / "own.crt")}
    key, locked = str(authority.folder / "own.key"), str(authority.folder / "own.locked.key")
    texts = {"ssl.certificate.pem": (authority.folder / "own.crt").read_text(), "ssl.key.pem": Path(key).read_text()}
    store = {"ssl.keystore.location": str(authority.folder / "own.p12"), "ssl.keystore.password": STORE_PASSWORD}
    ways = {
        "SCRAM": SCRAM,
        "PLAIN": {**SCRAM, "sasl.mechanism": "PLAIN"},
        "texts in PEM": texts,
        "two files in PEM": {**files, "ssl.key.location": key},
        "a locked key": {**files, "ssl.key.location": locked, "ssl.key.password": KEY_PASSWORD},
        "PKCS #12": store,
    }
    trusted = {"security.protocol": "SSL", "ssl.ca.location": str(authority.folder / "ca.pem")}
    return {name: {**trusted, **way} if "sasl.mechanism" not in way else way for name, way in ways.items()}


WAYS = ("SCRAM", "PLAIN", "texts in PEM", "two files in PEM", "a locked key", "PKCS #12")


def resolved(options: dict[str, str], file: Path, seen: Path | None = None) -> dict[str, str]:
    """What Kafka makes of `options`: Java's `FileConfigProvider` replaces the placeholders."""
    content = javaproperties.loads(file.read_text("utf-8"))
    made = {name.removeprefix("kafka."): value for name, value in options.items()}
    for name, value in made.items():
        if value == f"${{file:{seen or file}:{name}}}":
            made[name] = content[name]
    return {name: value for name, value in made.items() if not name.startswith("config.providers")}


@pytest.mark.parametrize("way", WAYS)
def test_no_option_has_a_secret_and_kafka_gets_every_property(way: str, authority: Authority, workspace: Path) -> None:
    connection = Connection(BROKERS, ways(authority)[way])
    wanted = connection.java_properties()
    with spark_options.granted(connection, workspace) as options:
        (file,) = workspace.iterdir()
        assert file.stat().st_mode & 0o777 == 0o600
        assert resolved(options, file) == wanted
        for name in (names.SECRETS | {"ssl.keystore.certificate.chain"}) & wanted.keys():
            assert options[f"kafka.{name}"] == f"${{file:{file}:{name}}}"
        shown = repr(options)
        assert "sh-" not in shown and "verifier" not in shown and STORE_PASSWORD not in shown and "BEGIN" not in shown
        assert options["kafka.config.providers.file.class"].endswith(".FileConfigProvider")
    assert [*workspace.iterdir()] == []


def test_a_property_that_nobody_has_thought_of_counts_as_secret() -> None:
    everything = {name for row in names.TABLE for name in row.java}
    public = everything - names.SECRETS - {"ssl.keystore.certificate.chain", "ssl.truststore.certificates"}
    assert {"bootstrap.servers", *public} == spark_options.SHOWN


def test_a_plain_connection_needs_no_file_wherever_spark_is(workspace: Path) -> None:
    for location in (HERE, of_master("spark://far:7077"), of_server("sc://far:15002")):
        for security in ({}, {"security.protocol": "SSL"}):
            with spark_options.granted(Connection(BROKERS, security), workspace, location) as options:
                assert options["kafka.bootstrap.servers"] == "a:9093" and "${" not in repr(options)
                assert [*workspace.iterdir()] == []


def test_the_file_goes_when_the_reading_fails_and_a_left_one_is_replaced(workspace: Path) -> None:
    left = workspace / spark_options.FILE
    left.write_text("old")
    with pytest.raises(OSError, match="gone"), spark_options.granted(Connection(BROKERS, SCRAM), workspace):
        assert left.stat().st_mode & 0o777 == 0o600 and "old" not in left.read_text()
        raise OSError("gone")
    assert [*workspace.iterdir()] == []


@pytest.mark.parametrize(
    ("location", "driver", "executors"),
    [
        (of_master("local[2]"), True, True),
        (of_master("local-cluster[1,1,512]"), True, True),
        (of_master("spark://localhost:7077"), True, False),
        (of_master("yarn", "cluster"), False, False),
        (of_server("sc://localhost:15002"), True, True),
        (of_server("sc://127.0.0.9:1"), True, True),
        (of_server("sc://localhost:15002", "spark://far:7077"), True, False),
        (of_server("sc://far:15002"), False, False),
        (of_server("sc://far:15002", "local[*]"), False, False),
    ],
)
def test_spark_is_here_only_if_driver_and_executors_are(
    location: spark_options.Location, driver: bool, executors: bool
) -> None:
    assert (location.driver_here, location.executors_here) == (driver, executors)


def test_a_server_behind_a_tunnel_is_elsewhere_once_the_mount_is_named(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MOUNT, "/mnt/kdv")
    tunnelled = of_server("sc://localhost:15002", "local[*]")
    with spark_options.granted(Connection(BROKERS, SCRAM), workspace, HERE) as here:
        assert f"file:{workspace}" in here["kafka.sasl.jaas.config"]
    security = {name: value for name, value in SCRAM.items() if name != "ssl.ca.location"}
    with spark_options.granted(Connection(BROKERS, security), workspace, tunnelled) as options:
        assert "file:/mnt/kdv/abcd1234/" in options["kafka.sasl.jaas.config"]


@pytest.mark.slow
def test_a_reader_that_is_killed_leaves_a_private_file_which_the_next_run_removes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KDV_WORKSPACES", str(tmp_path))
    workspace = tmp_path / "abcd1234"
    workspace.mkdir()
    (workspace / workspaces.KEEPER_SPEC).touch()
    program = f"""
import os, pathlib, signal
from delivery_verifier.cluster.connection import Connection
from delivery_verifier.cluster.security import spark_options
with spark_options.granted(Connection({{}}, {SCRAM!r}), pathlib.Path({str(workspace)!r})):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -signal.SIGKILL
    left = workspace / spark_options.FILE
    assert "sasl.jaas.config" in left.read_text() and left.stat().st_mode & 0o777 == 0o600
    assert workspaces.sweep() == [workspace] and not workspace.exists()


def test_a_spark_elsewhere_without_a_mount_is_refused_before_the_load_with_the_remedy() -> None:
    for location in (of_master("spark://far:7077"), of_server("sc://far:15002")):
        with pytest.raises(SecretsOutOfReach, match=rf"far.*KDV_WORKSPACES.*{MOUNT}.*local"):
            spark_options.require_within_reach(SCRAM, location)
    spark_options.require_within_reach(SCRAM, HERE)


def test_a_driver_here_must_see_the_mount_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MOUNT, str(tmp_path / "nowhere"))
    spark_options.require_within_reach(SCRAM, of_master("yarn", "cluster"))
    with pytest.raises(SecretsOutOfReach, match=rf"{MOUNT} is .*nowhere.*no folder of this host"):
        spark_options.require_within_reach(SCRAM, of_master("yarn"))


@pytest.mark.parametrize("way", WAYS[2:])
def test_a_spark_elsewhere_gets_texts_and_the_path_of_the_mount(
    way: str, authority: Authority, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MOUNT, "/mnt/kdv")
    connection, seen = Connection(BROKERS, ways(authority)[way]), Path("/mnt/kdv", workspace.name, spark_options.FILE)
    with spark_options.granted(connection, workspace, of_server("sc://far:15002")) as options:
        made = resolved(options, workspace / spark_options.FILE, seen)
        assert str(authority.folder) not in repr(made), "no file of this host"
        assert made["ssl.truststore.certificates"] == (authority.folder / "ca.pem").read_text()
        assert made["ssl.keystore.key"].startswith("-----BEGIN PRIVATE KEY-----")
        assert made["ssl.keystore.certificate.chain"].count("BEGIN CERTIFICATE") == 2
        assert made.keys() & {"ssl.key.password", "ssl.keystore.password"} == set()
        assert spark_options.path_in_driver(workspace / "x", of_server("sc://far:1")) == seen.with_name("x")
    assert spark_options.path_in_driver(workspace / "x", HERE) == workspace / "x"


def test_a_path_that_a_placeholder_cannot_have_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a:b" / "abcd1234"
    folder.mkdir(parents=True)
    with (
        pytest.raises(SecretsOutOfReach, match=r"KDV_WORKSPACES is .*a:b.*; allowed: a path without :"),
        spark_options.granted(Connection(BROKERS, SCRAM), folder),
    ):
        raise AssertionError("no reading")
    assert [*folder.iterdir()] == []


def test_a_key_that_does_not_open_leaves_no_file(authority: Authority, workspace: Path) -> None:
    security = {**ways(authority)["a locked key"], "ssl.key.password": "wrong-1"}
    with (
        pytest.raises(BadInput, match=r"ssl.key.password does not open"),
        spark_options.granted(Connection(BROKERS, security), workspace),
    ):
        raise AssertionError("no reading")
    assert [*workspace.iterdir()] == []
