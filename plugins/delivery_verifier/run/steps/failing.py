"""Failing on purpose: how the run's own alarm is tested, on the real parts."""

from __future__ import annotations

from delivery_verifier.model.scenario import Scenario, Step


def fail_if_asked(scenario: Scenario, step: Step) -> None:
    """Raises RuntimeError if the scenario wants `step` to fail at its entry."""
    if scenario.fail_step == step:
        raise RuntimeError(f"scenario.fail_step is {step}: failing as asked")
