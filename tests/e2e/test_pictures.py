"""Tests of the pictures in README and tour: a run of this checkout shows the same labels as they do.

`make pictures` takes them anew, from a run of the README's example that breaks.
"""

from __future__ import annotations

import os

import pytest
from playwright.sync_api import Browser
from support import pictures
from support.browser import CHROMIUM, browser  # noqa: F401  (a fixture)
from support.readme import Example

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium")


def test_the_pictures_show_what_a_run_of_this_checkout_shows(
    breaking_example: Example,
    browser: Browser,  # noqa: F811
) -> None:
    command, _, said, run = breaking_example
    taken = pictures.take(browser, run.path / "report.html", command, said)
    if "KDV_PICTURES" in os.environ:
        pictures.write(taken)
    stored = {name: picture.labels for name, picture in pictures.read().items()}
    assert {name: labels for name, (_, labels) in taken.items()} == stored, "renew them: make pictures"
