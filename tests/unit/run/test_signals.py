"""Signals: neither side of the load waits for one that has failed, or for a workspace that is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from delivery_verifier.run.signals import OtherSideFailed, Signals


def test_a_side_that_began_and_ended_well_is_seen(tmp_path: Path) -> None:
    signals = Signals(tmp_path)
    assert not signals.is_set("load") and not signals.is_done("load")
    with signals.failing("load"):
        signals.set("load")
        assert signals.is_set("load") and not signals.is_done("load")
    assert signals.is_done("load")


def test_a_side_that_failed_is_told_with_its_reason(tmp_path: Path) -> None:
    signals = Signals(tmp_path)
    with pytest.raises(ZeroDivisionError), signals.failing("fault"):
        1 / 0
    with pytest.raises(OtherSideFailed, match="ZeroDivisionError"):
        signals.is_set("fault")


def test_nobody_waits_in_a_workspace_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(OtherSideFailed, match="is gone"):
        Signals(tmp_path / "removed").is_set("load")
