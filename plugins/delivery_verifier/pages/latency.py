"""Latency: the time from sending a record to its report, separately for records under way during a fault."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from delivery_verifier.pages.material import Material, arms_drawn
from delivery_verifier.store import tables

SHARES = (0.5, 0.99, 0.999, 1.0)


@dataclass(frozen=True)
class Bucket:
    """`records` reported records took at least `from_ms` and less than `until_ms`."""

    from_ms: float
    until_ms: float
    records: int


@dataclass(frozen=True)
class Spread:
    """The latencies of one arm, either of records under way during a fault (`inside`) or of all others."""

    arm: str
    inside: bool
    buckets: list[Bucket]

    @property
    def records(self) -> int:
        """Reported records in all buckets."""
        return sum(bucket.records for bucket in self.buckets)

    @property
    def bounds_ms(self) -> list[float]:
        """For each of SHARES, the time in ms within which at least this share of the records was reported."""
        return [self._bound_ms(share) for share in SHARES]

    def _bound_ms(self, share: float) -> float:
        records = 0
        for bucket in self.buckets:
            records += bucket.records
            if records >= share * self.records:
                return bucket.until_ms
        raise ValueError("no records, so no share of them")


def spreads(material: Material) -> list[Spread]:
    """The spreads that hold any record, in the order of the arms, for each arm outside before inside."""
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
