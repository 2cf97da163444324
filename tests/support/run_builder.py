"""Run directories made by hand, step by step, and the presets that most tests take.

    RunBuilder(plan).fault(kill).anomalies(case("acks_1", "LOST", 7)).arm("acks_1", "VIOLATED").conclude().write(runs)

A builder seals the steps that it was told of, in this order, and no others: a run that ended early takes fewer calls.
The presets of reports stand in `report_material`, runs whose ledger and log Spark reads in `run_directories`, evidence
that no file holds in `evidence`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from delivery_verifier import catalogue
from delivery_verifier.catalogue import FAULTS, PRICES, PROFILES
from delivery_verifier.model.history import Injection, Observation
from delivery_verifier.model.scenario import Load, Scenario, VerdictName
from delivery_verifier.model.snapshot import Offsets
from delivery_verifier.model.verdict import ArmVerdict, Doubt, Exposure, RunVerdict
from delivery_verifier.store.ledger import LOAD_BEGAN
from delivery_verifier.store.replicas import REPLICAS
from delivery_verifier.store.run_directory import RunDirectory, StepOutput
from delivery_verifier.store.table import arrow_schema
from support.report_tables import Row, write_tables

EVIDENCE = ("produce", "inject_fault", "settle", "read_topic")
"""The steps on which the reconciliation of a run rests."""


class RunBuilder:
    """Makes the directory of one run of `plan`. Every method but `verdict`, `write` and `at` returns the builder."""

    def __init__(self, plan: Scenario, **notes: str) -> None:
        """`notes`: those of the step plan."""
        self.plan, self.arms = plan, list[ArmVerdict]()
        self._steps: list[tuple[str, Callable[[StepOutput], object]]] = []
        self._verdict: dict[str, Any] = {}
        self.step("plan", lambda output: (output.write_json("scenario.json", plan), output.notes.update(notes)))

    def step(self, name: str, write: Callable[[StepOutput], object] = lambda output: None) -> Self:
        """Adds a step. `write` writes its files and counts; without it, the step is sealed and empty."""
        self._steps.append((name, write))
        return self

    def steps(self, *names: str) -> Self:
        """Adds empty steps."""
        for name in names:
            self.step(name)
        return self

    def fault(self, *injections: Injection, observations: Sequence[Observation] = ()) -> Self:
        """Adds the step inject_fault, with what was done and what the observer saw."""

        def write(output: StepOutput) -> None:
            output.write_json("injections.json", list(injections))
            output.write_json("observations.json", list(observations))

        return self.step("inject_fault", write)

    def settled(self, offsets: Offsets) -> Self:
        """Adds the step settle, with a snapshot and without replicas."""

        def write(output: StepOutput) -> None:
            output.write_json("offsets.json", offsets)
            pq.write_table(arrow_schema(REPLICAS).empty_table(), output.staging / REPLICAS.file)

        return self.step("settle", write)

    def anomalies(
        self, *cases: Row, counted: Mapping[tuple[str, str], int] | None = None, broken_law: str = ""
    ) -> Self:
        """Adds the step reconcile, with all tables. See `report_tables.write_tables`."""
        return self.step(
            "reconcile",
            lambda output: write_tables(output.staging, self.plan, [*cases], dict(counted or {}), broken_law),
        )

    def arm(self, name: str, verdict: VerdictName = "HELD", **fields: Any) -> Self:
        """Adds the verdict on an arm, as expected and without findings. `fields` override those of ArmVerdict."""
        arm = self.plan.arm(name)
        expected = " or ".join(arm.expectation.verdicts)
        plain: dict[str, Any] = {"as_expected": True, "expected": expected, "sentence": "", "longest_gap_s": 3.4}
        plain |= {"doubts": [], "findings": [], "books": {}}
        plain["exposure"] = [Exposure(injection=1, reported=6_120, outstanding=9)]
        named = {"role": arm.role, "profile": arm.profile.name, "claim": arm.claim, "verdict": verdict}
        self.arms.append(ArmVerdict(arm=name, **named, **plain | fields))
        return self

    def verdict(self, verdict: VerdictName = "HELD", sentence: str = "", **fields: Any) -> RunVerdict:
        """Returns the verdict on the run, green if each arm is as expected. `fields` override those of RunVerdict."""
        plain: dict[str, Any] = {"green": all(arm.as_expected for arm in self.arms), "limits": []}
        named = {"run_id": self.plan.run_id, "scenario": self.plan.name, "verdict": verdict, "sentence": sentence}
        return RunVerdict(arms=self.arms, **named, **plain | fields)

    def conclude(self, verdict: VerdictName = "HELD", sentence: str = "", **fields: Any) -> Self:
        """Adds the step conclude, with the verdict that `verdict` returns, and a report of two words."""
        return self.step("conclude", lambda output: write_verdict(output, self.verdict(verdict, sentence, **fields)))

    def write(self, runs: Path) -> RunDirectory:
        """Writes the run below the folder `runs`."""
        return self.at(runs / self.plan.run_id)

    def at(self, path: Path) -> RunDirectory:
        """Writes the run into the folder `path`, whatever the id of the run."""
        run = RunDirectory(path)
        for name, write in self._steps:
            with run.writing(name) as output:
                write(output)
        return run


def write_verdict(output: StepOutput, verdict: RunVerdict) -> None:
    """Writes the verdict and a report as the step conclude does."""
    output.write_json("verdict.json", verdict)
    (output.staging / "report.html").write_text("the report")


# ---- Runs for the page of all runs: a scenario, a sealed verdict and a report, without any tables.

BEGUN = datetime(2026, 11, 1, 2, tzinfo=UTC)


def begun(run_id: str, *, profile: str = "safe", fault: str = "kill_leader", day: int = 0) -> RunBuilder:
    """Returns a run that ended after the step plan. `day` is the number of days after BEGUN."""
    return RunBuilder(
        catalogue.scenario(
            run_id,
            profile=PROFILES[profile],
            fault=FAULTS[fault],
            load=Load(),
            records=1000,
            created_at=(BEGUN + timedelta(days=day)).isoformat(),
        )
    )


def planned(runs: Path, run_id: str, **more: Any) -> RunDirectory:
    """Makes the run of `begun`."""
    return begun(run_id, **more).write(runs)


def unjudged(runs: Path, run_id: str) -> RunDirectory:
    """Makes a run whose evidence is complete, and which has no verdict."""
    return begun(run_id).steps(*EVIDENCE).write(runs)


def judged(
    runs: Path,
    run_id: str,
    verdict: VerdictName = "HELD",
    *,
    lost: int = 0,
    gap_s: float | None = 3.4,
    green: bool | None = None,
    sentence: str = "",
    other_cases: Mapping[str, int] | None = None,
    **more: Any,
) -> RunDirectory:
    """Makes a run with a verdict and a report.

    `lost`: how many records the subject lost. `gap_s`: the longest silence of the subject in seconds. `other_cases`:
    more counts in the subject's books, by column.
    """
    run = begun(run_id, **more)
    for arm in run.plan.loaded:
        hurt = {"lost": lost, **(other_cases or {})} if arm.role == "subject" else {"lost": 999_999}
        books = {"duplicated": 0, "reordered": 0} | hurt
        run.arm(arm.name, verdict, books=books, longest_gap_s=gap_s, expected="HELD")
    told = sentence or f"{verdict}: of 41,210 acknowledged records, {lost:,} lost."
    return run.conclude(verdict, told, green=verdict == "HELD" if green is None else green).write(runs)


def many(runs: Path, count: int) -> None:
    """Makes `count` runs of all kinds, one run a day."""
    profiles, faults = list(PROFILES), [name for name in FAULTS if name != "kill_application"]
    for day in range(count):
        more = {"profile": profiles[day % len(profiles)], "fault": faults[day % len(faults)], "day": day}
        run_id = f"scheduled__{BEGUN + timedelta(days=day):%Y-%m-%d}-{day:03d}"
        if day % 9 == 4:
            planned(runs, run_id, **more)
        elif day % 5 == 2:
            judged(runs, run_id, "VIOLATED", lost=3 ** (day % 10), gap_s=4 + day % 7, **more)
        elif day % 7 == 3:
            judged(runs, run_id, "INCONCLUSIVE", gap_s=None, **more)
        else:
            judged(runs, run_id, gap_s=1 + day % 4, **more)


# ---- Runs of price scenarios, which measure what a guarantee costs, with the files that hold their figures.

SILENCE = timedelta(seconds=5)
"""The silence between the warm-up and the load."""
LATENCIES = [(False, 1.0, 1.12, 980), (True, 1000.0, 1122.0, 15), (True, 5000.0, 5623.0, 5)]


def priced(
    runs: Path,
    name: str,
    verdict: VerdictName = "HELD",
    *,
    run_id: str = "",
    doubt: str = "",
    latencies: Sequence[tuple[bool, float, float, int]] = LATENCIES,
    **counts: int,
) -> Path:
    """Makes a finished run of a price scenario. Returns the run directory.

    The ledger has a warm-up and, after five silent seconds, 1,001 records, one record each millisecond.
    """
    plan = catalogue.build(PRICES[name], run_id or f"run-{name}", created_at="2026-11-21T12:00:00+00:00")
    profile = name.split(".")[2]

    def produce(output: StepOutput) -> None:
        output.counts[LOAD_BEGAN] = int((BEGUN + SILENCE).timestamp() * 1e6)
        _parquet(output, "ledger/one", _ledger(profile, plan.load.block * plan.load.partitions))

    def reconcile(output: StepOutput) -> None:
        names = ("inside", "latency_ms_from", "latency_ms_until", "records")
        rows = [{"arm": profile, **dict(zip(names, row, strict=True))} for row in latencies]
        _parquet(output, "timeline/latency", pa.Table.from_pylist(rows))

    run = RunBuilder(plan).step("produce", produce).step("reconcile", reconcile)
    books = {"reported": 1000, "lost": 0, "duplicated": 0, "reordered": 0, "failed": 0, "indeterminate": 0} | counts
    doubts = [Doubt(kind="checker", name=doubt, detail="")] if doubt else []
    run.arm(profile, verdict, books=books, doubts=doubts, exposure=[], longest_gap_s=3.25)
    return run.conclude(verdict).write(runs).path


def _parquet(output: StepOutput, name: str, table: pa.Table) -> None:
    file = output.staging / f"{name}.parquet"
    file.parent.mkdir()
    pq.write_table(table, file)


def _ledger(arm: str, warm_up: int) -> pa.Table:
    moments = [BEGUN] * warm_up + [BEGUN + SILENCE + timedelta(milliseconds=at) for at in range(1001)]
    time, count = pa.timestamp("us", tz="UTC"), len(moments)
    return pa.table(
        {
            "arm": [arm] * count,
            "sequence": list(range(count)),
            "outcome": ["ACKED"] * count,
            "sent_at": pa.array(moments, time),
            "settled_at": pa.array(moments, time),
        }
    )
