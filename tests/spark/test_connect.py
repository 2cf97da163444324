"""Tests of a reconciliation on a Spark Connect server: the counts are those of a Spark of one's own, and no run is
poisoned by the one before. tests/e2e/test_airflow_runs.py kills the server itself in the middle of a run."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.connect import ISOLATION, Server, is_at_work, server
from support.live_runs import give_workspace
from support.mixed_runs import content
from support.patience import PATIENCE_S
from support.spark_progress import followed, require_progress

from delivery_verifier.host.waiting import wait_until
from delivery_verifier.local_airflow import settings, spark_server
from delivery_verifier.run_directory.run_directory import RunDirectory

Copy = Callable[[str], RunDirectory]


@pytest.fixture(scope="module")
def connected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server(tmp_path_factory.mktemp("home")) as started:
        yield started


def test_the_tally_are_those_of_a_spark_of_ones_own_and_progress_is_reported(
    connected: Server, copied: Copy, expected: dict[str, Any], tmp_path: Path
) -> None:
    run = copied("run")
    file = give_workspace(run, tmp_path / "w")
    with followed(run) as seen:
        said = connected.reconcile(run)
    require_progress(seen, "query")
    assert [*file.parent.iterdir()] == []
    assert content(run) == expected
    assert run.manifest("reconcile").notes["spark"] == "Spark Connect, local[*]"
    assert str(dict.fromkeys(ISOLATION, "false")) in said, "sessions share the code that Spark has compiled"


def test_a_run_that_is_killed_or_ended_in_the_middle_does_not_poison_the_next_one(
    connected: Server, copied: Copy, expected: dict[str, Any]
) -> None:
    run = copied("run")
    with connected.client(run) as client:
        wait_until(lambda: is_at_work(run), "the client is at work", PATIENCE_S, detail=connected.log)
        client.kill()
        client.wait()
    for partial in run.path.glob(".reconcile.*.partial"):
        shutil.rmtree(partial)
    with connected.client(run) as client:
        wait_until(lambda: is_at_work(run), "the client is at work", PATIENCE_S, detail=connected.log)
        client.terminate()  # its session ends
        said, _ = client.communicate(timeout=PATIENCE_S)
    assert client.returncode == 1, said
    assert not (run.path / "reconcile.json").exists()
    connected.reconcile(run)  # the same folder: whatever the server remembers of it would be used
    assert content(run) == expected
    assert len(connected.processes) == 1


def test_only_who_knows_the_token_may_use_the_server_and_no_command_nor_log_has_it(
    connected: Server, copied: Copy
) -> None:
    run = copied("run")
    with connected.client(run, token="guessed") as client:
        said, _ = client.communicate(timeout=PATIENCE_S)
    assert client.returncode == 1 and "Invalid authentication token" in said, said
    assert settings.spark_token() not in connected.log() + said
    parent = psutil.Process(connected.processes[-1].pid)
    (jvm,) = parent.children()
    assert spark_server.PLUGIN in " ".join(jvm.cmdline())
    assert settings.spark_token() not in " ".join(parent.cmdline() + jvm.cmdline())
    sockets = parent.net_connections("tcp") + jvm.net_connections("tcp")
    listening = {link.laddr.ip for link in sockets if link.status == psutil.CONN_LISTEN}
    assert {address.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}
    (file,) = Path(settings.airflow_home().parent / "secrets").glob("spark_token")
    assert file.stat().st_mode & 0o777 == 0o600
