"""The price of a profile: what the guarantee of the profile costs and what it gives.

The figures come from finished runs of price scenarios. In each of these runs, one arm with one profile is the only arm
under load. Each profile is measured under each condition (see `catalogue.prices`). This module only reads run
directories, and gives no verdict. A figure that is not known is None, never zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
from msgspec import Struct

from delivery_verifier.catalogue.prices import CONDITIONS, PRICES, RATE, Condition
from delivery_verifier.catalogue.profiles import PRICED
from delivery_verifier.contract.guarantees import matrix
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import column
from delivery_verifier.model.client import CLIENTS
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import Claim, Scenario, VerdictName
from delivery_verifier.model.verdict import ArmVerdict
from delivery_verifier.reporting.anomaly_columns import ALWAYS, cases, columns
from delivery_verifier.reporting.latency import Bucket, Spread
from delivery_verifier.reporting.throughput import known_records_per_s
from delivery_verifier.run_directory.run_directory import RunDirectory


class MeasuredRun(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The figures of one run of one profile under one condition.

    * `client`: the client in words; empty if it is librdkafka.
    * `condition`: `flat_out` (as fast as the client can, no fault), `none` (fixed rate, no fault) or `kill_leader`
      (fixed rate, a leader killed).
    * `records_per_s`: reported records per second (see `reporting.throughput`).
    * `latency_ms_p50`, `latency_ms_p99`, `latency_ms_p999`: the median, the 99th and the 99.9th percentile of the
      latency, rounded up by at most 12 %. None under `flat_out`, where records wait in the client's own queue.
    * `unanswered`: the number of attempts that were FAILED or INDETERMINATE.
    * `guarantees`: the claims that the settings of the arm guarantee, by the contract, if a broker crashes.
    * `other_cases`: the number of cases of each other kind of anomaly, by the column of the kind in the counts. Kinds
      without a case are left out.

    If the run has a doubt of the kind `checker`, the check itself may be wrong: `lost`, `duplicated`, `reordered` and
    `unanswered` are then None, and `other_cases` is empty.
    """

    run_id: str
    profile: str
    condition: Condition
    verdict: VerdictName
    doubts: list[str]
    reported: int
    records_per_s: float | None
    latency_ms_p50: float | None
    latency_ms_p99: float | None
    latency_ms_p999: float | None
    longest_gap_s: float | None
    lost: int | None
    duplicated: int | None
    reordered: int | None
    unanswered: int | None
    client: str = ""
    other_cases: dict[str, int] = {}
    guarantees: list[Claim] = []

    @property
    def name(self) -> str:
        """The name of the profile, and of the client if it is not librdkafka."""
        return f"{self.profile}, {self.client}" if self.client else self.profile


