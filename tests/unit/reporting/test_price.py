"""Tests of the price page: it shows the figures of stored runs, and no figure that a run cannot give."""

from __future__ import annotations

import io
import re
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from support import run_builder
from support.run_builder import priced

from delivery_verifier import catalogue
from delivery_verifier.command_line.main import main
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.reporting.price import page as price_page
from delivery_verifier.reporting.price import relative
from delivery_verifier.reporting.price.price import Price, price
from delivery_verifier.run_directory.run_directory import IncompleteRun


@pytest.fixture
def both(tmp_path: Path) -> Price:
    runs = [
        priced(tmp_path, f"price.{condition}.acks_1", lost=7 * (condition == "kill_leader"), failed=1, indeterminate=2)
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
        [priced(tmp_path, "price.none.safe".replace("safe", "acks_1"), "INCONCLUSIVE", doubt="log_moved")], ""
    ).measured
    assert (one.lost, one.duplicated, one.unanswered, one.doubts) == (None, None, None, ["log_moved"])


def test_a_latency_table_that_is_missing_is_no_latency(tmp_path: Path) -> None:
    path = priced(tmp_path, "price.none.acks_1")
    (path / "timeline" / "latency.parquet").unlink()
    with pytest.raises(IncompleteRun, match=r"latency\.parquet"):
        price([path], "")
    (one,) = price(
        [priced(tmp_path, "price.none.acks_1", run_id="silent", latencies=[(False, 1.0, 2.0, 0)])], ""
    ).measured
    assert one.latency_ms_p99 is None


def test_a_run_without_a_verdict_has_no_price(tmp_path: Path) -> None:
    path = priced(tmp_path, "price.none.acks_1")
    (path / "conclude.json").unlink()
    with pytest.raises(IncompleteRun):
        price([path], "")


def test_the_last_run_of_a_profile_and_condition_counts(tmp_path: Path) -> None:
    runs = [priced(tmp_path, "price.none.acks_1", run_id=name, lost=lost) for name, lost in (("a", 1), ("b", 2))]
    assert [(one.run_id, one.lost) for one in price(runs, "").measured] == [("b", 2)]


def test_other_runs_and_none_are_refused(tmp_path: Path) -> None:
    other = run_builder.judged(tmp_path, "other").path
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
    prices = price([priced(tmp_path, "price.flat_out.acks_1", lost=4321, indeterminate=7)], "")
    page, plain = price_page.render(prices), io.StringIO()
    assert 'class="n unsure" data-name="lost">4,321<' in page and 'class="n unsure" data-name="no answer">7<' in page
    price_page.text(prices, plain)
    assert "4,321" in plain.getvalue()


def test_what_was_not_measured_is_said_and_no_figure_takes_its_place(tmp_path: Path) -> None:
    page = price_page.render(price([priced(tmp_path, "price.none.acks_1")], ""))
    assert page.count("Not measured.") == 1 and "leader killed</td>" not in page


def test_the_command_makes_page_and_json_from_stored_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, page = priced(tmp_path, "price.none.acks_1"), tmp_path / "price.html"
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


def _with_rates(tmp_path: Path, **rates: float | None) -> Price:
    """Returns the price of one run per profile, flat out, with these records per second."""
    measured = price([priced(tmp_path, f"price.flat_out.{profile}") for profile in rates], "")
    return replace(measured, measured=[replace(run, records_per_s=rates[run.profile]) for run in measured.measured])


def test_a_chart_shows_each_profile_as_a_multiple_of_acks_1_beside_its_guarantee(tmp_path: Path) -> None:
    prices = _with_rates(tmp_path, acks_0=2000.0, acks_1=1000.0, idempotent=500.0, transactional=125.0)
    (chart,) = relative.charts(prices)
    assert [(bar.profile, bar.ratio, bar.figure) for bar in chart.bars] == [
        ("acks_0", "2.00×", "2,000/s"),
        ("acks_1", "1.00×", "1,000/s"),
        ("idempotent", "0.50×", "500/s"),
        ("transactional", "0.12×", "125/s"),
    ]
    assert [bar.guarantee for bar in chart.bars] == [
        "at most once",
        "nothing",
        "exactly once and in order",
        "exactly once and in order",
    ]
    assert [(bar.left, round(bar.left + bar.width, 1)) for bar in chart.bars] == [
        (50, 66.7),
        (50, 50),
        (33.33, 50),
        (0, 50),
    ]
    assert chart.ticks == [
        (0, "1/8×"),
        (pytest.approx(33.3, abs=0.1), "1/2×"),
        (50, "1×"),
        (pytest.approx(66.7, abs=0.1), "2×"),
        (100, "8×"),
    ]
    page = price_page.render(prices)
    assert page.count('class="rod') == 4 and "Relative to acks_1" in page and "A chart is missing" in page


def test_without_acks_1_nothing_is_relative_and_the_page_says_how_to_measure_it(tmp_path: Path) -> None:
    for prices in (_with_rates(tmp_path, acks_0=2000.0), _with_rates(tmp_path, acks_0=2000.0, acks_1=None)):
        assert relative.charts(prices) == []
        page = price_page.render(prices)
        assert 'class="rod' not in page and "kdv price --profiles acks_1,acks_0" in page.replace(
            "acks_0,acks_1", "acks_1,acks_0"
        )
        assert 'data-name="records/s">2,000<' in page


def test_a_profile_without_a_figure_has_no_bar_and_is_named(tmp_path: Path) -> None:
    prices = _with_rates(tmp_path, acks_0=None, acks_1=1000.0, acks_all=0.0)
    (chart,) = relative.charts(prices)
    assert [bar.profile for bar in chart.bars] == ["acks_1"] and chart.absent == ["acks_0", "acks_all"]
    assert "not measured for acks_0, acks_all" in price_page.render(prices)


def test_a_figure_of_a_run_in_doubt_is_marked_and_with_acks_1_in_doubt_all_are(tmp_path: Path) -> None:
    prices = _with_rates(tmp_path, acks_0=2000.0, acks_1=1000.0)

    def doubted(profile: str) -> Price:
        runs = [replace(run, verdict="INCONCLUSIVE") if run.profile == profile else run for run in prices.measured]
        return replace(prices, measured=runs)

    assert [bar.in_doubt for bar in relative.charts(doubted("acks_0"))[0].bars] == [True, False]
    assert [bar.in_doubt for bar in relative.charts(doubted("acks_1"))[0].bars] == [True, True]
    assert price_page.render(doubted("acks_1")).count("? in doubt") == 2


def test_latency_has_three_charts_of_its_own(both: Price) -> None:
    assert [chart.title for chart in relative.charts(both)] == [
        "Throughput, as fast as the client can",
        "Latency, half within, no fault",
        "Latency, 99 % within, no fault",
        "Latency, 99 % within, leader killed",
    ]
