"""A load with its full ledger, and Kafka's own ProducerPerformance beside it, on the brokers of a benchmark.

This project's clock runs from the first record after the warm-up to the last delivery report. ProducerPerformance's
rate is the one that it prints itself. It leaves out the start of its JVM and its first tenth of the records.
"""

from __future__ import annotations

import re
import resource
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil

from bench.kit import children
from bench.kit.clusters import Bench
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.load.live_ledger import Gate, State, Word
from delivery_verifier.load.pool import ProducerPool
from delivery_verifier.load.publish_ledger import publish_ledger
from delivery_verifier.model import record
from delivery_verifier.model.client import Client
from delivery_verifier.model.data import Setting, setting_text
from delivery_verifier.model.scenario import Scenario

SHARED = ("acks", "enable.idempotence", "linger.ms", "compression.type")
"""The settings of a load that ProducerPerformance has, too."""


class Case(msgspec.Struct, frozen=True):
    """What is measured: `records` records of `payload` bytes by `producers` processes with `client`, compressed by
    `codec`. `more`: further settings, as pairs."""

    records: int
    payload: int = 100
    codec: str = "none"
    producers: int = 1
    client: Client = "librdkafka"
    more: tuple[tuple[str, Setting], ...] = ()

    def scenario(self, plain: Scenario) -> Scenario:
        """Returns `plain` with this load as its only subject."""
        subject = plain.subjects[0]
        producer = subject.profile.producer | {"compression.type": self.codec} | dict(self.more)
        profile = msgspec.structs.replace(subject.profile, producer=producer)
        arm = msgspec.structs.replace(
            subject, profile=profile, records=self.records, producers=self.producers, client=self.client
        )
        load = msgspec.structs.replace(plain.load, payload_bytes=self.payload)
        return msgspec.structs.replace(plain, arms=(arm, plain.canary), load=load)


class Measured(NamedTuple):
    """What one measurement shows.

    * `records`: the number of records that are measured.
    * `rate`, `steady_rate`: records per second, of all of them, and without the first tenth.
    * `cpu_s`: the processor seconds of the processes and their children for these records. `start_cpu_s`: what they had
      used before.
    * `peak_mb`: the peak resident memory of the largest process with its children, in MB.
    * `publishing_s`: the processor seconds that it takes to publish the ledger of `published` records.
    """

    records: int
    rate: float
    steady_rate: float
    cpu_s: float
    start_cpu_s: float
    peak_mb: int
    publishing_s: float = 0.0
    published: int = 1


@dataclass
class _Watch:
    """What is seen of a load while it goes on: the peak memory of each process, in MB, by producer and pid, and when a
    tenth of `planned` records was reported, and how many were by then."""

    pool: ProducerPool
    planned: int
    peaks: dict[int, dict[int, int]] = field(default_factory=dict)
    tenth: tuple[float, int] | None = None

    @property
    def reported(self) -> int:
        return sum(producer.control[Word.REPORTED] for producer in self.pool.producers)

    def is_done(self) -> bool:
        self.pool.check()
        for producer in self.pool.producers:
            for pid in _tree(producer.process.pid):
                if peak := _peak_mb(pid):
                    self.peaks.setdefault(producer.process.pid, {})[pid] = peak
        if self.tenth is None and self.reported >= self.planned / 10:
            self.tenth = time.monotonic(), self.reported
        return all(producer.control[Word.STATE] == State.DONE for producer in self.pool.producers)


def ours(bench: Bench, case: Case, name: str) -> Measured:
    """Measures this project's load. Exits if a record was not acknowledged."""
    scenario = case.scenario(bench.scenario)
    arm = bench.topic(name, scenario)
    workspace = bench.folder / name
    reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
    only = msgspec.structs.replace(scenario, arms=(arm, scenario.canary))
    connection = {case.client: bench.cluster.connection.properties_of(case.client)}
    pool = ProducerPool(only, connection, workspace)
    watch = _Watch(pool, case.records)
    try:
        pool.open(Gate.WARM_UP)
        pool.wait_for(State.WARM, 600)
        start_cpu_s = sum(_cpu_s(pid) for producer in pool.producers for pid in _tree(producer.process.pid))
        warm = sum(producer.control[Word.ANNOUNCED] for producer in pool.producers)
        began_s = time.monotonic()
        pool.open(Gate.RELEASE)
        wait_until(watch.is_done, "the load", 3600, every_s=0.01)
        ended_s = time.monotonic()
        for producer in pool.producers:
            producer.process.wait()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)  # with the JVM, for which its producer process has waited
        cpu_s = used.ru_utime + used.ru_stime - reaped.ru_utime - reaped.ru_stime - start_cpu_s
        sent = sum(producer.control[Word.ANNOUNCED] for producer in pool.producers) - warm
        if watch.reported != sent + warm:
            raise SystemExit(f"{sent + warm - watch.reported} of {sent} records were not acknowledged")
        publishing_s = -time.process_time()
        for producer in pool.producers:
            publish_ledger(producer.folder, workspace / "ledger.parquet", arm.name, 0, 0, producer.layout)
        publishing_s += time.process_time()
    finally:
        pool.kill()
    shutil.rmtree(workspace)
    tenth_s, tenth = watch.tenth or (began_s, warm)
    peak_mb = max(sum(peaks.values()) for peaks in watch.peaks.values())
    rates = sent / (ended_s - began_s), (sent + warm - tenth) / max(ended_s - tenth_s, 1e-9)
    return Measured(sent, *rates, cpu_s, start_cpu_s, peak_mb, publishing_s, sent + warm)


def _tree(pid: int) -> list[int]:
    """Returns the pids of a process and of its children: a producer process, and the JVM of the Java client."""
    try:
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    except psutil.NoSuchProcess:
        return []


def _cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def _peak_mb(pid: int) -> int:
    try:
        match = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(match[1]) // 1024 if match else 0


def theirs(bench: Bench, case: Case, name: str, batch_size: int) -> Measured:
    """Measures ProducerPerformance, with as many processes as `case` has producers, all at the same time. The processor
    seconds are those of the whole processes, with the start of the JVM."""
    arm = bench.topic(name, case.scenario(bench.scenario))
    props = [f"{key}={setting_text(arm.profile.producer[key])}" for key in SHARED]
    payloads = bench.folder / f"payloads-{case.payload}"
    if not payloads.exists():  # as the load sends them, so that they compress as well as the load's
        encoder = record.BlockEncoder("benchmrk", 1, 0, 0, 0, case.payload)
        payloads.write_bytes(b"\n".join(encoder.encode(0, 0, max(4, min(10_000, 10_000_000 // case.payload)))))
    share = str(case.records // case.producers)
    command = children.kafka_tool(
        *("ProducerPerformance", "--topic", name, "--num-records", share, "--payload-file", str(payloads)),
        *("--warmup-records", str(case.records // case.producers // 10), "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={bench.cluster.connection.bootstrap_servers}"),
        *(*props, f"batch.size={batch_size}"),
    )
    outs = [bench.folder / f"{name}-{number}.txt" for number in range(case.producers)]
    began_s = time.monotonic()
    started = [children.start(command, out) for out in outs]
    costs = [children.end(process, began_s) for process in started]
    rate = sum(float(re.findall(r"([\d.]+) records/sec", out.read_text())[-1]) for out in outs)
    cpu_s, peak_mb = sum(cost.cpu_s for cost in costs), max(cost.peak_mb for cost in costs)
    return Measured(case.records, rate, rate, cpu_s, 0.0, peak_mb)
