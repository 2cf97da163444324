"""Equipment: whether this host has what some faults need, found out by really trying it."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from delivery_verifier.cluster.embedded import disks, packet_filter
from delivery_verifier.host.processes import lives, myself
from delivery_verifier.host.waiting import DeadlinePassed
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.fault_actions import Capability

TRIAL = 16 << 20
LOOP_CONTROL = "/dev/loop-control"
_TRIAL_FOLDER = re.compile(r"kdv-trial-(\d+)-(\d+)-.*")
"""Pid and start of the process that tries."""
_REFUSALS = re.compile(
    r"permission denied|not permitted|not supported|missing kernel module|unknown filesystem type|"
    r"no such device|protocol not available",
    re.IGNORECASE,
)
"""Words of tools whose kernel forbids or lacks it: so it will be tomorrow. With any other words a trial went wrong."""


class Lack(NamedTuple):
    """Why this host cannot be relied on for some equipment, with the remedy. `failed`: that is no property of the host,
    but a trial that went wrong."""

    why: str
    failed: bool = False


@cache
def tried(equipment: Capability) -> Lack | None:
    """None if this host has `equipment`. Tried once per process."""
    return _TRIALS[equipment]()


def availability(equipment: Capability) -> str | None:
    """None if this host has `equipment`; else the reason, with the remedy."""
    lack = tried(equipment)
    return lack.why if lack else None


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
    told = "a rule that was added to the packet filter is not there: use an iptables that the kernel knows"
    return None if works else Lack(told, failed=True)


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
    told = "ext4 goes on after its shutdown: use a kernel whose ext4 has EXT4_IOC_SHUTDOWN (4.11 and later)"
    return None if works else Lack(told, failed=True)


def abandoned() -> list[Path]:
    """Folders, and mounts, of trials whose process was killed. Whatever others own in the common folder is not ours."""
    found = ((one, _TRIAL_FOLDER.fullmatch(one.name)) for one in Path(tempfile.gettempdir()).glob("kdv-trial-*"))
    dead = [one for one, of in found if of and not lives(f"{of[1]}:{of[2]}")]
    return [one for one in dead if not one.is_symlink() and _is_mine(one)]


def _is_mine(folder: Path) -> bool:
    try:
        return folder.stat().st_uid == os.geteuid()
    except FileNotFoundError:  # swept by another process just now
        return False


def sweep() -> list[Path]:
    """Removes them. Returns their folders."""
    left = abandoned()
    for folder in left:
        _clear(folder)
    return left


def _refused(told: str, error: Exception) -> Lack:
    """mount says of every loop device that it failed to set it up: where there is a door to them, they are but busy."""
    none = "failed to setup loop device" in str(error) and not os.access(LOOP_CONTROL, os.R_OK | os.W_OK)
    return Lack(told, failed=not none and _REFUSALS.search(str(error)) is None)


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
