"""The process of a member: its exit code says how its work has ended."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.patience import PATIENCE_S

from delivery_verifier.applications.incarnations import FENCED
from delivery_verifier.applications.spec import MemberSpec
from delivery_verifier.model.data import dumps

PROGRAM = """
import atexit, os, signal, sys
from types import SimpleNamespace
from confluent_kafka import KafkaError, KafkaException
from delivery_verifier.applications import process

class Late:
    '''An object that outlives the handlers of Python, and then sends SIGTERM to its process.'''
    def __init__(self):
        self.kill, self.pid = os.kill, os.getpid()
    def __del__(self):
        self.kill(self.pid, 15)

class Member:
    journal = SimpleNamespace(note=lambda *_, **more: None)
    def stop(self): ...
    def run(self):
        if OUTCOME:
            raise KafkaException(KafkaError(OUTCOME))

OUTCOME = int(sys.argv.pop())
process.MEMBERS["transform"] = lambda spec, client: Member()
code = process.main()
sys.late = Late()
sys.exit(code)
"""


@pytest.mark.parametrize(("outcome", "code"), [(0, 0), (-144, FENCED)], ids=["stopped", "fenced"])
def test_a_sigterm_while_the_process_ends_does_not_hide_its_exit_code(tmp_path: Path, outcome: int, code: int) -> None:
    spec = MemberSpec(
        folder=str(tmp_path),
        incarnation=0,
        connection={"bootstrap.servers": "127.0.0.1:1"},
        settings={"group.id": "group"},
        topic="topic",
        run_token="token",
        arm=1,
        discipline="transform",
        batch=10,
        producer={},
    )
    (tmp_path / "spec.json").write_bytes(dumps(spec))
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "spec.json"), str(outcome)]
    assert subprocess.run(command, check=False, timeout=PATIENCE_S).returncode == code != -signal.SIGTERM
