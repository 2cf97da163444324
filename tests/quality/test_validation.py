"""Tests of the validation with the real Great Expectations: its results for correct counts, and every known case in
which it passes although it should fail.

A session costs seconds. So each case has only one evaluation, over the smallest run.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
import msgspec
import pyarrow as pa
import pytest
from support.evidence import (
    EFFECT_AT,
    LAST,
    RUN,
    SUBJECT,
    WEAK,
    Rows,
    a_scenario,
    arm,
    beats,
    case,
    cases,
    doubts,
    evidence_of,
    judged,
    lost,
    the_rows,
)

from delivery_verifier.model.anomalies import Anomaly, searched_for
from delivery_verifier.model.data import dumps
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.run_directory.run_directory import RunDirectory
from delivery_verifier.run_directory.tally import Tally
from delivery_verifier.verdict.evaluation import INVARIANTS, Validation, invariants_of, read_validation
from delivery_verifier.verdict.evidence import Evidence
from delivery_verifier.verdict.unexplained import UNEXPLAINED
from expectations import validation as module
from expectations.validation import evaluate, validate


def validated(evidence: Evidence, folder: Path) -> tuple[RunVerdict, Validation]:
    validation = evaluate(evidence, folder, {})
    return judged(evidence, validation), validation


def with_producers(table: pa.Table) -> Evidence:
    plain = evidence_of(RUN)
    return replace(plain, tally=Tally.from_tables(dict(plain.tally.tables) | {"counts/producers.parquet": table}))


def producers() -> pa.Table:
    return evidence_of(RUN).tally.tables["counts/producers.parquet"]


def of_subject(table: pa.Table) -> Any:
    return pa.compute.equal(table["arm"], SUBJECT)


def test_healthy_tally_pass_every_expectation_and_are_held(tmp_path: Path) -> None:
    verdict, found = validated(evidence_of(RUN), tmp_path)
    assert verdict.verdict == "HELD"
    assert verdict.green
    searched = searched_for(applied=False)
    assert len(found.evaluated) == 2 * (len(searched) + len(UNEXPLAINED)) + len(invariants_of(evidence_of(RUN)))
    assert all(item.success and not item.exception for item in found.evaluated)
    assert all((tmp_path / item.url).is_file() for item in found.evaluated)
    the_site_is_whole(tmp_path, found)
    index = (tmp_path / "data_docs" / "index.html").read_text()
    listed = [index.index(f">{name}</a>") for name in (SUBJECT, WEAK, "evidence")]
    assert listed == sorted(listed), "in the order of the evaluations, the subject first"


def the_site_is_whole(folder: Path, found: Validation) -> None:
    """Asserts that Data Docs have a page for every validation, that the index lists all of them, and that no page loads
    anything from another host."""
    index = (folder / "data_docs" / "index.html").read_text()
    for url in {item.url for item in found.evaluated}:
        result = "✔ succeeded" if all(item.success for item in found.evaluated if item.url == url) else "✘ failed"
        (row,) = (part for part in index.split("<tr>") if quote(url.removeprefix("data_docs/")) in part)
        assert result in row
    pages = list((folder / "data_docs").rglob("*.html"))
    assert len(pages) == len({item.url for item in found.evaluated}) + len(("index", "guarantee", "evidence"))
    for page in pages:
        text = page.read_text()
        assert "<title>" in text
        assert not re.findall(r"""(?:src|href)=["']?(?:https?:)?//|@import|url\(|Data asset: None""", text), page


@pytest.mark.parametrize("run_id", ["20261121T090610-2764", "20261121T090610-9999", "99999999", "profiling"])
def test_a_run_id_that_looks_like_a_time_with_an_impossible_zone_is_only_a_name(run_id: str, tmp_path: Path) -> None:
    """By default, Data Docs also hide every run with `profiling` in its name. This run must not be hidden."""
    plain = evidence_of(RUN)
    verdict, found = validated(
        replace(plain, scenario=msgspec.structs.replace(plain.scenario, run_id=run_id)), tmp_path
    )
    assert verdict.verdict == "HELD"
    the_site_is_whole(tmp_path, found)


