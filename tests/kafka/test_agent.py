"""Tests of the cluster agent, the parent process of the brokers. Nothing of a cluster outlives its run, however the run
ends. Only one run at a time uses the host."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from support.kept_clusters import Kept
from support.own_host import GONE_WITHIN_S
from support.patience import PATIENCE_S
from support.renewals import Renewals

from delivery_verifier.cluster import lease
from delivery_verifier.host.processes import identify
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.maintenance import doctor, stop

Keep = Callable[..., Kept]


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing and incarnations until it is killed."""
    process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    yield process
    process.kill()
    process.wait()


def test_an_agent_that_is_told_to_finish_ends_with_its_brokers_and_its_workspace(keep: Keep) -> None:
    kept = keep().answers()
    assert len(kept.brokers) == 2
    lease.call(kept.socket, "finish")
    assert "cluster agent: finished" in kept.is_gone()
    assert not kept.workspace.exists()
    assert lease.lock_owner() is None


def test_a_workspace_that_is_to_be_kept_is_kept_and_its_brokers_end(keep: Keep) -> None:
    kept = keep().answers()
    lease.call(kept.socket, "finish", keep_workspace=True)
    kept.is_gone()
    assert (kept.workspace / "data/1").is_dir()


def test_a_cluster_whose_lease_nobody_renews_ends(keep: Keep) -> None:
    kept = keep(lease_s=600).answers()
    kept.pass_time(601)
    assert "nobody renewed the lease for 600 s" in kept.is_gone()
    assert not kept.workspace.exists()


def test_a_renewed_lease_keeps_the_cluster_alive_beyond_it(keep: Keep, renewals: Renewals) -> None:
    kept = keep(lease_s=600).answers()
    with lease.renewed(kept.socket) as gone:
        for _ in range(3):  # two leases pass
            kept.pass_time(400)
            renewals.wait_for_another(kept)
        assert not gone.is_set() and kept.process.poll() is None
    renewals.wait_for_the_last()
    kept.pass_time(601)
    assert "nobody renewed" in kept.is_gone()


def test_a_cluster_ends_with_the_process_that_owns_its_run(keep: Keep, sleeper: subprocess.Popen[bytes]) -> None:
    kept = keep(owner=identify(sleeper.pid)).answers()
    with lease.renewed(kept.socket) as gone:
        sleeper.kill()
        assert f"the process that owns the run (pid {sleeper.pid}) is gone" in kept.is_gone()
        wait_until(gone.is_set, "whoever renews the lease to see it", GONE_WITHIN_S)
    assert not kept.workspace.exists()


def test_a_cluster_ends_at_its_deadline_though_the_lease_is_renewed(keep: Keep, renewals: Renewals) -> None:
    kept = keep(deadline_s=600, lease_s=400).answers()
    with lease.renewed(kept.socket):
        kept.pass_time(301)
        renewals.wait_for_another(kept)
        kept.pass_time(301)
        assert "deadline passed" in kept.is_gone()
    assert not kept.workspace.exists()


def test_no_broker_survives_an_agent_that_is_killed(keep: Keep) -> None:
    kept = keep().answers()
    assert len(kept.brokers) == 2
    kept.process.kill()
    kept.is_gone()
    assert lease.lock_owner() is None
    with pytest.raises(lease.ClusterGone):
        lease.call(kept.socket, "status")


def test_a_frozen_broker_does_not_survive_an_agent_that_is_killed(keep: Keep) -> None:
    kept = keep().answers()
    lease.call(kept.socket, "apply", means="process", nodes=[1], options={"signal": "SIGSTOP"})
    kept.process.kill()
    kept.is_gone()


def test_an_agent_cleans_up_when_it_is_asked_to_terminate(keep: Keep) -> None:
    kept = keep().answers()
    os.kill(kept.process.pid, signal.SIGTERM)
    assert "signal SIGTERM" in kept.is_gone()
    assert not kept.workspace.exists()


def test_adopted_processes_end_with_the_cluster(keep: Keep, sleeper: subprocess.Popen[bytes]) -> None:
    kept = keep().answers()
    lease.call(kept.socket, "adopt", pid=sleeper.pid)
    lease.call(kept.socket, "finish")
    kept.is_gone()
    assert sleeper.wait(timeout=10) == -signal.SIGKILL


def test_the_host_has_one_run_at_a_time_and_its_lock_names_the_lock_owner(keep: Keep) -> None:
    first = keep().answers()
    lock_owner = lease.lock_owner()
    assert lock_owner is not None and (lock_owner.name, lock_owner.process.pid) == (first.name, first.process.pid)
    second = keep()
    assert second.process.wait(PATIENCE_S) != 0
    log = second.log.read_text()
    assert f"another run is using this host: run {first.name} (user " in log and f"pid {first.process.pid})" in log
    assert first.process.poll() is None and len(first.brokers) == 2


def test_a_heal_beside_a_healthy_run_ends_nothing_and_a_stop_ends_it_in_an_orderly_way(keep: Keep) -> None:
    kept = keep().answers()
    (line,) = doctor.heal()
    assert line.startswith(f"healed nothing, and ended nothing: another run is using this host: run {kept.name} (user ")
    with lease.renewed(kept.socket) as gone:
        assert not gone.is_set() and kept.process.poll() is None and len(kept.brokers) == 2
    assert stop.end(stop.running(kept.name)).startswith(f"ended the cluster of run {kept.name}: it gets no verdict")
    assert "cluster agent: finished" in kept.is_gone() and lease.lock_owner() is None
    with pytest.raises(lease.ClusterGone, match=r"^`kdv stop` ended the run on purpose"):
        lease.call(kept.socket, "status")


def test_an_agent_refuses_what_it_cannot_do_and_goes_on(keep: Keep) -> None:
    kept = keep().answers()
    with pytest.raises(RuntimeError, match="this backend has no means fire"):
        lease.call(kept.socket, "apply", means="fire", nodes=[1])
    with pytest.raises(RuntimeError, match="unknown operation"):
        lease.call(kept.socket, "clean_up")
    lease.call(kept.socket, "apply", means="process", nodes=[1], options={"signal": "SIGKILL"})
    status: Callable[[], str] = lambda: str(lease.call(kept.socket, "status")["nodes"]["1"]["state"])  # noqa: E731
    wait_until(lambda: status() == "exited", "the broker to be gone", PATIENCE_S)
    with pytest.raises(RuntimeError, match="broker 1 is not running"):
        lease.call(kept.socket, "apply", means="process", nodes=[1], options={"signal": "SIGCONT"})


def test_no_proxy_survives_an_agent_that_is_killed(keep: Keep) -> None:
    kept = keep(capabilities=("proxy",)).answers()
    assert [line for line in kept.brokers.values() if "cluster.proxy.server" in line]
    kept.process.kill()
    kept.is_gone()


def test_a_proxy_that_ends_by_no_plan_ends_the_cluster(keep: Keep) -> None:
    kept = keep(capabilities=("proxy",)).answers()
    os.kill(lease.call(kept.socket, "status")["proxy"], signal.SIGKILL)
    assert "the proxy exited unexpectedly with exit code -9 (killed by SIGKILL)" in kept.is_gone()
    assert not kept.workspace.exists()
