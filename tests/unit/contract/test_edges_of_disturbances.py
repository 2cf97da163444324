"""Tests of disturbances at the edges: which action explains which end of a process, and what the detail says."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from support.observations import KILL, SECOND, process

from delivery_verifier.contract.disturbances import coordinator_partitions, disturbances
from delivery_verifier.model.history import TRANSACTION_STATE, Disturbance, Injection, Observation


def ended(state: str, exit_code: int | None, injection: Injection, s: int = 101) -> Disturbance:
    """Returns the disturbance of broker 1, whose process is seen in `state` at `s` seconds."""
    (found,) = disturbances([process(s, 1, state, exit_code)], [injection])
    return found


@pytest.mark.parametrize(
    ("action", "state", "exit_code", "planned"),
    [
        ("kill", "exited", -9, True),
        ("kill", "frozen", None, False),
        ("pause", "frozen", None, True),
        ("pause", "exited", -9, False),
        ("stop", "exited", 143, True),
        ("stop", "exited", -9, False),
        ("stop", "frozen", None, False),
        ("an action of another version", "exited", -9, False),
    ],
)
def test_an_action_explains_only_the_state_that_it_brings_about(
    action: str, state: str, exit_code: int | None, planned: bool
) -> None:
    assert ended(state, exit_code, replace(KILL, action=action)).planned == planned


@pytest.mark.parametrize("s", [50, 200])
def test_an_action_explains_no_end_outside_its_window(s: int) -> None:
    assert not ended("exited", -9, KILL, s).planned


def test_the_detail_says_the_exit_code_of_a_process_that_has_ended() -> None:
    assert ended("exited", -9, KILL).detail == "broker 1 exited with code -9"
    assert ended("frozen", None, KILL).detail == "broker 1 frozen"


@pytest.mark.parametrize(
    ("brokers", "detail"), [([1, 2], "delay of brokers 1, 2: api=Fetch"), ([], "delay of the run: api=Fetch")]
)
def test_the_detail_says_what_was_done_to_which_brokers(brokers: list[int], detail: str) -> None:
    (found,) = disturbances([], [replace(KILL, action="delay", brokers=brokers, hit={}, options={"api": "Fetch"})])
    assert (found.detail, found.weakens_since_us) == (detail, 0)


@pytest.mark.parametrize(("seen", "count"), [([], 0), ([0], 1), ([1, 0, 2, 1], 3), ([1, 2], 0), ([0, 2], 0)])
def test_the_partitions_of_transaction_state_are_known_only_if_all_were_seen(seen: list[int], count: int) -> None:
    observations = [
        Observation(at_us=SECOND, kind="partition", topic=TRANSACTION_STATE, partition=number) for number in seen
    ]
    assert coordinator_partitions(observations) == count
