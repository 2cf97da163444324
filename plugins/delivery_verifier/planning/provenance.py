"""The provenance of a result: the software versions and the commit of this project that produced the result."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess

from delivery_verifier.host import folders

PACKAGES = (
    "apache-airflow",
    "apache-airflow-providers-apache-spark",
    "confluent-kafka",
    "duckdb",
    "great-expectations",
    "pyspark",
)
"""The Python packages whose versions a scenario records."""


def versions_of(kafka: str) -> dict[str, str]:
    """Maps each program and package on which a result depends to its version. `kafka`: the version of the brokers."""
    return {"kafka": kafka, **{name: importlib.metadata.version(name) for name in PACKAGES}}


def commit() -> str:
    """Returns the commit of this project as `git describe` names it.

    If git fails, as in a container without the repository, returns the environment variable KDV_COMMIT, which the build
    of an image sets. If this variable is not set, returns `unknown`.
    """
    try:
        described = subprocess.run(
            ["git", "-C", str(folders.project_root()), "describe", "--always", "--dirty"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return os.environ.get("KDV_COMMIT") or "unknown"
    return described.stdout.strip()
