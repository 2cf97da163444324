"""Tests of what `make test-compose` brings along: each must fail in a way that says what is missing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import psutil
import pytest
from support import engine, standins


@pytest.fixture(autouse=True)
def _no_compose_of_the_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(engine.shutil, "which", lambda program: None)
    monkeypatch.setattr(engine, "TOOLS", tmp_path / "tools")


def test_a_package_with_another_checksum_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine = engine.DIGESTS["x86_64"][0]
    (tmp_path / f"{engine.COMPOSE}_{machine}.deb").write_bytes(b"!<arch>\n")
    monkeypatch.setattr(engine, "POOL", tmp_path.as_uri())
    monkeypatch.setattr(engine.platform, "machine", lambda: "x86_64")
    with pytest.raises(ValueError, match="refused"):
        engine.compose()
    assert not (tmp_path / "tools").exists()


def test_without_network_the_reason_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(engine, "POOL", (tmp_path / "nothing").as_uri())
    with pytest.raises(engine.Missing, match=r"no Docker Compose: install it .*cannot be fetched"):
        engine.compose()


def test_an_unknown_machine_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.platform, "machine", lambda: "s390x")
    with pytest.raises(engine.Missing, match="s390x"):
        engine.compose()


def test_a_member_is_found_behind_one_of_odd_length() -> None:
    def member(name: bytes, content: bytes) -> bytes:
        header = name.ljust(16) + b"0".ljust(32) + str(len(content)).encode().ljust(10) + b"`\n"
        return header + content + b"\n" * (len(content) % 2)

    package = b"!<arch>\n" + member(b"debian-binary", b"2.0") + member(b"data.tar.xz", b"data")
    assert engine._member(package, b"data.tar.xz") == b"data"
    with pytest.raises(ValueError, match="has no"):
        engine._member(package, b"other")


def test_the_base_of_the_stand_ins_is_made_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each set of the host's own certificates has a base of its own."""

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command[0])
        if command[0] == "tar":
            Path(command[command.index("-cf") + 1]).touch()
        return subprocess.CompletedProcess(command, 0, "", "")

    commands: list[str] = []
    monkeypatch.setattr(standins.subprocess, "run", run)
    monkeypatch.setattr(standins, "TOOLS", tmp_path / "tools")
    monkeypatch.setattr(standins, "CERTIFICATES", tmp_path / "certificates")
    first = standins._base_archive(tmp_path / "root")
    assert standins._base_archive(tmp_path / "root") == first and commands == ["debootstrap", "chroot", "tar"]
    (tmp_path / "certificates").mkdir()
    (tmp_path / "certificates" / "own.crt").write_text("own")
    monkeypatch.setattr(standins.shutil, "copytree", lambda *_, **__: None)
    assert standins._base_archive(tmp_path / "root") != first and list(first.parent.iterdir()) != [first]


def test_an_engine_that_does_not_start_is_missing_with_its_last_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "bin" / "dockerd"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho failed to start: no bridge here\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/bin:/usr/bin")
    with pytest.raises(engine.Missing, match=r"no engine can start here: .*no bridge here"):
        engine._start(tmp_path / "engine")


def test_the_data_of_an_engine_that_was_ended_halfway_are_removed_with_what_is_mounted_in_them(tmp_path: Path) -> None:
    outer = tmp_path / "engine" / "exec"
    for folder in (outer, outer / "net work"):
        folder.mkdir(parents=True)
        if subprocess.run(["mount", "-t", "tmpfs", "none", folder], capture_output=True, check=False).returncode:
            pytest.skip("this user may mount nothing here, and so can start no engine")
    with pytest.raises(OSError, match="busy"):
        shutil.rmtree(tmp_path / "engine")
    engine.remove(tmp_path / "engine")
    assert not (tmp_path / "engine").exists()
    assert not [part for part in psutil.disk_partitions(all=True) if str(tmp_path) in part.mountpoint]
