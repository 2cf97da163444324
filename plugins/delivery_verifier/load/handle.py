"""The handle of a running load. Through this handle, the fault plan observes and steers the producers.

The fault plan and the producers run in different processes. They share one block of memory per producer, the control
block (see live_ledger.Word). The supervisor is the process that started the producers. The supervisor also ends the
producers, and starts them again, when the fault plan asks for it.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from delivery_verifier.host.supervision.control_block import await_done
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.load.layout import of_arm
from delivery_verifier.load.live_ledger import SHIFT, SLOTS, Control, Gate, State, Word, read_segment
from delivery_verifier.load.resends import still_open
from delivery_verifier.model.partition_growth import WARM_UP_ROUNDS
from delivery_verifier.model.positions import Positions
from delivery_verifier.model.scenario import Arm, Scenario

HANDOVER_DEADLINE_S = 30.0
RESTART_DEADLINE_S = 60.0


class Termination(NamedTuple):
    """How a producer ended on SIGTERM. `exit_code` below zero is minus the number of the signal that ended it.

    `at_sigterm`: how many of its attempts had no report when the signal had reached it; -1 if it did not reach it.
    `at_exit`: how many had none when it ended.
    """

    exit_code: int
    at_sigterm: int
    at_exit: int


class RunningLoad:
    """The running load of `scenario`, as the fault plan observes and steers it.

    `workspace` is the folder that holds the live ledgers and control blocks of all producers.
    """

    def __init__(self, scenario: Scenario, workspace: Path) -> None:
        self._scenario, self._folder = scenario, workspace / "live"

    @property
    def producers(self) -> int:
        """The number of producers of all arms together."""
        return sum(arm.producers for arm in self._scenario.loaded)

    def reported(self) -> int:
        """Returns the number of reported attempts of the subject arm. With several subject arms, returns the lowest of
        their numbers.

        An attempt is reported once the client says that the record was acknowledged or, with acks=0, that it was sent.
        """
        return min(sum(control[Word.REPORTED] for control in self._controls(arm)) for arm in self._scenario.subjects)

    def outstanding(self, arms: Iterable[Arm] | None = None) -> int:
        """Returns the number of attempts of `arms` that have no outcome yet. Without `arms`, counts the attempts of the
        subject arms.

        An attempt counts from just before the producer hands it over to its Kafka client.
        """
        return sum(
            still_open(control)
            for arm in (self._scenario.subjects if arms is None else arms)
            for control in self._controls(arm)
        )

    def ended_early(self) -> str:
        """Returns the name of a subject arm whose producers have all ended although the load goes on, e.g. after fatal
        client errors. Returns an empty text if there is none. Nothing more of such an arm will be reported."""
        for arm in self._scenario.subjects:
            controls = [*self._controls(arm)]
            if all(_has_ended(control) and control[Word.GATE] < Gate.RELEASE for control in controls):
                return arm.name
        return ""

    def positions(self, arm: Arm) -> dict[int, Positions]:
        """Maps each producer of `arm` to the positions of its records in the topic, as far as brokers have acknowledged
        them. Leaves out resends."""
        layout = of_arm(self._scenario.load, arm, self._scenario.fault)
        result = {}
        for number, control in enumerate(self._controls(arm)):
            count = control[Word.ANNOUNCED]
            partitions, _ = layout.columns(0, count)
            folder = self._folder / arm.name / str(number)
            parts = [read_segment(folder, first >> SHIFT)[0, : count - first] for first in range(0, count, SLOTS)]
            results = np.concatenate([np.zeros(0, np.int64), *parts])
            result[number] = Positions(partitions, np.maximum(results, 0) - 1)
        return result

    def send(self, blocks: int) -> None:
        """Lets every producer of a scripted load send `blocks` more blocks to each partition.

        A block is a fixed number of consecutive records (see LoadLayout). Waits until the producers have handed over
        all these blocks to their Kafka clients. Does not wait for the delivery. Raises DeadlinePassed.
        """
        controls = self._all_controls()
        for arm in self._scenario.loaded:
            layout = of_arm(self._scenario.load, arm, self._scenario.fault)
            warm_up = layout.end_of_rounds(WARM_UP_ROUNDS)
            for control in self._controls(arm):
                rounds = layout.rounds(warm_up + control[Word.DUE]) + blocks
                control[Word.DUE] = layout.end_of_rounds(rounds) - warm_up
        wait_until(
            lambda: all(control[Word.HANDED_OVER] >= control[Word.DUE] or _has_ended(control) for control in controls),
            "producers to hand over what they must send",
            HANDOVER_DEADLINE_S,
            every_s=0.002,
        )

    def kill(self) -> None:
        """Asks the supervisor to send SIGKILL to all producers at the same moment. Waits until the producers are dead.

        If an earlier call ended the producers and nobody has restarted them, kills nothing. Raises DeadlinePassed.
        """
        self._end("kill", signal.SIGKILL)

    def terminate(self) -> None:
        """Asks the supervisor to send SIGTERM to all producers at the same moment. Waits until they have ended, each as
        its arm says (see `scenario.OnSigterm`).

        If an earlier call ended the producers and nobody has restarted them, ends nothing. Raises DeadlinePassed.
        """
        self._end("terminate", signal.SIGTERM)

    def _end(self, verb: str, number: signal.Signals) -> None:
        controls = self._all_controls()
        if not any(map(_is_down, controls)):
            for control in controls:
                control[Word.SIGNAL] = number
                control[Word.KILLS] += 1
        self._await_done(Word.KILLS, Word.KILLS_DONE, verb)

    def restart(self) -> None:
        """Asks the supervisor to start every ended producer again. Does nothing if no producer was ended.

        Waits until each of these producers has sent once more each of its records that has no certain outcome. A
        producer that writes transactions sends no record again, because its open transaction is ended instead. A
        producer that ended on SIGTERM sends no record again either. Raises DeadlinePassed.
        """
        if not any(map(_is_down, self._all_controls())):
            return
        for control in self._all_controls():
            control[Word.STARTS] += 1
        self._await_done(Word.STARTS, Word.STARTS_DONE, "start")
        wait_until(
            lambda: all(control[Word.STATE] >= State.LOADING for control in self._all_controls()),
            "producers to resend unanswered records",
            RESTART_DEADLINE_S,
        )

    def resend(self) -> None:
        """Makes every producer send once more each of its records whose last attempt is INDETERMINATE. All producers
        must be alive.

        Waits until the producers have handed over these records to their Kafka clients. Raises DeadlinePassed.
        """
        controls = self._all_controls()
        for control in controls:
            control[Word.ROUNDS] += 1
        wait_until(
            lambda: all(
                control[Word.ROUNDS_DONE] >= control[Word.ROUNDS] or _has_ended(control) for control in controls
            ),
            "all producers to hand over what they send again",
            HANDOVER_DEADLINE_S,
            every_s=0.002,
        )

    def exits(self) -> dict[str, int]:
        """Returns the exit codes of the producers that the fault plan ended and that nobody has started again since
        then.

        The keys are `<arm>/<producer>`. A code below zero is minus the number of the signal that ended the process.
        """
        return {name: control[Word.EXIT] for name, control in self._ended().items()}

    def terminations(self) -> dict[str, Termination]:
        """Returns how the producers ended that `terminate` ended and that nobody has started again since then.

        The keys are `<arm>/<producer>`.
        """
        return {
            name: Termination(control[Word.EXIT], control[Word.AT_SIGTERM], control[Word.AT_EXIT])
            for name, control in self._ended().items()
            if control[Word.SIGNAL] == signal.SIGTERM
        }

    def _ended(self) -> dict[str, Control]:
        return {
            f"{arm.name}/{number}": control
            for arm in self._scenario.loaded
            for number, control in enumerate(self._controls(arm))
            if control[Word.KILLS_DONE] > control[Word.STARTS_DONE]
        }

    def resent(self) -> dict[str, int]:
        """Returns, for each arm that carries load, how many records the arm's producers sent again in their last round
        of resends.

        The keys are the names of the arms. In a round, a producer sends once more each record whose last attempt is
        INDETERMINATE. A producer that ended before it did the round that was asked for sent none.
        """
        return {
            arm.name: sum(
                control[Word.LAST_ROUND]
                for control in self._controls(arm)
                if control[Word.ROUNDS_DONE] == control[Word.ROUNDS]  # else LAST_ROUND is that of an earlier round
            )
            for arm in self._scenario.loaded
        }

    def _await_done(self, asked: Word, done: Word, verb: str) -> None:
        await_done(self._all_controls(), asked, done, f"produce to {verb} all producers", HANDOVER_DEADLINE_S)

    def _all_controls(self) -> list[Control]:
        return [control for arm in self._scenario.loaded for control in self._controls(arm)]

    def _controls(self, arm: Arm) -> Iterator[Control]:
        return (Control(self._folder / arm.name / str(number)) for number in range(arm.producers))


def _has_ended(control: Control) -> bool:
    """Returns whether the producer with this control block has ended, and counts on no restart."""
    return control[Word.STATE] == State.DONE


def _is_down(control: Control) -> bool:
    """Returns whether the fault plan had this producer end, and has not had it started again."""
    return control[Word.KILLS] > control[Word.STARTS]
