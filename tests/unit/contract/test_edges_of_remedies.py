"""Tests of remedies and loosenings at the edges: settings that a client or topic just accepts, several histories, and
changes that change nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from delivery_verifier.catalogue import PROFILES
from delivery_verifier.contract.remedies import Changes, loosenings, remedies
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.history import Disturbance

SAFE = Settings.of_profile(PROFILES["safe"])
LOST = [Anomaly.LOST]
NEW_LEADER = [Disturbance(kind="leader_change", at_us=0, planned=True)]
POWER = [Disturbance(kind="isr_power_loss", at_us=0, planned=True, replicas=1)]


def names(settings: Settings, *histories: list[Disturbance], more: Changes | None = None) -> list[str]:
    """Returns the texts of the single changes after which the contract forbids a loss."""
    return [" and ".join(remedy.changes) for remedy in remedies(settings, LOST, histories, more)]


def loosened(settings: Settings, *histories: list[Disturbance]) -> list[str]:
    """Returns the texts of the changes after which the contract permits a loss."""
    return [loosening.change for loosening in loosenings(settings, LOST, histories)]


def test_a_loosening_is_named_with_the_sentence_that_permits() -> None:
    (nobody, leader) = loosenings(SAFE, LOST, [NEW_LEADER])
    assert (nobody.change, leader.change) == ("acks=0", "acks=1")
    assert leader.permits[Anomaly.LOST].startswith("With acks=1 the leader alone confirms")
    assert leader.settings == replace(SAFE, acks="1", enable_idempotence=False)


def test_a_loosening_permits_under_every_history_what_was_forbidden_under_every_history() -> None:
    assert loosened(SAFE, POWER) == ["acks=0", "min.insync.replicas=1"]
    assert loosened(SAFE, NEW_LEADER, POWER) == loosened(SAFE, POWER, NEW_LEADER) == ["acks=0"]
    assert loosened(replace(SAFE, min_insync_replicas=1), NEW_LEADER, POWER) == [], "POWER loses without any change"
    assert loosened(SAFE) == []


def test_a_topic_accepts_as_many_replicas_in_sync_as_it_has() -> None:
    one = replace(SAFE, min_insync_replicas=1)
    assert "min.insync.replicas=2" in names(replace(one, replication_factor=2), POWER)
    assert "min.insync.replicas=2" not in names(replace(one, replication_factor=1), POWER)


@pytest.mark.parametrize(
    ("fields", "accepted"),
    [
        ({"max_in_flight": 4}, True),
        ({"max_in_flight": 6}, False),
        ({"retries": 1}, True),
        ({"retries": 0}, False),
        ({"acks": "1"}, False),
    ],
)
def test_an_idempotent_producer_has_retries_all_acks_and_five_in_flight_at_most(
    fields: dict[str, int | str], accepted: bool
) -> None:
    assert ("this" in names(SAFE, [], more={"this": fields})) == accepted


def test_what_changes_nothing_or_only_the_cluster_is_no_remedy() -> None:
    changes = names(SAFE, [])
    assert "max.in.flight.requests.per.connection=1" in changes
    assert not {"acks=all", "min.insync.replicas=2", "no eligible leader replicas"} & set(changes)
