"""The provenance of a result: the versions and the commit that it was made with."""

from __future__ import annotations

import importlib.metadata
import subprocess

from delivery_verifier.host import folders

PACKAGES = (
    "apache-airflow",
    "apache-airflow-providers-apache-spark",
    "confluent-kafka",
    "great-expectations",
    "pyspark",
)
"""Packages whose versions a scenario records."""


def versions_of(kafka: str) -> dict[str, str]:
    """Versions of everything that a result depends on, by name. `kafka` is the brokers' version."""
    return {"kafka": kafka, **{name: importlib.metadata.version(name) for name in PACKAGES}}


def commit() -> str:
    """The commit of this checkout (`git describe`), or `unknown`."""
    try:
        described = subprocess.run(
            ["git", "-C", str(folders.project_root()), "describe", "--always", "--dirty"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return described.stdout.strip()
