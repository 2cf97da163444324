"""Tests of what the observer shows: which injection may explain it, and which end of a process is orderly."""

from __future__ import annotations

import pytest
from msgspec import structs

from delivery_verifier.contract.disturbances import disturbances
from delivery_verifier.contract.observer import SIGTERM_EXITS, in_window
from delivery_verifier.model.history import Injection, Observation

EFFECT_AT_US, RECOVERED_US = 10_000_000, 20_000_000
INJECTION = Injection(
    id=0,
    cycle=0,
    action="kill",
    brokers=[1],
    hit={"t": [0]},
    requested_at_us=EFFECT_AT_US,
    effect_at_us=EFFECT_AT_US,
    recovered_at_us=RECOVERED_US,
    took_effect=True,
)


@pytest.mark.parametrize(
    ("at_us", "inside"),
    [
        (EFFECT_AT_US - 1_000_001, False),
        (EFFECT_AT_US - 1_000_000, True),
        (RECOVERED_US + 1_000_000, True),
        (RECOVERED_US + 1_000_001, False),
    ],
)
def test_an_injection_may_explain_what_was_seen_from_a_second_before_it_to_a_second_after_the_recovery(
    at_us: int, inside: bool
) -> None:
    assert in_window(INJECTION, at_us) is inside
    assert in_window(structs.replace(INJECTION, recovered_at_us=None), at_us) is (at_us >= EFFECT_AT_US - 1_000_000)


@pytest.mark.parametrize(
    ("code", "crashed"), [(0, False), (-15, False), (143, False), (1, True), (-9, True), (-1, True)]
)
def test_only_an_end_by_sigterm_is_orderly(code: int, crashed: bool) -> None:
    state = Observation(at_us=9, kind="process", broker=1, state="exited", exit_code=code)
    kinds = [disturbance.kind for disturbance in disturbances([state], [])]
    assert ("broker_crash" in kinds) is crashed and ("broker_stop" in kinds) is not crashed
    assert code in SIGTERM_EXITS or crashed
