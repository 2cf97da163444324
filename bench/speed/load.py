"""Compares the load and its full ledger with Kafka's own ProducerPerformance, in pairs, on the same brokers.

`python bench/speed/load.py [--records N] [--pairs K]` measures K pairs. A pair is one load of this project, which
writes down the outcome of every record, and one run of ProducerPerformance, which writes down nothing. Both have the
same acks, idempotence, linger, compression, payload, partitions and replicas. Which of the two is first changes from
pair to pair. First, ProducerPerformance is run with several values of batch.size, and keeps the best one for it.

A row holds records per second of both, their ratio, the CPU time per record of both, and the peak memory of both. This
project's clock runs from the first record after the warm-up to the last delivery report. ProducerPerformance's rate is
the one that it prints itself. It leaves out the start of its JVM and its first tenth of the records. CPU time per
record leaves out the start of Python, but not that of the JVM.

`--producers N` measures N processes of the load beside N processes of ProducerPerformance, each with its share of the
records. `--matrix` measures one pair for each codec, several payload sizes, and 1, 2 and 4 producer processes.
`--no-peer` measures this project's load alone, e.g. to see that its memory does not grow with `--records 10000000`.

The figures go to docs/results/load-DATE.md, .json and .svg. The exit code is 1 if the median ratio is a fifth worse
than the committed one (docs/results/ratios.json; `--commit` replaces it). Nine pairs take about five minutes.
"""

from __future__ import annotations

import re
import resource
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import psutil

from bench.kit import children, ratios
from bench.kit.clusters import Bench, running
from bench.kit.saved import option_parser, publish
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.load.live_ledger import Gate, State, Word
from delivery_verifier.load.pool import ProducerPool
from delivery_verifier.load.publish_ledger import publish_ledger
from delivery_verifier.model import record
from delivery_verifier.model.scenario import Load, Scenario

BATCH_SIZES = (16_384, 65_536, 262_144, 1_000_000)
CODECS = ("gzip", "snappy", "lz4", "zstd")
PAYLOADS = (70, 1_000, 10_000, 100_000, 1_000_000)
PRODUCERS = (2, 4)
Row = dict[str, Any]


class Case(msgspec.Struct, frozen=True):
    """What is measured: `records` records of `payload` bytes by `producers` processes, compressed by `codec`."""

    records: int
    payload: int = 100
    codec: str = "none"
    producers: int = 1

    def scenario(self, plain: Scenario) -> Scenario:
        """Returns `plain` with this load as its only subject."""
        subject = plain.subjects[0]
        producer = subject.profile.producer | {"compression.type": self.codec}
        profile = msgspec.structs.replace(subject.profile, producer=producer)
        arm = msgspec.structs.replace(subject, profile=profile, records=self.records, producers=self.producers)
        load = msgspec.structs.replace(plain.load, payload_bytes=self.payload)
        return msgspec.structs.replace(plain, arms=(arm, plain.canary), load=load)


