"""Who judged a stored run: the verdict says by whose rules, and that the run was made by others if so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.older_runs import NAMES, judgement, judgement_today, older_run
from support.refusals import bare_host

from delivery_verifier import __version__
from delivery_verifier.command_line import main as cli
from delivery_verifier.run import local_spark, rules_version
from delivery_verifier.run.steps import conclude, plan, reconcile, validate
from delivery_verifier.store.run_directory import RunDirectory
from delivery_verifier.store.tables import FORMAT_VERSION


@pytest.fixture
def committed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules_version, "commit", lambda: "abc1234")


def test_an_older_run_that_is_judged_again_says_by_whose_rules_and_who_made_it(tmp_path: Path, committed: None) -> None:
    run = older_run(NAMES[0], tmp_path)
    verdict = conclude.judge_and_report(run.path)
    assert judgement(verdict) == judgement_today(NAMES[0], validated_anew=False)
    (note,) = verdict.notes
    assert f"kafka-delivery-verifier {__version__}, commit abc1234, format version {FORMAT_VERSION}. The run" in note
    assert "made by kafka-delivery-verifier of an unknown version, commit 834dd39, format version 1" in note
    assert "commit abc1234" in (run.path / "report.html").read_text()
    assert run.verdict() == verdict
    assert "commit abc1234" in run.manifest("conclude").notes["judged_by"]


def test_a_run_that_its_own_version_judges_has_no_such_note(
    tmp_path: Path, committed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare_host(tmp_path, monkeypatch)
    monkeypatch.setattr(plan.preflight, "require", lambda scenario: None)
    monkeypatch.setattr("delivery_verifier.planning.build.commit", lambda: "abc1234")
    run = RunDirectory(plan.plan_from_params({}, "mine"))
    own, judge = rules_version.of_run(run), rules_version.of_this_program()
    assert rules_version.difference(own, judge) == []
    for other in (judge._replace(verifier="9"), judge._replace(commit="def"), judge._replace(format_version=1)):
        assert rules_version.difference(own, other)


@pytest.mark.slow
def test_the_command_prints_by_whose_rules_it_judged(
    tmp_path: Path, committed: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bare_host(tmp_path, monkeypatch)
    run = older_run(NAMES[0], tmp_path)

    @contextmanager
    def no_spark(run_dir: Path) -> Iterator[Any]:
        yield None

    monkeypatch.setattr(local_spark, "own_session", no_spark)  # the books and the validation stay as they were
    monkeypatch.setattr(reconcile, "reconcile", lambda run_dir, spark: None)
    monkeypatch.setattr(validate, "validate", lambda run_dir: None)
    assert cli.main(["reconcile", str(run.path)]) == 2, "the stored validation speaks of older rulings"
    told = " ".join(capsys.readouterr().out.split())
    assert f"judged by kafka-delivery-verifier {__version__}, commit abc1234, format version {FORMAT_VERSION}" in told
    assert "made by kafka-delivery-verifier of an unknown version, commit 834dd39, format version 1" in told
