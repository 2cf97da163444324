"""Tests of what is said of an application under test: wherever a verdict stands, a reader sees what it is about."""

from __future__ import annotations

import io
import re
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from msgspec.structs import replace
from support import report_material
from support.advised import advised
from support.catalogue_runs import arm, attempt, catalogue, item
from support.readers import visible
from support.run_builder import planned

from delivery_verifier.catalogue.applications import APPLICATIONS
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.reporting import junit, terminal
from delivery_verifier.reporting.comparison import comparison
from delivery_verifier.reporting.matrix import markdown, page, tables
from delivery_verifier.reporting.overview import page as overview
from delivery_verifier.reporting.overview import rows
from delivery_verifier.reporting.overview.run_filter import RunFilter
from delivery_verifier.reporting.report import page as report
from delivery_verifier.run_directory.run_directory import RunDirectory

FIRST = "applied by commit_first: commits the offsets of a batch, waits for the answer, and then applies the batch"
AFTER = "applied by commit_after: applies a batch, and then commits its offsets and waits for the answer"
SIZES = "; 1 member, at most 10 records at a time"


def applied(plain: Scenario, **applications: str) -> Scenario:
    """Returns the scenario with the applications of the catalogue behind the arms."""
    arms = (replace(arm, application=APPLICATIONS.get(applications.get(arm.name, ""))) for arm in plain.arms)
    return replace(plain, arms=tuple(arms))


def run(runs: Path, run_id: str = "a", **applications: str) -> tuple[Path, RunVerdict]:
    """Makes a judged run with the applications behind its arms."""
    path, verdict = report_material.held(runs, run_id)
    with RunDirectory(path).writing("plan") as output:
        output.write_json("scenario.json", applied(RunDirectory(path).read_scenario(), **applications))
    return path, advised(path, verdict)


@pytest.mark.slow
def test_the_report_names_the_application_of_an_arm_and_its_consumer_settings(tmp_path: Path) -> None:
    text = visible(report.render(*run(tmp_path, safe="commit_first")))
    assert f"Settings safe, {FIRST}{SIZES}" in text
    assert "does safe , applied by commit_first, keep what its settings promise" in text
    settings = text.split("Application: the consumer under test")[1].split("Load and cluster")[0]
    assert f"safe is {FIRST}" in settings and "members differs 1" in settings
    assert re.search(r"enable\.auto\.commit differs false not set", settings)
    assert "session.timeout.ms differs 6000" in settings
    plain = visible(report.render(*run(tmp_path, "b")))
    assert "applied by" not in plain and "consumer under test" not in plain


def test_a_terminal_is_told_the_application_with_its_settings(tmp_path: Path) -> None:
    _, verdict = run(tmp_path, safe="commit_first")
    terminal.write(verdict, stream := io.StringIO())
    assert f"\nsafe is {FIRST}{SIZES}\n  consumer settings: auto.offset.reset=earliest, " in stream.getvalue()
    assert "control-acks_0 is" not in stream.getvalue()


def test_a_test_report_of_a_ci_server_has_the_application_of_each_arm(tmp_path: Path) -> None:
    _, verdict = run(tmp_path, safe="commit_after")
    junit.write(tmp_path / "out.xml", verdict)
    texts = [case.findtext("system-out") or "" for case in ElementTree.parse(tmp_path / "out.xml").iter("testcase")]
    assert f"role: subject, profile: safe\n{AFTER}{SIZES}\nconsumer settings: auto.offset.reset=earliest" in texts[0]
    assert not any("applied by" in text for text in texts[1:])


def test_runs_with_other_applications_are_not_of_one_scenario(tmp_path: Path) -> None:
    first, after = (
        RunDirectory(run(tmp_path, name, safe=name)[0]).read_scenario() for name in ("commit_first", "commit_after")
    )
    left, right = comparison._properties(first, after), comparison._properties(after, first)
    differing = {name for name in left if left[name] != right[name]}
    assert differing == {"subject application: discipline"}
    assert left["subject application: enable.auto.commit"] is False
    none = comparison._properties(applied(first), first)
    assert left.keys() - none.keys() >= {"subject application: records at a time", "subject application: members"}


def test_the_list_of_runs_names_the_application_and_can_be_filtered_by_it(tmp_path: Path) -> None:
    planned(tmp_path, "plain")
    directory = planned(tmp_path, "consumed")
    with directory.writing("plan") as output:
        output.write_json("scenario.json", applied(directory.read_scenario(), safe="commit_first"))
    name = "safe, applied by commit_first"
    assert rows.profiles(rows.rows(tmp_path)) == ["safe", name]
    assert [row.name for row in RunFilter(profile=name).matching(rows.rows(tmp_path))] == ["consumed"]
    assert f'data-name="Profile"><span class="cut" title="{name}">{name}</span></td>' in overview.overview(
        tmp_path, RunFilter(), docs=False
    )


def test_the_matrix_has_a_column_for_each_profile_with_each_application() -> None:
    arms = [
        msgspec.structs.replace(arm(name), profile="safe", application=name)
        for name in ("commit_first", "commit_after")
    ]
    made = catalogue(replace(item("a"), kind="consumers", attempts=(replace(attempt("as expected"), arms=arms),)))
    (table,) = tables.tables(made)
    assert table.columns == ["safe, applied by commit_first", "safe, applied by commit_after"]
    assert table.heading == "Consumers"
    text = page.render(made, "../..")
    assert all(f'<th scope="col" class="upright applied" title="{column}">' in text for column in table.columns)
    assert "| commit_first (safe, applied by commit_first) |" in markdown.document(made)
