"""One controller and one broker of Kafka, for tests that need a topic of somebody else's and no fault."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from delivery_verifier.cluster.embedded import nodes as embedded
from delivery_verifier.cluster.layout import CONTROLLER
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.scenario import ClusterSpec
from support.patience import PATIENCE_S


@contextmanager
def one_broker(workspace: Path) -> Iterator[str]:
    """Yields the bootstrap servers of a broker, which ends with the block."""
    layout = embedded.lay_out(workspace, ClusterSpec(brokers=1, session_timeout_ms=60_000))
    nodes = [
        subprocess.Popen(embedded.command(layout, node), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for node in (CONTROLLER, *layout.brokers)
    ]
    servers = layout.connection.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})

    def answers() -> bool:
        try:
            return bool(admin.list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    try:
        wait_until(answers, "the broker to answer", PATIENCE_S)
        yield servers
    finally:
        for node in nodes:
            node.kill()
            node.wait()
