"""Tests of the price page in a real browser. In every colour scheme and window size, the page is no wider than its
window, and sends no request to another host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from support.browser import CHROMIUM, SIZES, chromium, shots  # noqa: F401  (shots is a fixture)
from support.runs_for_prices import made

from delivery_verifier.catalogue.prices import PRICES
from delivery_verifier.pages.price import page as price_page
from delivery_verifier.pages.price.price import price

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium")
EVERY_LOOK = pytest.mark.parametrize(
    ("theme", "size"), [(theme, size) for theme in ("light", "dark") for size in SIZES]
)
_WIDER_BY = "page => page.scrollWidth - page.clientWidth"
_BACKGROUND = "body => getComputedStyle(body).backgroundColor"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


def is_light(colour: str) -> bool:
    return max(int(part) for part in re.findall(r"\d+", colour)[:3]) > 128


@EVERY_LOOK
def test_the_price_page_is_one_file_that_is_read_in_every_look(
    browser: Browser,
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
    assert page.locator("html").evaluate(_WIDER_BY) <= 0
    assert is_light(page.locator("body").evaluate(_BACKGROUND)) == (theme == "light")
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    context.close()
