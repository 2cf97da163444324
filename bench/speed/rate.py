"""Measures whether the load keeps its rate, and its latencies, without hiding a load that falls behind its schedule.

`python bench/speed/rate.py [--rates 1000,10000,50000] [--seconds 20]` sends at each rate for some seconds, by one
producer of the profile `idempotent`, to 3 replicas. A row holds

* the rate that was reached, and by how many percent it differs from the planned one;
* the latencies from hand-over: from the moment when the client gets a record until its delivery report;
* the latencies from schedule: from the moment when the record was due at the planned rate. A load that falls behind
  hands records over late. The first latency does not contain this delay (coordinated omission), the second one does. It
  also contains the time in which a block of records fills, at most 1/150 s;
* the greatest delay of a block behind the schedule.

The figures go to docs/results/rate-DATE.md, .json and .svg. The exit code is 1 if a rate differs by more than 1 %. The
default rates take two minutes.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from bench.kit.clusters import Bench, running
from bench.kit.saved import option_parser, publish
from delivery_verifier.load.live_ledger import Gate, State
from delivery_verifier.load.pool import ProducerPool
from delivery_verifier.load.publish_ledger import publish_ledger
from delivery_verifier.model.scenario import Load

ALLOWED = 0.01
"""By how large a part the rate of a load may differ from the planned rate."""
Times = npt.NDArray[np.int64]


def main() -> int:
    """Measures the rates, publishes the figures, and returns the exit code."""
    parser = option_parser(__doc__)
    parser.add_argument("--rates", default="1000,10000,50000", help="records per second")
    parser.add_argument("--seconds", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with running(Path(folder), 1000) as bench:
            rows = [_row(bench, rate, arguments.seconds) for rate in map(int, arguments.rates.split(","))]
    bars = {f"{row['planned/s']:,}/s: 99 % from schedule, ms": row["99 % from schedule ms"] for row in rows}
    publish("rate", "The rate of the load, and its latencies", rows, bars)
    return 1 if any(abs(row["off %"]) > 100 * ALLOWED for row in rows) else 0


def _row(bench: Bench, rate: int, seconds: int) -> dict[str, Any]:
    """Sends at `rate` records per second for `seconds` seconds. Returns the line of the table."""
    load = Load(pacing="spread", rate=rate, deadline_s=3600)
    subject = msgspec.structs.replace(bench.scenario.subjects[0], records=rate * seconds)
    scenario = msgspec.structs.replace(bench.scenario, arms=(subject, bench.scenario.canary), load=load)
    arm = bench.topic(f"rate-{rate}", scenario)
    only = msgspec.structs.replace(scenario, arms=(arm, scenario.canary))
    folder = bench.folder / f"rate-{rate}"
    pool = ProducerPool(only, {"librdkafka": bench.cluster.connection.client_properties()}, folder)
    (producer,) = pool.producers
    try:
        for gate, state in ((Gate.WARM_UP, State.WARM), (Gate.RELEASE, State.DONE)):
            pool.open(gate)
            pool.wait_for(state, 3600)
            time.sleep(1)  # so that the load does not begin in the shadow of its warm-up
    finally:
        pool.kill()
    file = folder / "ledger.parquet"
    publish_ledger(producer.folder, file, arm.name, 0, 0, producer.layout)
    table = pq.read_table(file, columns=["sent_at", "settled_at"])
    sent, settled = (table[name].cast(pa.int64()).to_numpy() for name in ("sent_at", "settled_at"))
    warm = producer.layout.block * producer.layout.partitions
    row = {"planned/s": rate, **figures(sent[warm:], settled[warm:], rate, producer.layout.block)}
    print(row, flush=True)
    return row


def figures(sent: Times, settled: Times, rate: int, block: int) -> dict[str, float]:
    """Returns the figures of a load. `sent` and `settled` are the times of its records, in µs, in their order.

    `block` records are handed over together, at the planned time of the last of them. The schedule begins as late as it
    can without any block being early.
    """
    positions = np.arange(1, len(sent) + 1)
    due = positions / rate * 1e6
    last = positions % block == 0
    due = due + (sent - due)[last].min()
    first, ends = sent[0], sent[last][-1]
    reached = (len(sent) - block) / (ends - first) * 1e6
    quantiles = (50, 99, 99.9)
    by_hand = np.percentile(settled - sent, quantiles) / 1000
    by_schedule = np.percentile(settled - due, quantiles) / 1000
    return {
        "reached/s": round(float(reached), 1),
        "off %": round(float(reached / rate - 1) * 100, 2),
        **{f"{q:g} % from hand-over ms": round(float(value), 2) for q, value in zip(quantiles, by_hand, strict=True)},
        **{
            f"{q:g} % from schedule ms": round(float(value), 2) for q, value in zip(quantiles, by_schedule, strict=True)
        },
        "greatest delay ms": round(float((sent - due)[last].max()) / 1000, 2),
    }


if __name__ == "__main__":
    sys.exit(main())
