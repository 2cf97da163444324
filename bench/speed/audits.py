"""Compares an audit of somebody else's ledger with a run of our own that judges as many records.

`python bench/speed/audits.py [--records N] [--rounds K]` measures both K times, one after the other:

* audit: Kafka's VerifiableProducer sends N records to 3 partitions with 3 replicas, and prints what was acknowledged.
  `kdv audit` then judges these lines. Only the audit is measured.
* run: `kdv run --direct` of N records, flat out, without a fault.

The ratios are those of processor seconds, and of peak memory, of the processes that judge: kdv and Spark. Brokers and
producers do not count. In the run, kdv also starts and watches the load, and its control arm sends a tenth more
records.

The figures go to docs/results/audits-DATE.md, .json and .svg. The exit code is 1 if a median ratio is above 1.3, or if
an audit is not HELD. A million records take three minutes per round.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.kit import children, kdv_run
from bench.kit.children import kafka_tool
from bench.kit.clusters import Bench, running
from bench.kit.saved import option_parser, publish

AUDIT, RUN = "audit", "run"
ALLOWED = 1.3
"""The most that an audit may cost, as a multiple of what the run costs."""
JUDGES = ("kdv", "Spark")
"""The kinds of processes that judge."""
CPU, PEAK = "CPU s per million", "peak MB"


def main() -> int:
    """Measures both, publishes the figures, and returns the exit code."""
    parser = option_parser(__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for number in range(1, arguments.rounds + 1):
        with tempfile.TemporaryDirectory() as name:
            for row in _round(arguments.records, Path(name)):
                rows.append({"round": number, **row})
                print(rows[-1], flush=True)
    medians = {
        (way, figure): statistics.median(row[figure] for row in rows if row["way"] == way)
        for way in (AUDIT, RUN)
        for figure in (CPU, PEAK)
    }
    ratios = {figure: round(medians[AUDIT, figure] / medians[RUN, figure], 2) for figure in (CPU, PEAK)}
    notes = [f"audit / run, {figure}: **{ratio}** (allowed: {ALLOWED})." for figure, ratio in ratios.items()]
    bars = {f"{way}, {CPU}": medians[way, CPU] for way in (AUDIT, RUN)}
    name = "audits" if arguments.records == 1_000_000 else f"audits-{arguments.records}"
    publish(name, f"An audit and a run of {arguments.records:,} records", rows, bars, notes)
    is_held = all(row["exit code"] == 0 for row in rows if row["way"] == AUDIT)
    return 0 if is_held and max(ratios.values()) <= ALLOWED else 1


def _round(records: int, folder: Path) -> list[dict[str, Any]]:
    """Measures both ways once. Returns one row for each."""
    with running(folder, records) as bench:
        audit = _audit(bench, records)
    return [_row(AUDIT, audit, records), _row(RUN, kdv_run.run(records, folder), records)]


def _audit(bench: Bench, records: int) -> kdv_run.Measured:
    topic, servers = bench.topic("audited").topic_name, bench.cluster.connection.bootstrap_servers
    ledger, settings = bench.folder / "out.txt", bench.folder / "producer.properties"
    settings.write_text("acks=all\nretries=0\nenable.idempotence=false\n")
    options = ("--topic", topic, "--bootstrap-server", servers)
    children.run(kafka_tool("VerifiableProducer", *options, "--max-messages", str(records), "--acks", "-1"), ledger)
    audit = ("audit", "--ledger", str(ledger), "--format", "verifiable-producer", "--producer-config", str(settings))
    return kdv_run.measured((*kdv_run.KDV, *audit, *options), bench.folder / "audits")


def _row(way: str, run: kdv_run.Measured, records: int) -> dict[str, Any]:
    cpu_s = sum(run.cpu_s.get(kind, 0.0) for kind in JUDGES)
    parts = {f"{kind} CPU s": run.cpu_s.get(kind, 0.0) for kind in JUDGES}
    memory = {f"{kind} peak MB": run.peak_mb.get(kind, 0) for kind in JUDGES}
    figures = {CPU: round(cpu_s / records * 1e6, 1), PEAK: sum(memory.values())}
    return {"way": way, **figures, **parts, **memory, "exit code": run.code}


if __name__ == "__main__":
    sys.exit(main())
