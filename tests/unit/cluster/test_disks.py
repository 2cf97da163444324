"""Tests that the kernel's table of mounts is read correctly, also for links and for names with blanks."""

from __future__ import annotations

from pathlib import Path

import pytest

from delivery_verifier.cluster.embedded import disks
from delivery_verifier.cluster.embedded.disks import Disk, DiskError


def test_mounts_are_found_beneath_a_folder_and_through_a_link_the_innermost_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real ws").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real ws")
    told = str(tmp_path / "real ws").replace(" ", "\\040")
    table = (
        f"22 1 0:2 / {tmp_path}-other rw - ext4 x rw\n"
        f"23 1 0:3 / {told} rw - tmpfs x rw\n"
        f"24 23 7:0 / {told}/data/ü rw - ext4 x rw\n"
    )
    read = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda self: table if str(self).endswith("mountinfo") else read(self))
    real = tmp_path / "real ws"
    assert disks.mounts(tmp_path / "link") == disks.mounts(real) == [real / "data/ü", real]
    assert disks.mounts(tmp_path / "elsewhere") == []


def test_a_folder_that_is_no_disk_of_its_own_is_never_taken_for_one_without_power(tmp_path: Path) -> None:
    disk = Disk.of_broker(tmp_path, 1)
    assert not disk.is_off() and not disk.is_mounted()
    disk.folder.mkdir(parents=True)
    assert not disk.is_off()
    disk.remount()


def test_a_tool_that_is_missing_or_fails_is_named_with_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DiskError, match="false: exit code 1"):
        disks._call("false")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(DiskError, match=r"mkfs\.ext4: .*No such file"):
        Disk.of_broker(tmp_path, 1).make()
