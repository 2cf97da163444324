"""Bites: in how many injections an arm was hurt, from the cases that were written down with their times.

Pure. A case belongs to the injection during which its record was under way: sent before recovery, and not settled yet
one second before the bite; with a second's grace after recovery, in which clients find the new leaders. Where several
meet it, the last one that began before it was settled; where it never was, the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import comb

import pyarrow as pa

from delivery_verifier.model.history import LEAD_US, Injection
from delivery_verifier.store.times import as_us

COLUMNS = ("arm", "kind", "also", "sent_at", "settled_at")
LAG_US = 1_000_000
CONFIDENCE = 0.95
OUTSIDE = -1
"""Stands for cases that no injection explains."""
CasesByInjection = dict[str, list[int]]
"""Per anomaly the ids of the injections in which it was seen, in order, OUTSIDE first."""


def attribute_cases(cases: pa.Table, injections: Sequence[Injection]) -> dict[str, CasesByInjection]:
    """Per arm: which injections hurt it, by which anomaly. `cases` are rows of anomalies/ with at least COLUMNS.

    Cases without times, of records that nobody made, are OUTSIDE. Raises KeyError where a column is missing.
    """
    windows, found = list(_windows(injections)), dict[str, dict[str, set[int]]]()
    for arm, kinds, sent_us, settled_us in _rows(cases):
        owner = OUTSIDE if sent_us is None else _owner(sent_us, settled_us, windows)
        for kind in kinds:
            found.setdefault(arm, {}).setdefault(kind, set()).add(owner)
    return {arm: {kind: sorted(ids) for kind, ids in sorted(kinds.items())} for arm, kinds in found.items()}


def kinds_sent_afterwards(cases: pa.Table, injections: Sequence[Injection]) -> dict[str, set[str]]:
    """Per arm the anomalies of records that were sent only when all injections were over."""
    ends, found = [end for _, end, _ in _windows(injections)], dict[str, set[str]]()
    if None not in ends:
        over = max((end for end in ends if end is not None), default=0)
        for arm, kinds, sent_us, _ in _rows(cases):
            if sent_us is not None and sent_us > over:
                found.setdefault(arm, set()).update(kinds)
    return found


def injections_with_cases(found: CasesByInjection) -> list[int]:
    """The injections in which anything at all was seen; OUTSIDE is none."""
    return sorted({number for numbers in found.values() for number in numbers} - {OUTSIDE})


def confidence_interval(seen: int, of: int) -> tuple[float, float]:
    """The shares of injections that are compatible with `seen` of `of` at CONFIDENCE: Clopper and Pearson's exact
    bounds.

    Where none or all were seen the bound is one-sided, as in "0 of 20: below 14 %". Raises ValueError for no
    injections.
    """
    if not 0 <= seen <= of or not of:
        raise ValueError(f"{seen} of {of} injections")
    risk = (1 - CONFIDENCE) / (1 if seen in (0, of) else 2)
    low = 0.0 if seen == 0 else _solved(lambda share: 1 - _at_most(seen - 1, of, share) >= risk)
    high = 1.0 if seen == of else _solved(lambda share: _at_most(seen, of, share) <= risk)
    return low, high


def _at_most(seen: int, of: int, share: float) -> float:
    return sum(comb(of, count) * share**count * (1 - share) ** (of - count) for count in range(seen + 1))


def _solved(reached: Callable[[float], bool]) -> float:
    """The smallest share from which on `reached`, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def _rows(cases: pa.Table) -> Iterator[tuple[str, tuple[str, ...], int | None, int | None]]:
    """Of every case: its arm, its anomalies, and when its record was sent and settled, in µs."""
    sent, settled = (as_us(cases[name]).to_pylist() for name in ("sent_at", "settled_at"))
    named = (cases[name].to_pylist() for name in ("arm", "kind", "also"))
    for arm, kind, also, sent_us, settled_us in zip(*named, sent, settled, strict=True):
        yield arm, (kind, *(also or ())), sent_us, settled_us


def _windows(injections: Sequence[Injection]) -> Iterator[tuple[int, int | None, int]]:
    """(begin, end or None, id) of every injection in µs, in order."""
    for one in sorted(injections, key=lambda one: one.bite_at_us):
        yield one.bite_at_us - LEAD_US, None if one.recovered_at_us is None else one.recovered_at_us + LAG_US, one.id


def _owner(sent_us: int, settled_us: int | None, windows: Sequence[tuple[int, int | None, int]]) -> int:
    met = [
        number
        for begin, end, number in windows
        if (end is None or sent_us <= end) and (settled_us is None or settled_us >= begin)
    ]
    return OUTSIDE if not met else met[0] if settled_us is None else met[-1]
