"""What a run writes down while it creates its topics: what may exist stays registered, and the first error is shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from delivery_verifier.cluster import topics
from delivery_verifier.cluster.external import creation, removal, runs
from delivery_verifier.cluster.external.cluster import SharedCluster
from delivery_verifier.cluster.external.register import Register
from delivery_verifier.model.external_cluster import ClusterAccess, ExternalCluster
from delivery_verifier.model.scenario import Scenario

EXTERNAL = ExternalCluster(access=ClusterAccess(bootstrap_server="b:1"), cluster_id="an-id", brokers=(1,))


@pytest.fixture
def register(tmp_path: Path) -> Register:
    path = tmp_path / "abcdefgh.jsonl"
    path.write_bytes(b"{}\n")
    return Register(path)


def create(monkeypatch: pytest.MonkeyPatch, register: Register, outcomes: dict[str, int | None]) -> None:
    """Creates the topics of `outcomes`, of which the cluster refuses those with an error code."""
    monkeypatch.setattr(topics, "admin", lambda connection: None)
    monkeypatch.setattr(topics, "settings", lambda scenario: dict.fromkeys(outcomes))
    monkeypatch.setattr(removal, "ids", lambda client, names: {})
    monkeypatch.setattr(creation, "groups", lambda scenario: [])
    monkeypatch.setattr(creation, "_announce", lambda scenario, client, name, external, outcome: outcome(name, None))

    def made(scenario: Scenario, connection: object, brokers: object, outcome: Callable[..., object]) -> None:
        for topic, code in outcomes.items():
            outcome(topic, None if code is None else KafkaException(KafkaError(code)))
        if any(outcomes.values()):
            raise KafkaException(KafkaError(max(filter(None, outcomes.values()))))

    monkeypatch.setattr(topics, "create", made)
    monkeypatch.setattr(creation, "SHOWN_S", 0.0)
    scenario = SimpleNamespace(run_token="abcdefgh", run_id="r")
    creation.create(
        cast("Scenario", scenario), cast("SharedCluster", SimpleNamespace(connection=None)), register, EXTERNAL
    )


@pytest.mark.parametrize(
    ("code", "stays"),
    [
        (KafkaError.TOPIC_ALREADY_EXISTS, True),
        (KafkaError.REQUEST_TIMED_OUT, True),
        (KafkaError.POLICY_VIOLATION, False),
    ],
)
def test_a_topic_that_a_second_request_found_stays_registered_and_a_refused_one_does_not(
    monkeypatch: pytest.MonkeyPatch, register: Register, code: int, stays: bool
) -> None:
    monkeypatch.setattr(runs, "require_alone", lambda *_: None)
    with pytest.raises(KafkaException):
        create(monkeypatch, register, {"kdv-abcdefgh-a": code})
    assert ("kdv-abcdefgh-a" in [each.name for each in register.standing()]) is stays


def test_the_error_that_ends_the_creation_is_shown_and_not_that_an_id_is_missing(
    monkeypatch: pytest.MonkeyPatch, register: Register
) -> None:
    def taken(*_: Any) -> None:
        raise runs.ClusterTaken("the cluster is in use")

    monkeypatch.setattr(runs, "require_alone", taken)
    with pytest.raises(runs.ClusterTaken):
        create(monkeypatch, register, {"kdv-abcdefgh-a": None})
    (announced,) = register.standing()
    assert announced.name.startswith("kdv-abcdefgh-run.") and not announced.topic_id
