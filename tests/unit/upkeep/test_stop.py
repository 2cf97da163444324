"""A run of anyone goes on beside `kdv doctor --heal`, says whose it is, and ends only on purpose."""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.evidence import RUN
from support.patience import PATIENCE_S
from support.run_builder import RunBuilder

from delivery_verifier.cluster import holder as holders
from delivery_verifier.cluster import lease, workspaces
from delivery_verifier.cluster.layout import KEEPER_SOCKET
from delivery_verifier.command_line import main as cli
from delivery_verifier.host.processes import myself, user_of
from delivery_verifier.model.steps import StepName
from delivery_verifier.run.steps.plan import plan_from_params
from delivery_verifier.upkeep import doctor, stop


class Keeper:
    """A keeper without brokers: it answers in a workspace, holds the host for a run, and notes what it is asked."""

    def __init__(self, folder: Path, owner: str | None) -> None:
        self.requests, self.answers = list[str](), True
        self.run = RunBuilder(RUN, **({"owner": owner} if owner else {})).at(folder / "nightly")
        self.workspace = workspaces.folder() / RUN.run_token
        self.workspace.mkdir(parents=True)
        (self.workspace / workspaces.KEEPER_SPEC).touch()
        self.lock = lease.acquire_host("nightly", self.run.path)
        lease.hand_over(self.lock, self.workspace)
        self._listener = lease.listening(self.workspace / KEEPER_SOCKET)
        self._listener.settimeout(0.05)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while self.answers:
            try:
                lease.answer(self._listener, self._carry_out, "keeper")
            except TimeoutError:
                continue
        self._listener.close()
        self.lock.close()

    def _carry_out(self, operation: str, arguments: Mapping[str, Any]) -> object:
        self.requests.append(operation)
        self.answers = operation != "finish"
        return {"pid": os.getpid()} if operation == "status" else None

    def end(self) -> None:
        self.answers = False
        self._thread.join(PATIENCE_S)


