"""Tests of the columns in tables of anomalies: every kind of anomaly that any arm has gets a column. So no VIOLATED arm
is shown with zeros only."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from support import run_builder
from support.catalogue_runs import arm, attempt, catalogue, item
from support.evidence import RUN, evidence_of, judged
from support.run_builder import judged as stored

from delivery_verifier.catalogue.applications import APPLICATIONS, application_lines
from delivery_verifier.model.anomalies import KINDS, SECONDARY, Anomaly, also_column, column
from delivery_verifier.model.catalogue_run import CatalogueRun
from delivery_verifier.reporting import terminal
from delivery_verifier.reporting.anomaly_columns import ALWAYS, cases, columns, heading
from delivery_verifier.reporting.blocks import blocks_of
from delivery_verifier.reporting.matrix import markdown, page, tables
from delivery_verifier.reporting.overview import page as overview
from delivery_verifier.reporting.overview.run_filter import RunFilter
from delivery_verifier.reporting.price import page as price_page
from delivery_verifier.reporting.price.price import price
from delivery_verifier.suite.results import COUNTS

OTHERS = [anomaly for anomaly in Anomaly if anomaly not in ALWAYS]
NOTHING = {"lost": 0, "duplicated": 0, "reordered": 0}
COUNT = 4321


@pytest.mark.parametrize("anomaly", Anomaly)
def test_a_kind_has_a_column_where_any_arm_has_a_case_that_is_hidden_or_not(anomaly: Anomaly) -> None:
    arms = [NOTHING, {**NOTHING, column(anomaly): 1}]
    assert columns(arms) == [*ALWAYS, *([anomaly] if anomaly in OTHERS else [])]
    if anomaly in SECONDARY:
        hidden = {**NOTHING, column(anomaly): 1, also_column(anomaly): 2}
        assert cases(hidden, anomaly) == 3
        assert anomaly in columns([{**hidden, column(anomaly): 0}])


def test_without_a_case_there_are_the_three_and_what_no_tally_has_is_not_known() -> None:
    assert columns([]) == columns([NOTHING]) == list(ALWAYS)
    assert cases({}, Anomaly.LOST) is None
    assert cases({"also_reordered": 1}, Anomaly.REORDERED) is None
    assert columns([dict.fromkeys(map(column, Anomaly), 1)]) == [*ALWAYS, *OTHERS]


def test_headings_are_short_and_differ() -> None:
    assert len({heading(anomaly) for anomaly in Anomaly}) == len(KINDS)
    assert heading(Anomaly.ABORTED_VISIBLE) == "aborted visible"


def printed(anomaly: Anomaly) -> str:
    verdict = judged(evidence_of(RUN))
    arms = [replace(one, tally={**one.tally, column(anomaly): COUNT}) for one in verdict.arms[:1]]
    terminal.write(replace(verdict, arms=[*arms, *verdict.arms[1:]]), out := io.StringIO())
    return out.getvalue()


@pytest.mark.parametrize("anomaly", Anomaly)
def test_a_terminal_shows_every_kind_of_which_an_arm_has_cases(anomaly: Anomaly) -> None:
    text = printed(anomaly)
    (headings,) = [line for line in text.splitlines() if "longest silence" in line]
    assert heading(anomaly) in headings
    assert f"{COUNT:,}" in text


@pytest.mark.parametrize("anomaly", Anomaly)
def test_a_narrow_terminal_has_a_row_for_it(anomaly: Anomaly, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "PLAIN_WIDTH", 80)
    (row,) = [line for line in printed(anomaly).splitlines() if line.strip("| ").startswith(heading(anomaly))]
    assert f"{COUNT:,}" in row


def test_the_canarys_planted_cases_widen_no_table() -> None:
    verdict = judged(evidence_of(RUN))
    assert any(cases(one.tally, Anomaly.CORRUPTED) for one in verdict.arms if one.role == "canary")
    terminal.write(verdict, out := io.StringIO())
    assert "corrupted" not in out.getvalue()


def catalogue_with(anomaly: Anomaly) -> CatalogueRun:
    hurt = replace(arm(), counts={**NOTHING, column(anomaly): COUNT})
    healthy = replace(arm("safe", "HELD"), counts=dict.fromkeys(COUNTS, 0))
    one = replace(attempt("as expected"), arms=[hurt, healthy])
    return catalogue(replace(item("a"), attempts=(one,)), item("b", "as expected"))


@pytest.mark.parametrize("anomaly", Anomaly)
def test_the_matrix_shows_every_kind_of_which_an_arm_has_cases(anomaly: Anomaly) -> None:
    (table,) = tables.tables(catalogue_with(anomaly))
    cells = {cell.arm: dict(cell.counts) for cells in table.rows[0].cells.values() for cell in cells}
    assert list(cells["acks_1"]) == list(cells["safe"]) == table.counts
    assert cells["acks_1"][heading(anomaly)] == f"{COUNT:,}"
    assert cells["safe"][heading(anomaly)] == "0"
    assert table.rows[0].most == [(heading(anomaly), COUNT)]
    html = page.render(catalogue_with(anomaly), "../..")
    assert f'<td class="most">{heading(anomaly)} {COUNT:,}</td>' in html
    assert f'data-name="{heading(anomaly)}">{COUNT:,}<' in html


@pytest.mark.parametrize("anomaly", Anomaly)
def test_the_markdown_has_a_column_for_it_and_rows_of_one_width(anomaly: Anomaly) -> None:
    lines = [line for line in markdown.document(catalogue_with(anomaly)).splitlines() if line.startswith("|")]
    headings = [cell.strip() for cell in lines[0].strip("|").split("|")]
    assert {line.count("|") for line in lines} == {len(headings) + 1}
    cells = [cell.strip() for cell in lines[2].strip("|").split("|")]
    assert cells[headings.index(heading(anomaly))] == f"{COUNT:,}"


@pytest.mark.parametrize("anomaly", OTHERS)
def test_the_price_shows_every_kind_of_which_a_run_has_cases(anomaly: Anomaly, tmp_path: Path) -> None:
    hurt = {column(anomaly): COUNT}
    runs = [
        run_builder.priced(tmp_path, "price.none.acks_1", **hurt),
        run_builder.priced(tmp_path, "price.none.acks_0"),
        run_builder.priced(tmp_path, "price.kill_leader.acks_1", doubt="log_moved", **hurt),
    ]
    prices = price(runs, "")
    html = price_page.render(prices)
    shown = re.findall(rf'data-name="{heading(anomaly)}">([^<]+)<', html)
    assert sorted(shown) == sorted([f"{COUNT:,}", "–", "0"])
    price_page.text(prices, out := io.StringIO())
    assert heading(anomaly) in out.getvalue()


@pytest.mark.parametrize("anomaly", Anomaly)
def test_the_page_of_all_runs_shows_every_kind_of_which_a_subject_has_cases(anomaly: Anomaly, tmp_path: Path) -> None:
    stored(tmp_path, "hurt", "VIOLATED", other_cases={column(anomaly): COUNT})
    stored(tmp_path, "well")
    html = overview.overview(tmp_path, RunFilter(), docs=True)
    assert re.findall(r"<b>([^<]+)</b></span></td>", html) == [f"{COUNT:,} {heading(anomaly)}"]
    assert html.count(">no anomaly<") == 1


@pytest.mark.parametrize("anomaly", Anomaly)
def test_the_arms_of_the_report_have_a_column_for_every_kind_that_an_arm_has(anomaly: Anomaly) -> None:
    verdict = judged(evidence_of(RUN))
    application = application_lines(APPLICATIONS["commit_first"])
    plain, control, canary = (replace(each, application=application) for each in verdict.arms)
    convicted = replace(plain, tally={**plain.tally, column(anomaly): COUNT})
    for subject in (plain, convicted):
        judged_run = replace(verdict, arms=[control, subject, canary])
        first, second = blocks_of(judged_run).arms
        assert (first.arm.arm, second.arm.arm) == (plain.arm, control.arm), "settings under test first, and no canary"
        cells = {cell.heading: cell.text for cell in first.cells}
        assert {*map(heading, ALWAYS), "skipped", "reapplied"} <= cells.keys()
        assert cells.get(heading(anomaly)) == (f"{COUNT:,}" if subject is convicted else cells.get(heading(anomaly)))
