"""Tests of processes: what a kill takes with it."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.patience import PATIENCE_S

from delivery_verifier.host import processes
from delivery_verifier.host.processes import identify
from delivery_verifier.host.waiting import wait_until


def test_a_killed_leader_of_a_process_group_takes_its_group_with_it() -> None:
    command = ["sh", "-c", "sleep 600 & echo $!; wait"]
    leader = subprocess.Popen(command, stdout=subprocess.PIPE, process_group=0)
    assert leader.stdout is not None
    child = identify(int(leader.stdout.readline()))
    identity = identify(leader.pid)
    assert identity is not None and child is not None
    identity.kill()
    leader.wait()
    leader.stdout.close()
    wait_until(lambda: not child.alive, "the child to end", PATIENCE_S)
    identity.kill()  # nothing is left to kill


def test_a_process_in_the_group_of_others_is_killed_alone() -> None:
    process = subprocess.Popen(["sleep", "600"])
    identity = identify(process.pid)
    assert identity is not None
    identity.kill()
    assert process.wait() == -9


def test_of_a_process_that_runs_only_one_thread_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster agent asks about each broker 20 times a second, and a broker has about 80 threads."""
    looked_at: list[str] = []

    def is_stopped(pid: int, thread: str) -> bool:
        looked_at.append(thread)
        return real(pid, thread)

    real = processes._is_stopped
    monkeypatch.setattr(processes, "_is_stopped", is_stopped)
    with ThreadPoolExecutor(3) as pool:
        pool.submit(str).result()
        assert len(os.listdir(f"/proc/{os.getpid()}/task")) > 1
        assert not processes.is_frozen(os.getpid())
    assert len(looked_at) == 1
