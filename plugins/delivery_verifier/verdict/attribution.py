"""Attribution: finds the injections that hurt an arm, from the times of the records that show anomalies.

The files in anomalies/ of the run directory list the cases. A case belongs to an injection if its record was under way
at some time during the injection's window.

* A record is under way from the time when it is sent until the time when the client reports its outcome.
* A window begins one second before the injection took effect. `LEAD_US` in `model/history.py` says why.
* A window ends one second after the cluster recovered from the injection, that is, after every replica was in sync
  again. Clients need this second to find the new leaders.

If several injections fit, the case belongs to the injection that took effect last. If the client never reported the
outcome of the record, the case belongs to the injection that took effect first.

A case of an anomaly of effects belongs to the first injection whose window ends after the record was sent. This holds
even if the outcome was reported before the window. Reason: the application works on the record later. All functions are
pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb
from typing import NamedTuple

import pyarrow as pa

from delivery_verifier.model.anomalies import EFFECTS
from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.model.history import LEAD_US, Injection
from delivery_verifier.verdict.cases import Case, read_cases

LAG_US = 1_000_000
"""How long (µs) an injection may still hurt records after the cluster recovered from it."""
CONFIDENCE = 0.95
"""The confidence level of `confidence_interval`."""
OUTSIDE = -1
"""Stands in place of an injection's id, for cases that belong to no injection."""
CasesByInjection = dict[str, list[int]]
"""Maps an anomaly to the ids of the injections to which its cases belong. The ids are sorted. The first id is OUTSIDE
if any case of the anomaly belongs to no injection."""


class _Window(NamedTuple):
    """The window of one injection: the time in which the injection can hurt records. All times are µs since the epoch.

    `injection` is the id of the injection. `begin_us` is one second before the injection took effect. `end_us` is one
    second after the cluster recovered from the injection. None: the cluster never recovered.
    """

    begin_us: int
    end_us: int | None
    injection: int


def attribute_cases(cases: pa.Table, injections: Sequence[Injection]) -> dict[str, CasesByInjection]:
    """Maps each arm that has cases to the injections to which these cases belong (see CasesByInjection).

    `cases` has one row per case, with at least the columns in `cases.COLUMNS`. A case of a record that was never
    attempted has no times. Such a case belongs to no injection, and counts under the id OUTSIDE. Raises KeyError if a
    column is missing.
    """
    windows = _windows(injections)
    owners: dict[str, dict[str, set[int]]] = {}
    for case in read_cases(cases):
        owner = _owner(case, windows)
        for kind in case.kinds:
            owners.setdefault(case.arm, {}).setdefault(kind, set()).add(owner)
    return {arm: {kind: sorted(ids) for kind, ids in sorted(kinds.items())} for arm, kinds in owners.items()}


def kinds_sent_afterwards(cases: pa.Table, injections: Sequence[Injection]) -> dict[str, set[str]]:
    """Maps each arm to the anomalies of those of its records that were sent after all `injections` were over.

    An injection is over LAG_US (1 s) after the cluster recovered from it. If the cluster did not recover from one of
    the injections, the result is empty. If `injections` is empty, the anomalies of all records count. `cases` has one
    row per case, with at least the columns in `cases.COLUMNS`.
    """
    ends_us = [window.end_us for window in _windows(injections)]
    if None in ends_us:
        return {}
    over_us = max((end_us for end_us in ends_us if end_us is not None), default=0)
    kinds: dict[str, set[str]] = {}
    for case in read_cases(cases):
        if case.sent_us is not None and case.sent_us > over_us:
            kinds.setdefault(case.arm, set()).update(case.kinds)
    return kinds


def confidence_interval(hits: int, trials: int) -> tuple[float, float]:
    """Returns the lower and the upper bound of the true share of hits (Clopper-Pearson, with the confidence level
    CONFIDENCE).

    `trials` is how often a fault was injected. `hits` is in how many of these trials the fault hurt the arm. Count
    injections that overlap as one trial, because they are not independent. If no trial or every trial is a hit, the
    interval is one-sided, as in "0 of 20: below 14 %". Raises ValueError if `trials` is 0, or if `hits` is negative or
    greater than `trials`.
    """
    if not 0 <= hits <= trials or not trials:
        raise ValueError(f"{hits} of {trials} injections")
    one_sided = hits in (0, trials)
    risk = 1 - CONFIDENCE if one_sided else (1 - CONFIDENCE) / 2
    low = 0.0 if hits == 0 else _smallest_share(lambda share: 1 - _probability(hits - 1, trials, share) >= risk)
    high = 1.0 if hits == trials else _smallest_share(lambda share: _probability(hits, trials, share) <= risk)
    return low, high


def _probability(hits: int, trials: int, share: float) -> float:
    """Returns the probability of at most `hits` hits in `trials` trials (binomial distribution).

    `share` is the probability of a hit in one trial. `confidence_interval` says what a trial is.
    """
    return sum(comb(trials, count) * share**count * (1 - share) ** (trials - count) for count in range(hits + 1))


def _smallest_share(reached: Callable[[float], bool]) -> float:
    """Returns the smallest share, between 0 and 1, for which `reached` is true. From this share on, `reached` must stay
    true."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def _windows(injections: Sequence[Injection]) -> list[_Window]:
    """Returns one _Window for each injection, in the order in which the windows begin."""
    windows = []
    for injection in sorted(injections, key=lambda injection: injection.effect_at_us):
        recovered_us = injection.recovered_at_us
        end_us = None if recovered_us is None else recovered_us + LAG_US
        windows.append(_Window(injection.effect_at_us - LEAD_US, end_us, injection.id))
    return windows


def _owner(case: Case, windows: Sequence[_Window]) -> int:
    """Returns the id of the injection to which the case belongs, or OUTSIDE if it belongs to none."""
    if case.sent_us is None:
        return OUTSIDE
    is_of_effects = case.kinds[0] in EFFECTS
    met = [
        window.injection
        for window in windows
        if (window.end_us is None or case.sent_us <= window.end_us)
        and (case.settled_us is None or case.settled_us >= window.begin_us or is_of_effects)
    ]
    if not met:
        return OUTSIDE
    return met[0] if case.settled_us is None or is_of_effects else met[-1]


def is_power_loss(injection: Injection) -> bool:
    """Returns whether the injection cut the power of brokers."""
    return injection.action in ACTS and "power_loss" in ACTS[injection.action].counts_as
