"""Tests of the price page: it shows the figures of stored runs, and no figure that a run cannot give."""

from __future__ import annotations

import io
import re
from pathlib import Path

import msgspec
import pytest
from support import runs_for_overview
from support.runs_for_prices import made

from delivery_verifier import catalogue
from delivery_verifier.command_line.main import main
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.pages.price import page as price_page
from delivery_verifier.pages.price.price import Price, price
from delivery_verifier.store.run_directory import IncompleteRun


@pytest.fixture
def both(tmp_path: Path) -> Price:
    runs = [
        made(tmp_path, f"price.{condition}.acks_1", lost=7 * (condition == "kill_leader"), failed=1, indeterminate=2)
        for condition in ("flat_out", "none", "kill_leader")
    ]
    return price(runs, "2 CPUs")


def test_throughput_is_that_of_the_load_proper_without_the_warm_up(both: Price) -> None:
    flat_out = both.run_under("acks_1", "flat_out")
    assert both.rate == 5000
    assert flat_out is not None and flat_out.records_per_s == pytest.approx(1001)


def test_latency_is_over_all_records_and_flat_out_there_is_none(both: Price) -> None:
    rated, flat_out = both.run_under("acks_1", "kill_leader"), both.run_under("acks_1", "flat_out")
    assert rated is not None and flat_out is not None
    assert (rated.latency_ms_p50, rated.latency_ms_p99, rated.latency_ms_p999) == (1.12, 1122.0, 5623.0)
    assert (flat_out.latency_ms_p50, flat_out.latency_ms_p999) == (None, None)
    assert (rated.lost, rated.unanswered, rated.longest_gap_s) == (7, 3, 3.25)


def test_counts_of_a_run_whose_check_is_in_doubt_are_not_told(tmp_path: Path) -> None:
    (one,) = price(
        [made(tmp_path, "price.none.safe".replace("safe", "acks_1"), "INCONCLUSIVE", doubt="log_moved")], ""
    ).measured
    assert (one.lost, one.duplicated, one.unanswered, one.doubts) == (None, None, None, ["log_moved"])


def test_a_latency_table_that_is_missing_is_no_latency(tmp_path: Path) -> None:
    path = made(tmp_path, "price.none.acks_1")
    (path / "timeline" / "latency.parquet").unlink()
    with pytest.raises(IncompleteRun, match=r"latency\.parquet"):
        price([path], "")
    (one,) = price(
        [made(tmp_path, "price.none.acks_1", run_id="silent", latencies=[(False, 1.0, 2.0, 0)])], ""
    ).measured
    assert one.latency_ms_p99 is None


def test_a_run_without_a_verdict_has_no_price(tmp_path: Path) -> None:
    path = made(tmp_path, "price.none.acks_1")
    (path / "conclude.json").unlink()
    with pytest.raises(IncompleteRun):
        price([path], "")


def test_the_last_run_of_a_profile_and_condition_counts(tmp_path: Path) -> None:
    runs = [made(tmp_path, "price.none.acks_1", run_id=name, lost=lost) for name, lost in (("a", 1), ("b", 2))]
    assert [(one.run_id, one.lost) for one in price(runs, "").measured] == [("b", 2)]


def test_other_runs_and_none_are_refused(tmp_path: Path) -> None:
    other = runs_for_overview.judged(tmp_path, "other").path
    for runs in ([], [other]):
        with pytest.raises(BadInput, match="allowed: runs of price scenarios"):
            price(runs, "")


def test_the_page_shows_every_figure_marks_what_went_wrong_and_says_how_it_was_measured(both: Price) -> None:
    page = price_page.render(both)
    assert re.search(r'class="n unsure" data-name="lost">7<', page) and 'data-name="records/s">1,001<' in page
    assert "1.12 ms" in page and "5.62 s" in page and "alone" in page and "Not measured" not in page
    assert page.index(">no fault</td>") < page.index(">leader killed</td>")
    plain = io.StringIO()
    price_page.text(both, plain)
    assert "acks_1" in plain.getvalue() and "1,001" in plain.getvalue() and "5.62 s" in plain.getvalue()


def test_what_a_run_flat_out_lost_is_shown_beside_its_throughput(tmp_path: Path) -> None:
    prices = price([made(tmp_path, "price.flat_out.acks_1", lost=4321, indeterminate=7)], "")
    page, plain = price_page.render(prices), io.StringIO()
    assert 'class="n unsure" data-name="lost">4,321<' in page and 'class="n unsure" data-name="no answer">7<' in page
    price_page.text(prices, plain)
    assert "4,321" in plain.getvalue()


def test_what_was_not_measured_is_said_and_no_figure_takes_its_place(tmp_path: Path) -> None:
    page = price_page.render(price([made(tmp_path, "price.none.acks_1")], ""))
    assert page.count("Not measured.") == 1 and "leader killed</td>" not in page


def test_the_command_makes_page_and_json_from_stored_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, page = made(tmp_path, "price.none.acks_1"), tmp_path / "price.html"
    assert main(["price", "--from", str(path), "--out", str(page), "--json"]) == 0
    told = msgspec.json.decode(capsys.readouterr().out, type=Price)
    assert told.measured[0].records_per_s == pytest.approx(1001) and page.read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    "arguments", [["--profiles", "acks_2"], ["--conditions", "none,some"], ["--from", "no-such-run"]]
)
def test_what_cannot_be_measured_is_refused_in_one_line(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["price", "--out", str(tmp_path / "price.html"), *arguments]) == 64
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_every_price_scenario_has_one_profile_alone_and_one_load_for_all_profiles() -> None:
    for name, entry in catalogue.PRICES.items():
        plan = catalogue.build(entry, "run")
        assert [arm.profile.name for arm in plan.loaded] == [name.split(".")[2]] and name not in catalogue.ENTRIES
    for condition in ("flat_out", "none", "kill_leader"):
        loads = {
            str((entry.load, entry.fault, entry.records))
            for name, entry in catalogue.PRICES.items()
            if condition in name
        }
        assert len(loads) == 1
