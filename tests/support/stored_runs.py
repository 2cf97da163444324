"""Functions for tests of stored runs. A test copies a run, alters the copy as an accident or a forger would, seals it
through the library, and judges it again."""

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
from delivery_verifier.pipeline.steps.conclude import judge_and_report
from delivery_verifier.pipeline.steps.reconcile import reconcile
from delivery_verifier.pipeline.steps.validate import validate
from delivery_verifier.run_directory.run_directory import RunDirectory
from delivery_verifier.verdict.judge import load_and_judge
from support.stored_data import relink


def copy_of(run: RunDirectory, name: str) -> RunDirectory:
    """Returns a copy of a run beside the original. The copy has no cluster or workspace, like a run sent by mail."""
    copy = RunDirectory(run.path.with_name(name))
    shutil.copytree(run.path, copy.path)
    return copy


def reseal(run: RunDirectory, step: str, counts: Mapping[str, int] | None = None, **values: Any) -> None:
    """Seals the files of `step` as they are now. `counts` override counts of the manifest.

    `values` are the new contents of JSON files, by the name of the file without `.json`.
    """
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
    relink(run)


def with_scenario(run: RunDirectory, change: Callable[[Scenario], Scenario]) -> None:
    """Replaces the scenario of a run by what `change` makes of the scenario, and seals the step `plan` again."""
    reseal(run, "plan", scenario=change(run.read_scenario()))


def claiming(claim: str) -> Callable[[Scenario], Scenario]:
    """Returns a change of a scenario that gives its subjects the claim `claim`."""

    def change(scenario: Scenario) -> Scenario:
        arms = tuple(
            msgspec.structs.replace(arm, claim=claim) if arm.role == "subject" else arm for arm in scenario.arms
        )
        return msgspec.structs.replace(scenario, arms=arms)

    return change


def rewrite(file: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Alters one Parquet file. Asserts that `change` changes the table. Who reads the file meanwhile gets the old or
    the new one, never a part."""
    table = pq.read_table(file)
    altered = change(table)
    assert not altered.equals(table), f"{file.name} was to be altered"
    beside = file.with_suffix(".altered")
    pq.write_table(altered, beside)
    beside.replace(file)


def judge_again(run: RunDirectory, spark: SparkSession | None = None, report: bool = False) -> RunVerdict:
    """Validates and judges a run again, without Kafka, and returns the verdict.

    With a Spark session, reconciles the run from its log first. Writes verdict.json and report.html only if `report` is
    true, because the page takes longer than the judgement.
    """
    if spark is not None:
        reconcile(run.path, lambda: spark)
    validate(run.path)
    return judge_and_report(run.path) if report else load_and_judge(run.path)


def arm(verdict: RunVerdict, name: str) -> ArmVerdict:
    """Returns the verdict of one arm."""
    return next(item for item in verdict.arms if item.arm == name)


def doubts(verdict: RunVerdict, name: str) -> set[tuple[str, str]]:
    """Returns (kind, name) of the doubts about one arm."""
    return {(doubt.kind, doubt.name) for doubt in arm(verdict, name).doubts}
