"""The step inject_fault: carries out the fault plan while the load flows.

The step records each injection with the proof that the injection had an effect.
"""

from __future__ import annotations

from pathlib import Path

from delivery_verifier.applications.handle import RunningApplications
from delivery_verifier.cluster import lease
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.faults.runner import FaultRunner
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.load.handle import RunningLoad
from delivery_verifier.pipeline.signals import Signals
from delivery_verifier.progress.marks import Marks
from delivery_verifier.run_directory.run_directory import RunDirectory


def inject_fault(run_dir: Path) -> None:
    """Waits for the load to start, carries out the fault plan, heals the cluster, and writes injections.json.

    Raises ParallelStepFailed if the step produce, which sends the load, fails. Raises DeadlinePassed if the load does
    not start in time, if a cycle (one pass through the plan) cannot make its first injection in time, or if the cluster
    does not recover.
    """
    run = RunDirectory(run_dir)
    scenario = run.read_scenario()
    cluster = Cluster.of_run(run)
    signals = Signals(cluster.workspace)
    with signals.ending("inject_fault"), run.writing("inject_fault") as output, lease.renewed(cluster.socket):
        scenario.fail_if_asked("inject_fault")
        signals.begin("inject_fault")
        wait_until(lambda: signals.has_begun("produce"), "produce to start the load", scenario.load.deadline_s)

        load = RunningLoad(scenario, cluster.workspace)
        # `has_ended` raises ParallelStepFailed if the load has failed meanwhile.
        connection = cluster.load_connection.client_properties()
        applications = RunningApplications(scenario, cluster.workspace, connection)
        runner = FaultRunner(cluster, scenario, load, lambda: signals.has_ended("produce"), applications)
        runner.listener = Marks(cluster.workspace).add
        injections = runner.run()
        output.write_json("injections.json", list(injections))
        output.counts["injections"] = len(injections)
        output.counts["took_effect"] = sum(injection.took_effect for injection in injections)
