"""Versions of requests: the lowest that both sides know is sent, and what a broker does not know is named."""

from __future__ import annotations

import struct

import pytest
from support.broker_answers import answered

from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.cluster.protocol import versions
from delivery_verifier.cluster.protocol.authorization import NotAuthorized
from delivery_verifier.cluster.protocol.messages import api_key
from delivery_verifier.cluster.protocol.requests import BrokerRequests
from delivery_verifier.cluster.protocol.versions import SPOKEN, NotSpoken

ADDRESS = Address("broker", 9093)
CONFIGS = api_key("DescribeConfigs")


@pytest.mark.parametrize(("taken", "version"), [((0, 9), 1), ((1, 1), 1), ((3, 9), 3), ((4, 4), 4)])
def test_the_lowest_version_that_both_know_is_sent(taken: tuple[int, int], version: int) -> None:
    assert SPOKEN["DescribeConfigs"] == (1, 4)
    assert versions.agreed("DescribeConfigs", {CONFIGS: taken}, ADDRESS) == version


@pytest.mark.parametrize(
    ("taken", "said"),
    [({CONFIGS: (5, 9)}, "takes 5 to 9"), ({CONFIGS: (0, 0)}, "takes 0 to 0"), ({}, "does not know it")],
)
def test_a_request_that_a_broker_does_not_take_is_named(taken: versions.Ranges, said: str) -> None:
    assert not versions.takes("DescribeConfigs", taken)
    with pytest.raises(
        NotSpoken, match=f"DescribeConfigs is sent in version 1 to 4, but the broker at broker:9093 {said}"
    ):
        versions.agreed("DescribeConfigs", taken, ADDRESS)


def test_a_broker_that_does_not_know_the_question_is_asked_in_version_0() -> None:
    asked = list[bytes]()

    def call(request: bytes) -> bytes:
        asked.append(request)
        error = 35 if len(asked) == 1 else 0
        return struct.pack(">ihihhh", 1, error, 1, CONFIGS, 0, 2)

    assert versions.asked_of(call, ADDRESS) == {CONFIGS: (0, 2)}
    assert [request[2:4] for request in asked] == [b"\0\3", b"\0\0"]


def test_another_error_is_no_answer() -> None:
    with pytest.raises(ConnectionError, match="no answer that can be read"):
        versions.asked_of(lambda _: struct.pack(">ih", 1, 42), ADDRESS)


def metadata(error: int) -> bytes:
    """A MetadataResponse v7 with partition 0 of the topic `t`: leader 2 in epoch 5, replicas and ISR 2 and 3."""
    both = struct.pack(">iii", 2, 2, 3)
    partition = struct.pack(">hiii", 0, 0, 2, 5) + both + both + struct.pack(">i", 0)
    topic = struct.pack(">h", error) + struct.pack(">h", 1) + b"t" + b"\0" + struct.pack(">i", 1) + partition
    return struct.pack(">iii", 1, 0, 0) + struct.pack(">h", -1) + struct.pack(">ii", 1, 1) + topic


def test_a_broker_without_describe_topic_partitions_tells_all_but_the_eligible_replicas() -> None:
    requests = BrokerRequests(Connection({1: ADDRESS}))
    with pytest.MonkeyPatch.context() as patch:
        answered(patch, metadata(0), without=("DescribeTopicPartitions",))
        assert not requests.takes(1, "DescribeTopicPartitions")
        (state,) = requests.describe_partitions(1, ["t"]).values()
        assert (state.leader, state.leader_epoch, state.isr, state.elr) == (2, 5, (2, 3), ())
        answered(patch, metadata(29), without=("DescribeTopicPartitions",))
        with pytest.raises(NotAuthorized, match=r"the right Describe on the topic t is missing \(error 29\)"):
            requests.describe_partitions(1, ["t"])
