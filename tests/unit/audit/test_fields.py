"""Tests of the fields of an audit's form, of the file of a scheduled audit, and of the request that they describe."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from delivery_verifier.audit.fields import FLAGS, TEXTS, VARIABLE, defaults
from delivery_verifier.audit.form_request import request_of
from delivery_verifier.host.variables import KNOWN
from delivery_verifier.model.external_cluster import ClusterAccess
from delivery_verifier.model.inputs import BadInput


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The fields of an audit that is allowed."""
    monkeypatch.setenv("KDV_CONNECTIONS", str(tmp_path / "connections"))
    for name in ("acks-1.jsonl", "acks-2.jsonl", "other.csv"):
        (tmp_path / name).write_text("")
    (tmp_path / "connections").mkdir()
    secured = tmp_path / "connections" / "secured.properties"
    secured.write_text("bootstrap.servers=one:9093\nsecurity.protocol=SSL\n")
    secured.chmod(0o600)
    values = dict.fromkeys(TEXTS, "") | dict.fromkeys(FLAGS, False)
    return values | {"ledger": f"{tmp_path}/acks-*.jsonl", "topic": " orders ", "cluster": "broker:9092"}


def test_the_fields_describe_a_request(filled: dict[str, Any], tmp_path: Path) -> None:
    request = request_of(filled | {"identity": "key", "complete": True}, "run-1")
    assert [file.name for file in request.files] == ["acks-1.jsonl", "acks-2.jsonl"]
    assert (request.format, request.topic, request.access.bootstrap_server) == ("jsonl", "orders", "broker:9092")
    assert (request.identity, request.identity_sql, request.complete, request.others_write) == (
        "key", None, True, False,
    )  # fmt: skip
    assert (request.profile, request.claim) == (None, "at_least_once")
    assert request.command == (
        f"kdv audit --ledger {tmp_path}/acks-1.jsonl {tmp_path}/acks-2.jsonl --topic orders "
        "--bootstrap-server broker:9092 --identity key --complete"
    )


def test_settings_give_a_profile_and_their_contract_as_the_claim(filled: dict[str, Any]) -> None:
    request = request_of(filled | {"producer_config": "acks=all\nenable.idempotence=true\n"}, "run-1")
    assert request.profile is not None and request.profile.producer["enable.idempotence"] is True
    assert (request.claim, request.command) == ("contract", "")


def test_of_a_cluster_with_a_name_only_the_name_travels(
    filled: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"bootstrap.servers": "b:9093", "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
    extra |= {"sasl.username": "u", "sasl.password": "secret-1"}
    monkeypatch.setenv("AIRFLOW_CONN_PROD", json.dumps({"conn_type": "kafka", "extra": extra}))
    for name in ("secured", "airflow:prod"):
        request = request_of(filled | {"cluster": name}, "r")
        assert request.access == ClusterAccess(cluster=name)
        assert f"--cluster {name}" in request.command and "secret-1" not in repr(request)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"ledger": " "}, "ledger is empty"),
        ({"topic": ""}, "topic is empty"),
        ({"cluster": ""}, "cluster is empty"),
        ({"ledger": "acks.jsonl"}, "an absolute path"),
        ({"ledger": "/nowhere/acks-*.jsonl"}, "there is no such file"),
        ({"cluster": "airflow:nobody"}, "a connection that Airflow knows here"),
        ({"cluster": "unknown"}, "unknown"),
        ({"cluster": "broker:0"}, "HOST:PORT"),
        ({"identity": "key", "identity_sql": "key"}, "give one of them"),
        ({"format": "xml"}, "format"),
        ({"claim": "perhaps"}, "claim"),
        ({"claim": "contract"}, "give producer_config"),
        ({"producer_config": "acks=sometimes"}, "acks"),
    ],
)
def test_what_is_not_allowed_is_refused(filled: dict[str, Any], wrong: dict[str, str], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        request_of(filled | wrong, "run-1")


def scheduled(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (folder / "audit.json").write_text(text)
    monkeypatch.setenv(VARIABLE, str(folder / "audit.json"))


def test_the_file_of_a_scheduled_audit_sets_the_defaults_and_the_schedule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert defaults() == (dict.fromkeys(TEXTS, "") | dict.fromkeys(FLAGS, False), None)
    scheduled(tmp_path, monkeypatch, json.dumps({"schedule": "0  4 * * *", "topic": "orders", "others_write": True}))
    values, schedule = defaults()
    assert (values["topic"], values["others_write"], values["ledger"], schedule) == ("orders", True, "", "0 4 * * *")
    assert VARIABLE in KNOWN


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "a readable JSON file"),
        ("[]", "one JSON object"),
        ('{"topics": "orders"}', "did you mean topic"),
        ('{"topic": 7}', "a text"),
        ('{"complete": "yes"}', "true or false"),
        ('{"claim": "perhaps"}', "claim"),
        ('{"schedule": "at night"}', "a cron expression"),
        ('{"schedule": 7}', "a text"),
    ],
)
def test_a_file_that_is_not_allowed_is_refused_by_its_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    scheduled(tmp_path, monkeypatch, text)
    with pytest.raises(BadInput, match=message):
        defaults()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none.json"))
    with pytest.raises(BadInput, match="a readable JSON file"):
        defaults()


def test_the_form_is_read_without_pyarrow() -> None:
    code = "import sys, delivery_verifier.audit.fields; sys.exit(bool({'pyarrow', 'duckdb'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
