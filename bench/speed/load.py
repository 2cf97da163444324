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

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from bench.kit import ratios
from bench.kit.clusters import Bench, running
from bench.kit.loads import Case, Measured, ours, theirs
from bench.kit.saved import option_parser, publish
from delivery_verifier.model.scenario import Load

BATCH_SIZES = (16_384, 65_536, 262_144, 1_000_000)
CODECS = ("gzip", "snappy", "lz4", "zstd")
PAYLOADS = (70, 1_000, 10_000, 100_000, 1_000_000)
PRODUCERS = (2, 4)
Row = dict[str, Any]


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
            tries = {size: theirs(bench, trial, f"try-{number}-{size}", size).rate for size in BATCH_SIZES}
            best[case] = max(tries, key=lambda size: tries[size])
            print(f"ProducerPerformance by batch.size, records/s: {tries}", flush=True)
        row: Row = {
            "records": case.records,
            "payload B": case.payload,
            "codec": case.codec,
            "producers": case.producers,
        }
        peer: Measured | None = None
        if with_peer and number % 2:
            peer = theirs(bench, case, f"theirs-{number}", best[case])
        row |= _ours(bench, case, f"ours-{number}")
        if with_peer and not number % 2:
            peer = theirs(bench, case, f"theirs-{number}", best[case])
        row["ratio"] = round(row["records/s"] / peer.rate, 3) if peer else None
        if peer:
            row |= {"its records/s": round(peer.rate), "its CPU µs/record": round(peer.cpu_s / peer.records * 1e6, 2)}
            row |= {"its peak MB": peer.peak_mb, "its batch.size": best[case]}
        print(row, flush=True)
        rows.append(row)
    return rows


def _ours(bench: Bench, case: Case, name: str) -> Row:
    """Measures this project's load. Returns its cells: records per second, CPU time per record, peak memory, and the
    time that it takes to publish the ledger, per record."""
    load = ours(bench, case, name)
    cells = {
        "records/s": round(load.rate),
        "CPU µs/record": round(load.cpu_s / load.records * 1e6, 2),
        "peak MB": load.peak_mb,
    }
    return cells | {"publishing µs/record": round(load.publishing_s / load.published * 1e6, 2)}


if __name__ == "__main__":
    sys.exit(main())
