"""Tests of signals between steps: no step waits for a step that has failed, or for a workspace that no longer
exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from delivery_verifier.pipeline.signals import ParallelStepFailed, Signals


def test_a_step_that_began_and_ended_well_is_seen(tmp_path: Path) -> None:
    signals = Signals(tmp_path)
    assert not signals.has_begun("produce") and not signals.has_ended("produce")
    with signals.ending("produce"):
        signals.begin("produce")
        assert signals.has_begun("produce") and not signals.has_ended("produce")
    assert signals.has_ended("produce")


def test_a_step_that_failed_is_reported_with_its_reason(tmp_path: Path) -> None:
    signals = Signals(tmp_path)
    with pytest.raises(ZeroDivisionError), signals.ending("inject_fault"):
        1 / 0
    with pytest.raises(ParallelStepFailed, match="ZeroDivisionError"):
        signals.has_begun("inject_fault")


def test_nobody_waits_in_a_workspace_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(ParallelStepFailed, match="is gone"):
        Signals(tmp_path / "removed").has_begun("produce")
