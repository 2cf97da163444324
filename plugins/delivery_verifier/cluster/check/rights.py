"""Rights: which ones a client has on a cluster, asked in a way that leaves no trace.

Each question is about names that do not exist. Kafka looks at the rights first (KafkaApis, ControllerApis): without
the right it answers that it is missing, with it that the name is unknown. Only the questions of `to_read` are about a
topic that somebody else made, and they read it. Nothing is created, written or removed.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from delivery_verifier.cluster.protocol import authorization
from delivery_verifier.cluster.protocol.asking import Asking

PREFIX = "kdv-"
"""What the names of all topics, groups and transactional.ids of a run begin with."""
TRANSACTION_STATE, CONSUMER_OFFSETS = "__transaction_state", "__consumer_offsets"
_ANSWER_S = 3.0
_TOPIC, _BROKER = 2, 4
"""The codes of Kafka's protocol for resources with settings."""
_BEYOND = frozenset({0, 1, 3, 5, 6, 15, 16, 69, 74, 76})
"""Error codes of a request whose rights suffice. 1: the log has no such offset. 3: the topic is unknown. 5, 6, 74, 76:
another broker leads it. 15, 16, 69: the group has no coordinator, another one, or does not exist."""
REFUSED_TOPIC = {
    36: "exists already",
    37: "number of partitions",
    38: "replication factor",
    39: "placing of replicas",
    40: "settings",
    42: "request",
    44: "policy",
    73: "placing of replicas",
}
"""Maps the error codes of a CreateTopics whose rights suffice, but whose topic the cluster does not take, to what it
refuses."""


class Right(NamedTuple):
    """A right: an operation on resources. `name` is the name of one resource or, if `is_prefix`, what names begin
    with."""

    kind: str
    name: str
    operation: str
    is_prefix: bool = False

    def __str__(self) -> str:
        if self.kind == authorization.CLUSTER:
            return f"{self.operation} on the cluster"
        return (
            f"{self.operation} on {self.kind}s {self.name}*" if self.is_prefix else f"{self.operation} on {self.name}"
        )

    def command(self, servers: str, principal: str) -> str:
        """Returns the command by which an operator gives `principal` this right. The operator's own connection stands
        in the file OPERATOR.properties."""
        resource = ["--cluster"] if self.kind == authorization.CLUSTER else [f"--{self.kind}", self.name]
        pattern = ["--resource-pattern-type", "prefixed"] if self.is_prefix else []
        servers_of = ["--bootstrap-server", servers, "--command-config", "OPERATOR.properties"]
        allow = ["--add", "--allow-principal", principal, "--operation", self.operation]
        return shlex.join(["kafka-acls", *servers_of, *allow, *resource, *pattern])


def _topics(operation: str) -> Right:
    return Right(authorization.TOPIC, PREFIX, operation, is_prefix=True)


CREATE, WRITE, READ = _topics("Create"), _topics("Write"), _topics("Read")
DESCRIBE_CONFIGS, DELETE = _topics("DescribeConfigs"), _topics("Delete")
ALTER_TOPICS, ALTER_CONFIGS = _topics("Alter"), _topics("AlterConfigs")
WRITE_TRANSACTIONS = Right(authorization.TRANSACTIONAL_ID, PREFIX, "Write", is_prefix=True)
READ_GROUPS = Right(authorization.GROUP, PREFIX, "Read", is_prefix=True)
DELETE_GROUPS = Right(authorization.GROUP, PREFIX, "Delete", is_prefix=True)
SEE_TRANSACTIONS = Right(authorization.TOPIC, TRANSACTION_STATE, "Describe")
SEE_COMMITS = Right(authorization.TOPIC, CONSUMER_OFFSETS, "Read")
ALTER_CLUSTER = Right(authorization.CLUSTER, "", "Alter")
SEE_SETTINGS = Right(authorization.CLUSTER, "", "DescribeConfigs")


