"""The supervisor of the local Airflow. The supervisor runs the four processes of Airflow, and ends all four if one of
them ends.

The supervisor also keeps a Spark Connect server alive, unless the user has named another Spark."""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

import msgspec
from msgspec import Struct

from delivery_verifier.cluster import workspaces
from delivery_verifier.host import folders, processes
from delivery_verifier.host.processes import ProcessId
from delivery_verifier.host.supervision.descendants import adopt_orphans
from delivery_verifier.host.waiting import pause
from delivery_verifier.local_airflow import logs, orphans, settings, spark_server, tree
from delivery_verifier.local_airflow.access import client_of
from delivery_verifier.local_airflow.spark_server import SparkServer
from delivery_verifier.orchestration.client import AirflowError, AirflowSilent

COMMANDS: dict[str, tuple[str, ...]] = {
    "api-server": ("api-server",),
    # The log servers of scheduler and triggerer would listen on all interfaces. No process needs them, because the
    # api-server reads the log files itself.
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
    "triggerer": ("triggerer", "--skip-serve-logs"),
}
"""The arguments of the command `airflow` for each of the four processes, by the name of the process."""
GRACE_S, STOP_WITHIN_S = 8.0, 20.0
"""Two times in seconds, counted from the moment at which the supervisor begins to stop. After GRACE_S, processes that
ignored SIGTERM get SIGKILL. After STOP_WITHIN_S, the supervisor no longer waits for processes to end."""
_log = logging.getLogger("kdv.supervisor")


