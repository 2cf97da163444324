"""Equipment: whether this host has what some faults need, found out by really trying it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from delivery_verifier.cluster import disks, packet_filter
from delivery_verifier.vocabulary import Equipment
from delivery_verifier.waiting import DeadlinePassed

TRIAL = 16 << 20


@cache
def availability(equipment: Equipment) -> str | None:
    """None if this host has `equipment`; else the reason, with the remedy. Tried once per process."""
    return _TRIALS[equipment]()


def _network() -> str | None:
    if reason := _lacks("iptables", "iptables", "iptables-save", "iptables-restore"):
        return reason
    chain = packet_filter.Chain.own("trial")
    rule = packet_filter.Rule("trial", f"-m owner --gid-owner {packet_filter.GROUPS} -m tcp --dport 1")
    try:
        chain.add([rule])
        works = chain.dropped() == [("trial", 0)]
    except packet_filter.FilterError as error:
        return f"the packet filter cannot be changed ({_line(error)}): run as root with CAP_NET_ADMIN, and iptables' owner match"
    finally:
        chain.destroy()
    return None if works else "a rule that was added to the packet filter is not there: use an iptables that the kernel knows"


def _power() -> str | None:
    if reason := _lacks("e2fsprogs and mount", "mkfs.ext4", "mount", "umount"):
        return reason
    folder = Path(tempfile.mkdtemp(prefix="kdv-trial-"))
    disk = disks.Disk(folder / "image", folder / "mounted")
    try:
        disk.make(TRIAL)
        disk.cut_power()
        works = disk.is_off()
    except (disks.DiskError, OSError) as error:
        return f"no ext4 of its own can be cut off ({_line(error)}): run as root with CAP_SYS_ADMIN and loop devices"
    finally:
        _clear(folder)
    return None if works else "ext4 goes on after its shutdown: use a kernel whose ext4 has EXT4_IOC_SHUTDOWN (4.11 and later)"


def _clear(folder: Path) -> None:
    try:
        disks.release(folder)
    except DeadlinePassed as error:
        raise RuntimeError(f"a trial mount is left behind: {error}") from None
    shutil.rmtree(folder, ignore_errors=True)


def _lacks(packages: str, *programs: str) -> str | None:
    if os.geteuid():
        return "only root may do that: run as root"
    missing = [program for program in programs if shutil.which(program) is None]
    return f"{', '.join(missing)} not found: install {packages}" if missing else None


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


_TRIALS: dict[Equipment, Callable[[], str | None]] = {"proxy": lambda: None, "network": _network, "power": _power}
