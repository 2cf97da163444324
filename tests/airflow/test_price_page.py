"""Tests of the price page in a real browser. In every colour scheme and window size, the page is no wider than its
window, and sends no request to another host."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser
from support.browser import CHROMIUM, EVERY_LOOK, SIZES, browser, check_look, shots  # noqa: F401  (two are fixtures)
from support.runs_for_prices import made

from delivery_verifier.catalogue.prices import PRICES
from delivery_verifier.pages.price import page as price_page
from delivery_verifier.pages.price.price import price

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium")


@EVERY_LOOK
def test_the_price_page_is_one_file_that_is_read_in_every_look(
    browser: Browser,  # noqa: F811
    tmp_path: Path,
    shots: Path,  # noqa: F811
    theme: str,
    size: str,
) -> None:
    runs = [made(tmp_path, name, lost=7 * ("kill_leader.acks_1" in name)) for name in PRICES]
    price_page.write(price(runs, "2 CPUs"), tmp_path / "price.html")
    width, height = SIZES[size]
    context = browser.new_context(color_scheme=theme, viewport={"width": width, "height": height})  # type: ignore[arg-type]
    page, asked = context.new_page(), list[str]()
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"file://{tmp_path / 'price.html'}")
    page.screenshot(path=shots / f"price-{theme}-{size}.png", full_page=True)
    assert page.get_by_text("leader killed").count() >= 6 and page.get_by_text("transactional").first.is_visible()
    check_look(page, theme)
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    context.close()
