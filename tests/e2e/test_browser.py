"""The way of a user through a real browser without a network: log in, fill in the form, watch the run, read its
report. A form with a whole pasted file that has errors is refused, and nothing of it is stored."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FrameLocator, expect
from support.airflow import LocalAirflow
from support.browser import CHROMIUM, OPENED, RUN_ID, SIZES, Visitor, check_look, choose, chromium, open_form
from support.catalogue_runs import catalogue, item

from delivery_verifier.orchestration.names import DAG_ID
from delivery_verifier.run_directory import catalogue_runs
from delivery_verifier.run_directory.run_directory import RunDirectory

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium")


PASTED = """\
# Producer of the orders service
bootstrap.servers=prod-1:9093
sasl.jaas.config=org.x.PlainLoginModule required username="orders" password="swordfish9";
key.serializer=org.apache.kafka.common.serialization.StringSerializer
ack=1
linger.ms=abc
"""


@pytest.fixture(scope="module")
def finished(plain_run: RunDirectory) -> str:
    """The name of the directory of the run that was started with the form."""
    assert re.fullmatch(r"by-hand-1-[0-9a-f]{8}", plain_run.path.name)
    return plain_run.path.name


@pytest.fixture(scope="module")
def browser(finished: str) -> Iterator[Browser]:
    """A browser that starts only after the run has ended, because only one browser can run at a time."""
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def admin(browser: Browser, finished: str, local_airflow: LocalAirflow, shots: Path) -> Visitor:
    return Visitor(browser, local_airflow, shots).log_in(local_airflow, "admin")


def test_the_report_of_a_run_that_was_started_with_the_form_and_watched_stands_in_the_tab(
    admin: Visitor, finished: str
) -> None:
    tab = admin.frame(f"/dags/{DAG_ID}/runs/{RUN_ID}/plugin/delivery-report", "acknowledged records")
    expect(tab.locator("#verdict")).to_contain_text("HELD")
    expect(tab.locator("#timeline-plot canvas").first).to_be_visible()
    begins = tab.locator("#timeline .legend").first.bounding_box()
    assert begins and begins["y"] + begins["height"] < SIZES["wide"][1], "not on the first screen: verdict, arms, plot"
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
    frame.get_by_role("button", name="Filter").click()
    expect(row).to_have_count(0)
    frame.get_by_role("link", name="Show all").first.click()
    frame.get_by_label("Text").fill(finished)
    frame.get_by_role("button", name="Filter").click()
    expect(row).to_have_count(1)
    expect(row.get_by_role("link", name=f"{finished} in Airflow")).to_have_attribute("href", re.compile("/dags/"))
    row.get_by_role("link", name=finished, exact=True).click()
    expect(frame.locator("#verdict")).to_contain_text("HELD")


def test_the_page_of_all_runs_leads_out_of_its_frame_to_the_form(admin: Visitor, finished: str) -> None:
    admin.frame("/plugin/delivery", "Delivery").get_by_role("link", name="Trigger a run").click()
    expect(admin.page.get_by_role("button", name="Trigger").first).to_be_visible()
    assert admin.page.url.endswith(f"/dags/{DAG_ID}")


def test_a_pasted_file_is_refused_in_the_form_with_all_errors_and_nothing_of_it_is_stored(
    admin: Visitor, local_airflow: LocalAirflow
) -> None:
    runs, form = local_airflow.client().run_ids(DAG_ID), open_form(admin)
    choose(admin, "element_profile", "own")
    form.get_by_role("button", name=re.compile("^Own settings")).click()
    field = form.locator("textarea[name=element_producer_config]")
    field.fill(PASTED)
    admin.shoot("pasted")
    admin.page.get_by_test_id("trigger-dag-submit").click()
    for part in ("3 errors:", "producer_config has values for sasl.jaas.config", "ack is no", "linger.ms is 'abc'"):
        expect(form.get_by_text(part)).to_be_visible()
    assert "swordfish9" not in form.get_by_text("3 errors:").inner_text()
    expect(field).to_have_value(PASTED)
    admin.shoot("refused")
    assert local_airflow.client().run_ids(DAG_ID) == runs
    stored = [file for file in (local_airflow.home / ".kdv" / "airflow").rglob("*") if file.is_file()]
    assert any(file.name == "airflow.db" for file in stored)
    assert [file for file in stored if b"swordfish9" in file.read_bytes()] == []


@pytest.fixture(scope="module")
def viewer(browser: Browser, admin: Visitor, local_airflow: LocalAirflow, shots: Path) -> Visitor:
    """A user with the role Viewer. The newest catalogue run of this Airflow is made up."""
    admin.rest()
    with local_airflow.environment():
        catalogue_runs.write(
            catalogue(
                item("acks_1.frozen_followers", "as expected"),
                item("order.stalled_leader", "inconclusive", "not as expected"),
                started_at=datetime.now(UTC).isoformat(timespec="seconds"),
            )
        )
    return Visitor(browser, local_airflow, shots).log_in(local_airflow, "viewer")


OF_RUN = f"/dags/{DAG_ID}/runs/{RUN_ID}/plugin"


@OPENED
@pytest.mark.parametrize(
    ("name", "path", "heading"),
    [
        ("all-runs", "/plugin/delivery", "Delivery"),
        ("tab-report", f"{OF_RUN}/delivery-report", "acknowledged records"),
        ("tab-docs", f"{OF_RUN}/data-docs", "Data Docs"),
        ("matrix", "/plugin/delivery-matrix", "Not green: 1 of 2"),
    ],
    ids=["all-runs", "tab-report", "tab-docs", "matrix"],
)
def test_a_viewer_reads_every_page_in_every_look_and_none_is_wider_than_its_frame(
    viewer: Visitor, name: str, path: str, heading: str, looks: list[tuple[str, str]]
) -> None:
    frame = viewer.turn(*looks[0]).frame(path, heading)
    for theme, size in looks:
        viewer.turn(theme, size)
        check_look(frame, theme)
        viewer.shoot(name)
    assert (viewer.strangers, viewer.errors) == ([], [])


def test_no_page_asked_another_host_for_anything_or_complained(admin: Visitor, finished: str) -> None:
    assert any("/delivery/" in url for url in admin.requests)
    assert (admin.strangers, admin.errors) == ([], [])


def test_a_request_to_another_host_would_have_been_seen_and_failed(
    browser: Browser, local_airflow: LocalAirflow, shots: Path
) -> None:
    visitor = Visitor(browser, local_airflow, shots)
    failed: list[str] = []
    visitor.page.on("requestfailed", lambda request: failed.append(request.url))
    visitor.page.set_content("<img src='https://example.org/pixel.png'>", wait_until="load")
    assert visitor.strangers == failed == ["https://example.org/pixel.png"]
