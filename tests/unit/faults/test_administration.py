"""Tests of elections: whatever the client raises becomes an error that says what was asked for."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ElectionType, KafkaError, KafkaException

from delivery_verifier.cluster import topics
from delivery_verifier.faults import administration
from delivery_verifier.model.errors import StepFailed


def _elect(monkeypatch: pytest.MonkeyPatch, answer: Any) -> bool:
    future: Future[Any] = Future()
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
    admin = SimpleNamespace(elect_leaders=lambda election, partitions: future)
    monkeypatch.setattr(topics, "admin", lambda connection: admin)
    context: Any = SimpleNamespace(cluster=SimpleNamespace(connection=None))
    return administration._elect(context, ElectionType.PREFERRED, [("t", 0), ("t", 2)])


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        (KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED)), "CLUSTER_AUTHORIZATION_FAILED"),
        (KafkaException(KafkaError(KafkaError._TIMED_OUT)), "_TIMED_OUT"),
        (TimeoutError(), "no answer within 20 s"),
    ],
)
def test_an_election_that_cannot_be_asked_for_says_which(
    monkeypatch: pytest.MonkeyPatch, raised: Exception, reason: str
) -> None:
    with pytest.raises(StepFailed, match=rf"elected no leaders \(PREFERRED\) of t-0, t-2: .*{reason}"):
        _elect(monkeypatch, raised)


@pytest.mark.parametrize(("errors", "granted"), [([None, None], True), ([None, "refused"], False)])
def test_an_election_is_granted_only_for_all_partitions(
    monkeypatch: pytest.MonkeyPatch, errors: list[object], granted: bool
) -> None:
    assert _elect(monkeypatch, dict(enumerate(errors))) is granted
