"""The laws of effects. Each law says that two counts are equal that were made independently of each other. The laws
count effects, lives of members, kills, visible records or visible attempts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import pyarrow as pa

from delivery_verifier.model.anomalies import Anomaly, column
from delivery_verifier.model.scenario import Scenario
from spark_jobs.checks.law import Law


def effect_laws(scenario: Scenario, producers: pa.Table, books: pa.Table, counted: Mapping[str, int]) -> Iterable[Law]:
    """Yields the laws of each arm with an application, and of the canary.

    `producers`: PRODUCERS. `books`: EFFECT_BOOKS. `counted`: the counts of settle.json. If a count is missing there, -1
    takes its place.
    """
    totals = {arm: Counter[str]() for arm in scenario.applied}
    for row in books.to_pylist():
        arm = row.pop("arm")
        del row["partition"]
        totals[arm].update(row)
    for row in producers.to_pylist():
        if row["arm"] in totals:
            totals[row["arm"]]["skipped"] += row[column(Anomaly.SKIPPED)]
    for arm, total in totals.items():
        yield from _laws_of_arm(arm, total, counted)


def _laws_of_arm(arm: str, total: Counter[str], counted: Mapping[str, int]) -> Iterable[Law]:
    lives = [count for name, count in counted.items() if name.startswith(f"applied/{arm}/")]
    read, rows = sum(lives) if lives else -1, total["effects"]
    yield Law("effects_read", arm, -1, "effects that members counted", read, "rows in effects/", rows)
    names = ("applied", "again", "ghost_effects", "markers", "unparsed")
    yield Law(
        "effects_sum", arm, -1, "rows in effects/", rows, "effects in the books", sum(total[name] for name in names)
    )
    yield Law("effects_sum", arm, -1, "records that name an attempt", total["lines"], "visible copies", total["copies"])
    accounted = total["applied"] + total["pending"] + total["skipped"]
    yield Law("effects_sum", arm, -1, "visible attempts", total["visible"], "applied, pending or skipped", accounted)
    started, killed = counted.get(f"lives/{arm}", -1), counted.get(f"killed/{arm}", -1)
    yield Law("lives", arm, -1, "lives with counted effects", len(lives), "lives started", started)
    yield Law("lives", arm, -1, "lives killed", killed, "kills ordered", counted.get(f"kill_orders/{arm}", -1))
