"""Run directories for the page of all runs: a scenario, a sealed verdict and a report, without any tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from delivery_verifier.catalogue import FAULTS, PROFILES, scenario
from delivery_verifier.model.scenario import Load, VerdictName
from delivery_verifier.model.verdict import ArmVerdict, Exposure, RunVerdict
from delivery_verifier.store.run_directory import RunDirectory

BEGUN = datetime(2026, 11, 1, 2, tzinfo=UTC)


def planned(
    runs: Path, run_id: str, *, profile: str = "safe", fault: str = "kill_leader", day: int = 0
) -> RunDirectory:
    """Makes a run that ended after the step `plan`. `day` is the number of days after BEGUN."""
    run = RunDirectory(runs / run_id)
    plan = scenario(
        run_id,
        profile=PROFILES[profile],
        fault=FAULTS[fault],
        load=Load(),
        records=1000,
        created_at=(BEGUN + timedelta(days=day)).isoformat(),
    )
    with run.writing("plan") as output:
        output.write_json("scenario.json", plan)
    return run


def judged(
    runs: Path,
    run_id: str,
    verdict: VerdictName = "HELD",
    *,
    lost: int = 0,
    gap_s: float | None = 3.4,
    green: bool | None = None,
    sentence: str = "",
    other_cases: dict[str, int] | None = None,
    **more: Any,
) -> RunDirectory:
    """Makes a run with a verdict and a report.

    `lost`: how many records the subject lost. `gap_s`: the longest silence of the subject in seconds. `other_cases`:
    more counts in the subject's books, by column.
    """
    run = planned(runs, run_id, **more)
    plan = run.read_scenario()
    arms = [
        ArmVerdict(
            arm=arm.name,
            role=arm.role,
            profile=arm.profile.name,
            claim=arm.claim,
            verdict=verdict,
            as_expected=True,
            expected="HELD",
            sentence="",
            doubts=[],
            findings=[],
            longest_gap_s=gap_s,
            books={"lost": lost if arm.role == "subject" else 999_999, "duplicated": 0, "reordered": 0}
            | ((other_cases or {}) if arm.role == "subject" else {}),
            exposure=[Exposure(injection=1, reported=6_120, outstanding=9)],
        )
        for arm in plan.loaded
    ]
    told = RunVerdict(
        run_id=run_id,
        scenario=plan.name,
        verdict=verdict,
        green=verdict == "HELD" if green is None else green,
        sentence=sentence or f"{verdict}: of 41,210 acknowledged records, {lost:,} lost.",
        limits=[],
        arms=arms,
    )
    seal(run, told)
    return run


def seal(run: RunDirectory, verdict: RunVerdict) -> None:
    """Writes the verdict and a report as the step `conclude` does."""
    with run.writing("conclude") as output:
        output.write_json("verdict.json", msgspec.to_builtins(verdict))
        (output.staging / "report.html").write_text("the report")


def with_evidence(run: RunDirectory) -> RunDirectory:
    """Adds empty steps to a planned run, so that its evidence is complete. It has no verdict. Returns `run`."""
    for step in ("produce", "inject_fault", "settle", "read_topic"):
        with run.writing(step):
            pass
    return run


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
