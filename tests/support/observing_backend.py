"""A backend that only observes: its cluster is one that a test has started by other means. It implements
`backend.Observed` and `backend.ObservedCluster`, and nothing else.

The environment variable KDV_OBSERVED has the addresses of the brokers, as `bootstrap.servers` has them. The run's agent
is another process, and imports this module, too.
"""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path

from confluent_kafka.admin import AdminClient

from delivery_verifier.cluster.backend import Observed, Unavailability
from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.cluster.protocol.requests import BrokerRequests
from delivery_verifier.model.act import Capability
from delivery_verifier.model.scenario import ClusterSpec

ADDRESSES = "KDV_OBSERVED"
ANSWER_S = 10.0


class ObservingCluster:
    """The brokers that answer at the addresses in KDV_OBSERVED."""

    @cached_property
    def connection(self) -> Connection:
        client = AdminClient({"bootstrap.servers": os.environ[ADDRESSES], "log_level": 0})
        brokers = client.list_topics(timeout=ANSWER_S).brokers
        return Connection({broker: Address(str(it.host), int(it.port)) for broker, it in brokers.items()})

    @property
    def brokers(self) -> list[int]:
        return sorted(self.connection.brokers)

    @cached_property
    def requests(self) -> BrokerRequests:
        return BrokerRequests(self.connection)


class ObservingBackend(Observed):
    """Gives access to the brokers at the addresses in KDV_OBSERVED."""

    def unavailable(self, capability: Capability | None = None) -> Unavailability | None:
        if capability is not None:
            return Unavailability("nothing is done to brokers that are only observed")
        return None if os.environ.get(ADDRESSES) else Unavailability(f"{ADDRESSES} is not set")

    def describe(self, spec: ClusterSpec) -> str:
        return f"the cluster at {os.environ[ADDRESSES]}"

    def attach(self, workspace: Path) -> ObservingCluster:
        return ObservingCluster()


BACKEND = ObservingBackend()
