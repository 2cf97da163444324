"""Tests that each step fails at its entry if the scenario asks for it, and then writes nothing. The Spark job and Great
Expectations are tested so in tests/spark/test_laws.py and tests/quality/test_validation.py."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from support.evidence import RUN
from support.run_builder import RunBuilder

from delivery_verifier.load.live_ledger import Gate
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.steps import STEPS
from delivery_verifier.run.signals import ParallelStepFailed, Signals
from delivery_verifier.run.steps import plan, produce, reconcile
from delivery_verifier.store.run_directory import RunDirectory

PARALLEL = {"produce": "inject_fault", "inject_fault": "produce"}
OTHERS = [step for step in STEPS if step not in ("plan", "reconcile")]


def planned(folder: Path, step: str) -> RunDirectory:
    """Returns a run directory whose scenario asks `step` to fail."""
    return RunBuilder(msgspec.structs.replace(RUN, fail_step=step)).at(folder / "run")


@pytest.mark.parametrize("step", OTHERS)
def test_a_step_that_is_asked_to_fail_fails_before_it_does_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    run = planned(tmp_path, step)
    module = importlib.import_module(f"delivery_verifier.run.steps.{step}")
    if step in PARALLEL:  # these find their cluster first: the other step must hear of the failure
        cluster = SimpleNamespace(workspace=tmp_path, socket=tmp_path / "socket")
        monkeypatch.setattr(module.Cluster, "of_run", lambda run: cluster)
        monkeypatch.setattr(module.lease, "renewed", lambda socket: nullcontext())
    perform: Callable[[Path], None] = getattr(module, step)
    with pytest.raises(StepFailed, match=f"scenario.fail_step is {step}: this step fails as asked"):
        perform(run.path)
    assert {file.name for file in run.path.iterdir()} <= {"plan.json", "scenario.json"}
    if step in PARALLEL:
        with pytest.raises(ParallelStepFailed, match=f"{step} failed"):
            Signals(tmp_path).has_ended(step)


def test_the_reading_fails_before_it_asks_for_a_session(tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match="fail_step is reconcile"):
        reconcile.read_topic(planned(tmp_path, "reconcile").path, lambda: pytest.fail("Spark was asked for"))


def test_the_plan_fails_before_it_makes_a_run_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDV_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("KDV_LOCK", str(tmp_path / "lock"))  # a run of somebody else may hold the host
    with pytest.raises(StepFailed, match="fail_step is plan"):
        plan.plan_from_params({"profile": "safe", "fault": "none", "records": 1000, "fail_step": "plan"}, "r")
    assert list(tmp_path.glob("runs/*")) == []


def fail(signals: Signals) -> None:
    """Lets inject_fault fail, as its task does."""
    with pytest.raises(ZeroDivisionError), signals.ending("inject_fault"):
        signals.begin("inject_fault")
        1 / 0


@pytest.mark.parametrize("begins", [False, True], ids=["before_the_load", "while_the_load_flows"])
def test_the_load_ends_as_soon_as_the_injection_beside_it_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begins: bool
) -> None:
    """The pool of producers is a stand-in, which notes the gates that are opened."""
    monkeypatch.setattr(produce, "_wait_until_replicated", lambda *_: None)
    signals, opened = Signals(tmp_path), list[Gate]()
    if begins:
        signals.begin("inject_fault")
    else:
        fail(signals)

    def open_gate(gate: Gate) -> None:
        opened.append(gate)
        if gate is Gate.GO:
            fail(signals)

    pool: Any = SimpleNamespace(
        wait_for=lambda state: None, open=open_gate, apply_commands=lambda adopt: None, check=lambda: True
    )
    members: Any = SimpleNamespace(
        start=lambda: None, wait_applying=lambda: None, apply_commands=lambda: None, check=lambda: True
    )
    cluster: Any = SimpleNamespace(agent=SimpleNamespace(adopt=lambda pid: None), socket=tmp_path)
    with pytest.raises(ParallelStepFailed, match=r"inject_fault failed: .*ZeroDivisionError"):
        produce._send_load(RUN, cluster, pool, members, signals, threading.Event())
    assert opened == [Gate.WARM_UP, Gate.GO][: 1 + begins]
