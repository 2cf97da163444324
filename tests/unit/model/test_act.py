"""Tests of the options of steps in a fault plan. An option without meaning is refused at once. The error names the
option, its value, the allowed values and a remedy."""

from __future__ import annotations

from typing import get_args

import pytest
from msgspec.structs import replace
from support.evidence import RUN

from delivery_verifier.cluster.proxy.rules import Direction
from delivery_verifier.model.act import FRAMES
from delivery_verifier.model.data import Setting
from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.model.fault_plan import FaultStep, Trigger
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario_checks import check


def checked(action: str, **options: Setting) -> None:
    step = FaultStep(trigger=Trigger(kind="at_once"), action=action, target="leader", options=options)
    cluster = replace(RUN.cluster, capabilities=tuple(sorted(step.act.needs)))
    check(replace(RUN, cluster=cluster, fault=replace(RUN.fault, steps=(step,))))


def test_no_action_has_two_options_of_one_name_and_the_proxy_knows_every_direction() -> None:
    for act in ACTS.values():
        assert len({option.name for option in act.options}) == len(act.options)
    (direction,) = [option for option in FRAMES if option.name == "direction"]
    assert {name for name in get_args(Direction) if direction.is_allowed(name)} == {*get_args(Direction)} - {"begin"}


@pytest.mark.parametrize(
    ("action", "options", "told"),
    [
        ("drop", {"direction": "both"}, "direction is 'both'; allowed: request or response; it is request or response"),
        ("drop", {"api": "Produced"}, "api is 'Produced'; allowed: Produce, Fetch"),
        ("hold", {"nth": 0}, "nth is 0; allowed: a whole number from 1"),
        ("hold", {"count": True}, "count is True; allowed: a whole number from 0"),
        ("close", {"clients": "three"}, "clients is 'three'"),
        (
            "close",
            {"delay_ms": 5},
            "delay_ms is given, which close does not know; allowed: api, clients, count, direction, nth",
        ),
        ("delay", {}, "delay_ms is missing; allowed: a whole number from 1; it is how much later"),
        ("isolate", {"links": "controler"}, "links is 'controler'; allowed: any of controller, replication, client"),
        ("alter_topic", {"setting": "min.insync.replicas"}, "value is missing"),
        ("kill", {"nth": 1}, "nth is given, which kill does not know; allowed: none; leave it out"),
    ],
)
def test_an_option_that_means_nothing_is_refused_before_anything_is_started(
    action: str, options: dict[str, Setting], told: str
) -> None:
    with pytest.raises(BadInput) as refused:
        checked(action, **options)
    assert str(refused.value).startswith(f"fault.steps[0].options.{told}")


def test_a_target_that_nobody_knows_is_refused_before_anything_is_started() -> None:
    step = FaultStep(trigger=Trigger(kind="at_once"), action="kill", target="leaders")
    with pytest.raises(
        BadInput, match=r"fault.steps\[0\].target is 'leaders'; allowed: same, leader, new_leader, followers"
    ):
        check(replace(RUN, fault=replace(RUN.fault, steps=(step,))))


def test_what_the_catalogue_tells_its_steps_is_allowed() -> None:
    checked("drop", direction="request", api="Produce", nth=1, count=0, clients=3)
    checked("delay", api=0, delay_ms=100)
    checked("isolate", links="client, replication")
    checked("alter_topic", setting="min.insync.replicas", value=2)
