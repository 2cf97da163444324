"""Tests of how an audit begins. tests/spark performs whole ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from delivery_verifier.audit import perform
from delivery_verifier.audit.request import AuditRequest
from delivery_verifier.cluster import workspaces
from delivery_verifier.model.external_cluster import ClusterAccess
from delivery_verifier.model.inputs import BadInput


def test_an_audit_removes_the_secrets_of_one_that_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDV_WORKSPACES", str(tmp_path / "ws"))
    monkeypatch.setenv("KDV_LOCK", str(tmp_path / "lock"))

    def refuse(access: ClusterAccess, topic: str) -> None:
        raise BadInput("no such cluster")

    monkeypatch.setattr(perform.foreign_topic, "connected", refuse)
    request = AuditRequest(run_id="r", files=(), format="jsonl", topic="t", access=ClusterAccess(), identity="key")
    with workspaces.passing() as workspace:
        (workspace / "client.properties").write_text("sasl.password=secret")
        (workspace / workspaces.AWAITED).write_text("1:1")  # its process has ended
        with pytest.raises(BadInput, match="no such cluster"):
            perform.perform(
                request, tmp_path / "runs" / "r", lambda records: pytest.fail("too late"), lambda text: None
            )
        assert not workspace.exists()
