"""Requests of Kafka's protocol to single brokers, over sockets of our own.

librdkafka has no DescribeTopicPartitions (KIP-966), no AlterPartitionReassignments (KIP-455), no OffsetForLeaderEpoch
(KIP-101), and none of the requests about open transactions (KIP-664). It does not show features (KIP-584), and fetches
from no replica that a caller names. And its threads may hang on a frozen broker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from delivery_verifier.cluster.connection import Connection
from delivery_verifier.cluster.protocol import authorization, versions
from delivery_verifier.cluster.protocol.asking import ANSWER_S, Asking
from delivery_verifier.cluster.protocol.fetch import Fetched, Refused
from delivery_verifier.cluster.protocol.messages import Answer, decoded, encoded

VIEW_S = 0.7
"""Seconds to wait for what a broker knows by heart, e.g. its view of partitions."""
CHANGE_S = 10.0
"""Seconds to wait for the answer to a request that changes something. The controller makes the change, and may be
busy."""
FETCH_S = 20.0
"""Seconds to wait for batches, which a broker may have to read from a disk."""
WAIT_MS = 1000
"""Milliseconds that a broker waits for a batch if it has no batch at the requested offset yet. After this time, the
broker sends an empty answer."""
ANY_EPOCH = -1
"""In place of the leader's present epoch: the leader answers in whichever epoch it leads."""
_DEPOSED = (6, 74)
"""Kafka's error codes of a broker that does not lead. 6, NOT_LEADER_OR_FOLLOWER: in the epoch of the question, it
follows. 74, FENCED_LEADER_EPOCH: it is in a later epoch. A broker in an earlier epoch answers 76,
UNKNOWN_LEADER_EPOCH."""
_STATES, _WITHOUT_ELR = "DescribeTopicPartitions", "Metadata"
"""The requests that describe partitions. Brokers before Kafka 3.8 know only the second, which leaves out the eligible
leader replicas."""
_TOPIC, _SET = 2, 0
"""`_TOPIC` is the code in Kafka's protocol for a resource that is a topic. `_SET` is the code for the operation that
sets a value."""
_OPEN = "Ongoing"
"""The coordinator's word for a transaction that has records, and whose producer has not asked for its end."""

Partition = tuple[str, int]
"""The name of a topic and the number of a partition."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The state of one partition, as one broker sees the partition.

    * `leader`: the broker id of the leader. -1 if the partition has no leader.
    * `elr`: the eligible leader replicas (KIP-966). Empty if there are none, and if the broker does not know
      DescribeTopicPartitions (`Asking.takes`): then it does not say which they are.
    * `error`: an error code of Kafka's protocol. 0 means no error.
    """

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    error: int


class EpochQuestion(NamedTuple):
    """A question to the leader of a partition: where does `epoch` end in your log?

    The leader answers only if its present epoch is `led`. If `led` is ANY_EPOCH, it answers in every epoch.
    """

    led: int
    epoch: int


class EpochEnd(NamedTuple):
    """The answer to an EpochQuestion. `epoch`: the greatest epoch that the log knows, up to that of the question.
    `end`: the first offset behind all records of `epoch` and earlier epochs.

    If the log knows no epoch up to that of the question, `epoch` is that of the question, and `end` is the start of the
    log. Both are -1 if the log knows no epochs at all.
    """

    epoch: int
    end: int


class ActiveProducer(NamedTuple):
    """A producer with an open transaction in a partition, as the partition's leader sees it.

    `last_at_ms` is the time of its last record in the partition, in ms since the epoch. `first_offset` is the offset of
    the transaction's first record in the partition.
    """

    producer_id: int
    producer_epoch: int
    last_at_ms: int
    first_offset: int


class TransactionState(NamedTuple):
    """A transactional.id, as its coordinator describes it.

    `state` is Kafka's word, e.g. `Ongoing` or `CompleteCommit`. `began_ms` is when its transaction began, in ms since
    the epoch; -1 if none is open. `timeout_ms` is its transaction.timeout.ms.
    """

    transactional_id: str
    state: str
    began_ms: int
    timeout_ms: int


