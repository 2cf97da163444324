"""The pool of producers: all producer processes of a run. The pool starts the processes together, and notices if a
process dies."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from delivery_verifier.host.java.jvm import await_end
from delivery_verifier.host.librdkafka import wheels
from delivery_verifier.host.supervision import children
from delivery_verifier.host.supervision.control_block import carry_out
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.load import layout, transactions
from delivery_verifier.load.client_errors import errors_reported
from delivery_verifier.load.error_codes import error_name
from delivery_verifier.load.java.client import require_java
from delivery_verifier.load.live_ledger import Control, Gate, State, Word
from delivery_verifier.load.producer_process import ProducerProcess, start_process
from delivery_verifier.load.spec import ProducerSpec
from delivery_verifier.model.client import Client
from delivery_verifier.model.data import Setting
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.scenario import Arm, Scenario

Connections = Mapping[Client, Mapping[str, str]]
TERMINATION_S = 25.0
"""How long a producer may take to end on SIGTERM, in seconds: longer than its flush() (see `producer.GRACE_S`), and
shorter than the fault plan waits (see `handle.HANDOVER_DEADLINE_S`)."""


class AlreadySent(VerifierError, RuntimeError):
    """The load of this run was begun before.

    The records of a second load would have the same numbers as the records of the first load. So all of them would be
    DUPLICATED.
    """


class ProducerPool:
    """All producers of a run. A new pool starts their processes.

    `connections` has, for each client of the arms, its properties for reaching the cluster. The live ledgers are
    written to the folder `live` below `workspace`. A run has only one load. So raises AlreadySent if there was a pool
    for this run before. Raises what `require_client` raises, before it starts a process.
    """

    def __init__(self, scenario: Scenario, connections: Connections, workspace: Path) -> None:
        if (workspace / "live").exists():
            raise AlreadySent(f"run {scenario.run_id} has sent its load already: start another run")
        specs = [
            (arm, _spec(scenario, arm, number, connections[arm.client], workspace / "live" / arm.name / str(number)))
            for arm in scenario.loaded
            for number in range(arm.producers)
        ]
        for _, spec in specs:
            require_client(spec)
        self.producers = [_process(arm, spec) for arm, spec in specs]
        self._deadline_s = scenario.load.deadline_s

    def open(self, gate: Gate) -> None:
        """Opens `gate` for all producers at the same time. `Gate` says how far a producer may then go."""
        for producer in self.producers:
            producer.control[Word.GATE] = gate

    def wait_for(self, state: State, deadline_s: float | None = None) -> None:
        """Waits until every producer has reached `state`. Raises ProducerDied and DeadlinePassed. `deadline_s` is in
        seconds. None means the deadline that the scenario sets for the load."""
        wait_until(
            lambda: self.check() and all(producer.control[Word.STATE] >= state for producer in self.producers),
            f"all producers to be {state.name}",
            deadline_s or self._deadline_s,
            detail=lambda: "; ".join(_how_far(p) for p in self.producers if p.control[Word.STATE] < state),
        )

    def check(self) -> bool:
        """Raises ProducerDied if a producer's process has ended and the run may not go on (see
        `ProducerProcess.may_end`). Otherwise returns True."""
        for producer in self.producers:
            code = producer.process.poll()
            if code is not None and not producer.may_end(code):
                raise producer.died(code)
        return True

    def errors(self) -> str:
        """Returns in words which errors the clients have reported so far, e.g. `safe/0/0: 30 x MSG_SIZE_TOO_LARGE`."""
        texts = []
        for producer in self.producers:
            errors = errors_reported(producer.folder, producer.control[Word.ANNOUNCED])
            texts += [f"{producer.name}: {count} x {error_name(code)}" for code, count in errors.most_common()]
        return "; ".join(texts)

    def apply_commands(self, adopt: Callable[[int], None]) -> None:
        """Carries out the latest command of the fault plan, once the control blocks of all producers hold the command.

        To end the producers, sends the signal that the fault plan asks for to all producers at once, and waits until
        all have ended. For a start, gives a new process to every producer that the fault plan had ended. Calls `adopt`
        with the pid of each new process, so that the process ends with the cluster. Raises DeadlinePassed if a producer
        does not end on SIGTERM.
        """

        def start_again() -> None:
            for producer in self.producers:
                if producer.ended_by_plan:
                    _start_again(producer)
                    adopt(producer.process.pid)

        carry_out(
            [producer.control for producer in self.producers],
            ((Word.KILLS, Word.KILLS_DONE, self._end_by_plan), (Word.STARTS, Word.STARTS_DONE, start_again)),
        )

    def _end_by_plan(self) -> None:
        if self.producers[0].control[Word.SIGNAL] == signal.SIGTERM:
            self.terminate()
        else:
            self.kill()

    def kill(self) -> None:
        """Sends SIGKILL to all producers. Waits until all have ended, and writes each exit code to Word.EXIT."""
        children.kill([producer.process for producer in self.producers])
        self._note_exits()

    def terminate(self) -> None:
        """Sends SIGTERM to all producers. Waits until all have ended, and writes each exit code to Word.EXIT. Raises
        DeadlinePassed if one has not ended after TERMINATION_S."""
        children.terminate(
            [producer.process for producer in self.producers],
            "all producers to end on SIGTERM",
            TERMINATION_S,
            lambda: "; ".join(_how_far(each) for each in self.producers if each.process.poll() is None),
        )
        self._note_exits()

    def _note_exits(self) -> None:
        for producer in self.producers:
            await_end(producer.folder)  # a JVM ends with its producer process, but a moment later
            producer.control[Word.EXIT] = producer.process.returncode


def _how_far(producer: ProducerProcess) -> str:
    """Returns in words how far a producer has come, and what it said last."""
    said = f", and said last: {producer.said_last}" if producer.said_last else ""
    return f"{producer.name} is {State(producer.control[Word.STATE]).name}{said}"


def _settings(arm: Arm, number: int) -> dict[str, Setting]:
    """Returns the settings of the arm's producer with the number `number`.

    Every producer has a client.id of its own. If the arm has a transactional.id, every producer has a transactional.id
    of its own, too. Brokers and the proxy distinguish producers by these ids.
    """
    settings: dict[str, Setting] = {"client.id": f"{arm.name}-{number}", **arm.profile.producer}
    if arm.transactional_id:
        settings["transactional.id"] = arm.transactional_ids[number]
    return settings


def _spec(scenario: Scenario, arm: Arm, number: int, connection: Mapping[str, str], folder: Path) -> ProducerSpec:
    """Returns the specification of producer `number` of `arm`, with its live ledger in `folder`."""
    load = scenario.load
    rate, laid_out = layout.rate_of_producer(load, arm), layout.of_arm(load, arm, scenario.fault)
    block = laid_out.block
    transaction_records = 0
    if arm.transactional_id:
        steady = None if load.pacing == "scripted" else rate
        transaction_records = transactions.size(load.transaction_records, block, load.partitions, steady)
    return ProducerSpec(
        folder=str(folder),
        connection=dict(connection),
        settings=_settings(arm, number),
        topic=arm.topic_name,
        run_token=scenario.run_token,
        arm=arm.ordinal,
        producer=number,
        session=0,
        records=layout.records_of_producer(arm),
        rate=rate,
        block=block,
        partitions=load.partitions,
        first_partitions=laid_out.first_partitions,
        first_rounds=laid_out.first_rounds,
        payload_bytes=load.payload_bytes,
        deadline_s=load.deadline_s,
        scripted=load.pacing == "scripted",
        abort_every=load.abort_every,
        transaction_records=transaction_records,
        on_sigterm=arm.on_sigterm,
        client=arm.client,
        client_version=arm.versioned_client.version,
        java_properties=arm.java_properties,
    )


def _process(arm: Arm, spec: ProducerSpec) -> ProducerProcess:
    control = Control(Path(spec.folder))
    return ProducerProcess(arm, spec, start_process(spec), control)


def require_client(spec: ProducerSpec) -> None:
    """Makes sure that the client of `spec` can be started on this host, with its settings. Fetches what it lacks.

    Raises JavaError if it needs Java and there is none, JarError or WheelError if its version cannot be had, and
    BadInput if it has no counterpart of a setting.
    """
    if spec.client == "java":
        require_java(spec)
    else:
        wheels.environment(spec.client_version)


def _start_again(producer: ProducerProcess) -> None:
    """Starts a new process for a producer that was ended. Its incarnation is the number of starts so far."""
    producer.spec = msgspec.structs.replace(producer.spec, incarnation=producer.control[Word.STARTS])
    producer.control[Word.STATE] = State.STARTING
    producer.process = start_process(producer.spec)
