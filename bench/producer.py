"""Compares the speed of the sequenced load with Kafka's own ProducerPerformance on the same brokers. Also measures the
load's peak memory.

`python bench/producer.py [--records N] [--pairs K]` measures K pairs. Each pair is one run of this project's load and
one run of ProducerPerformance. The result is the ratio of each pair, and the median ratio. This project's load writes a
full ledger of every record. ProducerPerformance verifies nothing. Both use acks=all, idempotence, 100-byte records, 3
partitions, 3 replicas. Results go to stdout and, with --save, to bench/results/.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from delivery_verifier import catalogue
from delivery_verifier.cluster import lease, topics
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.host import machine
from delivery_verifier.host.java.jars import fetch
from delivery_verifier.host.java.runtime import java_home
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.load.live_ledger import Gate, State
from delivery_verifier.load.pool import ProducerPool
from delivery_verifier.load.publish_ledger import publish_ledger
from delivery_verifier.model.scenario import Load, Scenario
from delivery_verifier.planning.provenance import versions_of
from delivery_verifier.run.steps.start_cluster import start_cluster
from delivery_verifier.run.steps.stop_cluster import stop_cluster
from delivery_verifier.store.run_directory import RunDirectory


def main() -> int:
    """Measures the pairs. Prints one row per pair and the median of the ratios. Returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--no-peer", action="store_true", help="only ours: for the memory at 10 M records")
    parser.add_argument("--save", action="store_true")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        run_dir = _cluster(Path(folder), arguments.records)
        try:
            cluster = Cluster.of_run(RunDirectory(run_dir))
            with lease.renewed(cluster.socket):
                for pair in range(arguments.pairs):
                    row = _ours(cluster, RunDirectory(run_dir).read_scenario(), pair, Path(folder))
                    if not arguments.no_peer:
                        row["theirs_per_s"] = _theirs(cluster, RunDirectory(run_dir).read_scenario(), pair)
                        row["ratio"] = round(row["ours_per_s"] / row["theirs_per_s"], 3)
                    print(json.dumps(row), flush=True)
                    rows.append(row)
        finally:
            stop_cluster(run_dir)
    result = {
        "command": " ".join(["python", *sys.argv]),
        "date": datetime.date.today().isoformat(),
        "machine": machine.describe(),
        "load_average": os.getloadavg(),
        "versions": versions_of("4.3.1"),
        "rows": rows,
        "median_ratio": statistics.median(row["ratio"] for row in rows) if not arguments.no_peer else None,
    }
    print(json.dumps({key: result[key] for key in ("median_ratio", "load_average")}))
    if arguments.save:
        target = Path(__file__).parent / "results"
        target.mkdir(exist_ok=True)
        (target / f"producer-{arguments.records}.json").write_text(json.dumps(result, indent=1) + "\n")
    return 0


def _cluster(folder: Path, records: int) -> Path:
    """Starts a cluster for a load of `records` records. Returns the run directory."""
    scenario = catalogue.scenario(
        f"bench-{os.getpid()}",
        profile=catalogue.PROFILES["idempotent"],
        fault=catalogue.FAULTS["none"],
        load=Load(pacing="flat_out", deadline_s=3600),
        records=records,
    )
    run = RunDirectory(folder / scenario.run_id)
    run.path.mkdir()
    with run.writing("plan") as output:
        output.write_json("scenario.json", scenario)
    start_cluster(run.path)
    return run.path


def _ours(cluster: Cluster, scenario: Scenario, pair: int, folder: Path) -> dict[str, float]:
    """Measures this project's load. Returns its row of the table: records, records per second, seconds to publish the
    ledger, peak memory."""
    import msgspec

    arm = msgspec.structs.replace(scenario.subjects[0], topic_name=f"ours-{pair}")
    only = msgspec.structs.replace(scenario, arms=(arm, scenario.canary))
    topics.create(msgspec.structs.replace(only, arms=(arm,)), cluster.connection)
    wait_until(lambda: cluster.isr_full([arm.topic_name]), "the topic", 60)
    live = folder / f"live-{pair}"
    pool = ProducerPool(only, cluster.connection.client_properties(), live)
    peak, done = [0], threading.Event()
    status = Path(f"/proc/{pool.producers[0].process.pid}/status")
    sampler = threading.Thread(target=_sample, args=(status, peak, done))
    sampler.start()
    try:
        for gate, state in ((Gate.WARM_UP, State.WARM), (Gate.RELEASE, State.DONE)):
            started = time.monotonic()
            pool.open(gate)
            pool.wait_for(state, 3600)
        seconds = time.monotonic() - started
        producer = pool.producers[0]
        publish_began_s = time.monotonic()
        attempts = publish_ledger(producer.folder, folder / f"{pair}.parquet", arm.name, 0, 0, producer.layout)
        publish_s = time.monotonic() - publish_began_s
    finally:
        done.set()
        pool.kill()
        sampler.join()
    subprocess.run(["rm", "-rf", str(live)], check=True)
    return {
        "pair": pair,
        "records": attempts,
        "ours_per_s": round(attempts / seconds),
        "seal_s": round(publish_s, 2),
        "peak_rss_mb": peak[0] // 1024,
    }


def _sample(status: Path, peak: list[int], done: threading.Event) -> None:
    """Records the producer's peak resident memory (kB, anonymous and mapped) in `peak[0]` until `done` is set.

    `status` is the producer's file /proc/<pid>/status.
    """
    while not done.wait(0.1):
        try:
            match = re.search(r"VmRSS:\s+(\d+)", status.read_text())
        except OSError:
            return
        if match:
            peak[0] = max(peak[0], int(match[1]))


def _theirs(cluster: Cluster, scenario: Scenario, pair: int) -> float:
    """Measures Kafka's ProducerPerformance. Returns its records per second."""
    import msgspec

    arm = msgspec.structs.replace(scenario.subjects[0], topic_name=f"theirs-{pair}")
    topics.create(msgspec.structs.replace(scenario, arms=(arm,)), cluster.connection)
    wait_until(lambda: cluster.isr_full([arm.topic_name]), "the topic", 60)
    classpath = ":".join(str(jar) for jar in fetch("kafka-tools-4.3.1"))
    out = subprocess.run(
        [
            f"{java_home()}/bin/java",
            "-Xmx512m",
            "-cp",
            classpath,
            "org.apache.kafka.tools.ProducerPerformance",
            "--topic",
            arm.topic_name,
            "--num-records",
            str(arm.records),
            "--record-size",
            "100",
            "--throughput",
            "-1",
            "--producer-props",
            f"bootstrap.servers={cluster.bootstrap_servers}",
            "acks=all",
            "linger.ms=20",
            "batch.size=262144",
            "enable.idempotence=true",
        ],
        capture_output=True,
        text=True,
        timeout=3600,
        check=True,
    )
    rates = re.findall(r"([\d.]+) records/sec", out.stdout)
    return float(rates[-1])


if __name__ == "__main__":
    sys.exit(main())
