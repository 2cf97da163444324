"""Tests of processes: what a kill takes with it."""

from __future__ import annotations

import subprocess

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
    wait_until(lambda: not child.alive, "the child to end", 10)
    identity.kill()  # nothing is left to kill


def test_a_process_in_the_group_of_others_is_killed_alone() -> None:
    process = subprocess.Popen(["sleep", "600"])
    identity = identify(process.pid)
    assert identity is not None
    identity.kill()
    assert process.wait() == -9
