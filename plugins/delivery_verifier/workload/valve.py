"""The valve: the load of a run as another process of the same run sees and drives it, through the control blocks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from delivery_verifier.scenario import Arm, Scenario
from delivery_verifier.waiting import wait_until
from delivery_verifier.workload.live import Control, Word

HANDOVER_DEADLINE_S = 30.0


class Valve:
    """How far the load of `scenario` is, and, where it is scripted, how far it may go."""

    def __init__(self, scenario: Scenario, workspace: Path) -> None:
        self._scenario, self._folder = scenario, workspace / "live"

    def reported(self) -> int:
        """Records reported so far, of the subject arm with the fewest."""
        return min(
            sum(control[Word.REPORTED] for control in self._controls(arm)) for arm in self._scenario.subjects
        )

    def outstanding(self) -> int:
        """Attempts of subject arms that were announced and of which nothing was heard yet."""
        return sum(
            control[Word.ANNOUNCED] - control[Word.REPORTED] - control[Word.FAILED] - control[Word.INDETERMINATE]
            for arm in self._scenario.subjects
            for control in self._controls(arm)
        )

    def send(self, blocks: int) -> None:
        """Lets every producer send so many blocks more to each partition, and waits until all are handed over."""
        load = self._scenario.load
        controls = [control for arm in self._scenario.loaded for control in self._controls(arm)]
        for control in controls:
            control[Word.DUE] += blocks * load.block * load.partitions
        wait_until(
            lambda: all(control[Word.HANDED_OVER] >= control[Word.DUE] for control in controls),
            "all producers to hand over what they were told to send", HANDOVER_DEADLINE_S, every_s=0.002,
        )  # fmt: skip

    def _controls(self, arm: Arm) -> Iterator[Control]:
        return (Control(self._folder / arm.name / str(number)) for number in range(arm.producers))