class Price(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The prices of all measured profiles, as `kdv price --json` writes them.

    * `conditions`: each condition in words. `rate`: the fixed rate in records/s. `machine`: the host in words.
    * `measured_at`, `payload_bytes`, `versions`, `commit`: the values of the newest run.
    * `measured`: one run per profile and condition. If there are several such runs, the function `price` keeps the
      last.
    """

    conditions: dict[Condition, str]
    rate: int
    payload_bytes: int
    machine: str
    measured_at: str
    versions: dict[str, str]
    commit: str
    measured: list[MeasuredRun]

    def run_under(self, name: str, condition: str) -> MeasuredRun | None:
        """Returns the run of the profile `name` (see `MeasuredRun.name`) under `condition`. Returns None if there is no
        such run."""
        return next((run for run in self.measured if (run.name, run.condition) == (name, condition)), None)

    @property
    def profiles(self) -> list[str]:
        """Returns the names of the profiles that were measured, in the order of PRICED, each with librdkafka first."""
        runs = sorted(self.measured, key=lambda run: (PRICED.index(run.profile), run.client))
        return list(dict.fromkeys(run.name for run in runs))


def price(runs: Sequence[Path], machine: str) -> Price:
    """Returns the prices of profiles, from finished runs. `runs`: the run directories. `machine`: the host in words.

    Raises BadInput if `runs` is empty, or contains a run of another scenario than a price scenario. Raises
    IncompleteRun if a run is not finished, or if its files were altered.
    """
    if not runs:
        raise BadInput("from names no run; allowed: runs of price scenarios; make some with `kdv price`")
    scenarios = [_scenario(path) for path in runs]
    # Of several runs of one profile under one condition, the last in `runs` remains.
    by_condition = {(measured.name, measured.condition): measured for measured in map(measure, runs, scenarios)}
    newest = max(scenarios, key=lambda scenario: scenario.created_at)
    order = list(PRICES)
    return Price(
        conditions={**CONDITIONS},
        rate=RATE,
        machine=machine,
        payload_bytes=newest.load.payload_bytes,
        measured_at=newest.created_at,
        versions=newest.versions,
        commit=newest.commit,
        measured=sorted(
            by_condition.values(), key=lambda measured: order.index(f"price.{measured.condition}.{measured.profile}")
        ),
    )


def measure(path: Path, scenario: Scenario) -> MeasuredRun:
    """Returns the figures of one finished run of a price scenario. `path`: the run directory.

    Raises IncompleteRun if the run has no verdict or its files were altered.
    """
    run = RunDirectory(path)
    run.require("produce", "reconcile")
    verdict = run.verdict()
    _, condition, profile = scenario.name.split(".")
    arm = next(arm for arm in verdict.arms if arm.role == "subject")
    latency = _latency(path, arm.arm) if condition != "flat_out" else (None, None, None)
    return MeasuredRun(
        run_id=scenario.run_id,
        profile=profile,
        client="" if arm.client == CLIENTS["librdkafka"].title else arm.client,
        condition=msgspec.convert(condition, Condition),
        verdict=arm.verdict,
        doubts=sorted({doubt.name for doubt in arm.doubts}),
        reported=arm.tally.get("reported", 0),
        records_per_s=known_records_per_s(run, arm.arm),
        latency_ms_p50=latency[0],
        latency_ms_p99=latency[1],
        latency_ms_p999=latency[2],
        longest_gap_s=arm.longest_gap_s,
        guarantees=_guarantees(scenario, arm.arm),
        other_cases=_other_cases(arm),
        **_counts(arm),
    )


def _guarantees(scenario: Scenario, arm: str) -> list[Claim]:
    """Returns the claims that the settings of `arm` guarantee when a broker is killed (fault class `crash`)."""
    rows = matrix(Settings.of_arm(scenario, scenario.arm(arm)))
    crash = next(row for row in rows if row.fault_class == "crash")
    return [claim for claim, holds in crash.guarantees.items() if holds]


def _scenario(path: Path) -> Scenario:
    """Returns the scenario of the run in `path`.

    Raises BadInput if this is not a price scenario, and IncompleteRun if scenario.json is missing.
    """
    scenario = RunDirectory(path).read_scenario()
    if scenario.name not in PRICES:
        allowed = "runs of price scenarios; make some with `kdv price`"
        raise BadInput(f"from names {path.name!r}, a run of {scenario.name}; allowed: {allowed}")
    return scenario


def _other_cases(arm: ArmVerdict) -> dict[str, int]:
    """Returns the number of cases per kind of anomaly, by the kind's column in the counts.

    LOST, DUPLICATED and REORDERED are left out, because each has a field in MeasuredRun. Kinds without a case are left
    out, too. Returns an empty dictionary if the arm has a doubt of the kind `checker`.
    """
    others = [anomaly for anomaly in columns([_reliable_tally(arm)]) if anomaly not in ALWAYS]
    return {column(anomaly): cases(arm.tally, anomaly) or 0 for anomaly in others}


def _reliable_tally(arm: ArmVerdict) -> dict[str, int]:
    """Returns the counts of the arm, i.e. the arm's totals by column.

    Returns an empty dictionary if the arm has a doubt of the kind `checker`, because the counts may be wrong.
    """
    return {} if any(doubt.kind == "checker" for doubt in arm.doubts) else arm.tally


def _counts(arm: ArmVerdict) -> dict[str, int | None]:
    """Returns the values of the fields `lost`, `duplicated`, `reordered` and `unanswered` of MeasuredRun, by field.

    Each value is None if the arm has a doubt of the kind `checker`.
    """
    tally = _reliable_tally(arm)
    unanswered = [tally.get(name) for name in ("failed", "indeterminate")]
    return {column(anomaly): cases(tally, anomaly) for anomaly in ALWAYS} | {
        "unanswered": None if None in unanswered else sum(count or 0 for count in unanswered)
    }


def _latency(path: Path, arm: str) -> tuple[float | None, float | None, float | None]:
    """Returns the median, the 99th and the 99.9th percentile of the latency of an arm, in ms. `path`: the run
    directory.

    Each percentile is rounded up to the end of a bucket (a range of latencies). All three are None if no record was
    reported.

    The percentiles are about all records, whether they were under way during a fault or not, because an application
    meets both kinds of records.
    """
    table = pq.read_table(path / "timeline" / "latency.parquet", filters=[("arm", "=", arm), ("records", ">", 0)])
    buckets = [
        Bucket(row["latency_ms_from"], row["latency_ms_until"], row["records"])
        for row in table.sort_by("latency_ms_from").to_pylist()
    ]
    if not buckets:
        return None, None, None
    p50, p99, p999, _ = Spread(arm, False, buckets).bounds_ms
    return p50, p99, p999
