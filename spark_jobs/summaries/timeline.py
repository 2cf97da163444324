"""The timeline: the load of each arm over time, and the latencies of each arm. Both are computed from the summary of
the load."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delivery_verifier.model.errors import StepFailed
from spark_jobs.schemas import LATENCY, LOAD, arrow
from spark_jobs.summaries.summary import BUCKETS_PER_DECADE

FINE_US, COARSE_US = 200_000, 1_000_000
"""Widths of the timeline's intervals in µs. COARSE_US is for runs longer than LONG_RUN_US, FINE_US for all others."""
LONG_RUN_US = 300_000_000
"""Runs longer than this number of µs have intervals of COARSE_US."""
INTERVALS = 100_000
"""The greatest number of intervals per arm. The load of a whole day has fewer. A longer load does not get wider
intervals, because the judgement assumes that no interval is longer than COARSE_US."""
QUANTILES = {"latency_ms_p50": 50, "latency_ms_p99": 99}
"""Maps each column of LOAD that holds a percentile of the latency to the number of this percentile."""
QUANTILE_ERROR = 10 ** (0.5 / BUCKETS_PER_DECADE) - 1
"""The greatest relative error of the columns in QUANTILES: half a bucket of the summary, 1.45 %. A latency below 1 µs
counts as 1 µs."""
_PER_DECADE = 20
"""The number of buckets per decade in LATENCY. Each bucket is 12 % wider than the previous bucket."""
_JOINED = BUCKETS_PER_DECADE // _PER_DECADE
"""The number of buckets of the summary that make one bucket of LATENCY."""
_COUNTED = ("sent", "reported", "indeterminate", "failed")
"""The names of the columns of LOAD that hold counts of attempts."""


def interval_us(from_us: int, until_us: int) -> int:
    """Returns the width of the timeline's intervals in µs, for a load from `from_us` to `until_us` (both µs since the
    epoch)."""
    return COARSE_US if until_us - from_us > LONG_RUN_US else FINE_US


def load(intervals: pa.Table, width_us: int) -> pa.Table:
    """Returns LOAD from `Summary.intervals`, with a row of zeros for each interval in which nothing happened.

    An attempt counts as `sent` in the interval in which it was sent. Its outcome counts in the interval in which the
    client reported the outcome. If there was no report, the outcome counts in the interval in which the attempt was
    sent. `width_us`: the width of an interval. The rows of an arm reach from the first to the last interval in which
    something happened. Raises StepFailed if an arm has more rows than INTERVALS.
    """
    known: dict[tuple[str, int], dict[str, Any]] = {}
    for moment, counts in (("sent_us", {"attempts": "sent"}), ("known_us", {name: name for name in _COUNTED[1:]})):
        for row in intervals.group_by(["arm", moment]).aggregate([(name, "sum") for name in counts]).to_pylist():
            interval = known.setdefault((row["arm"], row[moment]), _quiet(row["arm"], row[moment]))
            interval |= {name: row[f"{counted}_sum"] for counted, name in counts.items()}
    for key, quantiles in _quantiles_ms(intervals).items():
        known[key] |= quantiles
    rows: list[dict[str, Any]] = []
    for arm in sorted({arm for arm, _ in known}):
        begins_us = [at_us for name, at_us in known if name == arm]
        moments = range(min(begins_us), max(begins_us) + 1, width_us)
        if len(moments) > INTERVALS:
            raise StepFailed(
                f"the load of {arm} spans {len(moments) * width_us / 1e6:,.0f} s, and a run lasts a day at most: "
                "was the clock of this host set while records were sent? Run again"
            )
        rows += [known.get((arm, at_us)) or _quiet(arm, at_us) for at_us in moments]
    return pa.Table.from_pylist(rows, schema=arrow(LOAD))


def latency(intervals: pa.Table) -> pa.Table:
    """Returns LATENCY from `Summary.intervals`: the number of reported records per arm and range of latency.

    Each arm and range can have two rows. The row in which `inside` is true counts the records that were under way at
    some time between the effect (the beginning of the effect) of an injection and the recovery from it. The other row
    counts all other records.
    """
    answered = intervals.filter(pc.is_valid(intervals["bucket"]))
    joined = pa.array(answered["bucket"].to_numpy() // _JOINED, pa.int64())
    counted = answered.append_column("joined", joined).group_by(["arm", "inside", "joined"])
    rows = [
        {
            "arm": row["arm"],
            "inside": row["inside"],
            "latency_ms_from": 10.0 ** (row["joined"] / _PER_DECADE - 3),
            "latency_ms_until": 10.0 ** ((row["joined"] + 1) / _PER_DECADE - 3),
            "records": row["attempts_sum"],
        }
        for row in counted.aggregate([("attempts", "sum")]).to_pylist()
    ]
    table = pa.Table.from_pylist(rows, schema=arrow(LATENCY))
    return table.sort_by([(name, "ascending") for name in table.column_names[:3]])


def _quantiles_ms(intervals: pa.Table) -> dict[tuple[str, int], dict[str, float]]:
    """Maps (arm, beginning of the interval) to the columns QUANTILES, for each interval with reported records.

    A percentile is a latency that this percentage of the interval's records do not exceed. Only the bucket of this
    latency is known. The geometric middle of the bucket stands for the latency.
    """
    answered = intervals.filter(pc.is_valid(intervals["bucket"]))
    per_bucket = answered.group_by(["arm", "known_us", "bucket"]).aggregate([("attempts", "sum")])
    ordered = per_bucket.sort_by([(name, "ascending") for name in ("arm", "known_us", "bucket")])
    buckets, until = ordered["bucket"].to_numpy(), ordered["attempts_sum"].to_numpy().cumsum()
    arms, known_us = ordered["arm"].to_numpy(), ordered["known_us"].to_numpy()
    begins = np.flatnonzero((arms[1:] != arms[:-1]) | (known_us[1:] != known_us[:-1])) + 1
    quantiles = {}
    for begin, end in itertools.pairwise([0, *begins.tolist(), len(arms)] if len(arms) else []):
        before = int(until[begin - 1]) if begin else 0
        records = int(until[end - 1]) - before
        ranks = {name: before - (-records * share // 100) for name, share in QUANTILES.items()}  # rounded up
        quantiles[str(arms[begin]), int(known_us[begin])] = {
            name: _middle_ms(int(buckets[np.searchsorted(until, rank)])) for name, rank in ranks.items()
        }
    return quantiles


def _middle_ms(bucket: int) -> float:
    """Returns the geometric middle of a bucket of the summary, in ms. A bucket is a range of latencies."""
    return float(10.0 ** ((bucket + 0.5) / BUCKETS_PER_DECADE - 3))


def _quiet(arm: str, at_us: int) -> dict[str, Any]:
    """Returns the row of LOAD for an interval in which nothing happened."""
    return {"arm": arm, "at_us": at_us} | dict.fromkeys(_COUNTED, 0)
