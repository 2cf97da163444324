"""A cluster in memory, for tests of code that uses a cluster. It is owned and breakable.

Brokers have states. Partitions have leaders, leader epochs and ISRs. A broker that exits or freezes leaves the ISR of
its partitions at once, and stops leading these partitions. The next broker of the ISR then leads in the next epoch. The
fake cluster has no clients, and nothing changes by itself. Its only records are those that a test puts into `logs`. The
attribute `requested` lists the requests that the tested code sent.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from delivery_verifier.cluster.agent_operations import AgentOperations, ClusterStatus, NodeStatus, ProcessState
from delivery_verifier.cluster.backend import CapabilityMissing
from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.cluster.protocol.fetch import Fetched, RawBatch, whole_batches
from delivery_verifier.cluster.protocol.requests import (
    ActiveProducer,
    EpochEnd,
    EpochQuestion,
    Partition,
    PartitionState,
    TransactionState,
)
from delivery_verifier.model.act import CAPABILITIES, Capability, Link

STATES: dict[str, ProcessState] = {
    "SIGKILL": "exited",
    "SIGTERM": "exited",
    "SIGSTOP": "frozen",
    "SIGCONT": "running",
}
"""Maps each signal to the state of a broker after this signal."""


class FakeCluster:
    """A cluster in memory. `brokers` are the ids of its brokers. `capabilities` are the capabilities that it has."""

    def __init__(
        self,
        brokers: Iterable[int] = (1, 2, 3),
        capabilities: tuple[Capability, ...] = (),
        workspace: Path = Path("/nonexistent"),
    ) -> None:
        self.brokers, self.controllers = sorted(brokers), list[int]()
        self.capabilities, self.workspace = capabilities, workspace
        self.socket = workspace / "agent.sock"
        self.connection = Connection({broker: Address("fake", 9000 + broker) for broker in self.brokers})
        self.load_connection = self.connection
        self.requested: list[tuple[object, ...]] = []
        """The requests so far, in order: the name of each request, and its arguments. Those of `assign_replicas` and
        `alter_topics` lack `broker`. Requests `renew`, and those that only read, except `hits`, are left out."""
        self.process_states: dict[int, ProcessState] = dict.fromkeys(self.brokers, "running")
        self.partition_states: dict[tuple[str, int], PartitionState] = {}
        self.topic_settings: dict[tuple[str, str], str] = {}
        self.isolated: dict[int, list[Link]] = {}
        self.without_power: set[int] = set()
        self.proxy_rules: list[dict[str, Any]] = []
        self.proxy_hits: dict[str, dict[str, int]] = {}
        """The answer to every request `hits` to the proxy: {broker id: {client.id: how often a rule acted}}. All rules
        get the same answer."""
        self.late_ends: list[dict[str, Any]] = []
        """The answer to every request `late_ends` to the proxy. Each item has the fields of one LateEnd."""
        self.logs: dict[tuple[int, str, int], list[bytes]] = {}
        """Maps (broker, topic, partition) to the broker's replica of the partition: a list of bytes, each item with one
        or more whole batches. All batches are below the high watermark."""
        self.finished = False
        self.broken: dict[str, dict[int, dict[str, Any]]] = {}
        """What is in force by means that the fake does not know: {means: {broker: options}}."""

    @property
    def agent(self) -> AgentOperations:
        """This object itself, because it also has the operations of a cluster agent."""
        return self

    @property
    def requests(self) -> FakeCluster:
        """This object itself, because it also answers the requests to single brokers."""
        return self

    def set_partition(self, topic: str, partition: int, leader: int, epoch: int = 0) -> None:
        """Makes the broker `leader` lead a partition (-1: none). Every broker gets a replica, all of them in sync."""
        replicas = tuple(self.brokers)
        self.partition_states[topic, partition] = PartitionState(leader, epoch, replicas, replicas, (), 0)

    def renew(self) -> None:
        """Does nothing, because the lease of a fake cluster never ends."""

    def status(self) -> ClusterStatus:
        """Returns the state of every broker. Raises RuntimeError after `finish`."""
        if self.finished:
            raise RuntimeError("the cluster is finished")
        return ClusterStatus(nodes={broker: NodeStatus(state=state) for broker, state in self.process_states.items()})

    def apply(self, means: str, nodes: list[int], options: dict[str, Any] | None = None) -> int:
        """Breaks brokers. The fake knows the means of real backends, and notes what is done by others."""
        self._require_means(means)
        options = options or {}
        if means == "process":
            return min(self.send(node, options["signal"]) for node in nodes)
        if means == "network":
            return self.isolate(nodes, options["links"])
        if means == "power":
            return self.power_off(nodes)
        if means == "proxy":
            self.proxy("put", rule=options["rule"])
        else:
            self.broken.setdefault(means, {}).update(dict.fromkeys(nodes, options))
        return time.time_ns() // 1000

    def undo(self, means: str, nodes: list[int]) -> None:
        """Ends what `apply` did to brokers."""
        self._require_means(means)
        if means == "process":
            for node in nodes:
                if self.process_states[node] == "frozen":
                    self.send(node, "SIGCONT")
                elif self.process_states[node] == "exited":
                    self.start(node)
        elif means == "network":
            self.rejoin([node for node in nodes if node in self.isolated])
        elif means == "power":
            self.without_power -= set(nodes)
        elif means == "proxy":
            self.proxy("release", brokers=nodes)
        else:
            for node in nodes:
                self.broken.get(means, {}).pop(node, None)

    def is_in_force(
        self, means: str, nodes: list[int], options: dict[str, Any] | None = None
    ) -> dict[int, dict[str, Any]]:
        """Returns what is in force. The proxy's hits are `proxy_hits`, and its late ends `late_ends`."""
        self._require_means(means)
        if means == "process":
            states = self.process_states
            return {node: {"state": states[node]} for node in nodes if states[node] != "running"}
        if means == "network":
            return {node: dict.fromkeys(self.isolated[node], 1) for node in nodes if node in self.isolated}
        if means == "power":
            return {node: {"disk": "off"} for node in nodes if node in self.without_power}
        if means == "proxy" and options and options.get("late_ends"):
            ends = self.proxy("late_ends", rule=options["rule"])
            brokers = {end["broker"] for end in ends}
            return {broker: {"late_ends": [end for end in ends if end["broker"] == broker]} for broker in brokers}
        if means == "proxy" and options:
            hits = self.proxy("hits", rule=options["rule"])
            return {int(broker): dict(counts) for broker, counts in hits.items()}
        return {node: dict(more) for node, more in self.broken.get(means, {}).items() if node in nodes}

    def _require_means(self, means: str) -> None:
        for capability in CAPABILITIES:
            if capability == means:
                self._require(capability)

    def start(self, node: int) -> None:
        """Starts a broker with power (see `with_broker`). Raises RuntimeError if the broker has not exited."""
        if self.process_states[node] != "exited":
            raise RuntimeError(f"broker {node} is already running")
        self.requested.append(("start", node))
        self.without_power.discard(node)
        self._change(node, "running")

    def send(self, node: int, signal_name: str) -> int:
        """Gives a broker the state in `STATES`. Returns the wall time in µs. Raises RuntimeError if it has exited."""
        if self.process_states[node] == "exited":
            raise RuntimeError(f"broker {node} is not running")
        self.requested.append(("send", node, signal_name))
        self._change(node, STATES[signal_name])
        return time.time_ns() // 1000

    def _change(self, broker: int, state: ProcessState) -> None:
        self.process_states[broker] = state
        for key, partition in self.partition_states.items():
            if broker in partition.replicas:
                self.partition_states[key] = (
                    with_broker(partition, broker) if state == "running" else without_broker(partition, broker)
                )

    def isolate(self, nodes: list[int], links: list[Link]) -> int:
        """Marks brokers as isolated, whose leaders stay. Returns the wall time in µs. Raises CapabilityMissing."""
        self._require("network")
        self.requested.append(("isolate", tuple(nodes), tuple(links)))
        self.isolated |= dict.fromkeys(nodes, links)
        return time.time_ns() // 1000

    def rejoin(self, nodes: list[int]) -> None:
        """Ends the isolation of brokers."""
        self.requested.append(("rejoin", tuple(nodes)))
        for node in nodes:
            self.isolated.pop(node, None)

    def power_off(self, nodes: list[int]) -> int:
        """Makes brokers exit, and their disks lose power. Returns the wall time in µs. Raises CapabilityMissing."""
        self._require("power")
        self.requested.append(("power_off", tuple(nodes)))
        for node in nodes:
            self._change(node, "exited")
        self.without_power |= set(nodes)
        return time.time_ns() // 1000

    def sync(self, brokers: Sequence[int]) -> None:
        """Records the request in `requested`, and does nothing else. Raises CapabilityMissing if the cluster lacks the
        capability `power`."""
        self._require("power")
        self.requested.append(("sync", tuple(brokers)))

    def watch(self, topics: list[str]) -> None:
        """Records the request in `requested`, and does nothing else."""
        self.requested.append(("watch", tuple(topics)))

    def adopt(self, pid: int) -> None:
        """Records the request in `requested`, and does nothing else."""
        self.requested.append(("adopt", pid))

    def finish(self, keep_workspace: bool = False) -> None:
        """Ends the cluster. Later calls of `status` raise RuntimeError."""
        self.requested.append(("finish", keep_workspace))
        self.finished = True

    def proxy(self, operation: str, **arguments: Any) -> Any:
        """Answers a request to the proxy. `put` adds its rule to `proxy_rules`, and `release` removes all rules. `hits`
        returns `proxy_hits`, and `late_ends` returns `late_ends`. Raises CapabilityMissing without a proxy."""
        self._require("proxy")
        self.requested.append(("proxy", operation, arguments))
        if operation == "put":
            self.proxy_rules.append(arguments["rule"])
        elif operation == "release":
            self.proxy_rules.clear()
        return {"hits": self.proxy_hits, "late_ends": self.late_ends}.get(operation)

    def proxy_listens(self) -> bool:
        """Returns True, because the fake proxy always takes requests."""
        return True

    def last_log(self, node: int) -> str:
        """Says that the node logs nothing."""
        return f"node {node} logs nothing"

    def release(self) -> None:
        """Records the request in `requested`, and does nothing else."""
        self.requested.append(("release",))

    def describe_partitions(self, broker: int, topics: list[str]) -> dict[tuple[str, int], PartitionState]:
        """Returns the states of the partitions of `topics`. Raises OSError if `broker` does not run."""
        self._require_running(broker)
        return {key: state for key, state in self.partition_states.items() if key[0] in topics}

    def live_brokers(self, broker: int) -> set[int]:
        """Returns the ids of the brokers that run. Raises OSError if `broker` does not run."""
        self._require_running(broker)
        return {other for other, state in self.process_states.items() if state == "running"}

    def assign_replicas(self, broker: int, replicas: Mapping[tuple[str, int], Sequence[int]]) -> None:
        """Assigns replicas to partitions. Does not change leaders and ISRs. Raises OSError if `broker` does not run."""
        self._require_running(broker)
        self.requested.append(("assign_replicas", dict(replicas)))
        for key, brokers in replicas.items():
            self.partition_states[key] = replace(self.partition_states[key], replicas=tuple(brokers))

    def create_partitions(
        self, broker: int, topics: Sequence[str], count: int, replicas: Sequence[Sequence[int]]
    ) -> None:
        """Adds partitions to topics, each led by its first replica. Raises OSError if `broker` does not run."""
        self._require_running(broker)
        self.requested.append(("create_partitions", tuple(topics), count))
        first = count - len(replicas)
        for topic in topics:
            for number, brokers in enumerate(replicas, first):
                own = tuple(brokers)
                self.partition_states[topic, number] = PartitionState(own[0], 0, own, own, (), 0)

    def alter_topics(self, broker: int, topics: Sequence[str], setting: str, value: str) -> None:
        """Sets `setting` of every topic to `value`. Raises OSError if `broker` does not run."""
        self._require_running(broker)
        self.requested.append(("alter_topics", tuple(topics), setting, value))
        self.topic_settings |= {(topic, setting): value for topic in topics}

    def topic_setting(self, broker: int, topics: Sequence[str], setting: str) -> dict[str, str]:
        """Returns the value of `setting` by topic that has it. Raises OSError if `broker` does not run."""
        self._require_running(broker)
        return {
            topic: self.topic_settings[topic, setting] for topic in topics if (topic, setting) in self.topic_settings
        }

    def finalized_features(self, broker: int) -> dict[str, int]:
        """Returns an empty dictionary: no feature is on. Raises OSError if `broker` does not run."""
        self._require_running(broker)
        return {}

    def fetch(self, broker: int, topic: str, partition: int, offset: int, most_bytes: int) -> Fetched:
        """Returns all batches in the replica of `broker` that end after `offset`. Raises OSError if it does not run."""
        self._require_running(broker)
        batches = self._batches(broker, topic, partition)
        rest = b"".join(batch.data for batch in batches if batch.end > offset)
        return Fetched(max((batch.end for batch in batches), default=0), rest)

    def epoch_ends(self, broker: int, questions: Mapping[Partition, EpochQuestion]) -> dict[Partition, EpochEnd]:
        """Returns where epochs end in the replicas of `broker` in `logs`. Raises OSError if `broker` does not run."""
        self._require_running(broker)
        return {key: end_of_epoch(self._batches(broker, *key), question.epoch) for key, question in questions.items()}

    def epoch_end(self, broker: int, topic: str, partition: int, epoch: int) -> int:
        """Returns where `epoch` ends in the replica of `broker` in `logs`. Raises OSError if `broker` does not run."""
        self._require_running(broker)
        return end_of_epoch(self._batches(broker, topic, partition), epoch).end

    def not_leading(self, broker: int, led: Mapping[Partition, int]) -> set[Partition]:
        """Returns the partitions that `broker` does not lead. Raises OSError if `broker` does not run."""
        self._require_running(broker)
        return {key for key in led if self.partition_states[key].leader != broker}

    def open_transactions(self, broker: int, names: Sequence[str]) -> dict[str, int]:
        """Returns an empty dictionary, because there are no clients. Raises OSError if `broker` does not run."""
        self._require_running(broker)
        return {}

    def active_producers(self, broker: int, topic: str, partition: int) -> list[ActiveProducer]:
        """Returns an empty list. Raises OSError if `broker` does not run."""
        self._require_running(broker)
        return []

    def transactions_of(self, broker: int, producer_ids: Sequence[int]) -> dict[int, TransactionState]:
        """Returns an empty dictionary. Raises OSError if `broker` does not run."""
        self._require_running(broker)
        return {}

    def _batches(self, broker: int, topic: str, partition: int) -> list[RawBatch]:
        return [batch for data in self.logs.get((broker, topic, partition), ()) for batch in whole_batches(data)]

    def _require(self, capability: Capability) -> None:
        if capability not in self.capabilities:
            raise CapabilityMissing(capability)

    def _require_running(self, broker: int) -> None:
        if self.process_states[broker] != "running":
            raise ConnectionError(f"broker {broker} does not answer")


