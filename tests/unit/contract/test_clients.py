"""Tests of the contract of the Java client, as a text."""

from __future__ import annotations

from dataclasses import replace

from delivery_verifier.catalogue import PROFILES
from delivery_verifier.contract import clients
from delivery_verifier.contract.settings import Settings

PLAIN = Settings.of_profile(PROFILES["acks_all"])
SAFE = Settings.of_profile(PROFILES["safe"])


def test_the_lines_on_the_java_client_say_whose_source_they_rest_on() -> None:
    text = clients.lines(clients.java_contract(replace(PLAIN, max_in_flight=1)))
    assert text[1] == "where the Java client differs from librdkafka with these settings, by its source"
    assert "the Java client under each class of faults, by its source" in text
    assert len(clients.lines(clients.java_contract(SAFE))) == 2
