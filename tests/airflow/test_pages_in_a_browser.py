"""Tests of the pages in a real browser, in both colour schemes and three window sizes. No page is wider than its
window, asks another host for anything, or breaks a rule of accessibility. The report answers the first questions
without scrolling.

The pages are files on disk, so these tests need no Airflow. tests/e2e/test_browser.py sees the report in Airflow.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page
from support import report_material, runs_for_prices
from support.browser import CHROMIUM, browser, check_look, shots  # noqa: F401  (two are fixtures)
from support.catalogue_runs import catalogue, item
from support.runs_for_overview import judged

from delivery_verifier.catalogue.prices import PRICES
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.pages.matrix import page as matrix
from delivery_verifier.pages.overview import page as overview
from delivery_verifier.pages.overview.run_filter import RunFilter
from delivery_verifier.pages.price import page as price_page
from delivery_verifier.pages.price.price import price
from delivery_verifier.pages.report import page as report

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium"),
    pytest.mark.timeout(300),  # on a host that may be busy
]
STORED = Path(__file__).parents[1] / "data" / "runs"
WIDTHS = (400, 1400, 1920)
TAB = {"width": 1031, "height": 617}
"""What the frame of the report's tab shows in Airflow, in a window of 1400 x 900."""
REPORTS = ("held", "violated", "inconclusive", "stored-held", "stored-violated")
OTHERS = ("no-verdict", "price", "matrix", "overview")
_BOTTOM = "element => element.getBoundingClientRect().bottom + scrollY"
_LAST_BOTTOM = (
    "section => Math.max(...[...section.children].map(each => each.getBoundingClientRect().bottom)) + scrollY"
)
_UNFOLD = "() => document.querySelectorAll('details').forEach(each => each.open = true)"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all pages, each a file with the name of the page."""
    folder = tmp_path_factory.mktemp("pages")
    runs = folder / "runs"
    made: dict[str, tuple[Path, RunVerdict | None]] = {
        "held": report_material.held(runs),
        "violated": report_material.violated(runs),
        "inconclusive": report_material.inconclusive(runs),
        "no-verdict": report_material.failed_early(runs),
    }
    for name in ("held", "violated"):
        path = STORED / f"{name}-at-834dd39"
        verdict = msgspec.json.decode((path / "verdict.json").read_bytes(), type=RunVerdict)
        made[f"stored-{name}"] = path, verdict
    for name, (path, of_run) in made.items():
        report.write(path, of_run, folder / f"{name}.html")
    measured = [
        runs_for_prices.made(folder / "prices", name, lost=7 * ("kill_leader.acks_1" in name)) for name in PRICES
    ]
    price_page.write(price(measured, "2 CPUs"), folder / "price.html")
    tried = catalogue(
        item("acks_1.frozen_followers", "as expected"), item("order.stalled_leader", "inconclusive", "not as expected")
    )
    (folder / "matrix.html").write_text(matrix.render(tried, "../.."))
    judged(folder / "listed", "one", "VIOLATED", lost=3, green=False, sentence="Three records were lost.")
    (folder / "overview.html").write_text(overview.overview(folder / "listed", RunFilter(), docs=True))
    return folder


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


@pytest.mark.parametrize("name", ["held", "stored-violated", "inconclusive", *OTHERS])
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
    found = Axe().run(view).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"][:200]) for each in found] == []


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