@pytest.fixture(autouse=True)
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KDV_WORKSPACES", str(tmp_path / "ws"))
    monkeypatch.setenv("KDV_LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr(lease, "PATIENCE_S", 0.1)
    monkeypatch.setattr(doctor, "examine", list)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    return tmp_path


@pytest.fixture
def keeper(host: Path) -> Iterator[Keeper]:
    keeper = Keeper(host, str(myself()))
    yield keeper
    keeper.end()


def test_a_healthy_run_goes_on_beside_a_heal(keeper: Keeper, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--heal"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("healed nothing, and ended nothing: another run is using this host: run nightly (user ")
    assert keeper.requests == [] and keeper.workspace.is_dir() and lease.holder() is not None


def test_a_heal_removes_what_nobody_owns(keeper: Keeper) -> None:
    keeper.end()
    assert list(doctor.heal()) == [f"healed: removed {keeper.workspace}"]


def test_who_comes_second_is_told_whose_run_it_is_and_never_to_heal(keeper: Keeper) -> None:
    with pytest.raises(lease.HostBusy) as busy:
        plan_from_params({"records": 20_000}, "second")
    told = str(busy.value)
    assert f"run nightly (user {user_of(os.getpid())}, pid {os.getpid()}, " in told and "terminal" in told
    assert "0 s ago" in told and "at step start_cluster for " in told and "heal" not in told
    assert told.endswith("Wait for it, or end it on purpose with `kdv stop nightly`")


def test_a_run_that_carries_load_says_how_long_its_plan_still_takes(keeper: Keeper) -> None:
    for step in ("start_cluster", "create_topics"):
        with keeper.run.writing(step):
            pass
    planned_s = RUN.load.duration_s + RUN.load.recovery_s
    told = str(lease.holder())
    assert f"at step produce, whose plan has about {planned_s:.0f} s to go" in told
    assert "longer than planned" in holders._load_left(keeper.run, 0)
    with keeper.run.writing("produce"):
        pass
    assert "at step settle for 0 s" in str(lease.holder())
    for step in ("settle", "read_topic"):
        with keeper.run.writing(step):
            pass
    assert "reconciling, or stopping the cluster, for 0 s" in str(lease.holder())


def test_a_run_without_an_owner_was_started_in_airflow(host: Path) -> None:
    keeper = Keeper(host, None)
    assert ", started in Airflow), since " in str(lease.holder())
    keeper.end()


def test_a_stop_ends_the_run_and_tells_it_why(keeper: Keeper, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["stop", "nightly", "--yes"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("run nightly (user ") and printed.endswith(
        "ended the cluster of run nightly: it gets no verdict\n"
    )
    assert keeper.requests == ["finish"] and lease.holder() is None
    with pytest.raises(lease.ClusterGone, match=r"^`kdv stop` ended the run on purpose \(user .*, pid "):
        lease.call(keeper.workspace / KEEPER_SOCKET, "renew")


@pytest.mark.parametrize(
    ("line", "refusal"),
    [
        (["stop"], "--yes is missing; allowed without a terminal"),
        (["stop", "another", "--yes"], "allowed: the run that uses this host, nightly"),
    ],
)
def test_a_stop_that_nobody_confirmed_or_that_means_another_run_ends_nothing(
    keeper: Keeper, capsys: pytest.CaptureFixture[str], line: list[str], refusal: str
) -> None:
    assert cli.main(line) == cli.BAD_INPUT
    assert refusal in capsys.readouterr().err
    assert keeper.requests == [] and lease.holder() is not None


def test_a_stop_that_is_declined_ends_nothing(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: "n")
    assert cli.main(["stop"]) == 1
    assert keeper.requests == [] and lease.holder() is not None


def test_where_no_run_uses_the_host_there_is_nothing_to_stop(capsys: pytest.CaptureFixture[str]) -> None:
    with lease.acquire_host("kdv doctor --heal"):
        assert cli.main(["stop", "--yes"]) == cli.BAD_INPUT
        with pytest.raises(lease.HostBusy, match="this host is in use: kdv doctor --heal") as busy:
            lease.acquire_host("next")
    assert "kdv stop" not in str(busy.value)
    assert "no run uses this host" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("steps", "outlook"),
    [
        (["produce"], ": it gets no verdict"),
        (["produce", "settle"], ": it gets no verdict, unless it had just read the last of its topics"),
        (["settle", "read_topic"], ": its topics had been read already, so it goes on to its verdict"),
    ],
)
def test_a_stop_says_whether_a_verdict_may_still_come(keeper: Keeper, steps: list[StepName], outlook: str) -> None:
    for step in steps:
        with keeper.run.writing(step):
            pass
    assert stop.end(stop.running("nightly")).endswith(outlook)


def test_a_stop_waits_for_a_keeper_that_holds_the_lock_and_does_not_listen_yet(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A keeper takes the lock, and only then its socket. The socket appears while the stop waits for it."""
    socket, waits = keeper.workspace / KEEPER_SOCKET, list[str]()
    later = socket.rename(socket.with_suffix(".later"))
    wait_until = stop.wait_until

    def listening_meanwhile(predicate: Any, what: str, deadline_s: float) -> Any:
        waits.append(what)
        if "requests" in what:
            assert not predicate(), "nobody listens yet"
            later.rename(socket)
        return wait_until(predicate, what, deadline_s)

    monkeypatch.setattr(stop, "wait_until", listening_meanwhile)
    assert stop.end(stop.running("nightly")).startswith("ended the cluster of run nightly")
    assert keeper.requests == ["finish"] and "the keeper to take requests" in waits


def test_a_keeper_that_does_not_answer_is_not_killed_but_named(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop, "LISTENING_WITHIN_S", 0.1)
    holder = lease.holder()
    assert holder is not None
    (keeper.workspace / KEEPER_SOCKET).unlink()
    with pytest.raises(RuntimeError, match=f"`kill -KILL {os.getpid()}` ends the keeper") as failed:
        stop.end(holder)
    assert "(its keeper does not answer)" in str(failed.value) and "on purpose" not in str(failed.value)
    assert not (keeper.workspace / lease.STOPPED).exists()
    assert lease.holder() is not None


def test_whatever_a_stopped_run_fails_with_it_failed_because_it_was_stopped(keeper: Keeper) -> None:
    """The keeper kills the producers first, and a dead producer is seen before the keeper stops to answer."""
    (keeper.workspace / lease.STOPPED).write_text("`kdv stop` ended the run on purpose (somebody)")
    with (
        pytest.raises(lease.ClusterGone, match=r"ended the run on purpose \(somebody\)"),
        lease.renewed(keeper.workspace / KEEPER_SOCKET),
    ):
        raise RuntimeError("producer ended with exit code -9")