def to_read(topic: str) -> tuple[Right, ...]:
    """Returns the rights that a client needs to read `topic`, its offsets and its settings. Kafka's Read implies
    Describe."""
    return tuple(Right(authorization.TOPIC, topic, operation) for operation in ("Describe", "Read", "DescribeConfigs"))


Standing = Literal["granted", "missing", "not known"]


class Answer(NamedTuple):
    """Whether a client has a right. `why` is the reason if it is not known, or if the cluster would not take the topic
    all the same (`refused`)."""

    right: Right
    standing: Standing
    why: str = ""
    refused: bool = False


class Wanted(NamedTuple):
    """A topic that a run would create: its settings, and for each partition the brokers of its replicas."""

    settings: Mapping[str, str]
    replicas: Sequence[Sequence[int]]


class RightsQuestion(NamedTuple):
    """What the questions are about: a broker to ask, a name that begins with PREFIX and that nothing has, and a topic
    as a run would create it."""

    asking: Asking
    broker: int
    absent: str
    wanted: Wanted

    def __call__(self, name: str, **fields: object) -> Any:
        return self.asking.ask(self.broker, name, _ANSWER_S, **fields)


class Created(NamedTuple):
    """What the cluster says of a topic that it need not create: its error code, its own reason, and the settings that
    the topic would get (None if it does not say)."""

    code: int
    why: str
    settings: dict[str, str] | None


def created(question: RightsQuestion) -> Created:
    """Asks whether the cluster would create the wanted topic, and with which settings (`validate_only`)."""
    placed = [(number, list(brokers)) for number, brokers in enumerate(question.wanted.replicas)]
    topic = (question.absent, -1, -1, placed, list(question.wanted.settings.items()))
    said = question("CreateTopics", topics=[topic], timeout_ms=int(_ANSWER_S * 1000), validate_only=True).topics[0]
    is_told = said.configs is not None and not said.topic_config_error_code  # only with the right DescribeConfigs
    settings = {each.name: each.value or "" for each in said.configs} if is_told else None
    return Created(said.error_code, said.error_message or "", settings)


def _write(question: RightsQuestion) -> int:
    topics = [(question.absent, [(0, None)])]
    answer = question("Produce", transactional_id=None, acks=1, timeout_ms=1000, topic_data=topics)
    return int(answer.responses[0].partition_responses[0].error_code)


def _read(question: RightsQuestion, topic: str | None = None) -> int:
    asked = [(topic or question.absent, [(0, -1, 0, -1, -1, 1)])]
    answer = question("Fetch", topics=asked, max_wait_ms=0, min_bytes=0, max_bytes=1)
    return int(answer.error_code or answer.responses[0].partitions[0].error_code)


def _describe_configs(question: RightsQuestion) -> int:
    answer = question("DescribeConfigs", resources=[(_TOPIC, question.absent, ["retention.ms"])])
    return int(answer.results[0].error_code)


def _delete(question: RightsQuestion) -> int:
    """Asks to delete records of the topic below offset 0, of which there are never any. Kafka demands the right to
    delete topics for it."""
    answer = question("DeleteRecords", topics=[(question.absent, [(0, 0)])], timeout_ms=1000)
    return int(answer.topics[0].partitions[0].error_code)


def _ask_to_alter_topics(question: RightsQuestion) -> int:
    more = [(question.absent, 2, None)]
    answer = question("CreatePartitions", topics=more, timeout_ms=1000, validate_only=True)
    return int(answer.results[0].error_code)


def _alter_configs(question: RightsQuestion) -> int:
    changes = [(_TOPIC, question.absent, [("min.insync.replicas", 0, "1")])]
    return int(question("IncrementalAlterConfigs", resources=changes, validate_only=True).responses[0].error_code)


def _write_transactions(question: RightsQuestion) -> int:
    """Asks to add a partition of a topic that does not exist. The coordinator never sees the transactional.id."""
    answer = question(
        "AddPartitionsToTxn",
        v3_and_below_transactional_id=question.absent,
        v3_and_below_producer_id=0,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[(question.absent, [0])],
    )
    code = int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)
    return 0 if code in authorization.REFUSED and code != 53 else code  # the right on topics is another question


