"""Stored runs: copied, altered the way a fault or a liar would, sealed again through the library, and judged again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.verdict import ArmVerdict, RunVerdict
from delivery_verifier.run.steps.conclude import judge_and_report
from delivery_verifier.run.steps.reconcile import reconcile
from delivery_verifier.run.steps.validate import validate
from delivery_verifier.store.run_directory import RunDirectory


def copy_of(run: RunDirectory, name: str) -> RunDirectory:
    """A copy beside the original, as somebody would keep it who got it by mail: no cluster, no workspace."""
    copy = RunDirectory(run.path.with_name(name))
    shutil.copytree(run.path, copy.path)
    return copy


def reseal(run: RunDirectory, step: str, counts: Mapping[str, int] | None = None, **values: Any) -> None:
    """Seals the files of `step` as they are now, with changed `counts`; `values` are JSON files to be written anew."""
    before = run.manifest(step)
    with run.writing(step) as output:
        for name in before.files:
            if (run.path / name).is_file():
                (output.staging / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(run.path / name, output.staging / name)
        for name, value in values.items():
            output.write_json(f"{name}.json", value)
        output.counts |= before.counts | (counts or {})
        output.notes |= before.notes


def with_scenario(run: RunDirectory, change: Callable[[Scenario], Scenario]) -> None:
    """Rewrites what was planned."""
    reseal(run, "plan", scenario=change(run.read_scenario()))


def claiming(claim: str) -> Callable[[Scenario], Scenario]:
    """The same scenario with another claim on its subjects."""

    def change(scenario: Scenario) -> Scenario:
        arms = tuple(
            msgspec.structs.replace(arm, claim=claim) if arm.role == "subject" else arm for arm in scenario.arms
        )
        return msgspec.structs.replace(scenario, arms=arms)

    return change


def rewrite(file: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Alters one Parquet file."""
    table = pq.read_table(file)
    altered = change(table)
    assert not altered.equals(table), f"{file.name} was to be altered"
    pq.write_table(altered, file)


def judge_again(run: RunDirectory, spark: SparkSession | None = None) -> RunVerdict:
    """validate and conclude; with a session, reconciles from the log first. No Kafka is asked."""
    if spark is not None:
        reconcile(run.path, lambda: spark)
    validate(run.path)
    return judge_and_report(run.path)


def arm(verdict: RunVerdict, name: str) -> ArmVerdict:
    """The verdict of one arm."""
    return next(item for item in verdict.arms if item.arm == name)


def doubts(verdict: RunVerdict, name: str) -> set[tuple[str, str]]:
    """(kind, name) of the doubts about one arm."""
    return {(doubt.kind, doubt.name) for doubt in arm(verdict, name).doubts}
