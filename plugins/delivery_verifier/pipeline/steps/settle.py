"""The step settle: waits until all replicas are in sync, writes the canary, takes the snapshot, and reads every replica
up to the snapshot's end. The room `settlement` does most of it.

The canary is a topic with known anomalies of every kind. A run is INCONCLUSIVE if it does not report exactly these
anomalies. The snapshot says where each partition ends.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from delivery_verifier import canary
from delivery_verifier.cluster import lease, topics
from delivery_verifier.cluster.backend import Shared
from delivery_verifier.cluster.backends import backend_of
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.observer import OBSERVATIONS
from delivery_verifier.faults.actions import heal
from delivery_verifier.host.optional import optional
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.load.lossy_mock import send_and_forget
from delivery_verifier.model.history import Injection, Observation, read_injections
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.snapshot import Offsets
from delivery_verifier.run_directory.run_directory import RunDirectory, StepOutput
from delivery_verifier.settlement.acked_writer import AckedWriter
from delivery_verifier.settlement.applications import drain_applications
from delivery_verifier.settlement.canary_effects import apply_canary
from delivery_verifier.settlement.canary_records import plant_canary
from delivery_verifier.settlement.early_reading import EarlyReading
from delivery_verifier.settlement.group_log import write_group_log
from delivery_verifier.settlement.outputs import VisibleRecords
from delivery_verifier.settlement.sealing import seal_ledgers
from delivery_verifier.settlement.snapshot import DEADLINE_S, take_snapshot
from delivery_verifier.settlement.unreadable import with_unreadable

UNWATCHED_S = 30.0
"""How long the cluster agent may take to answer that its observer watches no topic any more, in seconds."""


def settle(run_dir: Path) -> None:
    """Ends all faults, waits until all replicas are in sync, writes the canary's records, takes the snapshot, lets the
    applications (if any) finish, and compares the replicas.

    The step writes these files:

    * the canary's ledgers
    * offsets.json: the snapshot. It also names the offsets that cannot be read, because bytes on the leader's disk have
      changed. If a partition was not searched completely for such offsets, a note in the step's manifest names it.
    * group log/: what the brokers keep of the groups of the applications, and of their output topics.
    * replicas.parquet. If a replica differs from its leader, or cannot be read, the verdict cannot be HELD.
    * observations.json: all that the cluster's observer saw (changes of leaders, of in-sync replicas and of brokers'
      processes), and the observer's own heartbeats.

    Raises TimeoutError if replicas stay out of sync or records still arrive, and StepFailed if the verifier's own
    records are not written as planned. Raises ProducerDied if the canary's producer process fails, MemberDied if a
    member of an application does, and ValueError if a topic's settings let brokers remove records.
    Raises StepFailed, too, if somebody else changed a topic of the run on a cluster that others use, too.
    """
    run = RunDirectory(run_dir)
    scenario = run.read_scenario()
    scenario.fail_if_asked("settle")
    run.require("produce", "inject_fault")
    cluster = Cluster.of_run(run)
    names = [*(arm.topic_name for arm in scenario.arms), *topics.output_topics(scenario)]
    with (
        run.writing("settle") as output,
        lease.renewed(cluster.socket),
        ThreadPoolExecutor(1, "lossy_mock") as pool,
    ):
        # This load has a broker of its own, so it runs beside what waits for the cluster.
        lossy_mock = pool.submit(send_and_forget, scenario, cluster.workspace / "canary", canary.FORGOTTEN)
        _end_faults(cluster, names, is_whole=not _unhealed(run, scenario))
        writer = AckedWriter(cluster.connection)
        layout, offsets = plant_canary(scenario, writer, output)
        early = EarlyReading(cluster)
        # What applications do takes minutes. An early reading would know nothing of the replicas after that.
        snapshot = take_snapshot(scenario, cluster, writer, None if scenario.applied else early.begin)
        seal_ledgers([lossy_mock.result()], output)
        connection, folder = cluster.load_connection.client_properties(), cluster.workspace / "canary-effects"
        apply_canary(scenario, layout, offsets, snapshot, folder, connection, output, VisibleRecords(cluster))
        drain_applications(scenario, cluster, snapshot, output)
        write_group_log(scenario, cluster, output, run.manifest("produce").started_at_us)
        _compare_replicas(cluster, snapshot, early, output)
        backend = backend_of(scenario.cluster)
        if isinstance(backend, Shared):
            backend.require_unchanged(scenario, cluster.workspace)
        output.write_json("observations.json", list(_observations(cluster)))
    # Nothing reads what would be observed from now on, and the reconciliation needs the processor.
    optional("the end of the observer's work", lambda: cluster.agent.watch([]), UNWATCHED_S)


def _compare_replicas(cluster: Cluster, snapshot: Offsets, early: EarlyReading, output: StepOutput) -> None:
    """Writes replicas.parquet, and offsets.json, which also names the offsets that cannot be read."""
    reading = early.result(snapshot.partitions)
    partitions, unseen = with_unreadable(cluster, snapshot.partitions, reading.table, reading.end_s)
    output.notes |= unseen
    output.counts |= {"replicas_ms": reading.took_ms, "replicas_early": int(reading.early)}
    output.write_table("replicas", reading.table)
    output.write_json("offsets.json", msgspec.structs.replace(snapshot, partitions=partitions))


def _unhealed(run: RunDirectory, scenario: Scenario) -> list[Injection]:
    """Returns the injections after which the commands of an operator have not brought all brokers back."""
    external = scenario.cluster.external
    if external is None or external.commands is None:
        return []
    injections = read_injections(run.sealed("inject_fault", "injections.json"))
    return [each for each in injections if each.recovered_at_us is None]


def _end_faults(cluster: Cluster, names: list[str], *, is_whole: bool) -> None:
    """Ends all faults, and waits until all replicas of the topics `names` are in sync. If the cluster is not whole
    (`is_whole`), because nobody can start its brokers again, waits only for a leader of each partition: the evidence is
    then judged all the same, and nothing is HELD. Raises TimeoutError if they stay out of sync, and ValueError if a
    topic's settings let brokers remove records."""
    heal(cluster)
    wait_until(
        lambda: cluster.isr_full(names) if is_whole else cluster.are_led(names),
        "all replicas to be in sync before the snapshot" if is_whole else "every partition to have a leader",
        DEADLINE_S,
        detail=lambda: cluster.out_of_sync(names),
    )
    topics.check_whole_log(cluster.connection, names)


def _observations(cluster: Cluster) -> list[Observation]:
    """Returns everything that the cluster's observer has recorded so far, in the order in which the observer saw it."""
    lines = (cluster.workspace / OBSERVATIONS).read_bytes()
    written = lines[: lines.rfind(b"\n") + 1]  # the observer may be writing the next line
    return msgspec.json.Decoder(Observation).decode_lines(written)