class BrokerRequests(Asking):
    """Sends each request to the broker that the caller names by its id.

    Every method raises OSError if the broker does not answer in time, gives an answer that cannot be read, or refuses
    the request; NotAuthorized, with resource and right, if the cluster does not allow it; and NotSpoken if the broker
    takes no version of the request that is spoken here.
    """

    def describe_partitions(self, broker: int, topics: list[str]) -> dict[Partition, PartitionState]:
        """Returns the state of every partition of `topics`, by (topic, partition), as `broker` sees it. Leaves out a
        topic that does not exist."""
        name, version, request = self._description(broker, topics)
        answer = self._call(broker, request, VIEW_S)
        return self._read(broker, lambda: self._states(broker, name, version, answer))

    def _description(self, broker: int, topics: Sequence[str]) -> tuple[str, int, bytes]:
        """Returns the request that describes the partitions of `topics`: its name, its version, and its bytes."""
        taken, address = self._ranges(broker, VIEW_S), self._channels.address(broker)
        if versions.takes(_STATES, taken):
            version, asked = versions.agreed(_STATES, taken, address), sorted(topics)
            return _STATES, version, encoded(_STATES, version, topics=asked, response_partition_limit=2000)
        version = versions.agreed(_WITHOUT_ELR, taken, address)
        fields = {"topics": [(topic,) for topic in sorted(topics)], "allow_auto_topic_creation": False}
        return _WITHOUT_ELR, version, encoded(_WITHOUT_ELR, version, **fields)

    def _states(self, broker: int, name: str, version: int, answer: Answer) -> dict[Partition, PartitionState]:
        described = decoded(name, version, answer, self._channels.address(broker))
        for topic in described.topics or ():
            authorization.require(topic.error_code, topic.name or "", "Describe")
        return {
            (topic.name or "", each.partition_index): PartitionState(
                each.leader_id,
                each.leader_epoch,
                tuple(each.replica_nodes or ()),
                tuple(each.isr_nodes or ()),
                tuple(each.eligible_leader_replicas or ()) if name == _STATES else (),
                each.error_code,
            )
            for topic in described.topics or ()
            for each in topic.partitions or ()
        }

    def live_brokers(self, broker: int) -> set[int]:
        """Returns the ids of the unfenced brokers, as `broker` sees them."""
        answer = self.ask(broker, "Metadata", VIEW_S, topics=[], allow_auto_topic_creation=False)
        return {each.node_id for each in answer.brokers or ()}

    def finalized_features(self, broker: int) -> dict[str, int]:
        """Returns the version level of each finalized feature (e.g. `eligible.leader.replicas.version`), as `broker`
        reports it. Leaves out a feature that is switched off."""
        software = {"client_software_name": "kdv", "client_software_version": "1"}
        answer = self.ask(broker, "ApiVersions", ANSWER_S, **software)
        if answer.error_code:
            raise self._unreadable(broker, f"error {answer.error_code}")
        return {feature.name: feature.max_version_level for feature in answer.finalized_features or ()}

    def assign_replicas(self, broker: int, replicas: Mapping[Partition, Sequence[int]]) -> None:
        """Assigns replicas to partitions. `broker` passes the request to the controller.

        `replicas` maps (topic, partition) to the ids of the brokers that get a replica. The preferred leader stands
        first.
        """
        topics = _by_topic({partition: (list(brokers),) for partition, brokers in replicas.items()})
        timeout_ms = int(CHANGE_S * 1000)
        answer = self.ask(broker, "AlterPartitionReassignments", CHANGE_S, timeout_ms=timeout_ms, topics=topics)
        refused = [
            f"{topic.name}/{each.partition_index}: error {each.error_code} {each.error_message or ''}"
            for topic in answer.responses or ()
            for each in topic.partitions or ()
            if each.error_code
        ]
        authorization.require(answer.error_code, "", "Alter")
        if answer.error_code:
            refused = [f"all partitions: error {answer.error_code} {answer.error_message or ''}"]
        if refused:
            raise ConnectionError(f"the controller refused the replicas of {'; '.join(refused)}")

    def create_partitions(
        self, broker: int, topics: Sequence[str], count: int, replicas: Sequence[Sequence[int]]
    ) -> None:
        """Adds partitions to each of `topics`, up to `count`. `broker` passes the request to the controller.

        `replicas`: for each new partition, the ids of the brokers that get a replica, the preferred leader first.
        """
        new = [([*brokers],) for brokers in replicas]
        more = [(topic, count, new) for topic in topics]
        timeout_ms = int(CHANGE_S * 1000)
        answer = self.ask(broker, "CreatePartitions", CHANGE_S, topics=more, timeout_ms=timeout_ms, validate_only=False)
        for each in answer.results or ():
            authorization.require(each.error_code, each.name or "", "Alter")
            if each.error_code:
                said = f"error {each.error_code} {each.error_message or ''}"
                raise ConnectionError(f"the controller added no partitions to {each.name}: {said}")

    def alter_topics(self, broker: int, topics: Sequence[str], setting: str, value: str) -> None:
        """Sets `setting` of every topic to `value`. `broker` passes the request to the controller."""
        changes = [(_TOPIC, topic, [(setting, _SET, value)]) for topic in topics]
        answer = self.ask(broker, "IncrementalAlterConfigs", CHANGE_S, resources=changes)
        _require_settings(answer.responses or (), "AlterConfigs")

    def topic_setting(self, broker: int, topics: Sequence[str], setting: str) -> dict[str, str]:
        """Returns the value of `setting` by topic, as `broker` reports it."""
        asked = [(_TOPIC, topic, [setting]) for topic in topics]
        results = self.ask(broker, "DescribeConfigs", VIEW_S, resources=asked).results or ()
        _require_settings(results, "DescribeConfigs")
        return {result.resource_name: each.value or "" for result in results for each in result.configs or ()}

    def epoch_ends(
        self, broker: int, questions: Mapping[Partition, EpochQuestion], timeout_s: float = VIEW_S
    ) -> dict[Partition, EpochEnd]:
        """Returns where leader epochs end in the logs of `broker`. Leaves out a partition that `broker` does not lead
        in the epoch of the question."""
        answers = self._epochs(broker, questions, timeout_s)
        return {partition: ends for partition, (error, ends) in answers.items() if not error}

    def not_leading(self, broker: int, led: Mapping[Partition, int]) -> set[Partition]:
        """Returns the partitions of which `broker` knows that it does not lead them in the epochs `led`. It is in this
        epoch and follows, or in a later one, so it appends nothing in an earlier epoch any more."""
        questions = {partition: EpochQuestion(epoch, epoch) for partition, epoch in led.items()}
        answers = self._epochs(broker, questions, VIEW_S)
        return {partition for partition, (error, _) in answers.items() if error in _DEPOSED}

    def epoch_end(self, broker: int, topic: str, partition: int, epoch: int) -> int:
        """Returns the first offset behind all records of leader epoch `epoch` and of earlier epochs, in the log of
        `broker`, which leads the partition. Returns -1 if the log knows nothing of these epochs.

        If the epoch ends before an offset that was below the high watermark in this epoch, the log was cut off: records
        are gone that every replica in the ISR had.
        """
        questions = {(topic, partition): EpochQuestion(ANY_EPOCH, epoch)}
        error, ends = self._epochs(broker, questions, CHANGE_S)[topic, partition]
        authorization.require(error, topic, "Describe")
        if error:
            said = f"the broker at {self._channels.address(broker)} does not say where epoch {epoch}"
            raise ConnectionError(f"{said} of {topic}/{partition} ends: error {error}")
        return ends.end

    def _epochs(
        self, broker: int, questions: Mapping[Partition, EpochQuestion], timeout_s: float
    ) -> dict[Partition, tuple[int, EpochEnd]]:
        """Returns exactly one error code (0: no error) and answer to each question.

        The request is that by which followers find out how much of their log the leader does not have (KIP-101).
        """
        answer = self.ask(broker, "OffsetForLeaderEpoch", timeout_s, topics=_by_topic(questions))
        answers = {
            (topic.topic or "", each.partition): (each.error_code, EpochEnd(each.leader_epoch, each.end_offset))
            for topic in answer.topics or ()
            for each in topic.partitions or ()
        }
        if answers.keys() != questions.keys():
            names = ", ".join(f"{topic}/{number}" for topic, number in sorted(questions))
            raise self._unreadable(broker, f"it is not about {names}")
        return answers

    def open_transactions(self, broker: int, names: Sequence[str]) -> dict[str, int]:
        """Returns when the open transactions of the transactional.ids `names` began, in ms since the epoch. The keys
        are the transactional.ids that have an open transaction.

        `broker` must be the coordinator of all these transactional.ids.
        """
        described = self._transactions(broker, names)
        return {name: state.began_ms for name, state in described.items() if state.state == _OPEN}

    def active_producers(self, broker: int, topic: str, partition: int) -> list[ActiveProducer]:
        """Returns the producers with an open transaction in a partition. `broker` must lead the partition."""
        answer = self.ask(broker, "DescribeProducers", ANSWER_S, topics=[(topic, [partition])])
        if len(answer.topics or ()) != 1:
            raise self._unreadable(broker, "it is not about one topic")
        if len(answer.topics[0].partitions or ()) != 1:
            raise self._unreadable(broker, f"it is not about one partition of {topic}")
        (state,) = answer.topics[0].partitions
        authorization.require(state.error_code, topic, "Read")
        if state.error_code:
            why = f"error {state.error_code} for {topic}/{partition} {state.error_message or ''}"
            raise self._unreadable(broker, why.rstrip())
        return [
            ActiveProducer(each.producer_id, each.producer_epoch, each.last_timestamp, each.current_txn_start_offset)
            for each in state.active_producers or ()
            if each.current_txn_start_offset >= 0
        ]

    def transactions_of(self, broker: int, producer_ids: Sequence[int]) -> dict[int, TransactionState]:
        """Returns what `broker` knows as a coordinator of the producers with the ids `producer_ids`. Leaves out a
        producer whose coordinator is another broker, or that is not known any more."""
        answer = self.ask(broker, "ListTransactions", ANSWER_S, producer_id_filters=list(producer_ids))
        if answer.error_code:
            raise self._unreadable(broker, f"error {answer.error_code}")
        listed = {each.producer_id: each.transactional_id for each in answer.transaction_states or ()}
        described = self._transactions(broker, [*listed.values()]) if listed else {}
        return {producer_id: described[name] for producer_id, name in listed.items()}

    def _transactions(self, broker: int, names: Sequence[str]) -> dict[str, TransactionState]:
        answer = self.ask(broker, "DescribeTransactions", ANSWER_S, transactional_ids=list(names))
        states = dict[str, TransactionState]()
        for each in answer.transaction_states or ():
            name = each.transactional_id
            authorization.require(each.error_code, name, "Describe")
            if each.error_code:
                raise self._unreadable(broker, f"error {each.error_code} for {name}")
            began_ms, timeout_ms = each.transaction_start_time_ms, each.transaction_timeout_ms
            states[name] = TransactionState(name, each.transaction_state, began_ms, timeout_ms)
        if missing := set(names) - set(states):
            raise ConnectionError(f"the broker at {self._channels.address(broker)} did not describe {sorted(missing)}")
        return states

    def fetch(self, broker: int, topic: str, partition: int, offset: int, most_bytes: int) -> Fetched:
        """Fetches batches of a partition from the replica of `broker`, from `offset` up to the high watermark that
        `broker` knows. Uncommitted records are fetched, too, as by a consumer with read_uncommitted.

        The first batch may begin before `offset`. The answer has at most `most_bytes` bytes, except if its only batch
        is larger. If `most_bytes` is 1, the broker sends one batch, and does not wait for more data. Raises Refused if
        the broker reports an error.

        A follower answers a consumer only from version 11 on, and only up to its own high watermark (KIP-392). From
        version 13 on, a Fetch must name a topic by its id instead of its name.
        """
        # Partition, the leader's epoch, offset, the last epoch fetched, the start of the log, the most bytes; -1: any.
        asked = [(topic, [(partition, -1, offset, -1, -1, most_bytes)])]
        limits = {"max_wait_ms": WAIT_MS if most_bytes > 1 else 0, "min_bytes": 1, "max_bytes": most_bytes}
        answer = self.ask(broker, "Fetch", FETCH_S, topics=asked, **limits)
        name = f"{topic}/{partition}"
        authorization.require(answer.error_code, topic, "Read")
        if answer.error_code:
            raise Refused(name, answer.error_code)
        parts = [(topic.topic, part) for topic in answer.responses or () for part in topic.partitions or ()]
        if [(topic, part.partition_index) for topic, part in parts] != [(topic, partition)]:
            raise self._unreadable(broker, f"it is not about {name}")
        ((_, part),) = parts
        authorization.require(part.error_code, topic, "Read")
        if part.error_code:
            raise Refused(name, part.error_code)
        return Fetched(part.high_watermark, part.records or b"")


