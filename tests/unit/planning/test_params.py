"""Tests of parameters: the command line gets texts, but Airflow's form wants numbers and refuses '2000'. So the texts
are converted."""

from __future__ import annotations

from delivery_verifier.planning.params import as_conf


def test_numbers_go_to_airflow_as_numbers_and_all_else_as_it_was_given() -> None:
    given = {
        "records": "2000",
        "duration_s": "6",
        "seed": "0",
        "profile": "safe",
        "fault": "kill_leader",
        "kafka_version": "4.3.1",
    }
    assert as_conf(given) == {**given, "records": 2000, "duration_s": 6.0, "seed": 0}
    assert {type(value) for name, value in as_conf(given).items() if name in ("records", "seed")} == {int}
