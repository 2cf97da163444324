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

from delivery_verifier.cluster import lease, workspaces
from delivery_verifier.cluster import lock_owner as lock_owners
from delivery_verifier.cluster.layout import AGENT_SOCKET
from delivery_verifier.command_line import main as cli
from delivery_verifier.host.processes import myself, user_of
from delivery_verifier.maintenance import doctor, stop
from delivery_verifier.model.steps import StepName
from delivery_verifier.pipeline.steps.plan import plan_from_params


class Agent:
    """A cluster agent without brokers: it answers in a workspace, holds the host for a run, and notes what it is
    asked."""

    def __init__(self, folder: Path, owner: str | None) -> None:
        self.requests, self.answers = list[str](), True
        self.run = RunBuilder(RUN, **({"owner": owner} if owner else {})).at(folder / "nightly")
        self.workspace = workspaces.folder() / RUN.run_token
        self.workspace.mkdir(parents=True)
        (self.workspace / workspaces.AGENT_SPEC).touch()
        self.lock = lease.acquire_host("nightly", self.run.path)
        lease.hand_over(self.lock, self.workspace)
        self._listener = lease.listening(self.workspace / AGENT_SOCKET)
        self._listener.settimeout(0.05)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while self.answers:
            try:
                lease.answer(self._listener, self._carry_out, "agent")
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
def agent(host: Path) -> Iterator[Agent]:
    agent = Agent(host, str(myself()))
    yield agent
    agent.end()


def test_a_healthy_run_goes_on_beside_a_heal(agent: Agent, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--heal"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("healed nothing, and ended nothing: another run is using this host: run nightly (user ")
    assert agent.requests == [] and agent.workspace.is_dir() and lease.lock_owner() is not None


def test_a_heal_removes_what_nobody_owns(agent: Agent) -> None:
    agent.end()
    assert list(doctor.heal()) == [f"healed: removed {agent.workspace}"]


def test_who_comes_second_is_told_whose_run_it_is_and_never_to_heal(agent: Agent) -> None:
    with pytest.raises(lease.HostBusy) as busy:
        plan_from_params({"records": 20_000}, "second")
    told = str(busy.value)
    assert f"run nightly (user {user_of(os.getpid())}, pid {os.getpid()}, " in told and "terminal" in told
    assert "0 s ago" in told and "at step start_cluster for " in told and "heal" not in told
    assert told.endswith("Wait for it, or end it on purpose with `kdv stop nightly`")


def test_a_run_that_carries_load_says_how_long_its_plan_still_takes(agent: Agent) -> None:
    for step in ("start_cluster", "create_topics"):
        with agent.run.writing(step):
            pass
    planned_s = RUN.load.duration_s + RUN.load.recovery_s
    told = str(lease.lock_owner())
    assert f"at step produce, whose plan has about {planned_s:.0f} s to go" in told
    assert "longer than planned" in lock_owners._load_left(agent.run, 0)
    with agent.run.writing("produce"):
        pass
    assert "at step settle for 0 s" in str(lease.lock_owner())
    for step in ("settle", "read_topic"):
        with agent.run.writing(step):
            pass
    assert "reconciling, or stopping the cluster, for 0 s" in str(lease.lock_owner())


def test_a_run_without_an_owner_was_started_in_airflow(host: Path) -> None:
    agent = Agent(host, None)
    assert ", started in Airflow), since " in str(lease.lock_owner())
    agent.end()


def test_a_stop_ends_the_run_and_tells_it_why(agent: Agent, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["stop", "nightly", "--yes"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("run nightly (user ") and printed.endswith(
        "ended the cluster of run nightly: it gets no verdict\n"
    )
    assert agent.requests == ["finish"] and lease.lock_owner() is None
    with pytest.raises(lease.ClusterGone, match=r"^`kdv stop` ended the run on purpose \(user .*, pid "):
        lease.call(agent.workspace / AGENT_SOCKET, "renew")


@pytest.mark.parametrize(
    ("line", "refusal"),
    [
        (["stop"], "--yes is missing; allowed without a terminal"),
        (["stop", "another", "--yes"], "allowed: the run that uses this host, nightly"),
    ],
)
def test_a_stop_that_nobody_confirmed_or_that_means_another_run_ends_nothing(
    agent: Agent, capsys: pytest.CaptureFixture[str], line: list[str], refusal: str
) -> None:
    assert cli.main(line) == cli.BAD_INPUT
    assert refusal in capsys.readouterr().err
    assert agent.requests == [] and lease.lock_owner() is not None


def test_a_stop_that_is_declined_ends_nothing(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: "n")
    assert cli.main(["stop"]) == 1
    assert agent.requests == [] and lease.lock_owner() is not None


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
def test_a_stop_says_whether_a_verdict_may_still_come(agent: Agent, steps: list[StepName], outlook: str) -> None:
    for step in steps:
        with agent.run.writing(step):
            pass
    assert stop.end(stop.running("nightly")).endswith(outlook)


def test_a_stop_waits_for_an_agent_that_holds_the_lock_and_does_not_listen_yet(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster agent takes the lock, and only then its socket. The socket appears while the stop waits for it."""
    socket, waits = agent.workspace / AGENT_SOCKET, list[str]()
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
    assert agent.requests == ["finish"] and "the cluster agent to take requests" in waits


def test_an_agent_that_does_not_answer_is_not_killed_but_named(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop, "LISTENING_WITHIN_S", 0.1)
    lock_owner = lease.lock_owner()
    assert lock_owner is not None
    (agent.workspace / AGENT_SOCKET).unlink()
    with pytest.raises(RuntimeError, match=f"`kill -KILL {os.getpid()}` ends the cluster agent") as failed:
        stop.end(lock_owner)
    assert "(its cluster agent does not answer)" in str(failed.value) and "on purpose" not in str(failed.value)
    assert not (agent.workspace / lease.STOPPED).exists()
    assert lease.lock_owner() is not None


def test_whatever_a_stopped_run_fails_with_it_failed_because_it_was_stopped(agent: Agent) -> None:
    """The cluster agent kills the producers first, and a dead producer is seen before the cluster agent stops to
    answer."""
    (agent.workspace / lease.STOPPED).write_text("`kdv stop` ended the run on purpose (somebody)")
    with (
        pytest.raises(lease.ClusterGone, match=r"ended the run on purpose \(somebody\)"),
        lease.renewed(agent.workspace / AGENT_SOCKET),
    ):
        raise RuntimeError("producer ended with exit code -9")