def without_broker(state: PartitionState, broker: int) -> PartitionState:
    """Returns the state of a partition after `broker` has gone.

    If `broker` was the last broker of the ISR, it stays in the ISR, but no longer leads the partition.
    """
    isr = tuple(member for member in state.isr if member != broker)
    if state.leader != broker:
        return replace(state, isr=isr or state.isr)
    return replace(state, leader=isr[0] if isr else -1, leader_epoch=state.leader_epoch + 1, isr=isr or state.isr)


def with_broker(state: PartitionState, broker: int) -> PartitionState:
    """Returns the state of a partition after `broker` has come back.

    If the partition has a leader, `broker` joins the ISR. If the partition has no leader and `broker` is in the ISR,
    `broker` becomes the leader.
    """
    if state.leader >= 0:
        isr = tuple(member for member in state.replicas if member in state.isr or member == broker)
        return replace(state, isr=isr)
    if broker in state.isr:
        return replace(state, leader=broker, leader_epoch=state.leader_epoch + 1)
    return state


def end_of_epoch(batches: Iterable[RawBatch], epoch: int) -> EpochEnd:
    """Returns where `epoch` ends in a log with `batches`, as a leader in a later epoch answers."""
    below = [batch for batch in batches if batch.epoch <= epoch]
    return EpochEnd(
        max((batch.epoch for batch in below), default=epoch), max((batch.end for batch in below), default=0)
    )
