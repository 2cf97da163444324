"""Bites: in how many injections an arm was hurt, from the cases that were written down with their times.

Pure. A case belongs to the last injection during which its record was under way: sent before recovery and not yet
settled one second before the bite, with a second's grace after recovery, in which clients find the new leaders.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from delivery_verifier.injection import Injection

COLUMNS = ("arm", "kind", "also", "sent_at", "settled_at")
LEAD_US = 1_000_000
"""A record that was settled so long before the bite may still have been in a broker's hands only."""
LAG_US = 1_000_000
FOREVER_US = 2**62
Bites = dict[str, list[int]]
"""Per anomaly the injections that hurt, in order; OUTSIDE stands for cases that no injection explains."""
OUTSIDE = -1


def bites(cases: pa.Table, injections: Sequence[Injection]) -> dict[str, Bites]:
    """Per arm: which injections hurt it, by which anomaly. `cases` are rows of anomalies/ with at least COLUMNS.

    Cases without times (records that nobody made) are OUTSIDE. Raises KeyError where a column is missing.
    """
    windows = sorted(_windows(injections), reverse=True)
    found: dict[str, dict[str, set[int]]] = {}
    for case in cases.select(list(COLUMNS)).to_pylist():
        owner = _owner(case, windows)
        for kind in (case["kind"], *(case["also"] or ())):
            found.setdefault(case["arm"], {}).setdefault(kind, set()).add(owner)
    return {arm: {kind: sorted(ids) for kind, ids in sorted(kinds.items())} for arm, kinds in found.items()}


def hurt(found: Bites, anomalies: Iterable[str] | None = None) -> list[int]:
    """The injections in which any of `anomalies` (None: any at all) was seen; OUTSIDE is none."""
    wanted = found if anomalies is None else {kind: found.get(kind, []) for kind in anomalies}
    return sorted({number for numbers in wanted.values() for number in numbers} - {OUTSIDE})


def _windows(injections: Iterable[Injection]) -> Iterator[tuple[int, int, int]]:
    """(begin, end, id) of every injection, in µs."""
    for one in injections:
        end = FOREVER_US if one.recovered_at_us is None else one.recovered_at_us + LAG_US
        yield one.bite_at_us - LEAD_US, end, one.id


def _owner(case: Mapping[str, Any], windows: Sequence[tuple[int, int, int]]) -> int:
    """The id of the last injection that met the record between its sending and its settling; windows: last first."""
    if case["sent_at"] is None:
        return OUTSIDE
    sent = _us(case["sent_at"])
    settled = FOREVER_US if case["settled_at"] is None else _us(case["settled_at"])
    return next((number for begin, end, number in windows if sent <= end and settled >= begin), OUTSIDE)


def _us(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000)
