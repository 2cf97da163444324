"""The keeper of an embedded cluster: the parent process of the brokers (see `cluster.keeper`).

When the cluster ends, the keeper kills its child processes. If the proxy ends, the keeper ends the cluster, too. If the
keeper itself is killed, the kernel kills the keeper's child processes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from delivery_verifier.cluster import keeper
from delivery_verifier.cluster.embedded import disks
from delivery_verifier.cluster.embedded.backend import EmbeddedKeeperSpec
from delivery_verifier.cluster.embedded.equipment import PACKAGE
from delivery_verifier.cluster.embedded.node_processes import NodeProcesses
from delivery_verifier.cluster.layout import CONTROLLER
from delivery_verifier.cluster.observer import OBSERVATIONS, Observer
from delivery_verifier.cluster.protocol.requests import RepeatedRequests


class Keeper(NodeProcesses, keeper.Keeper):
    """The keeper of one embedded cluster."""

    package = PACKAGE

    def __init__(self, spec: EmbeddedKeeperSpec) -> None:
        workspace, layout = Path(spec.workspace), spec.layout
        observer = Observer(RepeatedRequests(layout.connection), layout.brokers, workspace / OBSERVATIONS)
        keeper.Keeper.__init__(self, spec, observer)
        NodeProcesses.__init__(self, workspace, layout, observer)
        self.capabilities = layout.spec.equipment

    def begin(self) -> None:
        """Starts the controller and the brokers. Starts the proxy, too, if the cluster has one."""
        for node in (CONTROLLER, *self.layout.brokers):
            self.start(node)
        if self.layout.proxy_ports:
            self.start_proxy()

    def failure(self) -> str:
        """Returns, in words, how the proxy ended. Returns an empty text if the proxy runs, or if the cluster has no
        proxy."""
        ended = self.proxy_ended()
        return f"the proxy exited unexpectedly with {ended}" if ended else ""

    def end_cluster(self) -> None:
        """Kills the keeper's child processes, and unmounts the brokers' disks.

        If a request `finish` ends the cluster, first calls `keep_class_archive` while the brokers still run.
        """
        if self.end_reason == "finished":
            self.keep_class_archive()
        self.kill_all()
        disks.release(self.workspace)


def main() -> None:
    """Runs a keeper: `python -m delivery_verifier.cluster.embedded.keeper SPEC`. SPEC is a JSON file with an
    EmbeddedKeeperSpec."""
    spec = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=EmbeddedKeeperSpec)
    keeper.keep(spec, lambda: Keeper(spec))


if __name__ == "__main__":
    main()
