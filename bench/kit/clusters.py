"""The cluster of a benchmark, and topics on it: three brokers on this host, as in every embedded run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from delivery_verifier import catalogue
from delivery_verifier.cluster import lease, topics
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.scenario import Arm, Load, Scenario
from delivery_verifier.pipeline.steps.start_cluster import start_cluster
from delivery_verifier.pipeline.steps.stop_cluster import stop_cluster
from delivery_verifier.run_directory.run_directory import RunDirectory


class Bench(NamedTuple):
    """A running cluster, its scenario, and a folder for files, which is gone afterwards."""

    cluster: Cluster
    scenario: Scenario
    folder: Path

    def topic(self, name: str, scenario: Scenario | None = None) -> Arm:
        """Makes a topic called `name` for the subject of `scenario` (or of the bench), and returns its arm."""
        scenario = scenario or self.scenario
        arm = msgspec.structs.replace(scenario.subjects[0], topic_name=name)
        topics.create(msgspec.structs.replace(scenario, arms=(arm,)), self.cluster.connection)
        wait_until(lambda: self.cluster.isr_full([name]), f"the topic {name}", 60)
        return arm


@contextmanager
def running(folder: Path, records: int, load: Load | None = None) -> Iterator[Bench]:
    """Starts a cluster for a flat-out load of `records` records by the profile `idempotent`. Ends it with the block."""
    scenario = catalogue.scenario(
        f"bench-{os.getpid()}",
        profile=catalogue.PROFILES["idempotent"],
        fault=catalogue.FAULTS["none"],
        load=load or Load(pacing="flat_out", deadline_s=3600),
        records=records,
    )
    run = RunDirectory(folder / scenario.run_id)
    run.path.mkdir()
    with run.writing("plan") as output:
        output.write_json("scenario.json", scenario)
    start_cluster(run.path)
    try:
        cluster = Cluster.of_run(run)
        with lease.renewed(cluster.socket):
            yield Bench(cluster, scenario, folder)
    finally:
        stop_cluster(run.path)