class RepeatedRequests(BrokerRequests):
    """Sends requests like BrokerRequests, but makes repeated calls of `describe_partitions` fast: an answer that has
    not changed is not read again.

    At most one thread per broker may call `describe_partitions`.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._last: dict[int, tuple[Answer, dict[Partition, PartitionState]]] = {}

    def describe_partitions(self, broker: int, topics: list[str]) -> dict[Partition, PartitionState]:
        """Returns the state of every partition of `topics`, by (topic, partition), as `broker` sees it.

        The caller must not change the result. If the broker sends the same answer again, the method returns the same
        object again.
        """
        name, version, request = self._description(broker, topics)
        answer = self._call(broker, request, VIEW_S)
        content = answer[4:]  # behind the correlation id, which every answer has its own of
        if broker not in self._last or self._last[broker][0] != content:
            self._last[broker] = content, self._read(broker, lambda: self._states(broker, name, version, answer))
        return self._last[broker][1]


def _by_topic(fields: Mapping[Partition, tuple[Any, ...]]) -> list[tuple[str, list[tuple[Any, ...]]]]:
    """Returns the partitions of each topic as Kafka's requests list them: the number of each, and its `fields`."""
    topics: dict[str, list[tuple[Any, ...]]] = {}
    for (topic, number), values in sorted(fields.items()):
        topics.setdefault(topic, []).append((number, *values))
    return list(topics.items())


def _require_settings(results: Sequence[Any], right: str) -> None:
    """Raises NotAuthorized if the right `right` on a topic is missing, and ConnectionError if the broker refused a
    setting of it for another reason."""
    for result in results:
        authorization.require(result.error_code, result.resource_name or "", right)
        if result.error_code:
            why = f"error {result.error_code} {result.error_message or ''}"
            raise ConnectionError(f"the setting of {result.resource_name} was refused: {why}")
