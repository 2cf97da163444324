"""The valve: the load of a run as another process of the same run sees and drives it, through the control blocks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from delivery_verifier.host.waiting import wait_until
from delivery_verifier.load.live_ledger import Control, State, Word
from delivery_verifier.model.scenario import Arm, Scenario

HANDOVER_DEADLINE_S = 30.0
RESTART_DEADLINE_S = 60.0


class RunningLoad:
    """How far the load of `scenario` is, and, where it is scripted, how far it may go."""

    def __init__(self, scenario: Scenario, workspace: Path) -> None:
        self._scenario, self._folder = scenario, workspace / "live"

    @property
    def producers(self) -> int:
        """Producers of all arms."""
        return sum(arm.producers for arm in self._scenario.loaded)

    def reported(self) -> int:
        """Records reported so far, of the subject arm with the fewest."""
        return min(sum(control[Word.REPORTED] for control in self._controls(arm)) for arm in self._scenario.subjects)

    def outstanding(self) -> int:
        """Attempts of subject arms that were announced and of which nothing was heard yet."""
        return sum(
            control[Word.ANNOUNCED]
            + control[Word.RESENT]
            - control[Word.REPORTED]
            - control[Word.FAILED]
            - control[Word.INDETERMINATE]
            for arm in self._scenario.subjects
            for control in self._controls(arm)
        )

    def send(self, blocks: int) -> None:
        """Lets every producer send so many blocks more to each partition, and waits until all are handed over."""
        load = self._scenario.load
        controls = self._all()
        for control in controls:
            control[Word.DUE] += blocks * load.block * load.partitions
        wait_until(
            lambda: all(control[Word.HANDED_OVER] >= control[Word.DUE] for control in controls),
            "all producers to hand over what they were told to send",
            HANDOVER_DEADLINE_S,
            every_s=0.002,
        )

    def kill(self) -> None:
        """Has the supervisor SIGKILL every producer, all at the same moment; waits until it has."""
        self._order(dead=True)

    def restart(self) -> None:
        """Has the supervisor start again every producer that was killed, and waits until each has sent again what
        nobody had answered. Harmless where none was killed."""
        if all(control[Word.COMMAND] % 2 == 0 for control in self._all()):
            return
        self._order(dead=False)
        wait_until(
            lambda: all(control[Word.STATE] >= State.LOADING for control in self._all()),
            "all producers to have sent again what nobody had answered",
            RESTART_DEADLINE_S,
        )

    def resend(self) -> None:
        """Has every living producer send again what it cannot know to be written; waits until it is handed over."""
        controls = self._all()
        for control in controls:
            control[Word.ROUNDS] += 1
        wait_until(
            lambda: all(control[Word.ROUNDS_DONE] >= control[Word.ROUNDS] for control in controls),
            "all producers to hand over what they send again",
            HANDOVER_DEADLINE_S,
            every_s=0.002,
        )

    def exits(self) -> dict[str, int]:
        """What each producer that was killed by order, and does not run again, ended with, by `<arm>/<producer>`."""
        return {
            f"{arm.name}/{number}": control[Word.EXIT]
            for arm in self._scenario.loaded
            for number, control in enumerate(self._controls(arm))
            if control[Word.OBEYED] % 2
        }

    def resent(self) -> dict[str, int]:
        """Attempts in the last round of resends, by arm."""
        return {
            arm.name: sum(control[Word.LAST_ROUND] for control in self._controls(arm)) for arm in self._scenario.loaded
        }

    def _order(self, dead: bool) -> None:
        controls = self._all()
        order = max(control[Word.COMMAND] for control in controls)
        order += (order % 2 == 1) != dead
        for control in controls:
            control[Word.COMMAND] = order
        wait_until(
            lambda: all(control[Word.OBEYED] >= order for control in controls),
            f"produce to {'kill' if dead else 'start'} all producers",
            HANDOVER_DEADLINE_S,
            every_s=0.005,
        )

    def _all(self) -> list[Control]:
        return [control for arm in self._scenario.loaded for control in self._controls(arm)]

    def _controls(self, arm: Arm) -> Iterator[Control]:
        return (Control(self._folder / arm.name / str(number)) for number in range(arm.producers))
