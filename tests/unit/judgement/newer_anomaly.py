"""What a version with one anomaly more, TRIAL, says of its own runs and of older ones.

test_newer_anomaly.py runs this module, and test_older_runs.py, with the plugin `support.trial_anomaly`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.evidence import CANARY_ARM, RUN, SUBJECT, doubts, evidence_of, says
from support.sealed_runs import relink
from support.trial_anomaly import PLANTED, TRIAL

from delivery_verifier.judgement.canary import expected_counts
from delivery_verifier.judgement.evaluation import Validation, expected_evaluations
from delivery_verifier.judgement.evidence import Evidence
from delivery_verifier.judgement.judge import load_and_judge
from delivery_verifier.model.anomalies import Anomaly, searched_for
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.store.books import STRANGERS, Books, counts_of
from delivery_verifier.store.run_directory import IncompleteRun, RunDirectory
from delivery_verifier.store.tables import FORMAT_VERSION

NEW, OLD = FORMAT_VERSION, FORMAT_VERSION - 1
PRODUCERS = "books/producers.parquet"
COLUMNS = ("trial", "also_trial")
BEFORE_SETTLE = ("plan", "produce", "inject_fault")


@dataclass(frozen=True)
class Stored:
    """A run on disk in which nothing is wrong, and what a test asks of it."""

    run: RunDirectory

    def claim_versions(self, **versions: int) -> None:
        """Writes other versions into manifests, as a liar would who computes all seals anew.

        The steps before settle get the version of settle.
        """
        if "settle" in versions:
            versions = dict.fromkeys(BEFORE_SETTLE, versions["settle"]) | versions
        for step, version in versions.items():
            self.alter(step, {"format_version": version})

    def rewrite(self, table: pa.Table) -> None:
        """Replaces books/producers, and seals it."""
        self._replace("reconcile", PRODUCERS, table)

    def producers(self) -> pa.Table:
        """Returns books/producers."""
        return pq.read_table(self.run.path / PRODUCERS)

    def leave_out(self, anomaly: str) -> None:
        """Takes the evaluations of `anomaly` out of validation.json, and seals it."""
        file = self.run.path / "validation.json"
        validation = json.loads(file.read_bytes())
        validation["evaluated"] = [item for item in validation["evaluated"] if item["about"] != anomaly]
        with self.run.writing("validate") as output:
            output.write_json("validation.json", validation)

    def judged(self) -> RunVerdict:
        """Returns the verdict on the run as it is now."""
        return load_and_judge(self.run.path)

    def _replace(self, step: str, name: str, table: pa.Table) -> None:
        pq.write_table(table, self.run.path / name)
        from delivery_verifier.store.digests import sha256

        self.alter(step, {"files": self.run.manifest(step).files | {name: sha256(self.run.path / name)}})

    def alter(self, step: str, fields: Mapping[str, object]) -> None:
        """Replaces fields of the manifest of `step`, and computes all seals anew."""
        file = self.run.path / f"{step}.json"
        file.write_text(json.dumps(json.loads(file.read_bytes()) | dict(fields)))
        relink(self.run, raised=False)


def evidence(settled: int, reconciled: int) -> Evidence:
    """Returns the evidence of a run whose canary and whose books are of these versions. Nothing is wrong in it."""
    plain = evidence_of(RUN)
    planted = expected_counts(RUN, settled, reconciled)
    rows = plain.books.tables[PRODUCERS].to_pylist()
    names = set(counts_of(reconciled)) | {"arm", "producer", "session", "partition"}
    for row in rows:
        if row["arm"] == CANARY_ARM and (row["producer"], row["partition"]) == (0, 0):
            row |= planted
    table = pa.Table.from_pylist([{name: row[name] for name in row if name in names} for row in rows])
    books = Books.from_tables(dict(plain.books.tables) | {PRODUCERS: table}, reconciled)
    return replace(
        plain,
        books=books,
        canary_expected=planted,
        searched=searched_for(settled, applied=False),
        format_version=settled,
    )


def stored(folder: Path, settled: int = NEW, reconciled: int = NEW, validated: int = NEW) -> Stored:
    """Writes the run of `evidence` to `folder`, with all its steps, and the validation that this version gives it."""
    run, held = RunDirectory(folder), evidence(settled, reconciled)
    validation = Validation(
        run_id=RUN.run_id,
        great_expectations_version="1",
        evaluated=[says(plan) for plan in expected_evaluations(held)],
    )
    files: dict[str, dict[str, object]] = {
        "plan": {"scenario": RUN},
        "produce": {},
        "inject_fault": {"injections": held.injections},
        "settle": {"offsets": held.offsets, "observations": held.observations},
        "validate": {"validation": validation},
    }
    for step in ("plan", "produce", "inject_fault", "settle", "reconcile", "validate"):
        with run.writing(step) as output:
            for name, value in files.get(step, {}).items():
                output.write_json(f"{name}.json", msgspec.to_builtins(value))
            if step == "settle" and held.replicas is not None:
                output.write_table("replicas", held.replicas)
            if step == "reconcile":
                output.counts |= {STRANGERS + name: 0 for name in RUN.arm_names}
            for name, table in held.books.tables.items() if step == "reconcile" else ():
                output.write_table(name.removesuffix(".parquet"), table)
    made = Stored(run)
    made.claim_versions(settle=settled, reconcile=reconciled, validate=validated)
    return made


def says_it_was_not_searched(verdict: RunVerdict) -> bool:
    return any(TRIAL in limit and "not searched" in limit for limit in verdict.limits)


def changed(table: pa.Table, name: str, value: int, arm: str) -> pa.Table:
    """Returns books/producers with `value` in the column `name` of the first row of `arm`."""
    rows = table.to_pylist()
    next(row for row in rows if row["arm"] == arm and row["producer"] == 0)[name] = value
    return pa.Table.from_pylist(rows)


def test_the_new_kind_alone_raises_the_version_of_the_format() -> None:
    assert set(searched_for(NEW)) - set(searched_for(OLD)) == {Anomaly[TRIAL]}
    assert set(counts_of(NEW)) - set(counts_of(OLD)) == set(COLUMNS)
    assert expected_counts(RUN, NEW, NEW)["trial"] == PLANTED
    assert expected_counts(RUN, OLD, NEW)["trial"] == 0
    assert not set(COLUMNS) & set(expected_counts(RUN, OLD, OLD))


def test_a_run_of_this_version_is_held_and_was_searched_for_everything(tmp_path: Path) -> None:
    verdict = stored(tmp_path).judged()
    assert (verdict.verdict, verdict.green) == ("HELD", True)
    assert not says_it_was_not_searched(verdict)
    assert all(TRIAL in {finding.anomaly for finding in arm.findings} for arm in verdict.arms)


@pytest.mark.parametrize("column", COLUMNS)
def test_a_run_of_this_version_without_a_column_of_the_new_kind_is_never_held(tmp_path: Path, column: str) -> None:
    run = stored(tmp_path)
    run.rewrite(run.producers().drop_columns([column]))
    verdict = run.judged()
    assert verdict.verdict == "INCONCLUSIVE"
    assert ("checker", "column_missing") in doubts(verdict)


def test_a_run_of_this_version_without_an_evaluation_of_the_new_kind_is_never_held(tmp_path: Path) -> None:
    run = stored(tmp_path)
    run.leave_out(TRIAL)
    verdict = run.judged()
    assert verdict.verdict == "INCONCLUSIVE"
    assert doubts(verdict) == {("checker", "expectation_not_evaluated")}


def test_a_run_of_this_version_whose_canary_has_no_case_of_the_new_kind_is_never_held(tmp_path: Path) -> None:
    run = stored(tmp_path)
    run.rewrite(changed(run.producers(), "trial", 0, CANARY_ARM))
    assert ("checker", "canary_wrong") in doubts(run.judged())


@pytest.mark.parametrize("validated", [OLD, NEW])
def test_an_older_run_is_held_and_says_for_what_it_was_not_searched(tmp_path: Path, validated: int) -> None:
    verdict = stored(tmp_path, OLD, OLD, validated).judged()
    assert (verdict.verdict, verdict.green) == ("HELD", True)
    assert says_it_was_not_searched(verdict)
    assert not any(finding.anomaly == TRIAL for arm in verdict.arms for finding in arm.findings)


def test_an_older_run_is_asked_for_all_that_its_version_had(tmp_path: Path) -> None:
    run = stored(tmp_path, OLD, OLD, OLD)
    run.leave_out("LOST")
    run.claim_versions(validate=OLD)
    assert doubts(run.judged()) == {("checker", "expectation_not_evaluated")}
    run.rewrite(run.producers().drop_columns(["duplicated"]))
    assert ("checker", "column_missing") in doubts(run.judged())


def test_an_older_run_that_is_reconciled_again_is_held_but_still_not_searched_for_the_new_kind(tmp_path: Path) -> None:
    verdict = stored(tmp_path, settled=OLD).judged()
    assert (verdict.verdict, verdict.green) == ("HELD", True)
    assert says_it_was_not_searched(verdict)


@pytest.mark.parametrize("column", COLUMNS)
def test_what_a_repeated_reconciliation_finds_without_a_canary_is_a_doubt(tmp_path: Path, column: str) -> None:
    run = stored(tmp_path, settled=OLD)
    run.rewrite(changed(run.producers(), column, 1, SUBJECT))
    verdict = run.judged()
    assert verdict.verdict == "INCONCLUSIVE"
    assert doubts(verdict) == {("checker", "anomaly_unproven")}
    assert doubts(verdict, CANARY_ARM) == set()


def test_a_case_of_the_new_kind_in_an_older_canary_is_a_doubt(tmp_path: Path) -> None:
    run = stored(tmp_path, settled=OLD)
    run.rewrite(changed(run.producers(), "trial", 1, CANARY_ARM))
    assert ("checker", "canary_wrong") in doubts(run.judged())


@pytest.mark.parametrize(
    ("claimed", "doubt"),
    [
        ({"settle": OLD, "reconcile": OLD, "validate": OLD}, "column_unplanned"),
        ({"settle": OLD, "reconcile": OLD}, "column_unplanned"),
        ({"settle": OLD}, "canary_wrong"),
        ({"settle": OLD}, "expectation_not_evaluated"),
    ],
)
def test_a_version_that_was_lowered_by_hand_is_a_doubt(tmp_path: Path, claimed: dict[str, int], doubt: str) -> None:
    run = stored(tmp_path)
    run.claim_versions(**claimed)
    verdict = run.judged()
    assert verdict.verdict == "INCONCLUSIVE"
    assert ("checker", doubt) in doubts(verdict)


def test_versions_that_were_lowered_and_columns_that_were_taken_out_do_not_pass_for_an_older_run(
    tmp_path: Path,
) -> None:
    run = stored(tmp_path)
    run.rewrite(run.producers().drop_columns(list(COLUMNS)))
    run.leave_out(TRIAL)
    run.claim_versions(settle=OLD, reconcile=OLD, validate=OLD)
    verdict = run.judged()
    assert verdict.verdict == "INCONCLUSIVE"
    assert ("checker", "canary_wrong") in doubts(verdict), "the canary still has the records of the cases"


@pytest.mark.parametrize("step", ["settle", "reconcile", "validate"])
def test_a_step_that_claims_to_be_older_than_what_it_rests_on_is_refused(tmp_path: Path, step: str) -> None:
    run = stored(tmp_path)
    run.alter(step, {"format_version": OLD})
    with pytest.raises(IncompleteRun, match=rf"{step}\.json has format version {OLD}, though it rests on"):
        run.judged()


def test_a_version_that_was_raised_by_hand_is_a_doubt(tmp_path: Path) -> None:
    run = stored(tmp_path, OLD, OLD, OLD)
    run.claim_versions(settle=NEW, reconcile=NEW, validate=NEW)
    assert ("checker", "column_missing") in doubts(run.judged())
