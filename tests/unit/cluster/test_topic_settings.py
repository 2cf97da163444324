"""The settings of topics are looked at by one broker after another, and each change is written down."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from delivery_verifier.cluster.topic_settings import TopicSettings
from delivery_verifier.model.history import Observation, now_us

NAME = "min.insync.replicas"


class Brokers:
    """Brokers that know the settings of the topic `t`. Those in `silent` do not answer."""

    def __init__(self) -> None:
        self.value, self.silent, self.asked = "2", set[int](), list[int]()
        self.error: Exception = TimeoutError()
        self.shown = {"t", "u"}

    def ask(self, broker: int, name: str, timeout_s: float, resources: Sequence[tuple[int, str, list[str]]]) -> Any:
        assert name == "DescribeConfigs" and all(NAME in settings for _, _, settings in resources)
        self.asked.append(broker)
        if broker in self.silent:
            raise self.error
        config = SimpleNamespace(name=NAME, value=self.value)
        results = [SimpleNamespace(resource_name=topic, error_code=0, configs=[config]) for _, topic, _ in resources]
        results = [each for each in results if each.resource_name in self.shown]
        return SimpleNamespace(results=[*results, SimpleNamespace(resource_name="gone", error_code=3, configs=None)])


def test_a_change_is_written_down_once_and_a_silent_broker_is_passed_over() -> None:
    brokers, seen = Brokers(), list[Observation]()
    watched = ["__transaction_state", "t"]
    settings = TopicSettings(brokers, (1, 2), lambda: watched, seen.append)  # type: ignore[arg-type]
    settings.look()
    settings.look()
    brokers.value = "1"
    settings.look()
    assert [(it.kind, it.topic, it.setting, it.value) for it in seen if it.kind == "setting"] == [
        ("setting", "t", NAME, "2"),
        ("setting", "t", NAME, "1"),
    ]
    brokers.silent.add(1)
    settings.look()
    brokers.silent.clear()
    settings.look()
    assert brokers.asked == [1, 1, 1, 1, 2, 2], "who answered last is asked first: others may know of it later"
    brokers.silent |= {1, 2}
    settings.look()
    watched.clear()
    count = len(brokers.asked)
    settings.look()
    assert len(brokers.asked) == count and len([it for it in seen if it.kind == "setting"]) == 2


@pytest.mark.parametrize("error", [TimeoutError(), ValueError("x"), IndexError("x"), KeyError("x")])
def test_a_look_that_failed_leaves_a_gap_and_the_next_one_says_how_long_it_was(error: Exception) -> None:
    brokers, seen = Brokers(), list[Observation]()
    settings = TopicSettings(brokers, (1, 2), lambda: ["t"], seen.append)  # type: ignore[arg-type]
    settings.look()
    assert [(it.kind, it.pause_us) for it in seen if it.kind == "look"] == [("look", 0)]
    brokers.silent, brokers.error = {1, 2}, error
    began_us = now_us()
    settings.look()
    assert len([it for it in seen if it.kind == "look"]) == 1
    brokers.silent.clear()
    settings.look()
    assert [it.pause_us >= now_us() - began_us - 1_000_000 for it in seen if it.kind == "look"][-1]


def test_a_look_that_does_not_see_every_topic_is_no_look() -> None:
    brokers, seen = Brokers(), list[Observation]()
    settings = TopicSettings(brokers, (1, 2), lambda: ["t", "u"], seen.append)  # type: ignore[arg-type]
    brokers.shown = {"t"}
    settings.look()
    assert [it.kind for it in seen] == ["setting"]
