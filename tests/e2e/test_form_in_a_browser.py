"""The trigger form in a real browser: a whole pasted file is refused with all errors, and is stored by nobody."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from support.airflow import LocalAirflow
from support.browser import CHROMIUM, LOADS_WITHIN_MS, Visitor, browser, choose  # noqa: F401  (a fixture)

from delivery_verifier.orchestration.local.settings import DAG_ID

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium")
PASTED = """\
# Producer of the orders service
bootstrap.servers=prod-1:9093
sasl.jaas.config=org.x.PlainLoginModule required username="orders" password="swordfish9";
key.serializer=org.apache.kafka.common.serialization.StringSerializer
ack=1
linger.ms=abc
"""


def test_a_pasted_file_is_refused_in_the_form_with_all_errors_and_nothing_of_it_is_stored(
    browser: Browser,  # noqa: F811
    local_airflow: LocalAirflow,
    shots: Path,
) -> None:
    visitor = Visitor(browser, local_airflow, shots).log_in(local_airflow, "admin")
    page, runs = visitor.page, local_airflow.client().run_ids(DAG_ID)
    page.goto(f"/dags/{DAG_ID}")
    page.get_by_role("button", name="Trigger").first.click()
    form = page.get_by_role("dialog")
    expect(form.get_by_text("Delivery profile")).to_be_visible(timeout=LOADS_WITHIN_MS)
    choose(visitor, "element_profile", "own")
    form.get_by_role("button", name=re.compile("^Own settings")).click()
    field = form.locator("textarea[name=element_producer_config]")
    field.fill(PASTED)
    visitor.shoot("pasted")
    page.get_by_test_id("trigger-dag-submit").click()
    for part in ("3 errors:", "producer_config has values for sasl.jaas.config", "ack is no", "linger.ms:"):
        expect(form.get_by_text(part)).to_be_visible()
    assert "swordfish9" not in form.get_by_text("3 errors:").inner_text()
    expect(field).to_have_value(PASTED)
    visitor.shoot("refused")
    assert local_airflow.client().run_ids(DAG_ID) == runs
    stored = [file for file in (local_airflow.home / ".kdv" / "airflow").rglob("*") if file.is_file()]
    assert any(file.name == "airflow.db" for file in stored)
    assert [file for file in stored if b"swordfish9" in file.read_bytes()] == []
