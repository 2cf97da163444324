"""Tests of parameters: the command line gets texts, but Airflow's form wants numbers and refuses '2000'. So the texts
are converted."""

from __future__ import annotations

import msgspec
import pytest
from support.commands import plan, without_git

from delivery_verifier.model.scenario import ClusterSpec, Scenario
from delivery_verifier.planning.build import scenario_from_params
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


def test_the_command_of_a_run_leaves_out_what_is_the_default_and_plans_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Airflow's form sends all of its fields."""
    without_git(monkeypatch)
    form: dict[str, object] = {
        "profile": "idempotent",
        "fault": "elect_preferred",
        "claim": "contract",
        "records": 2000,
        "seed": 0,
    }
    form |= {"pacing": "spread", "producers": 1, "payload_bytes": 100, "transaction_records": 500, "abort_every": 10}
    form |= {"partitions": 3, "replication_factor": 3, "kafka_version": ClusterSpec().kafka_version, "cycles": 1}
    planned = scenario_from_params(form, "proposed")
    version = f"--kafka-version {ClusterSpec().kafka_version}"  # is kept: the default changes with time
    assert planned.command == f"kdv run --profile idempotent --fault elect_preferred --records 2000 {version}"
    again = plan(planned.command)
    assert isinstance(again, Scenario)
    assert msgspec.structs.replace(again, created_at="") == msgspec.structs.replace(planned, created_at="")
    changed = scenario_from_params(form | {"payload_bytes": 200, "cycles": 2}, "proposed")
    assert changed.command.endswith(f"--payload-bytes 200 {version} --cycles 2")
