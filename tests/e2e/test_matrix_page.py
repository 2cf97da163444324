"""Tests of the matrix in Airflow in a real browser. In every colour scheme and window size, the page is no wider than
its frame, and sends no request to another host."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from support.airflow import LocalAirflow
from support.browser import CHROMIUM, OPENED, Visitor, browser, check_look  # noqa: F401  (browser is a fixture)
from support.catalogue_runs import catalogue, item

from delivery_verifier.store import catalogue_runs

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium")


@pytest.fixture(scope="module")
def viewer(browser: Browser, local_airflow: LocalAirflow, shots: Path) -> Visitor:  # noqa: F811
    """A logged-in user with the role Viewer. The newest catalogue run of this Airflow is made up."""
    with local_airflow.environment():
        catalogue_runs.write(
            catalogue(
                item("acks_1.frozen_followers", "as expected"),
                item("order.stalled_leader", "inconclusive", "not as expected"),
                started_at=datetime.now(UTC).isoformat(timespec="seconds"),  # the newest is shown
            )
        )
    return Visitor(browser, local_airflow, shots).log_in(local_airflow, "viewer")


@OPENED
def test_the_matrix_is_read_in_airflow_in_every_look(viewer: Visitor, looks: list[tuple[str, str]]) -> None:
    frame = viewer.turn(*looks[0]).frame("/plugin/delivery-matrix", "Not green: 1 of 2")
    for theme, size in looks:
        viewer.turn(theme, size)
        assert frame.get_by_text("acks_1.frozen_followers").first.is_visible()
        check_look(frame, theme)
        viewer.shoot("matrix")
    assert (viewer.strangers, viewer.errors) == ([], [])