def test_a_loss_fails_where_it_is_forbidden_and_passes_where_it_is_permitted(tmp_path: Path) -> None:
    def change(rows: Any) -> None:
        lost(3)(rows)
        lost(30, WEAK)(rows)

    verdict, found = validated(evidence_of(RUN, change), tmp_path)
    failed = [(item.arm, item.about, item.unexpected_count, item.count) for item in found.evaluated if not item.success]
    assert failed == [(SUBJECT, "LOST", 1, 3)]
    the_site_is_whole(tmp_path, found)
    assert verdict.verdict == "VIOLATED"
    assert arm(verdict, WEAK).verdict == "HELD"


def test_a_hidden_reordering_fails_under_a_claim_of_order(tmp_path: Path) -> None:
    def change(rows: Any) -> None:
        row = next(row for row in rows["counts/producers.parquet"] if row["producer"] == 0)
        row["duplicated"], row["also_reordered"] = 1, 1

    copied = cases(case(EFFECT_AT, EFFECT_AT, "DUPLICATED", "REORDERED", arm="acks_all"))
    evidence = evidence_of(a_scenario("acks_all", claim="ordered"), change, cases=copied)
    verdict, found = validated(evidence, tmp_path)
    assert [item.about for item in found.evaluated if not item.success] == ["REORDERED"]
    assert verdict.verdict == "VIOLATED"


@pytest.mark.parametrize("profile", ["idempotent", "acks_all"])
def test_a_late_attempt_of_unknown_outcome_fails_only_where_brokers_must_refuse_it(
    profile: str, tmp_path: Path
) -> None:
    def late(rows: Rows) -> None:
        row = next(row for row in rows["counts/producers.parquet"] if row["producer"] == 0)
        row["indeterminate"], row["resolved_present"], row["resolved_late"] = 1, 1, 1
        row["acked"], row["reported"], row["found"] = 399, 399, 399

    verdict, found = validated(evidence_of(a_scenario(profile, claim="ordered"), late), tmp_path)
    (reordered,) = (item for item in found.evaluated if (item.arm, item.about) == (profile, "REORDERED"))
    assert not doubts(verdict, profile)
    if profile == "idempotent":
        assert (verdict.verdict, reordered.success, reordered.count) == ("VIOLATED", False, 1)
    else:
        assert (verdict.verdict, reordered.success, reordered.count) == ("HELD", True, 0)


def a_loss_after_the_change(**more: Any) -> Evidence:
    """Returns a run with acks=1 that lost a record long after the change of leader, and three before it."""
    times = [*[EFFECT_AT] * 3, LAST]
    rows = cases(*(case(at_us, at_us, "LOST", arm="acks_1") for at_us in times))
    return evidence_of(a_scenario("acks_1"), lost(4, "acks_1"), **{"cases": rows, **more})


def test_a_case_that_no_disturbance_can_explain_fails_an_expectation_of_its_own(tmp_path: Path) -> None:
    verdict, found = validated(a_loss_after_the_change(), tmp_path)
    failed = [(item.arm, item.about, item.unexpected_count, item.count) for item in found.evaluated if not item.success]
    assert failed == [("acks_1", "LOST unexplained", 1, 1)]
    assert arm(verdict, "acks_1").verdict == "VIOLATED"
    assert not [doubt for doubt in doubts(verdict, "acks_1") if doubt[0] == "checker"]
    (page,) = {item.url for item in found.evaluated if (item.arm, item.suite) == ("acks_1", "guarantee")}
    assert "no record is LOST at a time, a partition or an offset" in (tmp_path / page).read_text()
    the_site_is_whole(tmp_path, found)


def test_permitted_cases_of_which_none_was_written_down_are_nulls_and_no_zero(tmp_path: Path) -> None:
    verdict, found = validated(a_loss_after_the_change(cases=None), tmp_path)
    (item,) = (item for item in found.evaluated if (item.arm, item.about) == ("acks_1", "LOST unexplained"))
    assert (item.success, item.missing_count) == (True, 1)
    assert ("checker", "nulls") in doubts(verdict, "acks_1")


