"""Tests of healing: `heal` undoes whatever an action left in force. Any process may call `heal`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.fake_cluster import FakeCluster

from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.faults.action import ActionContext
from delivery_verifier.faults.actions import ACTIONS, heal
from delivery_verifier.model.act import CAPABILITIES
from delivery_verifier.model.fault_actions import ACTS

OWN = {name: act for name, act in ACTS.items() if act.takes_effect and not act.by_others}
LASTING = [name for name, act in OWN.items() if not act.momentary and not act.clients]
OPTIONS: dict[str, Any] = {"delay_ms": 10, "links": "controller"}


@pytest.mark.parametrize("action", LASTING)
def test_heal_undoes_every_action_that_lasts(action: str, tmp_path: Path) -> None:
    fake = FakeCluster(capabilities=CAPABILITIES, workspace=tmp_path)
    known = {option.name for option in ACTS[action].options}
    options = {name: value for name, value in OPTIONS.items() if name in known}
    context = ActionContext(Cluster(fake), [1], options)
    done = ACTIONS[action].do(context)
    heal(context.cluster)
    assert not ACTIONS[action].proof(context, done), f"faults.actions.heal does not undo {action}"
