"""Proofs: an effect is seen only if the state of every partition that the injection hit is known, or of every
transaction."""

from __future__ import annotations

from typing import Any

import pytest
from support.evidence import RUN, SUBJECT

from delivery_verifier.catalogue import SCENARIOS, build
from delivery_verifier.cluster import coordinators
from delivery_verifier.cluster.protocol.requests import PartitionState
from delivery_verifier.faults.open_injection import LeaderBefore, OpenInjection, Proofs, partition_name
from delivery_verifier.faults.proofs import prove

TOPIC = RUN.arm(SUBJECT).topic_name


class Answers:
    """A cluster whose brokers know the given partitions of the subject's topic. Broker 2 leads each of them."""

    def __init__(self, *known: int) -> None:
        self.known = known

    def partitions(self, topics: list[str]) -> dict[tuple[str, int], PartitionState]:
        state = PartitionState(leader=2, leader_epoch=1, replicas=(1, 2, 3), isr=(2,), elr=(), error=0)
        return {(TOPIC, partition): state for partition in self.known}


def elected(*known: int) -> Any:
    before = {partition_name(TOPIC, partition): LeaderBefore(-1, 0) for partition in (0, 1)}
    injection = OpenInjection(
        id=0,
        cycle=0,
        action="elect_unclean",
        brokers=[],
        hit={TOPIC: [0, 1]},
        led=False,
        options={},
        requested_at_us=1,
        effect_at_us=2,
        proofs=Proofs(process={}, before=before, required=["elected"]),
    )
    cluster: Any = Answers(*known)
    return prove(cluster, RUN, injection, ["elected"])["elected"]


@pytest.mark.parametrize("known", [(), (0,), (1,)])
def test_an_election_is_not_proven_if_a_partition_without_a_leader_is_missing_in_the_answer(known: tuple[int]) -> None:
    assert not elected(*known)


def test_an_election_is_proven_if_every_partition_has_a_leader_again() -> None:
    assert list(elected(0, 1)) == [f"{TOPIC}-0", f"{TOPIC}-1"]


EFFECT_AT_US = 7_000


@pytest.mark.parametrize(
    ("answer", "is_seen"),
    [
        ({"kdv-transactional-0": 7}, True),
        ({"kdv-transactional-0": 8}, False),
        ({}, False),
        (ConnectionError("no answer"), False),
    ],
    ids=["open", "began after the effect", "ended", "silent"],
)
def test_a_kill_in_a_transaction_is_proven_only_by_the_transaction_that_was_open_then(
    monkeypatch: pytest.MonkeyPatch, answer: dict[str, int] | OSError, is_seen: bool
) -> None:
    def ask(*_: object) -> dict[str, int]:
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(coordinators, "open_transactions", ask)
    killed = OpenInjection(
        id=0,
        cycle=0,
        action="kill_producer",
        brokers=[],
        hit={},
        led=True,
        options={},
        requested_at_us=1,
        effect_at_us=EFFECT_AT_US,
        proofs=Proofs(process={}, before={}, required=["transactions_open"]),
    )
    cluster: Any = Answers()
    scenario = build(SCENARIOS["producer.killed_in_transaction"], "r")
    assert bool(prove(cluster, scenario, killed, ["transactions_open"])["transactions_open"]) == is_seen
