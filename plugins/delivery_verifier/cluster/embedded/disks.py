"""Disks: file systems that hold the data of one broker each. The power of a disk can be cut.

Each disk is an ext4 file system in a sparse file, mounted through a loop device. To cut the power, the kernel shuts the
file system down without a flush of the journal (`EXT4_IOC_SHUTDOWN` with `NOLOGFLUSH`). Data that had not reached the
disk are then lost, as after a power failure of the host. A kill of the broker's process alone does not lose these data:
they stay in the page cache.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
from pathlib import Path
from typing import NamedTuple

from delivery_verifier.host.processes import LIBC
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.errors import VerifierError

SIZE = 512 << 20
"""Size of a broker's disk in bytes."""
_SHUTDOWN, _NO_LOG_FLUSH = 0x8004587D, 2
"""The ioctl request EXT4_IOC_SHUTDOWN, and its flag EXT4_GOING_FLAGS_NOLOGFLUSH. Source of both numbers: Linux,
include/uapi/linux/ext4.h."""
_OPTIONS = "loop,noatime,commit=300"
"""Mount options. With `commit=300` the kernel commits the journal on request or after 300 s; the default is 5 s."""
FREE_DEADLINE_S = 10.0
"""Seconds that an unmount waits for a disk that is in use."""


class DiskError(VerifierError, RuntimeError):
    """A file system could not be made, mounted or unmounted. The message contains the error message of the tool."""


class Disk(NamedTuple):
    """One file system. `image` is the sparse file that holds the file system. `folder` is the mount point."""

    image: Path
    folder: Path

    @classmethod
    def of_broker(cls, workspace: Path, broker: int) -> Disk:
        """Returns the disk that holds the data folder of a broker."""
        return cls(workspace / f"disks/{broker}.img", workspace / f"data/{broker}")

    def make(self, size: int = SIZE) -> None:
        """Formats the image, and mounts the empty file system. `size` is in bytes. Raises DiskError."""
        self.image.parent.mkdir(parents=True, exist_ok=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.image.open("wb") as out:
            out.truncate(size)
        _call("mkfs.ext4", "-q", "-F", "-m0", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(self.image))
        self.mount()
        (self.folder / "lost+found").rmdir()  # a broker reads every folder here as a partition

    def mount(self) -> None:
        """Mounts the disk. The kernel replays the journal, as after a reboot. Raises DiskError."""
        _call("mount", "-o", _OPTIONS, str(self.image), str(self.folder))

    def remount(self) -> None:
        """Switches the power on again: unmounts and mounts the disk. Does nothing if the power is on.

        Afterwards, only the data that had reached the disk before the power cut can be read. Raises DiskError if the
        disk cannot be mounted, and DeadlinePassed if the disk stays in use.
        """
        if self.is_off():
            unmount(self.folder)
            self.mount()

    def sync(self) -> None:
        """Flushes to the disk everything that was written so far. Raises OSError if that fails."""
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            if LIBC.syncfs(descriptor):
                raise OSError(f"{self.folder} cannot be flushed")
        finally:
            os.close(descriptor)

    def cut_power(self) -> None:
        """Cuts the power. Data that have not reached the disk are lost, and nothing more can be written. Raises OSError
        if the kernel refuses."""
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(descriptor)

    def is_off(self) -> bool:
        """Returns whether the disk is mounted, but has no power.

        Tries to create a temporary file without a name. Without power, this fails. With power, the file vanishes at
        once.
        """
        try:
            os.close(os.open(self.folder, os.O_TMPFILE | os.O_RDWR))
        except OSError:
            return self.is_mounted()
        return False

    def is_mounted(self) -> bool:
        """Returns whether the disk is mounted."""
        return self.folder.resolve() in mounts(self.folder)


def mounts(below: Path) -> list[Path]:
    """Returns the mount points at the folder `below` and in its subfolders. The newest mount comes first, so that the
    caller can unmount in the order of the list.

    Source: proc(5), mountinfo, field 5.
    """
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [Path(re.sub(r"\\([0-7]{3})", _unescaped, line.split()[4])) for line in lines]
    real = below.resolve()
    return [point for point in reversed(points) if point == real or real in point.parents]


def _unescaped(match: re.Match[str]) -> str:
    """Returns the character for an octal escape in mountinfo, e.g. a space for the escape 040. Group 1 of `match` holds
    the octal digits."""
    return chr(int(match[1], 8))


def unmount(folder: Path) -> None:
    """Unmounts the disk at `folder`, which also frees the disk's loop device. Waits while a process uses the disk.

    Raises DeadlinePassed after `FREE_DEADLINE_S` seconds.
    """
    wait_until(lambda: _quietly("umount", str(folder)), f"{folder} to be unmounted", FREE_DEADLINE_S)


def release(workspace: Path) -> None:
    """Unmounts every disk in a workspace, so that the workspace can be removed. Raises DeadlinePassed if a disk stays
    in use."""
    for folder in mounts(workspace):
        unmount(folder)


def _quietly(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0


def _call(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise DiskError(f"{command[0]}: {error}") from None
    if done.returncode:
        raise DiskError(f"{command[0]}: {done.stderr.strip() or f'exit code {done.returncode}'}")
