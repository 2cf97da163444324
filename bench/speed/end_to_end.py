"""Compares a whole verification, from the first record to the verdict, with the ways of two other verifiers.

`python bench/speed/end_to_end.py [--records N] [--rounds K]` measures each way K times, one after the other:

* kdv: `kdv run --direct`, flat out, without a fault. Compares every record with the ledger, finds canaries, balances
  the counts, and gives a verdict. It sends a tenth more records than the others, as its control arm.
* kdv, warm: the same run through a local Airflow that is up, and has made one such run before.
* kgo-verifier's way: librdkafka produces, the last acknowledged offset of each partition is remembered, and one reading
  in order checks that no offset is missing (bench/speed/peers/kgo_verifier.py).
* kafkatest's way: Kafka's VerifiableProducer and VerifiableConsumer, then the difference of two sets
  (bench/speed/peers/kafkatest.py).

All send to 3 partitions with 3 replicas, min.insync.replicas=2 and acks=all. The start of the cluster does not count,
that of every other process does, except the start of the local Airflow and of its Spark. The ratios are seconds of kdv
divided by seconds of the other way.

The figures go to docs/results/end-to-end-DATE.md, .json and .svg. The exit code is 1 if a median ratio is a fifth worse
than the committed one (docs/results/ratios.json; `--commit` replaces it). A million records take
three minutes per round.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.kit import children, kdv_run, ratios
from bench.kit.children import Cost, kafka_tool
from bench.kit.clusters import Bench, running
from bench.kit.saved import option_parser, publish

PEERS = Path(__file__).parent / "peers"
KDV, WARM, KGO, KAFKATEST = "kdv", "kdv, warm", "kgo-verifier's way", "kafkatest's way"
RATIOS = {"end to end": KDV, "warm end to end": WARM}
"""The first half of the name of a ratio, and the way that it is about."""


def main() -> int:
    """Measures the four ways, publishes the figures, and returns the exit code."""
    parser = option_parser(__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    ratios.add_options(parser)
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for number in range(1, arguments.rounds + 1):
        with tempfile.TemporaryDirectory() as name:
            for row in _round(arguments.records, Path(name)):
                rows.append({"round": number, **row, "records/s": round(arguments.records / row["s"])})
                print(rows[-1], flush=True)
    ways = (KDV, WARM, KGO, KAFKATEST)
    medians = {way: statistics.median(row["s"] for row in rows if row["way"] == way) for way in ways}
    by_peer = {
        f"{name} / {peer}": round(medians[way] / medians[peer], 2)
        for name, way in RATIOS.items()
        for peer in (KGO, KAFKATEST)
    }
    notes = [f"{name}, in seconds: **{ratio}**." for name, ratio in by_peer.items()]
    bars = {f"{way}, s": seconds for way, seconds in medians.items()}
    name, sized = ratios.by_size("end-to-end", by_peer, arguments.records, 1_000_000)
    publish(name, f"{arguments.records:,} records, from load to verdict", rows, bars, notes)
    return ratios.guard(sized, arguments.commit)


def _round(records: int, folder: Path) -> list[dict[str, Any]]:
    """Measures each way once. Returns one row per way."""
    rows = [_row_of_run(KDV, kdv_run.run(records, folder))]
    runs = folder / "airflow"
    with kdv_run.airflow(runs):
        kdv_run.run_through_airflow(records, runs)
        rows.append(_row_of_run(WARM, kdv_run.run_through_airflow(records, runs)))
    with running(folder, records) as bench:
        for way, work in ((KGO, _kgo), (KAFKATEST, _kafkatest)):
            costs = work(bench, records)
            total = Cost(*(sum(column) for column in list(zip(*costs.values(), strict=True))[:2]), 0)
            parts = {name: round(cost.seconds, 1) for name, cost in costs.items()}
            rows.append(_row(way, total._replace(peak_mb=max(cost.peak_mb for cost in costs.values())), str(parts)))
    return rows


def _row_of_run(way: str, run: kdv_run.Measured) -> dict[str, Any]:
    own = {kind: cpu_s for kind, cpu_s in run.cpu_s.items() if kind != "brokers"}
    peak = max(peak for kind, peak in run.peak_mb.items() if kind != "brokers")
    return _row(way, Cost(run.seconds, sum(own.values()), peak), str(run.steps))


def _row(way: str, cost: Cost, parts: str) -> dict[str, Any]:
    cells = {"s": round(cost.seconds, 1), "CPU s without brokers": round(cost.cpu_s, 1), "peak MB": cost.peak_mb}
    return {"way": way, **cells, "parts, s": parts}


def _kgo(bench: Bench, records: int) -> dict[str, Cost]:
    topic = bench.topic("kgo").topic_name
    servers = bench.cluster.connection.bootstrap_servers
    command = [sys.executable, str(PEERS / "kgo_verifier.py"), servers, topic, str(records)]
    return {"produce and read": children.run(command, bench.folder / "kgo.txt")}


def _kafkatest(bench: Bench, records: int) -> dict[str, Cost]:
    topic = bench.topic("kafkatest").topic_name
    produced, consumed = bench.folder / "produced.txt", bench.folder / "consumed.txt"
    common = (
        "--topic",
        topic,
        "--max-messages",
        str(records),
        "--bootstrap-server",
        bench.cluster.connection.bootstrap_servers,
    )
    consumer = ("--group-id", topic, "--reset-policy", "earliest", "--verbose")
    compare = [sys.executable, str(PEERS / "kafkatest.py"), str(produced), str(consumed)]
    return {
        "produce": children.run(kafka_tool("VerifiableProducer", *common, "--acks", "-1"), produced),
        "consume": children.run(kafka_tool("VerifiableConsumer", *common, *consumer), consumed),
        "compare": children.run(compare, bench.folder / "compared.txt"),
    }


if __name__ == "__main__":
    sys.exit(main())
