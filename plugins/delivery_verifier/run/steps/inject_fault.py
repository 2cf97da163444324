"""inject_fault: runs the fault plan while the load flows, and writes down what was done to whom, with proof."""

from __future__ import annotations

from pathlib import Path

from delivery_verifier.cluster import lease
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.faults.runner import FaultRunner
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.load.handle import RunningLoad
from delivery_verifier.run.signals import Signals
from delivery_verifier.store.run_directory import RunDirectory


def inject_fault(run_dir: Path) -> None:
    """Waits for the load, runs the plan, heals. Raises OtherSideFailed if the load cannot start."""
    run = RunDirectory(run_dir)
    scenario = run.read_scenario()
    cluster = Cluster.of(run)
    signals = Signals(cluster.workspace)
    with signals.failing("fault"), run.writing("inject_fault") as output, lease.renewed(cluster.socket):
        scenario.fail_if_asked("inject_fault")
        signals.set("fault")
        wait_until(lambda: signals.is_set("load"), "produce to start the load", scenario.load.deadline_s)

        running_load = RunningLoad(scenario, cluster.workspace)
        # Looking at the other side raises if the load failed meanwhile.
        injections = FaultRunner(cluster, scenario, running_load, lambda: signals.is_done("load")).run()
        output.write_json("injections.json", list(injections))
        output.counts["injections"] = len(injections)
        output.counts["bit"] = sum(injection.bit for injection in injections)
