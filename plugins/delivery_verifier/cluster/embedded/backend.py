"""The embedded backend: Apache Kafka as processes of this host. Every cluster has a keeper of its own, the parent
process of these processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from delivery_verifier.cluster import lease
from delivery_verifier.cluster.backend import Backend, Lack, StartRequest
from delivery_verifier.cluster.embedded import disks, equipment, nodes, packet_filter
from delivery_verifier.cluster.embedded.cluster import EmbeddedCluster
from delivery_verifier.cluster.layout import KEEPER_SOCKET, KEEPER_SPEC, ClusterLayout
from delivery_verifier.host.processes import ProcessId
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.act import Capability
from delivery_verifier.model.errors import StepFailed

ANSWER_DEADLINE_S = 60.0


class KeeperSpec(Struct, frozen=True, kw_only=True):
    """The inputs of a keeper. They are stored in the file `keeper.json` in the workspace, the folder of the cluster.

    `run_id`, `workspace`, `deadline_s` and `owner` are copied from the `StartRequest`. `lock_descriptor`: the
    descriptor of an open file that holds the host's lock. None: the keeper takes the lock itself. `lease_s`: seconds
    that the cluster lives after the last renewal of its lease.
    """

    run_id: str
    workspace: str
    deadline_s: float
    layout: ClusterLayout
    owner: ProcessId | None = None
    lock_descriptor: int | None = None
    lease_s: float = lease.LEASE_S


class EmbeddedBackend:
    """A backend that runs clusters as processes of this host."""

    def lack(self, capability: Capability | None = None) -> Lack | None:
        """Returns why this host lacks `capability`, or None if the host has it. Without `capability` the result is
        always None, because a cluster without capabilities runs on every host that passes `kdv doctor`."""
        return None if capability is None else equipment.tried(capability)

    def start(self, request: StartRequest) -> EmbeddedCluster:
        """Fills the workspace with configurations and data folders, and starts the keeper. Returns the cluster once the
        keeper answers.

        If the keeper ends before it answers, raises RuntimeError with the last line of the keeper's log. Raises
        DeadlinePassed if the keeper does not answer within `ANSWER_DEADLINE_S` seconds.
        """
        workspace = Path(request.workspace)
        spec = KeeperSpec(
            run_id=request.run_id,
            workspace=request.workspace,
            deadline_s=request.deadline_s,
            layout=nodes.lay_out(workspace, request.spec),
            owner=request.owner,
            lock_descriptor=request.lock_descriptor,
        )
        spec_file, log = workspace / KEEPER_SPEC, workspace / "keeper.log"
        spec_file.write_bytes(msgspec.json.encode(spec))
        with log.open("wb") as out:
            keeper = subprocess.Popen(
                [sys.executable, "-m", "delivery_verifier.cluster.embedded.keeper", str(spec_file)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                pass_fds=() if request.lock_descriptor is None else (request.lock_descriptor,),
            )

        def answers() -> bool:
            if keeper.poll() is not None:
                lines = log.read_text(errors="replace").strip().splitlines()
                raise StepFailed(f"the keeper ended with exit code {keeper.returncode}: {lines[-1] if lines else ''}")
            return (workspace / KEEPER_SOCKET).exists()

        wait_until(answers, "the keeper to answer", ANSWER_DEADLINE_S)
        return EmbeddedCluster(workspace)

    def attach(self, workspace: Path) -> EmbeddedCluster:
        """Returns the cluster in `workspace`. Raises ClusterGone if the workspace is gone."""
        return EmbeddedCluster(workspace)

    def is_mounted(self, workspace: Path) -> bool:
        """Whether a disk is mounted in the folder `workspace`."""
        return bool(disks.mounts(workspace))

    def release(self, workspace: Path) -> None:
        """Unmounts the disks of the workspace. Keeps the image files, which hold the disks' data. Raises DeadlinePassed
        if a disk stays in use."""
        disks.release(workspace)

    def leftovers(self) -> list[str]:
        """Returns the names of all things that killed processes left on this host: chains of rules in the packet
        filter, and temporary folders in which the capability `power` was tried (see `equipment.abandoned`)."""
        return [chain.name for chain in packet_filter.abandoned()] + [folder.name for folder in equipment.abandoned()]

    def sweep(self) -> list[str]:
        """Removes the chains and folders that `leftovers` names. Returns what was removed, in words."""
        chains = [f"the packet filter's chain {chain}" for chain in packet_filter.sweep()]
        return chains + [str(folder) for folder in equipment.sweep()]


BACKEND: Backend = EmbeddedBackend()
