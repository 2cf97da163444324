"""Equipment: whether this host has what some faults need. Every capability is really tried."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from delivery_verifier.cluster.backend import Lack
from delivery_verifier.cluster.embedded import disks, packet_filter
from delivery_verifier.host.processes import lives, myself
from delivery_verifier.host.waiting import DeadlinePassed
from delivery_verifier.model.act import Capability
from delivery_verifier.model.errors import StepFailed

TRIAL = 16 << 20
LOOP_CONTROL = "/dev/loop-control"
_TRIAL_FOLDER = re.compile(r"kdv-trial-(\d+)-(\d+)-.*")
"""The name of a trial's folder: pid and start of the process that tries."""
_REFUSALS = re.compile(
    r"permission denied|not permitted|not supported|missing kernel module|unknown filesystem type|"
    r"no such device|protocol not available",
    re.IGNORECASE,
)
"""Words of tools where the kernel forbids or lacks something, which lasts. With any other words, a trial went wrong."""


@cache
def tried(equipment: Capability) -> Lack | None:
    """Why this host lacks `equipment`; None if it has it. Tried once per process."""
    return _TRIALS[equipment]()


def _network() -> Lack | None:
    if reason := _lacks("iptables", "iptables", "iptables-save", "iptables-restore"):
        return Lack(reason)
    chain = packet_filter.Chain.own("trial")
    rule = packet_filter.FilterRule("trial", f"-m owner --gid-owner {packet_filter.GROUPS} -m tcp --dport 1")
    try:
        chain.add([rule])
        works = chain.dropped() == [("trial", 0)]
    except packet_filter.FilterError as error:
        remedy = "run as root with CAP_NET_ADMIN, and iptables' owner match"
        return _refused(f"the packet filter cannot be changed ({_line(error)}): {remedy}", error)
    finally:
        chain.destroy()
    message = "a rule that was added to the packet filter is not there: use an iptables that the kernel knows"
    return None if works else Lack(message, failed=True)


def _power() -> Lack | None:
    if reason := _lacks("e2fsprogs and mount", "mkfs.ext4", "mount", "umount"):
        return Lack(reason)
    me = myself()
    folder = Path(tempfile.mkdtemp(prefix=f"kdv-trial-{me.pid}-{me.started}-"))
    disk = disks.Disk(folder / "image", folder / "mounted")
    try:
        disk.make(TRIAL)
        disk.cut_power()
        works = disk.is_off()
    except (disks.DiskError, OSError) as error:
        remedy = "run as root with CAP_SYS_ADMIN and loop devices"
        return _refused(f"no ext4 of its own can be cut off ({_line(error)}): {remedy}", error)
    finally:
        _clear(folder)
    message = "ext4 goes on after its shutdown: use a kernel whose ext4 has EXT4_IOC_SHUTDOWN (4.11 and later)"
    return None if works else Lack(message, failed=True)


def abandoned() -> list[Path]:
    """Folders of trials whose process was killed, which may have mounts. Folders of other users are left alone."""
    folders = []
    for folder in Path(tempfile.gettempdir()).glob("kdv-trial-*"):
        name = _TRIAL_FOLDER.fullmatch(folder.name)
        if name and not lives(f"{name[1]}:{name[2]}") and not folder.is_symlink() and _is_mine(folder):
            folders.append(folder)
    return folders


def _is_mine(folder: Path) -> bool:
    try:
        return folder.stat().st_uid == os.geteuid()
    except FileNotFoundError:  # swept by another process just now
        return False


def sweep() -> list[Path]:
    """Removes the folders of trials whose process was killed. Returns them."""
    folders = abandoned()
    for folder in folders:
        _clear(folder)
    return folders


def _refused(message: str, error: Exception) -> Lack:
    """The lack that `error` shows.

    `mount` reports a failed setup of the loop device in any case. If this process may open the control device, then the
    loop devices are only busy, and the trial went wrong.
    """
    no_loop_devices = "failed to setup loop device" in str(error) and not os.access(LOOP_CONTROL, os.R_OK | os.W_OK)
    return Lack(message, failed=not no_loop_devices and _REFUSALS.search(str(error)) is None)


def _clear(folder: Path) -> None:
    try:
        disks.release(folder)
    except DeadlinePassed as error:
        raise StepFailed(f"a trial mount is left behind: {error}") from None
    shutil.rmtree(folder, ignore_errors=True)


def _lacks(packages: str, *programs: str) -> str | None:
    if os.geteuid():
        return "only root may do that: run as root"
    missing = [program for program in programs if shutil.which(program) is None]
    return f"{', '.join(missing)} not found: install {packages}" if missing else None


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


_TRIALS: dict[Capability, Callable[[], Lack | None]] = {"proxy": lambda: None, "network": _network, "power": _power}
