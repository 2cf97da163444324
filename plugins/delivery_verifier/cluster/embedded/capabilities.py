"""Capabilities: finds out which capabilities (see model.act.Capability) this host has. A capability is something that
some faults need, e.g. rules in the packet filter.

For each capability there is a means (see `cluster.means`), whose function `unavailable` tries the capability on this
host, and then cleans up.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from functools import cache
from pathlib import Path

from delivery_verifier.cluster import means
from delivery_verifier.cluster.backend import Unavailability
from delivery_verifier.cluster.embedded import disks
from delivery_verifier.host.processes import incarnations
from delivery_verifier.host.waiting import DeadlinePassed
from delivery_verifier.model.act import Capability
from delivery_verifier.model.errors import StepFailed

PACKAGE = "delivery_verifier.cluster.embedded"
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
def tried(capability: Capability) -> Unavailability | None:
    """Returns why this host lacks the capability `capability`, or None if the host has it.

    Each process tries every capability at most once. Later calls return the result of the first call.
    """
    if capability not in means.names(PACKAGE):
        return Unavailability(means.absence(PACKAGE, capability))
    why: Unavailability | None = means.module(PACKAGE, capability).unavailable()
    return why


def abandoned() -> list[Path]:
    """Returns the temporary folders of trials of the capability `power` whose process was killed. A disk may still be
    mounted in such a folder.

    Leaves out folders of other users, because any user may create a folder with such a name.
    """
    folders = []
    for folder in Path(tempfile.gettempdir()).glob("kdv-trial-*"):
        name = _TRIAL_FOLDER.fullmatch(folder.name)
        if name and not incarnations(f"{name[1]}:{name[2]}") and not folder.is_symlink() and _is_mine(folder):
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
        clear(folder)
    return folders


def refusal(message: str, error: Exception, remedy: str) -> Unavailability:
    """Returns a `Unavailability` for the error of a trial: `message`, the error's own words, and the remedy.

    `Unavailability.failed` is False if `error` proves that the host lacks the capability. Otherwise it is True: then
    only the trial failed, and the host may have the capability.

    `mount` reports the same error on a host without loop devices, and on a host whose loop devices are all busy. If
    this process may open /dev/loop-control, the host has loop devices, and this error proves nothing.
    """
    no_loop_devices = "failed to setup loop device" in str(error) and not os.access(LOOP_CONTROL, os.R_OK | os.W_OK)
    why = f"{message} ({' '.join(str(error).split())}): {remedy}"
    return Unavailability(why, failed=not no_loop_devices and _REFUSALS.search(str(error)) is None)


def clear(folder: Path) -> None:
    """Unmounts the disk in `folder`, the temporary folder of a trial, and removes the folder. Raises StepFailed if the
    disk stays in use."""
    try:
        disks.release(folder)
    except DeadlinePassed as error:
        raise StepFailed(f"a trial mount is left behind: {error}") from None
    shutil.rmtree(folder, ignore_errors=True)


def missing_programs(packages: str, *programs: str) -> str | None:
    """Returns why this process cannot use `programs`, with the remedy. Returns None if the process can use all of them.

    `packages` names the packages that contain the programs. The remedy for missing programs quotes `packages`.
    """
    if os.geteuid():
        return "only root may do that: run as root"
    missing = [program for program in programs if shutil.which(program) is None]
    return f"{', '.join(missing)} not found: install {packages}" if missing else None
