"""The Airflow plugin: the report of a run as a tab, and all runs as a page."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from delivery_verifier.orchestration.reports import app


class DeliveryPlugin(AirflowPlugin):
    """Adds the tab `Delivery report` to runs and the page `Delivery reports` to the navigation."""

    name = "delivery_verifier"
    fastapi_apps: list[Any] = [
        {"app": app, "url_prefix": "/delivery", "name": "Delivery reports"}
    ]
    external_views: list[Any] = [
        {
            "name": "Delivery report",
            "href": "delivery/dag/{DAG_ID}/{RUN_ID}/",
            "destination": "dag_run",
            "url_route": "delivery-report",
        },
        {
            "name": "Delivery reports",
            "href": "delivery/",
            "destination": "nav",
            "url_route": "delivery-reports",
            "category": "browse",
        },
    ]
