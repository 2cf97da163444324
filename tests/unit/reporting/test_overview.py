"""Tests of the page of all runs: the runs that it lists, the results that it must not show as green, and its speed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from support.run_builder import judged, many, planned

from delivery_verifier.reporting.overview import page, rows, trend
from delivery_verifier.reporting.overview.rows import NO_VERDICT, StoredRunRow
from delivery_verifier.reporting.overview.run_filter import RunFilter
from delivery_verifier.run_directory.run_directory import RunDirectory


def _only(runs: Path) -> StoredRunRow:
    (row,) = rows.rows(runs)
    return row


def _page(runs: Path, **wanted: str) -> str:
    return page.overview(runs, RunFilter(**wanted), docs=True)


def test_without_a_run_the_page_says_how_to_start_one(tmp_path: Path) -> None:
    assert "No run yet" in _page(tmp_path / "never-made")


def test_a_run_is_listed_with_its_verdict_and_leads_to_its_report(tmp_path: Path) -> None:
    judged(tmp_path, "one", "VIOLATED", lost=1204)
    text = _page(tmp_path)
    assert 'href="runs/one/report.html"' in text
    assert "VIOLATED" in text
    assert "<b>1,204 lost</b>" in text
    assert '<b class="bad">✘ no</b>' in text


def test_counts_are_the_subjects_and_never_the_controls(tmp_path: Path) -> None:
    judged(tmp_path, "one", lost=7)
    assert _only(tmp_path).figures.lost == 7
    assert "999,999" not in _page(tmp_path)


def test_a_run_that_is_not_judged_has_no_verdict_and_says_how_far_it_came(tmp_path: Path) -> None:
    planned(tmp_path, "half")
    row = _only(tmp_path)
    assert (row.verdict, row.green, row.why) == (NO_VERDICT, False, "last finished step: plan")
    text = _page(tmp_path)
    assert "tone-HELD" not in text.split("<body>")[1]
    assert "runs/half/report.html" not in text


@pytest.mark.parametrize("damage", ["altered", "unsealed", "gone", "no JSON", "no scenario"])
def test_a_verdict_that_is_not_as_it_was_sealed_is_none(tmp_path: Path, damage: str) -> None:
    run = judged(tmp_path, "one").path
    assert _only(tmp_path).verdict == "HELD"
    sealed = run / "verdict.json"
    match damage:
        case "altered":
            sealed.write_text(sealed.read_text().replace("HELD", "HOLD", 1))
        case "unsealed":
            (run / "conclude.json").unlink()
        case "gone":
            sealed.unlink()
        case "no JSON":
            sealed.write_text("{")
        case _:
            (run / "scenario.json").write_text('{"arms": 3}')
    row = _only(tmp_path)
    assert (row.verdict, row.green) == (NO_VERDICT, False)
    assert row.why


def test_a_run_of_another_version_is_listed_though_its_scenario_has_fields_unknown_here(tmp_path: Path) -> None:
    run = judged(tmp_path, "one").path
    file = run / "scenario.json"
    file.write_text(file.read_text().replace("{", '{"of_a_later_version": 1, ', 1))
    assert _only(tmp_path).verdict == "HELD"


def test_the_newest_run_comes_first(tmp_path: Path) -> None:
    for day in (3, 1, 2):
        judged(tmp_path, f"day-{day}", day=day)
    assert [row.name for row in rows.rows(tmp_path)] == ["day-3", "day-2", "day-1"]


def test_neither_the_data_docs_nor_hidden_folders_are_runs(tmp_path: Path) -> None:
    for name in ("data_docs", ".half"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "scenario.json").write_text("{}")
    assert rows.rows(tmp_path) == []


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ({}, ["d", "c", "b", "a"]),
        ({"verdict": "VIOLATED"}, ["b"]),
        ({"verdict": NO_VERDICT}, ["d"]),
        ({"profile": "acks_1"}, ["c", "b"]),
        ({"fault": "none", "verdict": "HELD"}, ["c"]),
        ({"text": " LOST  17 "}, ["b"]),
        ({"text": "nowhere"}, []),
    ],
)
def test_the_filter_leaves_what_is_wanted(tmp_path: Path, wanted: dict[str, str], names: list[str]) -> None:
    judged(tmp_path, "a", day=0)
    judged(tmp_path, "b", "VIOLATED", lost=17, profile="acks_1", day=1)
    judged(tmp_path, "c", profile="acks_1", fault="none", day=2)
    planned(tmp_path, "d", day=3)
    assert [row.name for row in RunFilter(**wanted).matching(rows.rows(tmp_path))] == names


def test_a_filter_that_leaves_nothing_says_so_and_offers_the_way_back(tmp_path: Path) -> None:
    judged(tmp_path, "one")
    text = _page(tmp_path, text="nowhere")
    assert "No run of 1 is like that" in text
    assert 'href="?"' in text


def test_nothing_a_run_says_becomes_markup(tmp_path: Path) -> None:
    evil = '<script>alert(1)</script>"><img src=x onerror=alert(1)>'
    judged(tmp_path, "one", sentence=evil)
    judged(tmp_path, "two", sentence=evil, lost=3)
    text = _page(tmp_path, text='"><script>alert(2)</script>') + _page(tmp_path, profile='"><b>x') + _page(tmp_path)
    assert "<script>alert" not in text
    assert "<img" not in text
    assert '"><b>x' not in text


def test_the_page_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    many(tmp_path, 5)
    text = _page(tmp_path)
    assert not [word for word in ("http:", "https:", "src=", "@import", "url(") if word in text]


def _on_kafka(run: RunDirectory, version: str) -> None:
    """Changes the Kafka version in the scenario of `run`."""
    plan = run.read_scenario()
    changed = replace(plan, cluster=replace(plan.cluster, kafka_version=version))
    (run.path / "scenario.json").write_bytes(msgspec.json.encode(changed))


def test_the_trend_needs_two_runs_with_figures_and_shows_the_newest_last(tmp_path: Path) -> None:
    judged(tmp_path, "one", lost=1, day=0)
    assert trend.trends(rows.rows(tmp_path)) == []
    judged(tmp_path, "two", lost=1000, gap_s=None, day=1)
    planned(tmp_path, "three", day=2)
    (alone,) = trend.trends(rows.rows(tmp_path))
    lost, gap = alone.lanes
    assert [bar.row.name for bar in lost.bars] == ["one", "two", "three"]
    assert [bar.value for bar in lost.bars] == [1, 1000, None]
    assert [bar.value for bar in gap.bars] == [3.4, None, None]
    assert 0 < lost.bars[0].height < lost.bars[1].height == trend.HEIGHT


def test_every_kafka_version_has_a_trend_of_its_own_on_one_scale(tmp_path: Path) -> None:
    for day, (version, lost) in enumerate([("4.9.1", 0), ("4.10.0", 7), ("4.2.1", 1000), ("4.9.1", 3)]):
        _on_kafka(judged(tmp_path, f"day-{day}", lost=lost, day=day), version)
    found = trend.trends(rows.rows(tmp_path))
    assert [each.kafka_version for each in found] == ["4.10.0", "4.9.1", "4.2.1"]
    assert [[bar.row.name for bar in each.lanes[0].bars] for each in found] == [
        ["day-1"],
        ["day-0", "day-3"],
        ["day-2"],
    ]
    assert {each.lanes[0].top for each in found} == {1000} and found[1].verdicts == [("HELD", 2)]
    assert found[0].lanes[0].bars[0].height < found[2].lanes[0].bars[0].height == trend.HEIGHT
    html = _page(tmp_path)
    assert [html.index(f"<b>Kafka {version}</b>") for version in ("4.10.0", "4.9.1", "4.2.1")] == sorted(
        html.index(f"<b>Kafka {version}</b>") for version in ("4.10.0", "4.9.1", "4.2.1")
    )
    assert _page(tmp_path, kafka="4.9.1").count('<td class="mark">') == 2


def test_of_many_runs_the_newest_sixty_are_drawn_over_all_versions(tmp_path: Path) -> None:
    many(tmp_path, 65)
    for day in range(20):
        _on_kafka(RunDirectory(next(tmp_path.glob(f"*-{day:03d}"))), "4.1.2")
    found = trend.trends(rows.rows(tmp_path))
    assert {each.kafka_version: len(each.lanes[0].bars) for each in found} == {"4.3.1": 45, "4.1.2": 15}
    assert all(bar.x + bar.width <= trend.WIDTH for each in found for lane in each.lanes for bar in lane.bars)


def test_two_hundred_runs_are_listed_quickly_and_quicker_the_second_time(tmp_path: Path) -> None:
    many(tmp_path, 205)
    text, first_s = _timed(tmp_path)
    assert "205 of 205 runs, the newest 200 listed" in text
    assert text.count('<td class="mark">') == 200
    _, second_s = _timed(tmp_path)
    assert first_s < 5
    assert second_s < 1


def _timed(runs: Path) -> tuple[str, float]:
    begun = time.process_time()
    return _page(runs), time.process_time() - begun


def test_a_run_that_gets_its_verdict_is_seen_at_once(tmp_path: Path) -> None:
    planned(tmp_path, "one")
    assert _only(tmp_path).verdict == NO_VERDICT
    judged(tmp_path, "one")
    assert _only(tmp_path).verdict == "HELD"


def test_a_run_that_cannot_be_opened_does_not_hide_the_others(tmp_path: Path) -> None:
    judged(tmp_path, "good")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "scenario.json").write_bytes(os.urandom(64))
    assert {row.name: row.verdict for row in rows.rows(tmp_path)} == {"good": "HELD", "bad": NO_VERDICT}