def test_an_empty_table_passes_great_expectations_and_is_inconclusive(tmp_path: Path) -> None:
    table = producers()
    verdict, found = validated(with_producers(table.filter(pa.compute.invert(of_subject(table)))), tmp_path)
    assert all(item.success for item in found.evaluated if item.arm == SUBJECT)
    assert arm(verdict).verdict == "INCONCLUSIVE"
    assert ("checker", "expectation_not_evaluated") in doubts(verdict)


def test_an_all_null_column_passes_great_expectations_and_is_inconclusive(tmp_path: Path) -> None:
    table = producers()
    nulls = pa.nulls(table.num_rows, pa.int64())
    holed = table.set_column(table.column_names.index("lost"), "lost", nulls)
    verdict, found = validated(with_producers(holed), tmp_path)
    assert all(item.success for item in found.evaluated if item.about == "LOST")
    assert arm(verdict).verdict == "INCONCLUSIVE"
    assert ("checker", "nulls") in doubts(verdict)


def test_a_missing_column_fails_great_expectations_and_is_not_violated(tmp_path: Path) -> None:
    verdict, found = validated(with_producers(producers().drop_columns(["lost"])), tmp_path)
    assert [item.success for item in found.evaluated if item.about == "LOST"] == [False, False]
    assert all("lost_total" in item.exception for item in found.evaluated if item.about == "LOST")
    assert arm(verdict).verdict == "INCONCLUSIVE"
    assert ("checker", "expectation_not_evaluated") in doubts(verdict)


def test_an_invariant_without_rows_passes_great_expectations_and_is_inconclusive(tmp_path: Path) -> None:
    plain = evidence_of(RUN)
    invariants = plain.tally.tables["counts/invariants.parquet"]
    kept = invariants.filter(pa.compute.not_equal(invariants["invariant"], "log_sum"))
    tally = Tally.from_tables(dict(plain.tally.tables) | {"counts/invariants.parquet": kept})
    verdict, found = validated(replace(plain, tally=tally), tmp_path)
    assert [item.success for item in found.evaluated if item.about == "log_sum"] == [True]
    assert {"expectation_not_evaluated", "invariant_missing"} <= {name for _, name in doubts(verdict)}
    assert verdict.verdict == "INCONCLUSIVE"


def test_a_canary_that_was_not_found_fails_and_is_inconclusive(tmp_path: Path) -> None:
    def change(rows: Any) -> None:
        next(row for row in rows["counts/producers.parquet"] if row["arm"] == "canary" and row["lost"])["lost"] = 0

    verdict, found = validated(evidence_of(RUN, change), tmp_path)
    assert [item.about for item in found.evaluated if not item.success] == ["canary"]
    assert ("checker", "canary_wrong") in doubts(verdict)
    assert verdict.verdict == "INCONCLUSIVE"


