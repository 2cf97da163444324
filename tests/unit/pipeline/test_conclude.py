"""Tests of the step conclude: whose brokers' data are kept when the run is judged."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from support.evidence import CANARY_ARM, RUN, SUBJECT, WEAK, arm, evidence_of, judged, lost
from support.stored_data import HELD, VIOLATED, stored_run

from delivery_verifier import __version__
from delivery_verifier.advice.doubts import ADVICE
from delivery_verifier.model.verdict import Doubt, RunVerdict
from delivery_verifier.pipeline.steps import conclude
from delivery_verifier.reporting.report import page


def with_doubt(name: str, of: str) -> RunVerdict:
    verdict = judged(evidence_of(RUN))
    doubt = Doubt(kind="coverage", name=name, detail="a detail")
    arms = [msgspec.structs.replace(each, doubts=[doubt] if each.arm == of else []) for each in verdict.arms]
    return msgspec.structs.replace(verdict, arms=arms)


VERDICTS = {
    "held": (judged(evidence_of(RUN)), False),
    "a control lost records": (judged(evidence_of(RUN, lost(3, WEAK))), False),
    "a subject is violated": (judged(evidence_of(RUN, lost(3))), True),
    "another doubt": (with_doubt("too_little_exposed", SUBJECT), False),
    **{f"log_unreadable of {name}": (with_doubt("log_unreadable", name), True) for name in (SUBJECT, WEAK, CANARY_ARM)},
    "replicas differ": (with_doubt("replicas_differ", WEAK), True),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_the_brokers_data_are_kept_where_they_may_explain_what_was_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict, is_kept = VERDICTS[name]
    kept: list[bool] = []
    monkeypatch.setattr(conclude, "complete_verdict", lambda run_dir: verdict)
    monkeypatch.setattr(page, "write", lambda run_dir, verdict, path: path.write_text(""))
    monkeypatch.setattr(conclude, "_clear_workspace", lambda run, token, keep: kept.append(keep))
    conclude.judge_and_report(stored_run(HELD, tmp_path).path)
    assert kept == [is_kept] and arm(verdict)


def test_advice_that_speaks_of_kept_data_is_given_only_where_they_are_kept() -> None:
    assert {name for name, advice in ADVICE.items() if "its workspace keeps" in advice} == conclude.ON_DISK


@pytest.mark.parametrize("is_written", [True, False])
def test_a_report_that_cannot_be_written_leaves_the_verdict_and_none_of_an_earlier_judgement(
    is_written: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, verdict = stored_run(HELD, tmp_path), judged(evidence_of(RUN))

    def write(run_dir: Path, verdict: RunVerdict, file: Path) -> None:
        if not is_written:
            file.write_text("half of")
            raise OSError("no space left")
        file.write_text("the report")

    (run.path / "report.html").write_text("an earlier report")
    monkeypatch.setattr(conclude, "complete_verdict", lambda run_dir: verdict)
    monkeypatch.setattr(page, "write", write)
    conclude.judge_and_report(run.path)
    assert run.verdict().verdict == verdict.verdict
    manifest = run.manifest("conclude")
    assert {*manifest.files} == {"verdict.json", *(["report.html"] if is_written else [])}
    assert (run.path / "report.html").is_file() == is_written
    why = manifest.notes.get("not_written/report.html")
    assert why == (None if is_written else "OSError: no space left")


def test_the_manifest_says_which_version_of_the_verifier_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "write", lambda run_dir, verdict, path: path.write_text(""))
    monkeypatch.setattr(conclude.provenance, "commit", lambda: "abc1234")
    run = stored_run(HELD, tmp_path)
    conclude.judge_and_report(run.path)
    said = f"version {__version__}, commit abc1234"
    assert run.manifest("conclude").notes["judged_by"] == said


def test_a_run_that_another_version_made_is_told_by_whose_rules_it_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stored_run(HELD, tmp_path)
    monkeypatch.setattr(conclude.provenance, "commit", lambda: "abc1234")
    (note,) = conclude.judge_and_report(run.path).notes
    assert note.startswith(f"Judged by version {__version__}, commit abc1234;")
    assert f"made by version {__version__}, commit {run.read_scenario().commit}, whose rules may differ" in note
    monkeypatch.setattr(conclude.provenance, "commit", lambda: run.read_scenario().commit)
    assert conclude.judge_and_report(run.path).notes == []


def test_advice_that_cannot_be_worked_out_leaves_the_verdict_and_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stored_run(VIOLATED, tmp_path)
    whole = run.verdict()

    def fail(*inputs: object) -> RunVerdict:
        raise OSError("effects/ cannot be read")

    monkeypatch.setattr(conclude, "advise", fail)
    verdict = conclude.complete_verdict(run.path)
    note = "What to change could not be worked out: OSError: effects/ cannot be read"
    assert (verdict.verdict, verdict.advice, verdict.notes[-1]) == ("VIOLATED", None, note)
    assert (verdict.repeat, verdict.invariants, verdict.arms[0].findings) == (
        whole.repeat,
        whole.invariants,
        whole.arms[0].findings,
    )


@pytest.mark.parametrize("can_advise", [True, False])
def test_each_doubt_is_stored_with_what_to_do_about_it(
    can_advise: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stored_run(HELD, tmp_path)
    monkeypatch.setattr(conclude, "judge", lambda *inputs: with_doubt("too_little_exposed", SUBJECT))
    monkeypatch.setattr(page, "write", lambda run_dir, verdict, path: path.write_text(""))
    monkeypatch.setattr(conclude, "advise", lambda evidence, verdict, run_dir: verdict if can_advise else 1 / 0)
    conclude.judge_and_report(run.path)
    (doubt,) = arm(run.verdict()).doubts
    assert doubt.remedy == ADVICE["too_little_exposed"]


def test_what_is_judged_again_is_stored_with_the_same_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = stored_run(VIOLATED, tmp_path)
    stored = run.verdict()
    monkeypatch.setattr(page, "write", lambda run_dir, verdict, path: path.write_text(""))
    assert conclude.judge_and_report(run.path) == run.verdict()
    again = run.verdict()
    assert (again.arms, again.advice, again.invariants, again.repeat) == (
        *(stored.arms, stored.advice, stored.invariants, stored.repeat),
    )
