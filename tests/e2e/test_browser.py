"""The way of a user through a real browser: log in, fill in the form, watch, and read what came of it, with no network."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from airflow_fixture import LocalAirflow
from playwright.sync_api import Browser, ConsoleMessage, FrameLocator, Request, expect, sync_playwright

from delivery_verifier.orchestration import settings
from delivery_verifier.orchestration.settings import DAG_ID

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium"),
    pytest.mark.timeout(1200),  # the first test waits for a whole run, on a host that may be busy
]

RUN_ID = "by+hand:1"
DIRECTORY = re.compile(r"by-hand-1-[0-9a-f]{8}")
RUN_ENDS_WITHIN_MS = 900_000
LOADS_WITHIN_MS = 60_000
expect.set_options(timeout=LOADS_WITHIN_MS)
SIZES = {"wide": (1400, 900), "narrow": (400, 900)}


class Visitor:
    """One user's pages, with every request they made and every error on their consoles."""

    def __init__(self, browser: Browser, airflow: LocalAirflow, shots: Path, theme: str = "light", size: str = "wide") -> None:
        width, height = SIZES[size]
        self.address, self.shots, self.look = f"http://127.0.0.1:{airflow.port}", shots, f"{theme}-{size}"
        context = browser.new_context(base_url=self.address, color_scheme=theme, viewport={"width": width, "height": height})  # type: ignore[arg-type]
        context.set_default_timeout(LOADS_WITHIN_MS)
        self.page, self.requests, self.errors = context.new_page(), list[str](), list[str]()
        self.page.on("request", self._requested)
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _requested(self, request: Request) -> None:
        self.requests.append(request.url)

    def _said(self, message: ConsoleMessage) -> None:
        # Before the log-in Airflow itself asks who is there, and is refused.
        if message.type == "error" and "/delivery/" in f"{message.location.get('url')} {message.text}":
            self.errors.append(f"{message.location.get('url')}: {message.text}")

    def log_in(self, airflow: LocalAirflow, user: str) -> Visitor:
        with airflow.environment():
            password = settings.ensure_passwords()[user]
        self.page.goto("/")
        self.page.locator("input[name=username]").fill(user)
        self.page.locator("input[name=password]").fill(password)
        self.page.get_by_role("button", name="Sign in").click()
        expect(self.page.get_by_role("link", name="Delivery", exact=True)).to_be_visible(timeout=LOADS_WITHIN_MS)
        return self

    def frame(self, path: str, heading: str) -> FrameLocator:
        """Opens a page of the UI that frames one of ours, and waits until that one is there."""
        self.page.goto(path)
        frame = self.page.frame_locator("iframe")
        expect(frame.locator("h1")).to_contain_text(re.compile(heading), timeout=LOADS_WITHIN_MS)
        return frame

    def shoot(self, name: str) -> None:
        """Keeps a picture, for whoever wants to look (KDV_SHOTS names a folder that outlives the test)."""
        self.page.screenshot(path=self.shots / f"{name}-{self.look}.png")

    @property
    def strangers(self) -> list[str]:
        """Requests to any other host."""
        return [url for url in self.requests if not url.startswith((self.address, "data:", "blob:", "about:"))]


