"""Fixtures for tests with a browser: the browser, a user of the browser, and one small run per session. The user starts
this run with the trigger form."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest
from playwright.sync_api import Browser, ConsoleMessage, FrameLocator, Locator, Page, Request, expect, sync_playwright

from delivery_verifier.host import folders
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.local_airflow import settings
from delivery_verifier.orchestration.names import DAG_ID
from delivery_verifier.run_directory.run_directory import RunDirectory
from support.airflow import LocalAirflow
from support.watched import through_airflow

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
RUN_ID = "by+hand:1"
PLAIN: dict[str, Any] = {"profile": "idempotent", "fault": "elect_preferred", "records": 2000}
"""The values that are filled into the form. The fault moves leaders to preferred replicas, which does not hurt
acknowledged records."""
RUN_ENDS_WITHIN_MS = 900_000
LOADS_WITHIN_MS = 60_000
FITS_WITHIN_S = 10.0
expect.set_options(timeout=LOADS_WITHIN_MS)
SIZES = {"wide": (1400, 900), "narrow": (400, 900)}
OPENED = pytest.mark.parametrize(
    "looks", [[("light", "wide"), ("light", "narrow")], [("dark", "narrow"), ("dark", "wide")]], ids=["light", "dark"]
)
"""Every look of a page: a colour scheme and the size of the window. A page is opened in the first look of a list, and
turned to the second."""
_WIDER_BY = "page => page.scrollWidth - page.clientWidth"
_BACKGROUND = "body => getComputedStyle(body).backgroundColor"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The browser of a module's tests."""
    with chromium() as running:
        yield running


def check_width(page: Page | FrameLocator) -> None:
    """Checks that a page is no wider than its window.

    Waits until it is not: after a change of the window's size, a plot keeps its old width until the next frame.
    """
    html = page.locator("html")
    wait_until(lambda: html.evaluate(_WIDER_BY) <= 0, "the page is no wider than its window", FITS_WITHIN_S)


def check_look(page: Page | FrameLocator, theme: str) -> None:
    """Checks that a page has a background of its theme, light or dark, and is no wider than its window.

    Waits until it has, because Airflow tells the pages in its frames a moment after a change.
    """
    body = page.locator("body")
    wait_until(lambda: _is_light(body.evaluate(_BACKGROUND)) == (theme == "light"), f"a {theme} page", FITS_WITHIN_S)
    check_width(page)


def _is_light(colour: str) -> bool:
    return max(int(part) for part in re.findall(r"\d+", colour)[:3]) > 128


class Served(Protocol):
    """An Airflow on this host."""

    port: int


