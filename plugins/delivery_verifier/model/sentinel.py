"""The results of a sentinel: what became of each of the small verified loads that it puts on one cluster."""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

from delivery_verifier.model.scenario import VerdictName

State = Literal["HELD", "VIOLATED", "INCONCLUSIVE", "NO VERDICT", "SKIPPED"]
"""How a run of a sentinel ended. NO VERDICT: it failed. SKIPPED: it did not begin, because another run was there."""
STATES: tuple[State, ...] = get_args(State)
NOTE = "sentinel"
"""The note in the manifest of the step plan that makes a run one of a sentinel. Its text is the name of the cluster."""
IN_TIME_MS = 1000.0
"""The latency in ms up to which an acknowledgement counts as in time. It is the limit of a bucket of timeline/latency,
so their number is exact."""


class SentinelArm(Struct, frozen=True, kw_only=True):
    """One arm with settings under test, in one run.

    `attempted` counts its attempts, `acknowledged` those that a broker acknowledged, and `in_time` those that were
    acknowledged within IN_TIME_MS. The latencies are upper bounds, at most 12 % too high; None: nothing was
    acknowledged.
    """

    arm: str
    verdict: VerdictName
    attempted: int
    acknowledged: int
    in_time: int
    latency_ms_p50: float | None = None
    latency_ms_p99: float | None = None


class SentinelResult(Struct, frozen=True, kw_only=True):
    """What became of one run.

    * `run`: the name of the run directory, which may not exist. `run_id`: the id of the DAG run.
    * `cluster`: the name of the cluster. `at_us`: when the result was known, in µs since the epoch.
    * `why`: the sentence of the verdict, or why there is none.
    * `arms`: the arms with settings under test; empty without a verdict.
    * `totals`: how many results of this cluster were in each state up to this one.
    """

    run: str
    run_id: str
    cluster: str
    at_us: int
    state: State
    why: str = ""
    arms: list[SentinelArm] = []
    totals: dict[State, int] = {}


def has_turned(before: SentinelResult | None, now: SentinelResult) -> bool:
    """Returns whether people must be told of `now`: its state differs from that of `before`, the newest earlier result
    of the cluster that was not SKIPPED. Before the first result, a cluster counts as HELD. SKIPPED is never a turn,
    because nothing was learnt of the cluster."""
    return now.state not in ("SKIPPED", "HELD" if before is None else before.state)