@pytest.fixture
def fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes the expectation about LOST from the guarantee suite."""
    from expectations import suites

    plain = suites.load

    def load(name: Any) -> Any:
        suite = plain(name)
        suite.expectations = [each for each in suite.expectations if each.meta["about"] != "LOST"]
        return suite

    monkeypatch.setattr(suites, "load", load)


def test_a_suite_without_an_expectation_passes_over_a_loss_and_is_inconclusive(tmp_path: Path, fewer: None) -> None:
    verdict, found = validated(evidence_of(RUN, lost(3)), tmp_path)
    assert all(item.success for item in found.evaluated)
    assert arm(verdict).verdict == "INCONCLUSIVE"
    assert ("checker", "expectation_not_evaluated") in doubts(verdict)


def test_the_committed_suites_are_what_the_vocabulary_generates() -> None:
    from expectations import suites

    for suite in (suites.guarantee(), suites.evidence()):
        committed = json.loads((suites.HERE / f"{suite.name}.json").read_text())
        assert committed == suites.as_json(suite), "run `python -m expectations.suites`"


def test_there_is_an_expectation_for_every_anomaly_and_every_invariant() -> None:
    from expectations import suites

    about = [each.meta["about"] for each in suites.load("guarantee").expectations]
    assert about == [*(kind.value for kind in Anomaly), *UNEXPLAINED.values()]
    assert [each.meta["about"] for each in suites.load("evidence").expectations] == list(INVARIANTS)


def a_run_directory(folder: Path, **changes: Any) -> RunDirectory:
    """Returns a run directory of the hand-made run, up to the step `reconcile`. `changes` override fields of the
    scenario."""
    import msgspec
    import pyarrow.parquet as pq

    evidence = evidence_of(RUN)
    run = RunDirectory(folder / RUN.run_id)
    run.path.mkdir(parents=True)
    (run.path / "scenario.json").write_bytes(dumps(msgspec.structs.replace(RUN, **changes)))
    with run.writing("produce"):
        pass
    with run.writing("inject_fault") as output:
        output.write_json("injections.json", [*evidence.injections])
        seen = sorted([*evidence.observations, *beats()], key=lambda observation: observation.at_us)
        output.write_json("observations.json", [*seen])
    with run.writing("settle") as output:
        output.write_json("offsets.json", evidence.offsets)
        output.write_table("replicas", evidence.replicas)
    with run.writing("reconcile") as output:
        output.counts |= {f"foreign_writers/{arm}": 0 for arm in RUN.arm_names}
        for name, rows in the_rows(RUN).items():
            (output.staging / name).parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist(rows), output.staging / name)
    return run


def test_the_step_writes_what_the_judge_reads_and_may_be_repeated(tmp_path: Path) -> None:
    from delivery_verifier.verdict.judge import load_and_judge

    run = a_run_directory(tmp_path)
    for _ in range(2):
        validate(run.path)
        run.require("validate")
        assert load_and_judge(run.path).verdict == "HELD"
    found = read_validation((run.path / "validation.json").read_bytes())
    assert run.manifest("validate").counts == {"evaluated": len(found.evaluated), "failed": 0}
    assert len(list((tmp_path / "data_docs" / "validations").rglob("*.html"))) == 2 * 3


def test_the_step_fails_at_its_entry_when_it_is_told_to(tmp_path: Path) -> None:
    run = a_run_directory(tmp_path, fail_step="validate")
    with pytest.raises(RuntimeError, match="fails as asked"):
        validate(run.path)
    assert not (run.path / "validate.json").exists()


def test_the_library_does_not_import_great_expectations_by_itself() -> None:
    import subprocess

    modules = "delivery_verifier.verdict.judge, expectations.validation"
    code = f"import sys, {modules}; sys.exit('great_expectations' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert module.SITE == "data_docs"


def test_an_evaluation_with_another_tolerance_than_the_contracts_is_seen_even_where_nothing_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        module, "_tolerances", lambda plans: {f"{kind.value.lower()}_tolerance": None for kind in Anomaly}
    )
    verdict, _ = validated(evidence_of(RUN), tmp_path)
    assert ("checker", "expectation_not_evaluated") in doubts(verdict)
    assert verdict.verdict == "INCONCLUSIVE"


def test_no_template_is_compiled_twice_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Great Expectations makes a view for each section of each validation."""
    from expectations.data_docs import views

    monkeypatch.setattr(views, "_COMPILED", views.Compiled())
    compiled: list[str] = []
    generate = jinja2.Environment._generate

    def counted(environment: jinja2.Environment, source: Any, name: str | None, *more: Any, **named: Any) -> str:
        compiled.append(str(name))
        return generate(environment, source, name, *more, **named)

    monkeypatch.setattr(jinja2.Environment, "_generate", counted)
    pages = [views.Page().env.get_template("page.j2") for _ in range(3)]
    assert len(pages) == 3 and compiled.count("page.j2") == 1
