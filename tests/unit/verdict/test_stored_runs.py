"""Tests that a stored run is judged as it was when it was made, and that it is refused if it is of another format, if
it holds output of another run, or if a file of it was altered."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.stored_data import HELD, NAMES, RUNS, VIOLATED, judgement, relink, stored_judgement, stored_run
from support.stored_runs import rewrite

from delivery_verifier.run_directory.replicas import REPLICAS
from delivery_verifier.run_directory.run_directory import IncompleteRun, RunDirectory
from delivery_verifier.verdict.judge import load_and_judge


@pytest.mark.parametrize("name", NAMES)
def test_a_stored_run_is_judged_as_it_was(name: str) -> None:
    assert judgement(load_and_judge(RUNS / name)) == stored_judgement(name)


def test_the_stored_runs_show_what_they_are_named_for() -> None:
    assert [stored_judgement(name)["verdict"] for name in NAMES] == ["HELD", "VIOLATED"]
    convicted = stored_judgement(VIOLATED)["arms"]["acks_1"]
    assert convicted["tally"]["lost"]
    assert convicted["seen_in"]["LOST"]


@pytest.mark.parametrize("other", [{"format": "kdv-run 2"}, {"schema": "0" * 16}])
@pytest.mark.parametrize("step", ["plan", "produce", "reconcile", "validate"])
def test_a_stored_run_of_which_one_manifest_is_of_another_format_is_refused_by_name(
    tmp_path: Path, step: str, other: dict[str, str]
) -> None:
    run = stored_run(HELD, tmp_path)
    file = run.path / f"{step}.json"
    file.write_text(json.dumps(json.loads(file.read_bytes()) | other))
    relink(run)  # all seals agree
    with pytest.raises(IncompleteRun, match=rf"{step}\.json has format kdv-run .*; .* or make the run again"):
        load_and_judge(run.path)


def _count_altered(run: RunDirectory, _: RunDirectory) -> None:
    file = run.path / "produce.json"
    file.write_text(file.read_text().replace('"transactions_committed/transactional/0/0"', '"x"'))


def _injections_of(run: RunDirectory, other: RunDirectory) -> None:
    for name in ("inject_fault.json", "injections.json"):
        shutil.copyfile(other.path / name, run.path / name)


def _ledger_of(run: RunDirectory, other: RunDirectory) -> None:
    shutil.rmtree(run.path / "ledger")
    shutil.copytree(other.path / "ledger", run.path / "ledger")
    shutil.copyfile(other.path / "produce.json", run.path / "produce.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_count_altered, r"produce\.json was altered"),
        (_injections_of, r"inject_fault\.json is of the run '.*'; scenario\.json is of the run"),
        (_ledger_of, r"produce\.json is of the run '.*'; scenario\.json is of the run"),
    ],
)
def test_output_of_another_run_and_altered_counts_are_refused_by_name_and_never_judged(
    tmp_path: Path, change: Callable[[RunDirectory, RunDirectory], None], message: str
) -> None:
    run, other = (stored_run(name, tmp_path) for name in NAMES)
    change(run, other)
    with pytest.raises(IncompleteRun, match=message):
        load_and_judge(run.path)


def test_a_run_that_does_not_say_how_many_foreign_writers_wrote_is_refused(tmp_path: Path) -> None:
    run = stored_run(HELD, tmp_path)
    file = run.path / "reconcile.json"
    manifest = json.loads(file.read_bytes())
    manifest["counts"] = {name: n for name, n in manifest["counts"].items() if not name.startswith("foreign_writers/")}
    file.write_text(json.dumps(manifest))
    relink(run)
    with pytest.raises(IncompleteRun, match="does not say how many foreign writers"):
        load_and_judge(run.path)


def test_a_table_of_replicas_that_was_altered_is_refused(tmp_path: Path) -> None:
    run = stored_run(HELD, tmp_path)
    rewrite(run.path / REPLICAS.file, lambda table: table.slice(1))
    with pytest.raises(IncompleteRun, match=r"replicas\.parquet is not as step settle wrote it"):
        load_and_judge(run.path)