@pytest.fixture(scope="module")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(os.environ.get("KDV_SHOTS") or tmp_path_factory.mktemp("shots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium as it is installed, which finds no other host."""
    rule = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", rule])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def admin(browser: Browser, local_airflow: LocalAirflow, shots: Path) -> Visitor:
    return Visitor(browser, local_airflow, shots).log_in(local_airflow, "admin")


@pytest.fixture(scope="module")
def finished(admin: Visitor, local_airflow: LocalAirflow) -> str:
    """A small run started with the form and watched until its report is there; the name of its directory."""
    _fill_in_the_form(admin)
    admin.page.get_by_test_id("trigger-dag-submit").click()
    expect(admin.page.get_by_role("dialog")).to_be_hidden(timeout=LOADS_WITHIN_MS)
    tab = admin.frame(f"/dags/{DAG_ID}/runs/{RUN_ID}/plugin/delivery-report", "at work|waits|Between")
    admin.shoot("watching")
    expect(tab.locator("h1")).to_contain_text("acknowledged records", timeout=RUN_ENDS_WITHIN_MS)
    (run,) = (run.name for run in local_airflow.runs.iterdir() if DIRECTORY.fullmatch(run.name))
    return run


def _fill_in_the_form(visitor: Visitor) -> None:
    page = visitor.page
    page.goto(f"/dags/{DAG_ID}")
    page.get_by_role("button", name="Trigger").first.click()
    form = page.get_by_role("dialog")
    expect(form.get_by_text("Delivery profile")).to_be_visible(timeout=LOADS_WITHIN_MS)
    visitor.shoot("form")
    _choose(visitor, "element_profile", "idempotent")
    _choose(visitor, "element_fault", "elect_preferred")
    form.get_by_role("spinbutton").first.fill("2000")
    form.get_by_role("button", name="Advanced Options").click()
    form.locator("input[name=dagRunId]").fill(RUN_ID)


def _choose(visitor: Visitor, field: str, value: str) -> None:
    """Chooses in one of Airflow's drop-down fields: each hides its value behind a text box."""
    visitor.page.locator(f"div:has(> input[name={field}])").get_by_role("combobox").click()
    visitor.page.get_by_role("option", name=re.compile(f"^{value}:")).click()
    expect(visitor.page.locator(f"input[name={field}]")).to_have_value(value)


def test_a_run_that_is_started_with_the_form_is_watched_until_its_report_stands_in_the_tab(admin: Visitor, finished: str) -> None:
    tab = admin.frame(f"/dags/{DAG_ID}/runs/{RUN_ID}/plugin/delivery-report", "acknowledged records")
    expect(tab.locator("#verdict")).to_contain_text("HELD")
    expect(tab.locator("#timeline-plot canvas").first).to_be_visible()
    admin.shoot("report")


def test_the_verdict_is_the_runs_note(admin: Visitor, finished: str) -> None:
    admin.page.goto(f"/dags/{DAG_ID}/runs/{RUN_ID}")
    expect(admin.page.get_by_text("acknowledged records are in the log exactly once").first).to_be_visible()
    admin.shoot("note")


def test_the_data_docs_are_one_click_from_the_run_and_lead_to_each_validation(admin: Visitor, finished: str) -> None:
    tab = _opened_tab(admin, "Data Docs")
    row = tab.locator(f"tbody[id='{finished}'] tr").filter(has_text="guarantee").first
    expect(row).to_contain_text("✔ succeeded")
    admin.shoot("data-docs")
    row.get_by_role("link", name="idempotent").click()
    expect(tab.locator("h1")).to_contain_text(f"guarantee / idempotent / {finished}")
    expect(tab.get_by_text("No record is LOST beyond the tolerance")).to_be_visible()
    admin.shoot("validation")
    tab.get_by_role("link", name="All validations").click()
    expect(tab.locator("h1")).to_have_text("Data Docs")
    tab.locator(f"tbody[id='{finished}']").get_by_role("link", name="report").click()
    expect(tab.locator("#verdict")).to_contain_text("HELD")


def _opened_tab(visitor: Visitor, name: str) -> FrameLocator:
    visitor.page.goto(f"/dags/{DAG_ID}/runs/{RUN_ID}")
    visitor.page.get_by_role("link", name=name).or_(visitor.page.get_by_role("tab", name=name)).first.click()
    frame = visitor.page.frame_locator("iframe")
    expect(frame.locator("h1")).to_be_visible()
    return frame


def test_the_page_of_all_runs_lists_it_filters_and_opens_its_report(admin: Visitor, finished: str) -> None:
    admin.page.goto("/")
    admin.page.get_by_role("link", name="Delivery", exact=True).click()
    frame = admin.page.frame_locator("iframe")
    row = frame.locator("tr", has_text=finished)
    expect(row).to_contain_text("HELD")
    frame.get_by_label("Verdict").select_option("VIOLATED")
    expect(row).to_have_count(0)
    frame.get_by_role("link", name="Show all").first.click()
    frame.get_by_label("Text").fill(finished)
    frame.get_by_role("button", name="Filter").click()
    expect(row).to_have_count(1)
    row.get_by_role("link", name=finished).click()
    expect(frame.locator("#verdict")).to_contain_text("HELD")


def test_the_page_of_all_runs_leads_out_of_its_frame_to_the_form(admin: Visitor, finished: str) -> None:
    admin.frame("/plugin/delivery", "Delivery").get_by_role("link", name="Trigger a run").click()
    expect(admin.page.get_by_role("button", name="Trigger").first).to_be_visible()
    assert admin.page.url.endswith(f"/dags/{DAG_ID}")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", ["wide", "narrow"])
def test_a_viewer_reads_every_page_in_every_look_and_none_is_wider_than_its_frame(
    browser: Browser, local_airflow: LocalAirflow, shots: Path, finished: str, theme: str, size: str
) -> None:
    viewer = Visitor(browser, local_airflow, shots, theme, size).log_in(local_airflow, "viewer")
    of_run = f"/dags/{DAG_ID}/runs/{RUN_ID}/plugin"
    pages = {"all-runs": ("/plugin/delivery", "Delivery"), "tab-report": (f"{of_run}/delivery-report", "acknowledged records")}
    pages |= {"tab-docs": (f"{of_run}/data-docs", "Data Docs")}
    for name, (path, heading) in pages.items():
        frame = viewer.frame(path, heading)
        viewer.shoot(name)
        assert frame.locator("html").evaluate("page => page.scrollWidth - page.clientWidth") <= 0, name
        background = frame.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")
        assert (_brightness(background) > 128) == (theme == "light"), f"{name} is {background}"
    assert (viewer.strangers, viewer.errors) == ([], [])
    viewer.page.context.close()


def _brightness(colour: str) -> int:
    return max(int(part) for part in re.findall(r"\d+", colour)[:3])


def test_no_page_asked_another_host_for_anything_or_complained(admin: Visitor, finished: str) -> None:
    assert any("/delivery/" in url for url in admin.requests)
    assert (admin.strangers, admin.errors) == ([], [])


def test_a_request_to_another_host_would_have_been_seen_and_failed(browser: Browser, local_airflow: LocalAirflow, shots: Path) -> None:
    visitor = Visitor(browser, local_airflow, shots)
    failed: list[str] = []
    visitor.page.on("requestfailed", lambda request: failed.append(request.url))
    visitor.page.set_content("<img src='https://example.org/pixel.png'>", wait_until="load")
    assert visitor.strangers == failed == ["https://example.org/pixel.png"]


@pytest.mark.parametrize("path", ["/delivery/", "/delivery/runs/data_docs/index.html", "/delivery/runs/..%2f.kdv/secrets/fernet_key"])
def test_who_has_not_logged_in_is_refused(local_airflow: LocalAirflow, finished: str, path: str) -> None:
    anonymous: Callable[[str], int] = lambda at: local_airflow.http(None).get(at).status_code  # noqa: E731
    assert anonymous(path) == anonymous(f"/delivery/runs/{finished}/report.html") == 401


def test_no_path_leads_out_of_the_runs(local_airflow: LocalAirflow, finished: str) -> None:
    for path in ("..%2f.kdv/secrets/fernet_key", f"{finished}/..%2f..%2f.kdv/secrets/fernet_key", "%2e%2e/.kdv/secrets/fernet_key"):
        assert local_airflow.http("admin").get(f"/delivery/runs/{path}").status_code == 404
