"""Latency: the time from the sending of a record to its report.

A record is under way from its sending to its report. Records that were under way during a fault are counted apart from
all other records. A fault lasts from the time when it took effect to the recovery of the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from delivery_verifier.reporting.material import Material, arms_drawn
from delivery_verifier.run_directory import tables

SHARES = (0.5, 0.99, 0.999, 1.0)
"""The quantiles of the latency that the pages show: the median, two high percentiles and the maximum."""


@dataclass(frozen=True)
class Bucket:
    """A range of latencies. In this range, `records` reported records had a latency of at least `from_ms` and less than
    `until_ms`."""

    from_ms: float
    until_ms: float
    records: int


@dataclass(frozen=True)
class Spread:
    """The distribution of the latencies of one arm, either during faults or outside of faults.

    If `inside` is true, the spread has only the records that were under way during a fault. Otherwise it has only the
    other records. `buckets`: ranges of latencies in ascending order. Ranges without records are left out.
    """

    arm: str
    inside: bool
    buckets: list[Bucket]

    @property
    def records(self) -> int:
        """Returns the number of reported records in all buckets."""
        return sum(bucket.records for bucket in self.buckets)

    @property
    def bounds_ms(self) -> list[float]:
        """Returns the latency in ms at each quantile in SHARES. Each latency is rounded up to the upper bound of its
        bucket (a range of latencies).

        Raises ValueError if there are no records.
        """
        return [self._bound_ms(share) for share in SHARES]

    def _bound_ms(self, share: float) -> float:
        records = 0
        for bucket in self.buckets:
            records += bucket.records
            if records >= share * self.records:
                return bucket.until_ms
        raise ValueError("no records, so no share of them")


def spreads(material: Material) -> list[Spread]:
    """Returns the spreads of the arms in `arms_drawn`, arm by arm.

    The first spread of an arm has the records that were not under way during a fault. The second spread has the records
    that were under way during a fault. A spread without records is left out. The list is empty if the table
    timeline/latency is missing.
    """
    table = material.table(tables.LATENCY)
    rows: list[dict[str, Any]] = [] if table is None else table.to_pylist()
    rows.sort(key=lambda row: row["latency_ms_from"])
    all_spreads = [
        Spread(
            arm,
            inside,
            [
                Bucket(row["latency_ms_from"], row["latency_ms_until"], row["records"])
                for row in rows
                if row["arm"] == arm and row["inside"] == inside and row["records"]
            ],
        )
        for arm in arms_drawn(material)
        for inside in (False, True)
    ]
    return [spread for spread in all_spreads if spread.buckets]
