"""Results of sentinels, made by hand: single ones, and a history with every state."""

from __future__ import annotations

from typing import Any

from delivery_verifier.model.sentinel import SentinelArm, SentinelResult, State
from delivery_verifier.run_directory import sentinel_history

CLUSTER = "staging"
BEGUN_US = 1_795_000_000_000_000
"""The time of the first result: 2026-11-18 11:06:40 UTC."""
MINUTE_US = 60_000_000
WHY: dict[State, str] = {
    "HELD": "HELD: of 1,000 acknowledged records, none was lost, duplicated or reordered.",
    "VIOLATED": "VIOLATED: of 1,000 acknowledged records, 3 are lost.",
    "INCONCLUSIVE": "INCONCLUSIVE: a leader moved, and nobody here did that.",
    "NO VERDICT": "no server of the cluster answers; 127.0.0.1:9092: Connection refused",
    "SKIPPED": "the cluster is in use: run nightly of kdv-at-another-host, since 2026-11-18 02:00:00 UTC",
}


def arm(verdict: Any = "HELD", **more: Any) -> SentinelArm:
    """Returns an arm of 1,000 records, all acknowledged in time, unless `more` says otherwise."""
    counts = {"attempted": 1_000, "acknowledged": 1_000, "in_time": 1_000}
    latencies = {"latency_ms_p50": 7.08, "latency_ms_p99": 22.39}
    return SentinelArm(arm="safe", verdict=verdict, **counts | latencies | more)


def result(state: State = "HELD", minute: int = 0, cluster: str = CLUSTER, **of_arm: Any) -> SentinelResult:
    """Returns the result of the run that ended `minute` minutes after BEGUN_US. `of_arm`: fields of its arm."""
    judged = state not in ("NO VERDICT", "SKIPPED")
    return SentinelResult(
        run=f"scheduled__{minute:05}",
        run_id=f"scheduled__{minute:05}+00:00",
        cluster=cluster,
        at_us=BEGUN_US + minute * MINUTE_US,
        state=state,
        why=WHY[state],
        arms=[arm(state, **of_arm)] if judged else [],
    )


def state_at(number: int) -> State:
    """The state of a run in a history in which everything happens."""
    rare: dict[int, State] = {61: "NO VERDICT", 62: "NO VERDICT", 63: "INCONCLUSIVE", 120: "VIOLATED", 150: "SKIPPED"}
    return rare.get(number, "SKIPPED" if number % 40 == 17 else "HELD")


def all_day(count: int = 200) -> list[SentinelResult]:
    """Adds a result each five minutes to the history, with an hour in which there was none. Returns them, oldest
    first."""
    return [
        sentinel_history.add(
            result(
                state_at(number),
                5 * number + 60 * (number > 100),
                in_time=1_000 - (number % 23 == 5) * number,
                latency_ms_p99=22.39 + (number % 31 == 3) * 900,
            )
        )
        for number in range(count)
    ]
