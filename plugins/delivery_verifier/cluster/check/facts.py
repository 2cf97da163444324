"""Facts about a cluster: its id, its brokers with their racks and versions, its features, and what settings say.

What a broker does not say is None, and stays so: nobody fills it in with a default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from delivery_verifier.cluster.connection import Address
from delivery_verifier.cluster.protocol.asking import Asking
from delivery_verifier.model.external_cluster import LAG, REBALANCE, SESSION

_ANSWER_S = 3.0
_BROKER = 4
RELEASES = {
    19: "3.7",
    20: "3.8",
    21: "3.9",
    25: "4.0",
    27: "4.1",
    29: "4.2",
    30: "4.3",
}
"""The newest level of the feature metadata.version of each release of Kafka (`MetadataVersion.java`)."""
METADATA, ELR, TRANSACTIONS = "metadata.version", "eligible.leader.replicas.version", "transaction.version"
SETTINGS = (
    "transaction.state.log.min.isr",
    SESSION,
    LAG,
    REBALANCE,
    "auto.create.topics.enable",
    "message.max.bytes",
)
"""The settings of brokers on which a contract or a run depends."""


class Broker(NamedTuple):
    """A broker: where it says that clients reach it, and its rack (None: it has none)."""

    number: int
    address: Address
    rack: str | None


class Members(NamedTuple):
    """A cluster as one broker sees it."""

    cluster_id: str
    brokers: tuple[Broker, ...]


class Software(NamedTuple):
    """What a broker says of itself.

    * `features`: the level of each finalized feature of the cluster. A feature that is off is missing.
    * `newest_metadata`: the highest level of metadata.version that the broker's software knows; None: it does not say.
    * `knows_elr`: whether the broker can name eligible leader replicas (DescribeTopicPartitions).
    * `round_trip_s`: a round trip of the network to the broker, in seconds.
    """

    features: Mapping[str, int]
    newest_metadata: int | None
    knows_elr: bool
    round_trip_s: float

    @property
    def release(self) -> str:
        """The release of the broker's software in words."""
        if self.newest_metadata is None:
            return "release not known"
        if self.newest_metadata > max(RELEASES):
            return f"newer than {RELEASES[max(RELEASES)]}"
        known = [release for level, release in sorted(RELEASES.items()) if level >= self.newest_metadata]
        return known[0] if self.newest_metadata >= min(RELEASES) else f"older than {RELEASES[min(RELEASES)]}"


def members(asking: Asking, broker: int) -> Members:
    """Returns the cluster as `broker` sees it. Raises OSError if it does not answer, and if it names no cluster."""
    said = asking.ask(broker, "Metadata", _ANSWER_S, topics=[], allow_auto_topic_creation=False)
    brokers = [Broker(each.node_id, Address(each.host, each.port), each.rack) for each in said.brokers or ()]
    if not said.cluster_id or not brokers:
        raise ConnectionError("the broker names neither a cluster id nor brokers")
    return Members(said.cluster_id, tuple(sorted(brokers)))


def software(asking: Asking, broker: int) -> Software:
    """Returns what `broker` says of itself. Raises OSError if it does not answer."""
    about = {"client_software_name": "kdv", "client_software_version": "1"}
    said: Any = asking.ask(broker, "ApiVersions", _ANSWER_S, **about)
    supported = {each.name: each.max_version for each in said.supported_features or ()}
    finalized = {each.name: each.max_version_level for each in said.finalized_features or ()}
    return Software(
        finalized, supported.get(METADATA), asking.takes(broker, "DescribeTopicPartitions"), asking.round_trip_s(broker)
    )


def settings(asking: Asking, broker: int) -> dict[str, str] | None:
    """Returns those of SETTINGS that `broker` tells, or None if this client may not read them."""
    said = asking.ask(broker, "DescribeConfigs", _ANSWER_S, resources=[(_BROKER, str(broker), list(SETTINGS))])
    (result,) = said.results
    if result.error_code:
        return None
    return {each.name: each.value for each in result.configs or () if each.value is not None}
