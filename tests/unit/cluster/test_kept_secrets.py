"""A workspace that is kept has no secret any more, and still all that explains a verdict."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from delivery_verifier.applications.spec import MemberSpec
from delivery_verifier.cluster import kept_secrets, workspaces
from delivery_verifier.cluster.security import names, spark_options
from delivery_verifier.host import private_files
from delivery_verifier.load.spec import ProducerSpec

CONNECTION = dict.fromkeys(names.SECRETS, "hush-7") | {"bootstrap.servers": "a:1", "sasl.username": "u"}


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with the files of a load, of an application, and of Spark."""
    monkeypatch.setenv("KDV_WORKSPACES", str(tmp_path))
    path = tmp_path / "abcd1234"
    for name in ("live/safe/0", "applications/safe/0", "data"):
        (path / name).mkdir(parents=True)
    (path / workspaces.KEEPER_SPEC).touch()
    producer = {"folder": "f", "connection": CONNECTION, "settings": {"acks": "all"}, "topic": "t", "run_token": "r"}
    numbers = dict.fromkeys(("arm", "producer", "session", "records", "block", "partitions", "payload_bytes"), 1)
    spec = msgspec.convert(producer | numbers | {"rate": None, "deadline_s": 1.0}, ProducerSpec)
    private_files.write(path / "live/safe/0/spec.json", msgspec.json.encode(spec))
    member = {"folder": "f", "life": 0, "connection": CONNECTION, "settings": {}, "topic": "t", "run_token": "r"}
    other = msgspec.convert(member | {"arm": 1, "discipline": "at_handover", "batch": 1}, MemberSpec)
    private_files.write(path / "applications/safe/0/spec.json", msgspec.json.encode(other))
    private_files.write(path / spark_options.FILE, b"sasl.jaas.config=hush-7")
    (path / "data/0.log").write_text("a record")
    return path


def secrets_in(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file() and b"hush-7" in file.read_bytes()]


def test_what_is_kept_has_no_secret_and_still_all_else(workspace: Path) -> None:
    assert len(secrets_in(workspace)) == 3
    workspaces.keep(workspace)
    assert secrets_in(workspace) == [] and workspaces.is_kept(workspace)
    assert (workspace / "data/0.log").read_text() == "a record"
    for name, kind in (("live/safe/0/spec.json", ProducerSpec), ("applications/safe/0/spec.json", MemberSpec)):
        file = workspace / name
        spec = msgspec.json.decode(file.read_bytes(), type=kind)
        assert spec.topic == "t" and spec.connection["bootstrap.servers"] == "a:1"
        assert {spec.connection[secret] for secret in names.SECRETS} == {kept_secrets.REMOVED}
        assert file.stat().st_mode & 0o777 == 0o600


def test_a_spec_without_secrets_stays_as_it_is_and_a_torn_one_goes(workspace: Path) -> None:
    plain, torn = workspace / "live/safe/0/spec.json", workspace / "applications/safe/0/spec.json"
    plain.write_bytes(b'{ "connection": {"bootstrap.servers": "a:1"}, "acks": 1 }')
    torn.write_bytes(b'{"connection": {"sasl.password": "hush-7')
    kept_secrets.remove(workspace)
    assert plain.read_bytes() == b'{ "connection": {"bootstrap.servers": "a:1"}, "acks": 1 }' and not torn.exists()


def test_a_private_file_is_private_whatever_was_there_before(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    private_files.write(link, b"hush-7")
    assert target.read_text() == "old" and not link.is_symlink()
    target.chmod(0o644)
    private_files.write(target, b"hush-7")
    assert {file.stat().st_mode & 0o777 for file in (link, target)} == {0o600}
