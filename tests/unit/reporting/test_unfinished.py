"""Tests of the runs without a verdict on the page of all runs: a run that still runs is RUNNING, and a run without a
directory is listed, too."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.run_builder import judged, planned

from delivery_verifier.host.processes import ProcessId, myself
from delivery_verifier.reporting.overview import page, rows
from delivery_verifier.reporting.overview.rows import NO_VERDICT, QUEUED, RUNNING, StoredRunRow
from delivery_verifier.reporting.overview.run_filter import RunFilter
from delivery_verifier.reporting.overview.unfinished import AirflowRun, merged
from delivery_verifier.run_directory.run_directory import RunDirectory

NASTY = '<script>alert(1)</script>"><img src=x onerror=alert(1)>'


def _airflow(*states: tuple[str, Any]) -> dict[str, AirflowRun]:
    begun_at = datetime(2026, 11, 22, tzinfo=UTC)
    return {
        name: AirflowRun(name=name, page=f"../dags/verify_delivery/runs/{name}", state=state, begun_at=begun_at)
        for name, state in states
    }


def _merged(runs: Path, *states: tuple[str, Any]) -> dict[str, StoredRunRow]:
    return {row.name: row for row in merged(rows.rows(runs), _airflow(*states), runs)}


def _owned(runs: Path, name: str, owner: ProcessId, day: int = 0) -> RunDirectory:
    """Makes a planned run that the process `owner` started."""
    run = planned(runs, name, day=day)
    with run.writing("plan") as output:
        output.write_json("scenario.json", run.read_scenario())
        output.notes["owner"] = str(owner)
    return run


@pytest.mark.parametrize(
    ("state", "verdict"),
    [("queued", QUEUED), ("running", RUNNING), ("failed", NO_VERDICT), ("success", NO_VERDICT)],
)
def test_a_run_without_a_verdict_is_what_airflow_says(tmp_path: Path, state: str, verdict: str) -> None:
    planned(tmp_path, "one")
    row = _merged(tmp_path, ("one", state))["one"]
    assert (row.verdict, row.green, row.why) == (verdict, False, "last finished step: plan")


def test_a_verdict_stands_though_airflow_has_not_ended_the_run(tmp_path: Path) -> None:
    judged(tmp_path, "one")
    assert _merged(tmp_path, ("one", "running"))["one"].verdict == "HELD"


def test_a_damaged_verdict_is_no_run_at_work(tmp_path: Path) -> None:
    run = judged(tmp_path, "one").path
    (run / "verdict.json").write_text("{")
    row = _merged(tmp_path, ("one", "running"))["one"]
    assert row.verdict == NO_VERDICT and "cannot be believed" in row.why


@pytest.mark.parametrize(
    ("state", "verdict", "why"),
    [
        ("queued", QUEUED, "waits"),
        ("running", RUNNING, "being planned"),
        ("failed", NO_VERDICT, "failed before it was planned"),
        ("success", NO_VERDICT, "was removed"),
    ],
)
def test_a_run_of_airflow_without_a_directory_is_listed_and_says_why(
    tmp_path: Path, state: str, verdict: str, why: str
) -> None:
    judged(tmp_path, "other")
    listed = _merged(tmp_path, ("bad-input", state))
    assert list(listed) == ["bad-input", "other"]
    assert listed["bad-input"].verdict == verdict and why in listed["bad-input"].why
    assert not listed["bad-input"].green


def test_a_run_of_a_living_command_runs_and_of_an_ended_one_does_not(tmp_path: Path) -> None:
    _owned(tmp_path, "alive", myself())
    _owned(tmp_path, "dead", ProcessId(os.getpid(), myself().started + 1))
    planned(tmp_path, "nobodys")
    assert {name: row.verdict for name, row in _merged(tmp_path).items()} == {
        "alive": RUNNING,
        "dead": NO_VERDICT,
        "nobodys": NO_VERDICT,
    }


def test_of_several_runs_of_one_command_only_the_newest_is_said_to_run(tmp_path: Path) -> None:
    for day, name in enumerate(["first", "second"]):
        _owned(tmp_path, name, myself(), day)
    listed = _merged(tmp_path)
    assert listed["second"].verdict == RUNNING and listed["first"].verdict == NO_VERDICT
    assert "may be judged now" in listed["first"].why


def test_airflow_knows_better_than_a_living_command_whether_a_run_has_ended(tmp_path: Path) -> None:
    _owned(tmp_path, "one", myself())
    assert _merged(tmp_path, ("one", "failed"))["one"].verdict == NO_VERDICT


def test_a_run_leads_to_airflow_and_a_run_without_a_report_to_its_tab(tmp_path: Path) -> None:
    judged(tmp_path, "done")
    planned(tmp_path, "at-work")
    known = _airflow(("done", "success"), ("at-work", "running"))
    html = page.overview(tmp_path, RunFilter(), docs=False, in_airflow=known)
    assert 'href="runs/done/report.html"' in html and 'href="../dags/verify_delivery/runs/done" target="_top"' in html
    assert 'href="../dags/verify_delivery/runs/at-work/plugin/delivery-report" target="_top"' in html
    assert 'aria-label="at-work in Airflow"' in html


def test_a_run_takes_one_row_and_its_sentence_no_line_of_its_own(tmp_path: Path) -> None:
    judged(tmp_path, "one", lost=3, sentence=f"VIOLATED: 3 lost. {'A long tail. ' * 30}")
    judged(tmp_path, "two", "INCONCLUSIVE", sentence="INCONCLUSIVE: the fault did not take effect.")
    html = page.overview(tmp_path, RunFilter(), docs=False)
    cells = re.findall(r'<td class="what"><span class="cut" title="[^"]*">(.*?)</span></td>', html)
    assert cells == ["The fault did not take effect.", "<b>3 lost</b>"]


def test_nothing_that_airflow_says_becomes_markup(tmp_path: Path) -> None:
    html = page.overview(tmp_path, RunFilter(), docs=False, in_airflow=_airflow((NASTY, "failed")))
    assert "<script>alert" not in html and "<img" not in html


def test_a_run_without_arms_is_listed_without_a_green_light(tmp_path: Path) -> None:
    run = judged(tmp_path, "one").path
    (run / "scenario.json").write_text('{"name": "x", "arms": []}')
    (row,) = rows.rows(tmp_path)
    assert (row.profiles, row.kafka_version) == ((), "")
    assert page.overview(tmp_path, RunFilter(), docs=False).count('<td class="mark">') == 1
