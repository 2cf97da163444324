"""Child processes: how a child of this project is started, and how several are ended at the same moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from delivery_verifier.host import private_files
from delivery_verifier.host.processes import dies_with_parent
from delivery_verifier.host.waiting import wait_until

SPEC, OUTPUT = "spec.json", "stderr"
"""The files in the folder of a child: its inputs, and all that it prints."""

Child = subprocess.Popen[bytes]


def start_module(module: str, spec: bytes, folder: Path, environment: Path | None = None) -> Child:
    """Starts `python -m module FILE`, where FILE in `folder` holds `spec`. The child dies with the thread that called
    this function. The folder must exist. The packages in `environment`, a folder, come before those that are installed.
    """
    variables = dict(os.environ)
    if environment is not None:
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, (str(environment), variables.get("PYTHONPATH"))))
    private_files.write(folder / SPEC, spec)  # a client's properties may hold a password
    with (folder / OUTPUT).open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", module, str(folder / SPEC)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=variables,
            preexec_fn=dies_with_parent(),
        )


def running(children: Iterable[Child]) -> list[Child]:
    """Returns those of `children` that have not ended."""
    return [child for child in children if child.poll() is None]


def send(children: Iterable[Child], number: signal.Signals) -> None:
    """Sends the signal `number` to those of `children` that have not ended, at the same moment."""
    for child in running(children):
        child.send_signal(number)


def kill(children: Sequence[Child]) -> None:
    """Sends SIGKILL to `children`, and waits until all have ended."""
    send(children, signal.SIGKILL)
    for child in children:
        child.wait()


def terminate(children: Sequence[Child], what: str, deadline_s: float, detail: Callable[[], str]) -> None:
    """Sends SIGTERM to `children`, and waits until all have ended. `what` and `detail` describe the wait in messages.

    Raises DeadlinePassed if a child has not ended after `deadline_s` seconds.
    """
    send(children, signal.SIGTERM)
    wait_until(lambda: not running(children), what, deadline_s, every_s=0.005, detail=detail)


def last_words(folder: Path, most: int) -> str:
    """Returns the last lines that the child in `folder` has printed, in at most `most` characters. The text begins at
    the beginning of a line."""
    *_, last = lines = (folder / OUTPUT).read_text(errors="replace").strip().split("\n")
    text = "\n".join(lines)[-most - 1 :]
    return text.partition("\n")[2] or last[:most] if len(text) > most else text
