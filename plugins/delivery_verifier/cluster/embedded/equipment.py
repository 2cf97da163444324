"""Equipment: finds out which capabilities (see model.act.Capability) this host has. A capability is something that some
faults need, e.g. rules in the packet filter.

For each capability there is a trial: a function that uses the capability on this host, and then cleans up.
"""

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
"""Size in bytes of the small disk on which the capability `power` is tried."""
LOOP_CONTROL = "/dev/loop-control"
_TRIAL_FOLDER = re.compile(r"kdv-trial-(\d+)-(\d+)-.*")
"""The name of the temporary folder in which the capability `power` is tried. The name contains the pid and the start
time of the process that tries the capability."""
_REFUSALS = re.compile(
    r"permission denied|not permitted|not supported|missing kernel module|unknown filesystem type|"
    r"no such device|protocol not available",
    re.IGNORECASE,
)
"""Parts of error messages of tools such as `mount`. A message with one of these parts proves that the host lacks the
capability that is tried. The message of a host without loop devices proves this, too."""


@cache
def tried(equipment: Capability) -> Lack | None:
    """Returns why this host lacks the capability `equipment`, or None if the host has it.

    Each process tries every capability at most once. Later calls return the result of the first call.
    """
    return _TRIALS[equipment]()


def _network() -> Lack | None:
    """Tries the capability `network`: adds a rule to the packet filter, and reads the rule back. Returns why the trial
    failed, or None if it succeeded.

    If the rule is missing but no tool reported an error, `Lack.failed` is True.
    """
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
    """Tries the capability `power`: makes a small disk, and cuts the disk's power. Returns None if the disk then fails,
    as it must. Otherwise returns what is lacking.

    If the disk still works but no tool reported an error, `Lack.failed` is True.
    """
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
    """Returns the temporary folders of trials of the capability `power` whose process was killed. A disk may still be
    mounted in such a folder.

    Leaves out folders of other users, because any user may create a folder with such a name.
    """
    folders = []
    for folder in Path(tempfile.gettempdir()).glob("kdv-trial-*"):
        name = _TRIAL_FOLDER.fullmatch(folder.name)
        if name and not lives(f"{name[1]}:{name[2]}") and not folder.is_symlink() and _is_mine(folder):
            folders.append(folder)
    return folders


def _is_mine(folder: Path) -> bool:
    try:
        return folder.stat().st_uid == os.geteuid()
    except FileNotFoundError:  # another process has just removed the folder
        return False


def sweep() -> list[Path]:
    """Unmounts the disks in the folders that `abandoned` returns, and removes the folders. Returns these folders.
    Raises StepFailed if a disk stays in use."""
    folders = abandoned()
    for folder in folders:
        _clear(folder)
    return folders


def _refused(message: str, error: Exception) -> Lack:
    """Returns a `Lack` for the error of a trial. `message` holds the reason and the remedy, in words.

    `Lack.failed` is False if `error` proves that the host lacks the capability. Otherwise it is True: then only the
    trial failed, and the host may have the capability.

    `mount` reports the same error on a host without loop devices, and on a host whose loop devices are all busy. If
    this process may open /dev/loop-control, the host has loop devices, and this error proves nothing.
    """
    no_loop_devices = "failed to setup loop device" in str(error) and not os.access(LOOP_CONTROL, os.R_OK | os.W_OK)
    return Lack(message, failed=not no_loop_devices and _REFUSALS.search(str(error)) is None)


def _clear(folder: Path) -> None:
    """Unmounts the disk in `folder`, the temporary folder of a trial, and removes the folder. Raises StepFailed if the
    disk stays in use."""
    try:
        disks.release(folder)
    except DeadlinePassed as error:
        raise StepFailed(f"a trial mount is left behind: {error}") from None
    shutil.rmtree(folder, ignore_errors=True)


def _lacks(packages: str, *programs: str) -> str | None:
    """Returns why this process cannot use `programs`, with the remedy. Returns None if the process can use all of them.

    `packages` names the packages that contain the programs. The remedy for missing programs quotes `packages`.
    """
    if os.geteuid():
        return "only root may do that: run as root"
    missing = [program for program in programs if shutil.which(program) is None]
    return f"{', '.join(missing)} not found: install {packages}" if missing else None


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


_TRIALS: dict[Capability, Callable[[], Lack | None]] = {"proxy": lambda: None, "network": _network, "power": _power}
"""Maps each capability to a function that tries the capability on this host. The trial of `proxy` always succeeds,
because a proxy needs nothing of the host."""
