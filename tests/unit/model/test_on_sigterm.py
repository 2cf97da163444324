"""Tests of what a scenario must say about producers that the fault plan sends SIGTERM."""

from __future__ import annotations

from typing import Any

import pytest
from support.evidence import RUN, SUBJECT, with_arm

from delivery_verifier.catalogue import PROFILES, SCENARIOS, build
from delivery_verifier.model.data import dumps
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import ON_SIGTERM, Scenario
from delivery_verifier.model.scenario_checks import check, loads
from delivery_verifier.reporting.words import producer_properties

TERMINATED = build(SCENARIOS["producer.terminated"], "a-run")
EXIT, FLUSH = (arm.name for arm in TERMINATED.loaded)


@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        (with_arm(TERMINATED, EXIT, on_sigterm=None), "on_sigterm is None, and the fault plan has the action"),
        (with_arm(TERMINATED, FLUSH, on_sigterm=None), "allowed: flush, exit; give one"),
        (with_arm(TERMINATED, "canary", on_sigterm="flush"), "on_sigterm is 'flush', and nothing sends SIGTERM"),
        (with_arm(RUN, SUBJECT, on_sigterm="exit"), "nothing sends SIGTERM to its producers; allowed: none"),
        (with_arm(TERMINATED, EXIT, profile=PROFILES["transactional"]), "the arm writes transactions; allowed: arms"),
    ],
)
def test_an_arm_says_how_it_ends_exactly_where_the_plan_sends_sigterm(scenario: Scenario, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        check(scenario)


def test_another_end_than_the_known_ones_is_refused() -> None:
    text = dumps(TERMINATED).replace(b'"exit"', b'"drop"')
    with pytest.raises(BadInput, match="on_sigterm"):
        loads(text)


def test_pages_show_the_end_of_a_program_only_where_it_was_put_to_the_test() -> None:
    shown: dict[str, Any] = {arm.name: producer_properties(arm).get("program") for arm in TERMINATED.loaded}
    assert shown == {EXIT: ON_SIGTERM["exit"], FLUSH: ON_SIGTERM["flush"]}
    assert all(producer_properties(arm) == {"client": "librdkafka"} | arm.profile.producer for arm in RUN.loaded)