class Visitor:
    """A user of the browser. `requests` are all requests of the user's page, `errors` all errors on its console."""

    def __init__(
        self, browser: Browser, airflow: Served, shots: Path, theme: str = "light", size: str = "wide"
    ) -> None:
        width, height = SIZES[size]
        self.address, self.shots, self.look = f"http://127.0.0.1:{airflow.port}", shots, f"{theme}-{size}"
        context = browser.new_context(
            base_url=self.address, color_scheme=theme, viewport={"width": width, "height": height}
        )  # type: ignore[arg-type]
        context.set_default_timeout(LOADS_WITHIN_MS)
        self.page, self.requests, self.errors = context.new_page(), list[str](), list[str]()
        self.page.on("request", self._requested)
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def turn(self, theme: str, size: str) -> Visitor:
        """Gives the browser another colour scheme and its window another size. Returns this visitor."""
        width, height = SIZES[size]
        self.page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        self.page.set_viewport_size({"width": width, "height": height})
        self.look = f"{theme}-{size}"
        return self

    def _requested(self, request: Request) -> None:
        self.requests.append(request.url)

    def _said(self, message: ConsoleMessage) -> None:
        # Errors of Airflow's own pages do not count: before the login, Airflow's requests are refused.
        if message.type == "error" and "/delivery/" in f"{message.location.get('url')} {message.text}":
            self.errors.append(f"{message.location.get('url')}: {message.text}")

    def rest(self) -> None:
        """Leaves the page, which would otherwise go on asking Airflow for news."""
        self.page.goto("about:blank")

    def log_in(self, airflow: LocalAirflow, user: str) -> Visitor:
        """Logs in as `user` of the local Airflow, and returns this visitor."""
        with airflow.environment():
            return self.enter(user, settings.ensure_passwords()[user])

    def enter(self, user: str, password: str) -> Visitor:
        """Logs in with a password, and returns this visitor."""
        self.page.goto("/")
        self.page.locator("input[name=username]").fill(user)
        self.page.locator("input[name=password]").fill(password)
        self.page.get_by_role("button", name="Sign in").click()
        expect(self.page.get_by_role("link", name="Delivery", exact=True)).to_be_visible(timeout=LOADS_WITHIN_MS)
        return self

    def frame(self, path: str, heading: str) -> FrameLocator:
        """Opens a page of Airflow's UI that frames a page of this project, and returns the frame.

        Waits until the framed page shows `heading`, a regular expression.
        """
        self.page.goto(path)
        frame = self.page.frame_locator("iframe")
        expect(frame.locator("h1")).to_contain_text(re.compile(heading), timeout=LOADS_WITHIN_MS)
        return frame

    def shoot(self, name: str) -> None:
        """Saves a screenshot. KDV_SHOTS may name a folder that outlives the test."""
        self.page.screenshot(path=self.shots / f"{name}-{self.look}.png")

    @property
    def strangers(self) -> list[str]:
        """The requests that went to hosts other than this Airflow."""
        return [url for url in self.requests if not url.startswith((self.address, "data:", "blob:", "about:"))]


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yields the installed Chromium, which cannot resolve the name of any other host."""
    rule = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", rule])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the screenshots are saved."""
    folder = Path(os.environ.get("KDV_SHOTS") or tmp_path_factory.mktemp("shots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def plain_run(local_airflow: LocalAirflow, shots: Path) -> RunDirectory:
    """The directory of a small run, HELD, which was started with the form and watched until its report appeared: in the
    tab until the load is shown, then as a page of its own.

    If the host has no Chromium, the run is started over the REST API. `local_airflow.said` has what the live line and
    the tab said meanwhile.
    """
    if CHROMIUM is None:
        local_airflow.client().trigger(DAG_ID, RUN_ID, PLAIN)
        with through_airflow(local_airflow, RUN_ID) as local_airflow.said:
            local_airflow.wait_until_ended(RUN_ID)
        return RunDirectory(local_airflow.runs / folders.run_directory_name(RUN_ID))
    with ExitStack() as stack:
        browser = stack.enter_context(chromium())
        visitor = Visitor(browser, local_airflow, shots).log_in(local_airflow, "admin")
        _fill_in_the_form(visitor)
        visitor.page.get_by_test_id("trigger-dag-submit").click()
        expect(visitor.page.get_by_role("dialog")).to_be_hidden(timeout=LOADS_WITHIN_MS)
        local_airflow.said = stack.enter_context(through_airflow(local_airflow, RUN_ID))
        tab = visitor.frame(
            f"/dags/{DAG_ID}/runs/{RUN_ID}/plugin/delivery-report",
            "^(Waiting to begin|Next: |Planning|Starting|Creating)",
        )
        visitor.shoot("watching")
        # The load is shown until the run is judged, so no moment can be missed.
        expect(tab.get_by_text("Planned, at least")).to_be_visible(timeout=RUN_ENDS_WITHIN_MS)
        expect(tab.get_by_text(re.compile(r"\d+ s so far"))).to_be_visible()
        visitor.shoot("live")
        # Around the tab, Airflow's page asks for news all the time. That costs more than the run's own page.
        visitor.page.goto(str(visitor.page.locator("iframe").get_attribute("src")))
        expect(visitor.page.locator("h1")).to_contain_text("acknowledged records", timeout=RUN_ENDS_WITHIN_MS)
        assert (visitor.strangers, visitor.errors) == ([], [])
        local_airflow.wait_until_ended(RUN_ID)
    return RunDirectory(local_airflow.runs / folders.run_directory_name(RUN_ID))


def open_form(visitor: Visitor) -> Locator:
    """Opens the trigger form of verify_delivery, and returns its dialog."""
    visitor.page.goto(f"/dags/{DAG_ID}")
    visitor.page.get_by_role("button", name="Trigger").first.click()
    form = visitor.page.get_by_role("dialog")
    expect(form.get_by_text("Delivery profile")).to_be_visible(timeout=LOADS_WITHIN_MS)
    return form


def _fill_in_the_form(visitor: Visitor) -> None:
    form = open_form(visitor)
    visitor.shoot("form")
    choose(visitor, "element_profile", PLAIN["profile"])
    choose(visitor, "element_fault", PLAIN["fault"])
    form.get_by_role("spinbutton").first.fill(str(PLAIN["records"]))
    form.get_by_role("button", name="Advanced Options").click()
    form.locator("input[name=dagRunId]").fill(RUN_ID)


def choose(visitor: Visitor, field: str, value: str) -> None:
    """Chooses `value` in one of Airflow's drop-down fields. Such a field hides its value behind a text box."""
    visitor.page.locator(f"div:has(> input[name={field}])").get_by_role("combobox").click()
    visitor.page.get_by_role("option", name=re.compile(f"^{value}:")).click()
    expect(visitor.page.locator(f"input[name={field}]")).to_have_value(value)
