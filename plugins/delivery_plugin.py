"""The Airflow plugin. It adds pages about all runs to the UI, and tabs about one run.

One page lists all runs. Another page is the matrix, which shows how each scenario of a catalogue run ended. The tabs
show the report of a run, and the Data Docs, which are the pages that Great Expectations writes.
"""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from delivery_verifier.orchestration.plugin import warm
from delivery_verifier.orchestration.plugin.app import app
from delivery_verifier.orchestration.plugin.door import Door


class DeliveryPlugin(AirflowPlugin):
    """The plugin. It adds two pages to Airflow's navigation, `Delivery` and `Matrix`, and two tabs to each DAG
    run, `Delivery report` and `Data Docs`. It also registers the listener `warm`, which makes tasks
    start faster, and the middleware `Door`, which refuses bad input when a run is triggered."""

    name = "delivery_verifier"
    listeners: list[Any] = [warm]
    fastapi_apps: list[Any] = [{"app": app, "url_prefix": "/delivery", "name": "Delivery"}]
    fastapi_root_middlewares: list[Any] = [{"middleware": Door, "name": "Door of verify_delivery"}]
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
    ]
