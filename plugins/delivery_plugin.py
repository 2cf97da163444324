"""The Airflow plugin. It adds three pages to Airflow's UI, and two tabs to each DAG run.

The first page lists all runs. The second page is the matrix, which shows how each scenario of a catalogue run ended.
The third page shows the history of the sentinels, the small verified loads that a schedule puts on clusters.
The first tab shows the report of the run. The second tab shows the Data Docs, the pages that Great Expectations writes.
"""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from delivery_verifier.orchestration.plugin import current_code
from delivery_verifier.orchestration.plugin.app import app
from delivery_verifier.orchestration.plugin.request_validation import RequestValidation


class DeliveryPlugin(AirflowPlugin):
    """The plugin. Adds three pages to Airflow's navigation, `Delivery`, `Matrix` and `Sentinel`. Adds two tabs to each
    DAG run, `Delivery report` and `Data Docs`.

    The listener `current_code` makes tasks run the code that is on disk. The middleware `RequestValidation` checks the
    input when a user triggers a run, and refuses bad input.
    """

    name = "delivery_verifier"
    listeners: list[Any] = [current_code]
    fastapi_apps: list[Any] = [{"app": app, "url_prefix": "/delivery", "name": "Delivery"}]
    fastapi_root_middlewares: list[Any] = [
        {"middleware": RequestValidation, "name": "Request validation of verify_delivery"}
    ]
    external_views: list[Any] = [
        {
            "name": "Delivery report",
            "href": "delivery/dag/{DAG_ID}/{RUN_ID}/",
            "destination": "dag_run",
            "url_route": "delivery-report",
            "icon": "delivery/icon/report-light.svg",
            "icon_dark_mode": "delivery/icon/report-dark.svg",
        },
        {
            "name": "Data Docs",
            "href": "delivery/dag/{DAG_ID}/{RUN_ID}/docs/",
            "destination": "dag_run",
            "url_route": "data-docs",
            "icon": "delivery/icon/data-docs-light.svg",
            "icon_dark_mode": "delivery/icon/data-docs-dark.svg",
        },
        {
            "name": "Delivery",
            "href": "delivery/",
            "destination": "nav",
            "url_route": "delivery",
            "nav_top_level": True,
            "icon": "delivery/icon/light.svg",
            "icon_dark_mode": "delivery/icon/dark.svg",
        },
        {
            "name": "Matrix",
            "href": "delivery/matrix/",
            "destination": "nav",
            "url_route": "delivery-matrix",
            "nav_top_level": True,
            "icon": "delivery/icon/matrix-light.svg",
            "icon_dark_mode": "delivery/icon/matrix-dark.svg",
        },
        {
            "name": "Sentinel",
            "href": "delivery/sentinel/",
            "destination": "nav",
            "url_route": "delivery-sentinel",
            "nav_top_level": True,
            "icon": "delivery/icon/sentinel-light.svg",
            "icon_dark_mode": "delivery/icon/sentinel-dark.svg",
        },
    ]
