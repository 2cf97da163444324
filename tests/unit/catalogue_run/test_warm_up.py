"""Test of what a catalogue run without Airflow imports before its first load."""

from __future__ import annotations

import threading
from typing import cast

import pytest
from pyspark.sql import SparkSession

from delivery_verifier.catalogue_run import directly
from delivery_verifier.run import direct


def test_what_the_last_steps_need_is_imported_before_the_session_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    imported, spark = list[str](), cast("SparkSession", object())

    def import_ahead() -> threading.Thread:
        thread = threading.Thread(target=lambda: imported.extend(direct.LATE_MODULES))
        thread.start()
        return thread

    monkeypatch.setattr(direct, "import_ahead", import_ahead)
    assert directly._warm_up(spark) is spark and imported == [*direct.LATE_MODULES]
