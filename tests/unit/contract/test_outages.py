"""What nobody can see from outside: an outage of a whole ISR, requests that were held up, and altered topics."""

from __future__ import annotations

import pytest

from delivery_verifier.contract.alterations import altered_by_others
from delivery_verifier.contract.delays import delays
from delivery_verifier.contract.disturbances import disturbances
from delivery_verifier.contract.outages import outages, was_silent
from delivery_verifier.model.history import TRANSACTION_STATE, Injection, Observation

S = 1_000_000


def at(at_s: float, leader: int, epoch: int, *isr: int, topic: str = "t") -> Observation:
    return Observation(
        at_us=int(at_s * S), kind="partition", topic=topic, partition=0, leader=leader, leader_epoch=epoch, isr=[*isr]
    )


def says(at_s: float, broker: int, state: str, since_s: float = 0.5) -> Observation:
    return Observation(at_us=int(at_s * S), kind="answers", broker=broker, state=state, pause_us=int(since_s * S))


def setting(at_s: float, value: str, name: str = "min.insync.replicas") -> Observation:
    return Observation(at_us=int(at_s * S), kind="setting", topic="t", setting=name, value=value)


WHOLE = [says(1, 1, "answers", 0), says(1, 2, "answers", 0), says(1, 3, "answers", 0), at(1, 1, 0, 1, 2, 3)]


@pytest.mark.parametrize(
    ("seen", "replicas"),
    [
        ([says(10, broker, "refuses") for broker in (1, 2, 3)], [3]),
        ([says(10, 1, "refuses"), says(11, 2, "silent")], []),
        ([says(10, 1, "refuses"), at(13, 2, 1, 2, 3), says(20, 2, "refuses"), says(21, 3, "refuses")], [3]),
        ([says(10, 1, "refuses"), at(13, 2, 1, 2, 3), says(14, 2, "refuses"), at(17, 3, 2, 3)], []),
        ([says(10, 1, "refuses"), at(13, 2, 1, 2), says(20, 2, "refuses"), says(30, 2, "answers")], [1]),
        ([says(10, 1, "refuses"), at(13, 2, 1, 2, 3), says(20, 1, "answers"), at(22, 2, 1, 1, 2, 3)], []),
        (
            [
                *(says(10, 1, "refuses"), at(13, 2, 1, 2, 3), says(20, 1, "answers"), at(22, 2, 1, 1, 2, 3)),
                *(says(30, 2, "refuses"), says(30, 3, "refuses")),
            ],
            [],
        ),
        ([says(10, broker, "silent") for broker in (1, 2, 3)] + [says(10.5, at, "answers") for at in (1, 2, 3)], []),
    ],
    ids=[
        "all",
        "two_of_three",
        "the_rest_later",
        "one_is_left",
        "last_of_the_isr",
        "back",
        "back_and_copied",
        "hiccup",
    ],
)
def test_an_outage_is_a_whole_isr_that_did_not_answer_and_did_not_copy_its_log_again(
    seen: list[Observation], replicas: list[int]
) -> None:
    found = list(outages([*WHOLE, *seen]))
    assert [it.replicas for it in found[-1:]] == replicas, found
    assert all((it.kind, it.topic) == ("outage", "t") for it in found)
    assert not [it for it in disturbances([*WHOLE, *seen], []) if it.kind in ("isr_power_loss", "power_loss")]


def test_an_outage_of_the_transaction_log_names_its_topic() -> None:
    seen = [at(1, 1, 0, 1, topic=TRANSACTION_STATE), says(10, 1, "refuses")]
    assert [(it.topic, it.replicas) for it in outages([*WHOLE[:3], *seen])] == [(TRANSACTION_STATE, 1)]


def test_a_broker_that_lets_requests_time_out_may_hold_up_requests_and_one_that_refuses_does_not() -> None:
    assert delays([*WHOLE, says(10, 1, "refuses"), says(20, 1, "answers")], []) == []
    ((begin_us, end_us),) = delays([*WHOLE, says(10, 1, "silent", 1), says(20, 1, "answers")], [])
    assert (begin_us, end_us) == (8 * S, 32 * S), "a second before, and as long again, and a second"
    assert delays([*WHOLE, says(10, 1, "silent")], [])[0][1] is None


def test_who_was_silent_after_a_time() -> None:
    seen = [*WHOLE, says(10, 1, "silent"), says(20, 1, "answers"), says(30, 3, "refuses")]
    assert (was_silent(seen, 0), was_silent(seen, 25 * S), was_silent(WHOLE, 0)) == ([1, 3], [3], [])


def test_a_topic_that_somebody_else_alters_and_sets_back_is_disturbed_twice() -> None:
    seen = [setting(1, "2"), setting(10, "1"), setting(12, "2"), setting(13, "9", "flush.messages")]
    first, second = altered_by_others(seen, [])
    assert (first.setting, first.value, first.planned, first.at_us) == ("min.insync.replicas", "1", False, 10 * S)
    assert (second.value, "from 1 to 2" in second.detail) == ("2", True)
    assert [it.kind for it in disturbances(seen, [])] == ["topic_altered"] * 2


def test_what_an_injection_of_the_run_altered_is_not_somebody_elses() -> None:
    own = Injection(
        id=0,
        cycle=0,
        action="alter_topic",
        brokers=[],
        hit={"t": [0]},
        requested_at_us=9 * S,
        effect_at_us=9 * S,
        took_effect=True,
        options={"setting": "min.insync.replicas", "value": 1},
    )
    assert list(altered_by_others([setting(1, "2"), setting(10, "1")], [own])) == []
    assert len(list(altered_by_others([setting(1, "2"), setting(10, "3")], [own]))) == 1
