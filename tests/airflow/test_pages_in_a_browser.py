"""Tests of the pages in a real browser, in both colour schemes and three window sizes. No page is wider than its
window, asks another host for anything, or breaks a rule of accessibility. The report answers the first questions
without scrolling.

The pages are files on disk, so these tests need no Airflow. tests/e2e/test_browser.py sees the report in Airflow.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page
from support import catalogue_runs, live_runs, report_material, run_builder, sentinels
from support.browser import CHROMIUM, browser, check_look, shots  # noqa: F401  (two are fixtures)

from delivery_verifier.catalogue.prices import PRICES
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.orchestration.plugin import unreported
from delivery_verifier.orchestration.plugin.dag_runs import State, Step
from delivery_verifier.orchestration.plugin.live_run import LiveRun
from delivery_verifier.progress import live as flow
from delivery_verifier.reporting.comparison import comparison
from delivery_verifier.reporting.comparison import page as compare_page
from delivery_verifier.reporting.matrix import page as matrix
from delivery_verifier.reporting.overview import page as overview
from delivery_verifier.reporting.overview.live import view as view_of
from delivery_verifier.reporting.overview.run_filter import RunFilter
from delivery_verifier.reporting.overview.unfinished import AirflowRun
from delivery_verifier.reporting.price import page as price_page
from delivery_verifier.reporting.price.price import price
from delivery_verifier.reporting.report import page as report
from delivery_verifier.reporting.sentinel import page as sentinel_page
from delivery_verifier.run_directory import sentinel_history

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium")
STORED = Path(__file__).parents[1] / "data" / "runs"
WIDTHS = (400, 1400, 1920)
TAB = {"width": 1031, "height": 617}
"""What the frame of the report's tab shows in Airflow, in a window of 1400 x 900."""
REPORTS = ("held", "violated", "inconclusive", "gave-up", "stored-held", "stored-violated")
OTHERS = ("no-verdict", "price", "matrix", "compare", "overview", "live", "failed", "sentinel")
LONG = "manual__2026-11-22T06-12-36.120261-00-00-a75fee16"
"""The name of a run as Airflow makes it, too long for a column."""
_BOTTOM = "element => element.getBoundingClientRect().bottom + scrollY"
_LAST_BOTTOM = (
    "section => Math.max(...[...section.children].map(each => each.getBoundingClientRect().bottom)) + scrollY"
)
_UNFOLD = "() => document.querySelectorAll('details:not(.scenario + .scenario)').forEach(each => each.open = true)"
"""Unfolds everything but, on the matrix, only the first scenario of each kind: all scenarios have the same parts."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all pages, each a file with the name of the page."""
    folder = tmp_path_factory.mktemp("pages")
    runs = folder / "runs"
    made: dict[str, tuple[Path, RunVerdict | None]] = {
        "held": report_material.held(runs),
        "violated": report_material.violated(runs),
        "inconclusive": report_material.inconclusive(runs),
        "gave-up": report_material.gave_up(runs),
        "no-verdict": report_material.failed_early(runs),
    }
    for name in ("held", "violated"):
        path = STORED / f"{name}"
        verdict = msgspec.json.decode((path / "verdict.json").read_bytes(), type=RunVerdict)
        made[f"stored-{name}"] = path, verdict
    for name, (path, of_run) in made.items():
        report.write(path, of_run, folder / f"{name}.html")
    measured = [run_builder.priced(folder / "prices", name, lost=7 * ("kill_leader.acks_1" in name)) for name in PRICES]
    price_page.write(price(measured, "2 CPUs"), folder / "price.html")
    whole = catalogue_runs.whole()
    (folder / "matrix.html").write_text(matrix.render(whole, "../..", [whole]))
    sides = [
        report_material.sealed(folder / "compared", name, make)[0].path
        for name, make in ((LONG, report_material.held), ("b", report_material.violated))
    ]
    compare_page.write(comparison.compare(*sides), folder / "compare.html")
    (folder / "overview.html").write_text(_overview(folder / "listed"))
    (folder / "live.html").write_text(_live(folder))
    failed = State("failed", [Step("plan", "success"), Step("settle", "failed", ["a line of the log"])])
    (folder / "failed.html").write_text(unreported.run_without_report(LONG, failed))
    (folder / "sentinel.html").write_text(_sentinel(folder / "watched"))
    return folder