class State(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The content of supervisor.json, which describes a running local Airflow.

    `started_at` is the time when the supervisor started, in seconds since the epoch. `runs` is the folder of the run
    directories. When the process `owner` ends, the local Airflow ends, too. If `owner` is None, the local Airflow does
    not depend on another process. `children` holds the four processes of Airflow (see COMMANDS), by name."""

    supervisor: ProcessId
    port: int
    started_at: float
    runs: str
    owner: ProcessId | None
    children: dict[str, ProcessId]

    @property
    def dead_children(self) -> list[str]:
        """Returns the names of the Airflow processes that have ended."""
        return [name for name, child in self.children.items() if not child.alive]


def state_file() -> Path:
    """Returns the file of the supervisor's State. The file exists as long as the processes of Airflow run.

    If the supervisor was killed, the file stays until the next `kdv up` or `kdv down`.
    """
    return settings.airflow_home() / "supervisor.json"


def read_state() -> State | None:
    """Returns the state of the living supervisor; None if no supervisor lives."""
    try:
        state = msgspec.json.decode(state_file().read_bytes(), type=State)
    except FileNotFoundError:
        return None
    return state if state.supervisor.alive else None


def why_it_ended() -> str | None:
    """Returns, as one clause, why the local Airflow has ended or is ending. Returns None while all processes of Airflow
    are alive."""
    if _reason_file().is_file():
        return _reason_file().read_text()
    state = read_state()
    if state is None:
        return "its supervisor was killed (no exit message)"
    return (
        f"its {' and '.join(state.dead_children)} died, see {settings.airflow_home()}/*.log"
        if state.dead_children
        else None
    )


def _reason_file() -> Path:
    """Returns the file in which a supervisor writes why it stops. The next supervisor removes the file."""
    return settings.airflow_home() / "stopped"


class Supervisor:
    """The parent of the four processes of Airflow. It starts and watches them, and ends them with all their
    descendants.

    If `owner` is not None, the supervisor ends all processes when the process `owner` ends. `spark` is the Spark
    Connect server, which is started anew if it ends. `spark` is None if this Airflow has no such server. If
    `ends_orphans`, the supervisor first ends the runs that were under way when Airflow last ended.
    """

    def __init__(self, port: int, owner: ProcessId | None, spark: SparkServer | None, ends_orphans: bool) -> None:
        self.port, self.owner, self.spark, self.ends_orphans = port, owner, spark, ends_orphans
        self.started_at = time.time()
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        self.asked_to_stop: str | None = None
        self.died: str | None = None

    def run(self) -> int:
        """Runs the four processes of Airflow until a signal asks the supervisor to stop, the owner has ended, or one of
        the four has died.

        If there are orphaned runs to end, starts the api-server alone, and the other three when these runs have ended.
        Ends all processes at last. Returns the exit code: 1 if one of the four died by itself, or if a process or an
        orphaned run could not be ended, else 0.
        """
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        adopt_orphans()
        _reason_file().unlink(missing_ok=True)
        try:
            why = self._end_orphans() if self.ends_orphans else None
            if not why:
                self._start(*COMMANDS)
            while not (why := why or self._why_to_stop()):
                if self.spark is not None:
                    self.spark.keep()
                pause(0.25)
            _reason_file().write_text(why)
        finally:
            has_survivors = self._stop()
        _log.info("stopped: %s", why)
        return 1 if has_survivors or self.died else 0

    def _start(self, *names: str) -> None:
        """Starts those of the four processes that are not running yet, and writes the state."""
        for name in names:
            if name not in self.children:
                self.children[name] = _start(name, COMMANDS[name])
        self._write_state()

    def _end_orphans(self) -> str | None:
        """Starts the api-server, waits until it answers, and ends the runs that were under way when Airflow last ended.
        Returns why the supervisor has to stop; None if it can go on."""
        self._start("api-server")
        client = client_of(settings.base_url(self.port))
        while not (why := self._why_to_stop()):
            try:
                orphans.end_all(client)
                return None
            except AirflowSilent:
                pause(0.25)  # it is still starting
            except AirflowError as error:
                remedy = f"to begin without earlier runs, remove {settings.airflow_home()}"
                self.died = f"{error}; {remedy}"
                return self.died
        return why

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.asked_to_stop = signal.Signals(number).name

    def _why_to_stop(self) -> str | None:
        """Returns why the supervisor has to stop, as one clause; None if the supervisor has to go on."""
        if self.asked_to_stop:
            return f"asked to stop by {self.asked_to_stop}"
        if self.owner and not self.owner.alive:
            return f"the process that owns it (pid {self.owner.pid}) is gone"
        return self._dead_child()

    def _dead_child(self) -> str | None:
        """Returns a clause that says which process of Airflow died, and how. Returns None if all are alive.

        Also reaps dead descendants that the supervisor has adopted, so that they do not stay as zombies.
        """
        ours = {child.pid: name for name, child in self.children.items()}
        while dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if name := ours.get(dead.si_pid):
                how = (
                    f"killed by signal {dead.si_status}"
                    if dead.si_code == os.CLD_KILLED
                    else f"exit code {dead.si_status}"
                )
                self.died = f"its {name} died ({how}), see {logs.log_file(name)}"
                return self.died
            os.waitpid(dead.si_pid, os.WNOHANG)
        return None

    def _write_state(self) -> None:
        state = State(
            supervisor=processes.myself(),
            port=self.port,
            started_at=self.started_at,
            runs=str(folders.runs_dir()),
            owner=self.owner,
            children={name: _identity(child) for name, child in self.children.items()},
        )
        partial = state_file().with_suffix(".partial")
        partial.write_bytes(msgspec.json.encode(state))
        os.replace(partial, state_file())
        _log.info("started %s on port %d", ", ".join(self.children), self.port)

    def _stop(self) -> bool:
        """Ends all processes. Returns whether some processes have survived."""
        begun = time.monotonic()
        _log.info("stopping %d processes", len(tree.descendants()))
        survivors = tree.end_all(tree.descendants, GRACE_S, STOP_WITHIN_S)
        workspaces.sweep_unless_busy()  # a cluster agent that was killed has left its workspace
        state_file().unlink(missing_ok=True)
        _log.info("ended all in %.1f s; left: %s", time.monotonic() - begun, survivors or "none")
        return bool(survivors)


def _start(name: str, command: tuple[str, ...]) -> subprocess.Popen[bytes]:
    """Starts one process of Airflow. Raises FileNotFoundError if there is no command `airflow`."""
    program = shutil.which("airflow")
    if program is None:
        raise FileNotFoundError("the airflow command is not on PATH: is Airflow installed beside this Python?")
    with logs.log_file(name).open("ab") as log:
        return subprocess.Popen(
            [program, *command],
            cwd=settings.airflow_home(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=processes.dies_with_parent(signal.SIGTERM),
        )


def _identity(child: subprocess.Popen[bytes]) -> ProcessId:
    # The child has not been waited for yet. So /proc has an entry for the child even if the child has died.
    identity = processes.identify(child.pid)
    assert identity is not None, "a child that was not waited for has a /proc entry"
    return identity


def command(port: int, owner: ProcessId | None, spark_port: int | None, ends_orphans: bool) -> list[str]:
    """Returns the command that runs a supervisor. If `owner` is None, the local Airflow does not depend on another
    process. If `spark_port` is None, the local Airflow has no Spark Connect server. `ends_orphans`: see
    Supervisor."""
    words = [sys.executable, "-m", __name__, "--port", str(port)]
    words += [f"--owner={owner}"] if owner else []
    words += ["--end-orphans"] if ends_orphans else []
    return words + ([f"--spark-port={spark_port}"] if spark_port else [])


def main() -> int:
    """The entry point of the supervisor's process. Needs the environment variables that `settings.environment` returns.
    Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--owner", help="the process, as pid:started, without which this Airflow ends")
    parser.add_argument("--spark-port", type=int, help="the port of the Spark Connect server that is kept alive")
    parser.add_argument("--end-orphans", action="store_true", help="end the runs that Airflow left when it last ended")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    owner = ProcessId(*map(int, arguments.owner.split(":"))) if arguments.owner else None
    spark = SparkServer(arguments.spark_port, spark_server.start) if arguments.spark_port else None
    return Supervisor(arguments.port, owner, spark, arguments.end_orphans).run()


if __name__ == "__main__":
    sys.exit(main())
