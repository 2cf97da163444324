"""The invariants of effects. Each invariant says that two counts are equal that were made independently of each other.
The invariants count effects, incarnations of members, kills, visible records or visible attempts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import pyarrow as pa

from delivery_verifier.model.anomalies import Anomaly, column
from delivery_verifier.model.scenario import Scenario
from spark_jobs.checks.invariant import Invariant


def effect_invariants(
    scenario: Scenario, producers: pa.Table, tally: pa.Table, counted: Mapping[str, int]
) -> Iterable[Invariant]:
    """Yields the invariants of each arm with an application, and of the canary.

    `producers`: PRODUCERS. `tally`: EFFECT_TALLY. `counted`: the counts of settle.json. If a count is missing there, -1
    takes its place.
    """
    totals = {arm: Counter[str]() for arm in scenario.applied}
    for row in tally.to_pylist():
        arm = row.pop("arm")
        del row["partition"]
        totals[arm].update(row)
    for row in producers.to_pylist():
        if row["arm"] in totals:
            totals[row["arm"]]["skipped"] += row[column(Anomaly.SKIPPED)]
    for arm, total in totals.items():
        yield from _invariants_of_arm(arm, total, counted)


def _invariants_of_arm(arm: str, total: Counter[str], counted: Mapping[str, int]) -> Iterable[Invariant]:
    incarnations = [count for name, count in counted.items() if name.startswith(f"applied/{arm}/")]
    read, rows = sum(incarnations) if incarnations else -1, total["effects"]
    yield Invariant("effects_read", arm, -1, "effects that members counted", read, "rows in effects/", rows)
    names = ("applied", "again", "ghost_effects", "markers", "unparsed")
    yield Invariant(
        "effects_sum", arm, -1, "rows in effects/", rows, "effects in the counts", sum(total[name] for name in names)
    )
    yield Invariant(
        "effects_sum", arm, -1, "records that name an attempt", total["lines"], "visible copies", total["copies"]
    )
    accounted = total["applied"] + total["pending"] + total["skipped"]
    yield Invariant(
        "effects_sum", arm, -1, "visible attempts", total["visible"], "applied, pending or skipped", accounted
    )
    started, killed = counted.get(f"incarnations/{arm}", -1), counted.get(f"killed/{arm}", -1)
    yield Invariant(
        "incarnations", arm, -1, "incarnations with counted effects", len(incarnations), "incarnations started", started
    )
    yield Invariant(
        "incarnations", arm, -1, "incarnations killed", killed, "kills ordered", counted.get(f"kill_orders/{arm}", -1)
    )