def _read_groups(question: RightsQuestion) -> int:
    """Asks to commit an offset of a topic that does not exist. The coordinator never sees the group."""
    topics = [(question.absent, [(0, 0, -1, None)])]
    code = int(question("OffsetCommit", group_id=question.absent, topics=topics).topics[0].partitions[0].error_code)
    return 0 if code in authorization.REFUSED and code != 30 else code


def _delete_groups(question: RightsQuestion) -> int:
    """Asks to delete an offset of a group and a topic that do not exist. Kafka demands the right to delete groups for
    it. (DeleteGroups would make the broker log an error.)"""
    topics = [(question.absent, [(0,)])]
    return int(question("OffsetDelete", group_id=question.absent, topics=topics).error_code)


def _describe(question: RightsQuestion, topic: str) -> int:
    asked = {"topics": [(topic,)], "allow_auto_topic_creation": False}
    return int(question("Metadata", **asked).topics[0].error_code)


def _alter_cluster(question: RightsQuestion) -> int:
    """Asks for an election in a topic that does not exist."""
    asked = [(question.absent, [0])]
    answer = question("ElectLeaders", election_type=0, topic_partitions=asked, timeout_ms=1000)
    return int(answer.error_code)


def _see_settings(question: RightsQuestion) -> int:
    asked = [(_BROKER, str(question.broker), ["log.dirs"])]
    return int(question("DescribeConfigs", resources=asked).results[0].error_code)


_QUESTIONS: dict[Right, Callable[[RightsQuestion], int]] = {
    CREATE: lambda question: created(question).code,
    WRITE: _write,
    READ: _read,
    DESCRIBE_CONFIGS: _describe_configs,
    DELETE: _delete,
    ALTER_TOPICS: _ask_to_alter_topics,
    ALTER_CONFIGS: _alter_configs,
    WRITE_TRANSACTIONS: _write_transactions,
    SEE_TRANSACTIONS: lambda question: _describe(question, TRANSACTION_STATE),
    READ_GROUPS: _read_groups,
    DELETE_GROUPS: _delete_groups,
    SEE_COMMITS: lambda question: _read(question, CONSUMER_OFFSETS),
    ALTER_CLUSTER: _alter_cluster,
    SEE_SETTINGS: _see_settings,
}
"""The question for each right. It returns an error code of Kafka's protocol."""
RIGHTS = tuple(_QUESTIONS)
"""Every right that can be asked for, in the order in which they are shown."""


_TO_READ: dict[str, Callable[[RightsQuestion], int]] = {
    "Describe": lambda question: _describe(question, question.absent),
    "Read": _read,
    "DescribeConfigs": _describe_configs,
}
"""The questions about a topic that somebody else made, by operation. They change nothing there."""


def ask(right: Right, question: RightsQuestion) -> Answer:
    """Returns whether the client has `right`, which is one of RIGHTS, or one of them with another prefix of names, or
    one of `to_read`. An answer that is not understood is "not known", never "granted".

    Raises OSError if the broker does not answer, and NotSpoken if it does not know the request.
    """
    if right.is_prefix:
        question = question._replace(absent=right.name + question.absent.removeprefix(PREFIX))
    asked = _QUESTIONS.get(right._replace(name=PREFIX) if right.is_prefix else right)
    if asked is None:
        asked, question = _TO_READ[right.operation], question._replace(absent=right.name)
    code = asked(question)
    if code in authorization.REFUSED:
        return Answer(right, "missing")
    if right == CREATE and code in REFUSED_TOPIC:
        return Answer(right, "granted", REFUSED_TOPIC[code], refused=True)
    if code in _BEYOND:
        return Answer(right, "granted")
    return Answer(right, "not known", f"the broker answered with error {code}")