def _sentinel(runs: Path) -> str:
    """The page of a sentinel whose results have every state, and of one that has just begun."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KDV_RUNS", str(runs))
        newest = sentinels.all_day()[-1]
        sentinel_history.add(sentinels.result("SKIPPED", 5, "airflow:kafka_of_a_cluster_with_a_long_name"))
        histories = {name: sentinel_history.newest_of(name) for name in sentinel_history.clusters()}
    at_us = newest.at_us + 30 * sentinels.MINUTE_US
    lost = ["scheduled__2026-11-19T02:00:00+00:00"]
    return sentinel_page.render(histories, at_us, runs=runs, dag_path="../../dags/x", without_result=lost)


def _overview(runs: Path) -> str:
    """The page of 60 runs on three Kafka versions, of a run that is at work, and of one without a directory."""
    run_builder.many(runs, 60)
    for number, run in enumerate(sorted(runs.iterdir())):
        plan = run / "scenario.json"
        plan.write_text(plan.read_text().replace("4.3.1", ("4.1.2", "4.2.1", "4.3.1")[number // 20]))
    run_builder.planned(runs, LONG, day=60)
    states: dict[str, Any] = {LONG: "running", "bad-input": "failed"}
    known = {
        name: AirflowRun(
            name=name, page=f"../dags/verify_delivery/runs/{name}", state=state, begun_at=run_builder.BEGUN
        )
        for name, state in states.items()
    }
    return overview.overview(runs, RunFilter(), docs=True, dag_path="../dags/verify_delivery", in_airflow=known)


def _live(folder: Path) -> str:
    """The page of a run while Spark works. It does not reload itself, which would disturb a test."""
    look = flow.look(live_runs.flowing(folder / "flowing", "run", folder / "workspace").path)
    assert look is not None
    state = State("running", [Step("plan", "success"), Step("reconcile", "running"), Step("validate", None)])
    live = LiveRun(
        "Spark compares ledger and log",
        "38 s so far, about 60 s left (from 7 earlier runs on this host)",
        load=view_of(look),
        spark="query 5, 41 of 64 tasks",
    )
    return re.sub(r'<meta http-equiv="refresh"[^>]*>', "", unreported.run_without_report(LONG, state, live))


@pytest.fixture(scope="module", params=["light", "dark"])
def view(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:  # noqa: F811
    """A page of the browser in one colour scheme. Its attribute `theme` is the scheme, `asked` all requests."""
    context = browser.new_context(color_scheme=request.param)
    page: Any = context.new_page()
    page.theme, page.asked = request.param, list[str]()
    page.on("request", lambda each: page.asked.append(each.url))
    yield page
    assert [url for url in page.asked if not url.startswith(("file:", "data:", "blob:"))] == []
    context.close()


def _open(view: Page, pages: Path, name: str) -> None:
    view.set_viewport_size({"width": 1400, "height": 900})
    view.goto(f"file://{pages / name}.html")
    if name in REPORTS:
        view.locator("#timeline-plot canvas").first.wait_for()


@pytest.mark.parametrize("name", ["held", "stored-violated", "inconclusive", "gave-up", *OTHERS])
def test_a_page_is_read_in_every_look_and_width_and_breaks_no_rule_of_accessibility(
    view: Page,
    pages: Path,
    shots: Path,  # noqa: F811
    name: str,
) -> None:
    theme: str = view.theme  # type: ignore[attr-defined]
    _open(view, pages, name)
    for width in WIDTHS:
        view.set_viewport_size({"width": width, "height": 900})
        check_look(view, theme)
        if "KDV_SHOTS" in os.environ:
            view.screenshot(path=shots / f"{name}-{theme}-{width}.png", full_page=True)
    view.evaluate(_UNFOLD)  # what is folded must fit, too
    for width in WIDTHS:
        view.set_viewport_size({"width": width, "height": 900})
        check_look(view, theme)
    found = Axe().run(view, options={"resultTypes": ["violations"]}).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"][:200]) for each in found] == []


@pytest.mark.parametrize("view", ["light"], indirect=True)
def test_a_cell_of_the_map_leads_to_its_details_by_keyboard_alone(view: Page, pages: Path) -> None:
    _open(view, pages, "matrix")
    assert view.locator("#map .cell").first.evaluate(_BOTTOM) < 900
    details = view.locator("[id='order.stalled_leader']")
    assert not details.is_visible()
    view.locator("[href='#order.stalled_leader'].cell").first.focus()
    view.keyboard.press("Enter")
    details.wait_for()
    assert details.evaluate("element => element === document.activeElement")
    assert details.get_by_role("row").filter(has_text="in_flight_1").get_by_text("99", exact=True).is_visible()


@pytest.mark.parametrize("view", ["light"], indirect=True)
@pytest.mark.parametrize(
    ("name", "element"),
    [
        ("price", ".charts table >> nth=1"),
        ("compare", "#verdicts"),
        ("overview", "#runs tbody tr >> nth=8"),
        ("gave-up", ".given-up"),
    ],
)
def test_the_answer_of_every_page_stands_on_its_first_screen(view: Page, pages: Path, name: str, element: str) -> None:
    _open(view, pages, name)
    assert view.locator(element).evaluate(_BOTTOM) < 900


@pytest.mark.parametrize("view", ["light"], indirect=True)
def test_a_run_takes_one_line_on_the_page_of_all_runs(view: Page, pages: Path) -> None:
    _open(view, pages, "overview")
    for width in (1031, 1400):
        view.set_viewport_size({"width": width, "height": 900})
        heights = view.eval_on_selector_all("#runs tbody tr", "rows => rows.map(row => row.offsetHeight)")
        assert len(heights) == 62 and max(heights) < 40


@pytest.mark.parametrize("view", ["light"], indirect=True)
@pytest.mark.parametrize("name", REPORTS)
def test_what_happened_why_and_what_to_change_stand_where_a_stranger_looks(view: Page, pages: Path, name: str) -> None:
    _open(view, pages, name)
    assert view.locator("#verdict").evaluate(_BOTTOM) < 300
    assert view.locator("#why").evaluate(_LAST_BOTTOM) < 900
    assert view.locator("#change").evaluate(_BOTTOM) < 1600
    order = view.evaluate("() => [...document.querySelectorAll('main section')].map(each => each.id)")
    assert order[:7] == ["verdict", "arms", "timeline", "why", "change", "limits", "repeat"]
    for size in ({"width": 1400, "height": 900}, TAB):
        view.set_viewport_size(size)
        assert view.locator("#arms").evaluate(_BOTTOM) < size["height"]
        assert view.locator("#timeline .legend").first.evaluate(_BOTTOM) < size["height"]
    assert view.locator("section.fold > details[open]").count() == 0
