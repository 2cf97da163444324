"""One producer process of a run, as its supervisor sees it: how it is started, and how it may end."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

from delivery_verifier.host.librdkafka import wheels
from delivery_verifier.host.processes import how_it_ended
from delivery_verifier.host.supervision import children
from delivery_verifier.load import layout
from delivery_verifier.load.live_ledger import Control, State, Word
from delivery_verifier.load.spec import ProducerSpec
from delivery_verifier.model.client_errors import explained
from delivery_verifier.model.data import dumps
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.scenario import Arm

BEFORE_LOAD, IN_LOAD = 4, 3
"""Exit codes of a producer that a fatal error, or a refusal of the brokers, has ended: before its load, or in it."""
ENDED_EARLY = "ended_early"
"""The file in a producer's folder that says which error has ended the producer with one of these exit codes."""
MOST_CHARACTERS = 500
"""The greatest length of what a producer said, in an error or a note."""


class ProducerDied(VerifierError, RuntimeError):
    """A producer process ended before it had sent its load."""


@dataclass
class ProducerProcess:
    """One producer. The supervisor and the fault plan observe and steer it through its control block (shared memory).

    The fault plan may have a producer ended and started again. The producer then keeps its ledger, and `process` is
    its latest process.
    """

    arm: Arm
    spec: ProducerSpec
    process: children.Child
    control: Control

    @property
    def name(self) -> str:
        """The producer's name in the counts of produce.json: `<arm>/<producer>/<session>`.

        `produce.json` is an output of the step `produce`. `session` is a number in the headers of the producer's
        records, and not a session of Kafka. The number stays the same when the producer is ended and started again.
        """
        return f"{self.arm.name}/{self.spec.producer}/{self.spec.session}"

    @property
    def folder(self) -> Path:
        """The folder of the producer's live ledger."""
        return Path(self.spec.folder)

    @property
    def layout(self) -> layout.LoadLayout:
        """The layout of the producer's load."""
        spec = self.spec
        return layout.LoadLayout(spec.block, spec.partitions, spec.first_partitions, spec.first_rounds)

    @property
    def ended_by_plan(self) -> bool:
        """Whether the fault plan had the producer ended, and the producer was not started again.

        After SIGKILL, the signal must have ended the process. After SIGTERM, the producer must have written down that
        the signal has reached it, and must have exited with 0.
        """
        control = self.control
        if control[Word.SIGNAL] == signal.SIGTERM:
            as_ordered = control[Word.EXIT] == 0 and control[Word.AT_SIGTERM] >= 0
        else:
            as_ordered = control[Word.EXIT] == -signal.SIGKILL
        return as_ordered and control[Word.KILLS_DONE] > control[Word.STARTS_DONE]

    def may_end(self, code: int) -> bool:
        """Returns whether the run may go on after the producer's process has ended with the exit code `code`.

        * 0 is allowed once the load has ended.
        * IN_LOAD is always allowed: the load ended early, e.g. after a fatal client error, which is a result of the
          run. BEFORE_LOAD is not allowed: there is nothing to judge.
        * The code that the fault plan's own signal brings about is allowed (see `ended_by_plan`).
        """
        if code == 0 and self.control[Word.STATE] == State.DONE:
            return True
        return code == IN_LOAD or self.ended_by_plan

    @property
    def ended_early(self) -> str:
        """The error that ended the producer early. Empty if none did."""
        file = self.folder / ENDED_EARLY
        return file.read_text(errors="replace")[:MOST_CHARACTERS] if file.is_file() else ""

    @property
    def said_last(self) -> str:
        """The last lines that the producer's process has printed. The text begins at the beginning of a line."""
        return children.last_words(self.folder, MOST_CHARACTERS)

    def died(self, code: int) -> ProducerDied:
        """Returns the error that says how the producer ended, and why. `code` is the exit code of its process."""
        if code == BEFORE_LOAD:
            end = f"was refused in its warm-up, before the load and before any fault: {explained(self.ended_early)}"
            return ProducerDied(f"producer {self.name} {end}")
        end = f"ended with {how_it_ended(code)}; it said last: {self.said_last or 'nothing'}"
        return ProducerDied(f"producer {self.name} {end}")


def start_process(spec: ProducerSpec) -> children.Child:
    """Starts the producer that `spec` describes, as a child process. The child dies with this process. The folder
    `spec.folder` must exist. Raises WheelError if librdkafka cannot be had in the version of `spec`."""
    environment = wheels.environment(spec.client_version) if spec.client == "librdkafka" else None
    return children.start_module("delivery_verifier.load.producer", dumps(spec), Path(spec.folder), environment)