def main() -> int:
    """Measures the pairs, publishes the figures, and returns the exit code."""
    parser = option_parser(__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--producers", type=int, default=1, help="processes of the load, and of ProducerPerformance")
    parser.add_argument("--no-peer", action="store_true", help="only this project's load")
    parser.add_argument("--matrix", action="store_true", help="one pair for each codec, payload, number of producers")
    ratios.add_options(parser)
    arguments = parser.parse_args()
    plain = Case(arguments.records, producers=arguments.producers)
    cases = matrix(arguments.records) if arguments.matrix else [plain] * arguments.pairs
    with tempfile.TemporaryDirectory() as folder:
        with running(Path(folder), arguments.records, Load(pacing="flat_out", deadline_s=3600)) as bench:
            rows = _rows(bench, cases, not arguments.no_peer)
    several = f"-{arguments.producers}-producers" if arguments.producers > 1 else ""
    name = "load-matrix" if arguments.matrix else f"load{several}"
    bars = {
        f"{number}: {row['codec']}, {row['payload B']:,} B, producers: {row['producers']}": row["ratio"]
        or row["records/s"]
        for number, row in enumerate(rows, 1)
    }
    if arguments.no_peer:
        publish(f"{name}-alone", "The load alone, with its full ledger", rows, bars)
        return 0
    ratio = round(statistics.median(row["ratio"] for row in rows), 3)
    beside = f", {arguments.producers} producers" if arguments.producers > 1 else ""
    note = f"Median of the ratios (load with full ledger / ProducerPerformance, records per second): **{ratio}**."
    name, sized = ratios.by_size(name, {f"load / ProducerPerformance{beside}": ratio}, arguments.records, 1_000_000)
    publish(name, "The load beside ProducerPerformance", rows, bars, [note])
    return 0 if arguments.matrix else ratios.guard(sized, arguments.commit)


def matrix(records: int) -> list[Case]:
    """Returns a case for each codec, payload and number of producers. A case with large payloads has as many bytes as
    `records` records of 100 bytes, but at least 200 records."""
    by_codec = [Case(records, codec=codec) for codec in CODECS]
    by_payload = [Case(max(200, min(records, records * 100 // payload)), payload) for payload in PAYLOADS]
    return [Case(records), *by_codec, *by_payload, *(Case(records, producers=count) for count in PRODUCERS)]


def _rows(bench: Bench, cases: list[Case], with_peer: bool) -> list[Row]:
    """Measures the cases, prints each row, and returns the rows."""
    best: dict[Case, int] = {}
    rows = []
    for number, case in enumerate(cases):
        if with_peer and case not in best:
            trial = msgspec.structs.replace(case, records=max(100, case.records // 4))
            tries = {size: _theirs(bench, trial, f"try-{number}-{size}", size)[0] for size in BATCH_SIZES}
            best[case] = max(tries, key=lambda size: tries[size])
            print(f"ProducerPerformance by batch.size, records/s: {tries}", flush=True)
        row: Row = {
            "records": case.records,
            "payload B": case.payload,
            "codec": case.codec,
            "producers": case.producers,
        }
        theirs = (0.0, 0.0, 0)
        if with_peer and number % 2:
            theirs = _theirs(bench, case, f"theirs-{number}", best[case])
        row |= _ours(bench, case, f"ours-{number}")
        if with_peer and not number % 2:
            theirs = _theirs(bench, case, f"theirs-{number}", best[case])
        row["ratio"] = round(row["records/s"] / theirs[0], 3) if with_peer else None
        if with_peer:
            row |= {"its records/s": round(theirs[0]), "its CPU µs/record": round(theirs[1], 2)}
            row |= {"its peak MB": theirs[2], "its batch.size": best[case]}
        print(row, flush=True)
        rows.append(row)
    return rows


def _ours(bench: Bench, case: Case, name: str) -> Row:
    """Measures this project's load. Returns its cells: records per second, CPU time per record, peak memory, and the
    time that it takes to publish the ledger, per record."""
    scenario = case.scenario(bench.scenario)
    arm = bench.topic(name, scenario)
    workspace = bench.folder / name
    reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
    only = msgspec.structs.replace(scenario, arms=(arm, scenario.canary))
    pool = ProducerPool(only, {"librdkafka": bench.cluster.connection.client_properties()}, workspace)
    peaks: dict[int, int] = {}
    try:
        pool.open(Gate.WARM_UP)
        pool.wait_for(State.WARM, 600)
        cpu_began_s = sum(_cpu_s(producer.process.pid) for producer in pool.producers)
        warm = sum(producer.control[Word.ANNOUNCED] for producer in pool.producers)
        began_s = time.monotonic()
        pool.open(Gate.RELEASE)
        wait_until(lambda: _is_done(pool, peaks), "the load", 3600, every_s=0.01)
        seconds = time.monotonic() - began_s
        for producer in pool.producers:
            producer.process.wait()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = used.ru_utime + used.ru_stime - reaped.ru_utime - reaped.ru_stime - cpu_began_s
        sent = sum(producer.control[Word.ANNOUNCED] for producer in pool.producers) - warm
        reported = sum(producer.control[Word.REPORTED] for producer in pool.producers) - warm
        if reported != sent:
            raise SystemExit(f"{sent - reported} of {sent} records were not acknowledged")
        published_s = -time.process_time()
        for producer in pool.producers:
            publish_ledger(producer.folder, workspace / "ledger.parquet", arm.name, 0, 0, producer.layout)
        published_s += time.process_time()
    finally:
        pool.kill()
    shutil.rmtree(workspace)
    cells = {"records/s": round(sent / seconds), "CPU µs/record": round(cpu_s / sent * 1e6, 2)}
    return cells | {"peak MB": max(peaks.values()), "publishing µs/record": round(published_s / (sent + warm) * 1e6, 2)}


def _cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def _is_done(pool: ProducerPool, peaks: dict[int, int]) -> bool:
    """Returns whether all producers have ended their load. Notes the peak memory of each, in MB, by pid."""
    pool.check()
    for producer in pool.producers:
        try:
            status = Path(f"/proc/{producer.process.pid}/status").read_text()
        except OSError:
            continue
        if match := re.search(r"VmHWM:\s+(\d+)", status):
            peaks[producer.process.pid] = int(match[1]) // 1024
    return all(producer.control[Word.STATE] == State.DONE for producer in pool.producers)


def _theirs(bench: Bench, case: Case, name: str, batch_size: int) -> tuple[float, float, int]:
    """Measures ProducerPerformance, with as many processes as `case` has producers, all at the same time.

    Returns records per second, CPU time per record in µs, and the peak memory of the largest process in MB.
    """
    arm = bench.topic(name, case.scenario(bench.scenario))
    settings = arm.profile.producer
    props = [f"{key}={settings[key]}" for key in ("acks", "enable.idempotence", "linger.ms", "compression.type")]
    props = [value.replace("True", "true") for value in props]
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
    cpu_us = sum(cost.cpu_s for cost in costs) / case.records * 1e6
    return rate, cpu_us, max(cost.peak_mb for cost in costs)


if __name__ == "__main__":
    sys.exit(main())
