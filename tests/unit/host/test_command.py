"""A command line of somebody else's, as a real process: it ends in time or is ended, and what it prints has a bound."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from support.patience import PATIENCE_S

from delivery_verifier.host.processes import identify
from delivery_verifier.host.supervision import command
from delivery_verifier.host.supervision.command import Ended
from delivery_verifier.host.waiting import wait_until

ENVIRONMENT = {"PATH": os.environ["PATH"]}


def run(folder: Path, program: str, deadline_s: float = PATIENCE_S) -> Ended:
    return command.run([sys.executable, "-c", program], ENVIRONMENT, folder, deadline_s)


def test_a_command_that_ends_says_how_and_what_it_printed_on_both_streams(tmp_path: Path) -> None:
    ended = run(tmp_path, "import sys; print('out'); sys.stdout.flush(); print('err', file=sys.stderr); sys.exit(3)")
    assert (ended.exit_code, ended.output, ended.is_cut) == (3, b"out\nerr\n", False)


def test_it_gets_no_input_no_terminal_no_variable_of_ours_and_a_group_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KDV_SECRET_OF_OURS", "hush")
    ended = run(
        tmp_path,
        "import os, sys; print(repr(sys.stdin.read()), sorted(os.environ), os.getpid() == os.getpgrp() == os.getsid(0),"
        " os.getcwd())",
    )
    said = ended.output.decode()
    assert said.startswith("''") and "True" in said and str(tmp_path) in said and "KDV_" not in said
    assert "PATH" in said


def test_at_its_deadline_the_whole_group_is_ended_even_what_ignores_sigterm(tmp_path: Path) -> None:
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    program = (
        "import pathlib, subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', {stubborn!r}])\n"
        "pathlib.Path('child').write_text(str(child.pid)); print('begun', flush=True); time.sleep(600)"
    )
    ended = run(tmp_path, program, 2.0)
    assert ended.exit_code is None and ended.output == b"begun\n" and ended.took_s >= 2
    wait_until(lambda: identify(int((tmp_path / "child").read_text())) is None, "the child to end", PATIENCE_S)


@pytest.mark.slow
def test_an_endless_output_is_read_on_and_only_its_end_is_kept(tmp_path: Path) -> None:
    ended = run(tmp_path, "import sys\nfor n in range(200000): print('x' * 50)\nprint('the end')")
    assert ended.exit_code == 0 and ended.is_cut and len(ended.output) <= command.KEPT_BYTES
    assert ended.output.endswith(b"the end\n")
    ended = run(tmp_path, "while True: print('y' * 1000)", 1.0)
    assert ended.exit_code is None and ended.is_cut, "one that never stops printing is ended, too"


def test_a_server_that_a_command_leaves_behind_goes_on_and_delays_nothing(tmp_path: Path) -> None:
    program = (
        "import pathlib, subprocess, sys\n"
        "left = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
        "pathlib.Path('left').write_text(str(left.pid))"
    )
    began_s = time.monotonic()
    ended = run(tmp_path, program)
    left = identify(int((tmp_path / "left").read_text()))
    assert ended.exit_code == 0 and left is not None and left.alive and time.monotonic() - began_s < PATIENCE_S
    left.send(signal.SIGKILL)


def test_if_the_call_is_interrupted_the_command_is_ended(tmp_path: Path) -> None:
    pids = list[int]()

    def interrupted(pid: int) -> None:
        pids.append(pid)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        command.run([sys.executable, "-c", "import time; time.sleep(600)"], ENVIRONMENT, tmp_path, 600, interrupted)
    assert identify(pids[0]) is None


def test_a_program_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no-such-program"):
        command.run(["/no-such-program"], ENVIRONMENT, tmp_path, 1)
