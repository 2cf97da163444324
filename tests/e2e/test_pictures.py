"""Tests of the pictures in README and tour: this checkout shows the same labels as they do. tests/catalogue has the
test of the picture of the matrix.

`make pictures` takes them anew, from a run of the README's example that breaks.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser
from support import pictures
from support.airflow import LocalAirflow
from support.browser import CHROMIUM, Visitor, browser, open_form  # noqa: F401  (browser is a fixture)
from support.readme import Example

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium")


def test_the_pictures_show_what_a_run_of_this_checkout_shows(
    breaking_example: Example,
    browser: Browser,  # noqa: F811
) -> None:
    command, _, said, run = breaking_example
    pictures.check(pictures.take(browser, run.path / "report.html", command, said))


def test_the_picture_of_the_form_shows_what_the_form_of_this_checkout_shows(
    browser: Browser,  # noqa: F811
    local_airflow: LocalAirflow,
    shots: Path,
) -> None:
    visitor = Visitor(browser, local_airflow, shots).log_in(local_airflow, "admin")
    pictures.check(pictures.take_form(visitor.page, open_form(visitor)))
