"""Tests of the file that schedules a sentinel: its fields, its defaults, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from delivery_verifier.model.external_cluster import ClusterAccess
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.planning import sentinel
from delivery_verifier.planning.build import scenario_from_params
from delivery_verifier.planning.external_runs import require_possible


def of_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: Any) -> sentinel.Settings:
    file = tmp_path / "sentinel.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    monkeypatch.setenv(sentinel.VARIABLE, str(file))
    return sentinel.settings()


def test_without_the_variable_nothing_is_scheduled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(sentinel.VARIABLE, raising=False)
    plain = sentinel.settings()
    assert (plain.schedule, plain.metrics, plain.keep) == (None, None, sentinel.KEEP)
    assert plain.fields["records"] == 1000 and plain.fields["profile"] == "safe"


def test_the_file_sets_fields_schedule_gauges_and_how_much_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = {"cluster": "staging", "schedule": "*/5  * * * *", "records": 2000, "replication_factor": 1}
    found = of_file(tmp_path, monkeypatch, {**written, "metrics": "/var/lib/node", "keep": 5})
    assert (found.schedule, found.metrics, found.keep) == ("*/5 * * * *", Path("/var/lib/node"), 5)
    assert (found.fields["cluster"], found.fields["records"], found.fields["profile"]) == ("staging", 2000, "safe")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "a readable JSON file"),
        ([], "one JSON object"),
        ({"recordz": 1}, "recordz"),
        ({"fault": "kill_leader", "cluster": "a"}, "fault"),
        ({"schedule": "often", "cluster": "a"}, "cron expression"),
        ({"schedule": 5, "cluster": "a"}, "schedule"),
        ({"schedule": "*/5 * * * *"}, "because there is a schedule"),
        ({"cluster": "a b"}, "cluster"),
        ({"cluster": "a", "records": 5}, "records"),
        ({"cluster": "a", "profile": "safest"}, "safest"),
        ({"cluster": "a", "metrics": "metrics"}, "absolute path"),
        ({"cluster": "a", "keep": 0}, "keep"),
    ],
)
def test_what_is_wrong_in_the_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: Any, said: str
) -> None:
    with pytest.raises(BadInput, match=said):
        of_file(tmp_path, monkeypatch, content)


def test_the_request_has_no_fault_and_may_run_on_a_cluster_that_somebody_else_runs() -> None:
    params = sentinel.settings().fields | {"cluster": "staging", "beside": "", "other": "ignored"}
    request = sentinel.request_of(params)
    assert request == {
        "cluster": "staging",
        "profile": "safe",
        "records": 1000,
        "payload_bytes": 100,
        "partitions": 3,
        "replication_factor": 3,
        "fault": "none",
    }
    scenario = scenario_from_params(request, "r")
    require_possible(scenario, ClusterAccess(cluster="staging"))
    assert scenario.fault.steps == () and scenario.load.duration_s < 20
    with pytest.raises(BadInput, match="allowed: the name of a cluster"):
        sentinel.request_of(params | {"cluster": ""})
