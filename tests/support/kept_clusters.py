"""A cluster agent (the parent process of the brokers) that a test starts with limits of its own, and the processes that
the cluster agent has started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from delivery_verifier.cluster import lease, topics
from delivery_verifier.cluster.embedded import nodes
from delivery_verifier.cluster.embedded.cluster import EmbeddedCluster
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.faults.actions import heal
from delivery_verifier.host.processes import ProcessId
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.scenario import ClusterSpec
from support import agent_clock
from support.own_host import GONE_WITHIN_S, alive, wait_until_gone
from support.patience import PATIENCE_S

MARK = "KDV_TEST_AGENT"
"""The environment variable that a cluster agent and its nodes have. Its value is the name of the workspace."""
AGENT = "delivery_verifier.cluster.embedded.agent"


class Kept:
    """A cluster agent that a test started, its workspace, and the processes that the cluster agent has started.

    The cluster agent ends with the process `owner`. `more` overrides values of agent.json, such as its deadline.
    """

    def __init__(self, workspace: Path, spec: ClusterSpec, owner: ProcessId | None, **more: float) -> None:
        self.workspace, self.name = workspace, workspace.name
        workspace.mkdir(parents=True)
        layout = nodes.lay_out(workspace, spec)
        text = {
            "run_id": self.name,
            "workspace": str(workspace),
            "deadline_s": 3000.0,
            "owner": msgspec.to_builtins(owner),
            "layout": msgspec.to_builtins(layout, str_keys=True),
            **more,
        }
        (workspace / "agent.json").write_text(json.dumps(text))
        self.log = workspace.with_suffix(".log")
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-P", agent_clock.__file__, AGENT, str(workspace / "agent.json")],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**os.environ, MARK: self.name},
                start_new_session=True,
            )

    @property
    def socket(self) -> Path:
        """The socket on which the cluster agent listens."""
        return self.workspace / "agent.sock"

    @property
    def brokers(self) -> dict[int, str]:
        """The command lines, by pid, of the living processes that the cluster agent has started."""
        return {pid: line for pid, line in alive(MARK, self.name).items() if pid != self.process.pid}

    def answers(self) -> Kept:
        """Waits until the cluster agent answers, asserts that its nodes run, and returns this object."""
        wait_until(
            lambda: self.socket.exists() or self.process.poll() is not None, "the cluster agent to answer", PATIENCE_S
        )
        assert self.process.poll() is None, self.log.read_text()
        assert {node["state"] for node in lease.call(self.socket, "status")["nodes"].values()} == {"running"}
        return self

    def pass_time(self, seconds: float) -> None:
        """Puts the cluster agent's clock forward. The cluster agent ends its lease and its run by this clock."""
        agent_clock.put_forward(self.workspace, seconds)

    @contextmanager
    def cluster(self) -> Iterator[Cluster]:
        """Yields the cluster agent's cluster, up and leased. After the block the cluster agent has ended, even after an
        error."""
        try:
            with lease.renewed(self.answers().socket):
                cluster = Cluster(EmbeddedCluster(self.workspace))
                cluster.wait_up()
                yield cluster
                cluster.finish(keep_workspace=False)
        finally:
            self.process.kill()
            self.process.wait()

    def is_gone(self) -> str:
        """Waits until the cluster agent and its processes have ended. Returns the cluster agent's log."""
        self.process.wait(timeout=GONE_WITHIN_S)
        wait_until_gone(MARK, self.name)
        return self.log.read_text()


@contextmanager
def three_brokers(workspaces: Path, session_timeout_ms: int = 1500) -> Iterator[Cluster]:
    """Yields a cluster of three brokers. Its workspace lies in `workspaces`.

    By default, another broker soon takes the place of one that a test has killed. A stall of the host may then move
    leaders, too.
    """
    spec = ClusterSpec(brokers=3, session_timeout_ms=session_timeout_ms, heartbeat_interval_ms=250)
    with Kept(workspaces / uuid.uuid4().hex[:8], spec, None).cluster() as cluster:
        yield cluster


def make_whole(cluster: Cluster) -> None:
    """Makes all brokers run, waits until all replicas are in sync, and deletes the topics of tests."""
    heal(cluster)
    cluster.wait_up()
    admin = topics.admin(cluster.connection)
    names = [*admin.list_topics(timeout=PATIENCE_S).topics]
    wait_until(
        lambda: cluster.isr_full(names),
        "the cluster to be whole",
        PATIENCE_S,
        detail=lambda: cluster.out_of_sync(names),
    )
    cluster.agent.watch([])
    if own := [name for name in names if not name.startswith("__")]:  # a starting broker reads every log
        for deleted in admin.delete_topics(own).values():
            deleted.result(PATIENCE_S)
