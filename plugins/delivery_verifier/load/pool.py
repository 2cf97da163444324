"""The crew: all producer processes of a run, started behind one barrier and supervised to their end."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from delivery_verifier.host.processes import dies_with_parent, how_it_ended
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.load import layout, transactions
from delivery_verifier.load.live_ledger import Control, Gate, State, Word
from delivery_verifier.load.spec import ProducerSpec
from delivery_verifier.model.data import Setting, dumps
from delivery_verifier.model.scenario import Arm, Load, Scenario


class ProducerDied(RuntimeError):
    """A producer process ended before its load did."""


class AlreadySent(RuntimeError):
    """This run's load was begun before; sent again under the same numbers, all of it would count as DUPLICATED."""


@dataclass
class ProducerProcess:
    """One producer and its control block. `process` is that of its present life: the fault plan may have it killed, and
    started again."""

    arm: Arm
    spec: ProducerSpec
    process: subprocess.Popen[bytes]
    control: Control

    @property
    def name(self) -> str:
        """`<arm>/<producer>/<session>`, as in the counts of produce.json. Its ledger goes on from life to life, and so
        does its session."""
        return f"{self.arm.name}/{self.spec.producer}/{self.spec.session}"

    @property
    def folder(self) -> Path:
        """Where its live ledger is."""
        return Path(self.spec.folder)

    @property
    def layout(self) -> layout.LoadLayout:
        """Which partition its sequences go to."""
        return layout.LoadLayout(self.spec.block, self.spec.partitions)

    @property
    def killed_by_plan(self) -> bool:
        """Whether the fault plan had it killed, and has not had it started again."""
        return self.control[Word.OBEYED] % 2 == 1 and self.control[Word.EXIT] == -signal.SIGKILL

    def may_end(self, code: int) -> bool:
        """Whether its process may have ended with `code`."""
        if code == 0:
            return self.control[Word.STATE] == State.DONE
        return code == 3 or self.killed_by_plan


class ProducerPool:
    """All producers of a run. `connection`: the client properties by which they reach the cluster. Raises AlreadySent
    where a crew was at work before: a run has one load."""

    def __init__(self, scenario: Scenario, connection: Mapping[str, str], workspace: Path) -> None:
        if (workspace / "live").exists():
            raise AlreadySent(f"run {scenario.run_id} has sent its load already: start another run")
        self.members = [
            _process(scenario, arm, number, connection, workspace / "live" / arm.name / str(number))
            for arm in scenario.loaded
            for number in range(arm.producers)
        ]
        self._deadline_s = scenario.load.deadline_s

    def open(self, gate: Gate) -> None:
        """Lets all producers through `gate` at once."""
        for member in self.members:
            member.control[Word.GATE] = gate

    def wait_for(self, state: State, deadline_s: float | None = None) -> None:
        """Waits until every producer has come to `state`. Raises ProducerDied, DeadlinePassed."""
        wait_until(
            lambda: self.check() and all(member.control[Word.STATE] >= state for member in self.members),
            f"all producers to be {state.name}",
            deadline_s or self._deadline_s,
            detail=lambda: str({m.name: State(m.control[Word.STATE]).name for m in self.members}),
        )

    def check(self) -> bool:
        """True; raises ProducerDied if a producer ended without being done."""
        for member in self.members:
            code = member.process.poll()
            if code is not None and not member.may_end(code):
                error = (member.folder / "stderr").read_text(errors="replace").strip()[-500:]
                raise ProducerDied(
                    f"producer {member.name} ended with {how_it_ended(code)}; it said last: {error or 'nothing'}"
                )
        return True

    def apply_commands(self, adopt: Callable[[int], None]) -> None:
        """Carries out what the fault plan orders once all have the order: SIGKILL for all, or a new life for the dead,
        whose pids are given to `adopt`."""
        orders = {member.control[Word.COMMAND] for member in self.members}
        due = [member for member in self.members if member.control[Word.OBEYED] not in orders]
        if not due or len(orders) > 1:
            return
        (order,) = orders
        if order % 2:
            self.kill()
        else:
            for member in due:
                if member.killed_by_plan:
                    _revive(member, order // 2)
                    adopt(member.process.pid)
        for member in due:
            member.control[Word.OBEYED] = order

    def kill(self) -> None:
        """Ends every producer at once."""
        for member in self.members:
            if member.process.poll() is None:
                member.process.send_signal(signal.SIGKILL)
        for member in self.members:
            member.control[Word.EXIT] = member.process.wait()


def _settings(arm: Arm, number: int) -> dict[str, Setting]:
    """The arm's own; brokers, and a proxy before them, know every producer by a name of its own."""
    own = {"transactional.id": arm.transactional_ids[number]} if arm.transactional_id else {}
    return {"client.id": f"{arm.name}-{number}", **arm.profile.producer, **own}


def _process(scenario: Scenario, arm: Arm, number: int, connection: Mapping[str, str], folder: Path) -> ProducerProcess:
    load = scenario.load
    records = -(-arm.records // arm.producers)
    rate = _rate(load, records, arm)
    shape = (
        layout.LoadLayout(load.block, load.partitions)
        if load.block
        else layout.choose(records, rate or 1e9, load.partitions)
    )
    together = (
        transactions.size(load.transaction_records, shape.block, load.partitions, rate) if arm.transactional_id else 0
    )
    spec = ProducerSpec(
        folder=str(folder),
        connection=dict(connection),
        settings=_settings(arm, number),
        topic=arm.topic_name,
        run_token=scenario.run_token,
        arm=arm.ordinal,
        producer=number,
        session=0,
        records=records,
        rate=rate,
        block=shape.block,
        partitions=load.partitions,
        payload_bytes=load.payload_bytes,
        deadline_s=load.deadline_s,
        scripted=load.pacing == "scripted",
        abort_every=load.abort_every,
        transaction_records=together,
    )
    control = Control(folder)
    return ProducerProcess(arm, spec, _start(spec), control)


def _revive(member: ProducerProcess, life: int) -> None:
    member.spec = msgspec.structs.replace(member.spec, life=life)
    member.control[Word.STATE] = State.STARTING
    member.process = _start(member.spec)


def _start(spec: ProducerSpec) -> subprocess.Popen[bytes]:
    folder = Path(spec.folder)
    (folder / "spec.json").write_bytes(dumps(spec))
    with (folder / "stderr").open("wb") as stderr:
        return subprocess.Popen(
            [sys.executable, "-m", "delivery_verifier.load.producer", str(folder / "spec.json")],
            stdin=subprocess.DEVNULL,
            stdout=stderr,
            stderr=stderr,
            preexec_fn=dies_with_parent(),
        )


def _rate(load: Load, records: int, arm: Arm) -> float | None:
    """Records per second of one producer; None: flat out. `load.rate` is per arm, whatever its share."""
    if load.rate is not None:
        return load.rate / arm.producers
    return None if load.pacing == "flat_out" else max(records / load.duration_s, 1.0)
