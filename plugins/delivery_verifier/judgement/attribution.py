"""Attribution: which injections hurt an arm, read off the cases that were written down with their times.

Pure. A case belongs to the injection during which its record was under way: the record was sent before the injection
was recovered, and was not settled yet one second before the injection bit. Clients have one more second after recovery,
to find the new leaders. If several injections qualify, the case belongs to the last of them that began before the
record was settled; if the record was never settled, to the first of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import comb
from typing import NamedTuple

import pyarrow as pa

from delivery_verifier.model.history import LEAD_US, Injection
from delivery_verifier.store.times import as_us

COLUMNS = ("arm", "kind", "also", "sent_at", "settled_at")
"""The columns of anomalies/ that the attribution reads."""
LAG_US = 1_000_000
CONFIDENCE = 0.95
OUTSIDE = -1
"""Stands for cases that belong to no injection."""
CasesByInjection = dict[str, list[int]]
"""Per anomaly the ids of the injections to which cases belong, in order, OUTSIDE first."""


class _Case(NamedTuple):
    """A case: its arm, its anomalies, and when its record was sent and settled, in µs; None where that is unknown."""

    arm: str
    kinds: tuple[str, ...]
    sent_us: int | None
    settled_us: int | None


class _Window(NamedTuple):
    """The time of an injection in µs. `end_us` is None if the injection was never recovered."""

    begin_us: int
    end_us: int | None
    injection: int


def attribute_cases(cases: pa.Table, injections: Sequence[Injection]) -> dict[str, CasesByInjection]:
    """Per arm: which injections hurt it, by which anomaly. `cases` are rows of anomalies/ with at least COLUMNS.

    Cases without times, of records that were never attempted, are OUTSIDE. Raises KeyError if a column is missing.
    """
    windows = _windows(injections)
    owners: dict[str, dict[str, set[int]]] = {}
    for case in _cases(cases):
        owner = _owner(case, windows)
        for kind in case.kinds:
            owners.setdefault(case.arm, {}).setdefault(kind, set()).add(owner)
    return {arm: {kind: sorted(ids) for kind, ids in sorted(kinds.items())} for arm, kinds in owners.items()}


def kinds_sent_afterwards(cases: pa.Table, injections: Sequence[Injection]) -> dict[str, set[str]]:
    """Per arm the anomalies of records that were sent only when all injections were over."""
    ends_us = [window.end_us for window in _windows(injections)]
    if None in ends_us:
        return {}
    over_us = max((end_us for end_us in ends_us if end_us is not None), default=0)
    kinds: dict[str, set[str]] = {}
    for case in _cases(cases):
        if case.sent_us is not None and case.sent_us > over_us:
            kinds.setdefault(case.arm, set()).update(case.kinds)
    return kinds


def confidence_interval(hits: int, trials: int) -> tuple[float, float]:
    """The shares that are compatible with `hits` of `trials` injections at CONFIDENCE.

    These are Clopper and Pearson's exact bounds. Where none or all were hit the bound is one-sided, as in "0 of 20:
    below 14 %". Raises ValueError for no injections.
    """
    if not 0 <= hits <= trials or not trials:
        raise ValueError(f"{hits} of {trials} injections")
    one_sided = hits in (0, trials)
    risk = 1 - CONFIDENCE if one_sided else (1 - CONFIDENCE) / 2
    low = 0.0 if hits == 0 else _smallest_share(lambda share: 1 - _probability(hits - 1, trials, share) >= risk)
    high = 1.0 if hits == trials else _smallest_share(lambda share: _probability(hits, trials, share) <= risk)
    return low, high


def _probability(hits: int, trials: int, share: float) -> float:
    """The probability of at most `hits` hits (binomial distribution)."""
    return sum(comb(trials, count) * share**count * (1 - share) ** (trials - count) for count in range(hits + 1))


def _smallest_share(reached: Callable[[float], bool]) -> float:
    """The smallest share from which on `reached` is true, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def _cases(cases: pa.Table) -> Iterator[_Case]:
    sent, settled = (as_us(cases[name]).to_pylist() for name in ("sent_at", "settled_at"))
    names = (cases[name].to_pylist() for name in ("arm", "kind", "also"))
    for arm, kind, also, sent_us, settled_us in zip(*names, sent, settled, strict=True):
        yield _Case(arm, (kind, *(also or ())), sent_us, settled_us)


def _windows(injections: Sequence[Injection]) -> list[_Window]:
    """The windows of the injections, in order of their begin."""
    windows = []
    for injection in sorted(injections, key=lambda injection: injection.bite_at_us):
        recovered_us = injection.recovered_at_us
        end_us = None if recovered_us is None else recovered_us + LAG_US
        windows.append(_Window(injection.bite_at_us - LEAD_US, end_us, injection.id))
    return windows


def _owner(case: _Case, windows: Sequence[_Window]) -> int:
    """The id of the injection to which the case belongs, or OUTSIDE."""
    if case.sent_us is None:
        return OUTSIDE
    met = [
        window.injection
        for window in windows
        if (window.end_us is None or case.sent_us <= window.end_us)
        and (case.settled_us is None or case.settled_us >= window.begin_us)
    ]
    if not met:
        return OUTSIDE
    return met[0] if case.settled_us is None else met[-1]
