"""The means `power`: brokers whose disks lose power. It has no options."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from delivery_verifier.cluster.backend import Unavailability
from delivery_verifier.cluster.embedded import capabilities, disks
from delivery_verifier.cluster.embedded.node_processes import NodeProcesses
from delivery_verifier.cluster.means import Facts, Means
from delivery_verifier.host.processes import myself

TRIAL = 16 << 20
"""Size in bytes of the small disk on which the means is tried."""


class BrokerMeans(Means):
    """The power of the disks of one cluster's brokers."""

    def __init__(self, agent: NodeProcesses) -> None:
        self._agent = agent

    def apply(self, nodes: list[int], options: Mapping[str, Any]) -> int:
        """Kills all `nodes`, and cuts the power of their disks. Raises ValueError if a broker does not run, and OSError
        if a disk's power cannot be cut."""
        at_us = min(self._agent.send(node, "SIGKILL") for node in nodes)
        for node in nodes:
            self._disk(node).cut_power()
        return at_us

    def undo(self, nodes: list[int]) -> None:
        """Switches the power on again. Starts no broker. Raises DiskError if a disk cannot be mounted."""
        for node in self.is_in_force(nodes, {}):
            self._disk(node).remount()

    def is_in_force(self, nodes: list[int], options: Mapping[str, Any]) -> Facts:
        """Returns `off` for the disk of each node that has exited, and whose disk answers with I/O errors."""
        statuses = self._agent.status().nodes
        off = [node for node in nodes if statuses[node].state == "exited" and self._disk(node).is_off()]
        return {node: {"disk": "off"} for node in off}

    def _disk(self, node: int) -> disks.Disk:
        return disks.Disk.of_broker(self._agent.workspace, node)


def unavailable() -> Unavailability | None:
    """Makes a small disk, and cuts the disk's power. Returns None if the disk then fails, as it must. Otherwise returns
    what is lacking.

    If the disk still works but no tool reported an error, `Unavailability.failed` is True.
    """
    if reason := capabilities.missing_programs("e2fsprogs and mount", "mkfs.ext4", "mount", "umount"):
        return Unavailability(reason)
    me = myself()
    folder = Path(tempfile.mkdtemp(prefix=f"kdv-trial-{me.pid}-{me.started}-"))
    disk = disks.Disk(folder / "image", folder / "mounted")
    try:
        disk.make(TRIAL)
        disk.cut_power()
        works = disk.is_off()
    except (disks.DiskError, OSError) as error:
        remedy = "run as root with CAP_SYS_ADMIN and loop devices"
        return capabilities.refusal("no ext4 of its own can be cut off", error, remedy)
    finally:
        capabilities.clear(folder)
    message = "ext4 goes on after its shutdown: use a kernel whose ext4 has EXT4_IOC_SHUTDOWN (4.11 and later)"
    return None if works else Unavailability(message, failed=True)
