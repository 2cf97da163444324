"""Tests of alternatives: what each changes, and what it says that it loses and wins."""

from __future__ import annotations

from dataclasses import replace

import pytest

from delivery_verifier.catalogue import PROFILES
from delivery_verifier.contract.alternatives import ALTERNATIVES, _fault_classes, alternatives, lines
from delivery_verifier.contract.guarantees import FAULT_CLASSES
from delivery_verifier.contract.settings import Settings

PLAIN = Settings.of_profile(PROFILES["acks_all"])


FIELD_OF = {
    "acks": "acks",
    "enable.idempotence": "enable_idempotence",
    "retries": "retries",
    "max.in.flight.requests.per.connection": "max_in_flight",
    "min.insync.replicas": "min_insync_replicas",
    "unclean.leader.election.enable": "unclean_leader_election",
    "flush.messages": "flush_messages",
}


@pytest.mark.parametrize("text", [text for text in ALTERNATIVES if "=" in text])
def test_an_alternative_changes_what_its_text_says_and_at_most_switches_idempotence_off(text: str) -> None:
    says = {FIELD_OF[name]: value for name, value in (part.split("=") for part in text.split(" and "))}
    changes = {field: str(value).lower() for field, value in ALTERNATIVES[text].items()}
    assert {"enable_idempotence": "false"} | changes == {"enable_idempotence": "false"} | says
    if "enable_idempotence" not in says and "enable_idempotence" in changes:
        assert says.items() & {("acks", "0"), ("acks", "1"), ("retries", "0")}, "idempotence allows the others"


def test_an_alternative_without_eligible_leaders_has_none() -> None:
    assert ALTERNATIVES["no eligible leader replicas"] == {"elr": False, "transaction_log_elr": False}


def test_classes_of_faults_are_listed_or_those_that_are_missing_whichever_are_fewer() -> None:
    names = [fault_class.name for fault_class in FAULT_CLASSES]
    half = len(names) // 2
    assert _fault_classes(names) == "all"
    assert _fault_classes(names[: half + 1]) == f"all but {', '.join(names[half + 1 :])}"
    assert _fault_classes(names[:half]) == ", ".join(names[:half])


def test_an_alternative_says_what_it_loses_and_wins_but_not_what_follows() -> None:
    by_name = {alternative.setting: alternative for alternative in alternatives(replace(PLAIN, retries=0))}
    won = by_name["acks=all and enable.idempotence=true"]
    assert "exactly_once" in won.won and not won.lost
    assert "acks=all" not in by_name, "it changes nothing"
    text = lines([won])
    assert text[0] == "  with acks=all and enable.idempotence=true"
    assert text[1:] and all(line.startswith("    won is ") and "exactly_once" not in line for line in text[1:])
    assert any(line.startswith("    lost is at_least_once under ") for line in lines([by_name["acks=1"]]))
