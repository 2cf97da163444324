"""Runs of this home that have ended, and what a run does with what they left before it begins."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from delivery_verifier.cluster import lease, topics
from delivery_verifier.cluster.backend import StartRequest
from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.cluster.external import backend, removal, runs
from delivery_verifier.cluster.external.backend import BACKEND
from delivery_verifier.cluster.external.register import Head, Register, all_registers
from delivery_verifier.maintenance import doctor
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.external_cluster import ClusterAccess, ExternalCluster
from delivery_verifier.model.scenario import ClusterSpec

ACCESS = ClusterAccess(bootstrap_server="b:1")
EXTERNAL = ExternalCluster(access=ACCESS, cluster_id="an-id", brokers=(11,))


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "LOCK", "WORKSPACES"):
        monkeypatch.setenv(f"KDV_{name}", str(tmp_path / name.lower()))
    monkeypatch.setattr(topics, "admin", lambda connection: None)
    connection = property(lambda self: Connection({11: Address("b", 1)}))
    monkeypatch.setattr(backend.SharedCluster, "connection", connection)


def ended(token: str, **more: Any) -> Register:
    """The register of a run of this host whose agent does not answer."""
    head = Head(
        run=f"run-{token}",
        token=token,
        cluster_id="an-id",
        host=socket.gethostname(),
        access=ACCESS,
        addresses=((11, "b", 1),),
        workspace="/nowhere",
        began_us=1,
    )
    register = Register.of_run(more.get("cluster_id", "an-id"), token)
    register.begin(replace(head, **more))
    return register


def test_a_run_is_dead_if_it_is_of_this_host_and_its_agent_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    ended("aaaaaaaa")
    ended("bbbbbbbb", host="another")
    ended("cccccccc", workspace="/alive")

    def call(path: Path, operation: str, **_: object) -> Any:
        if path.parent.name == "alive":
            return {"pid": os.getpid()}
        raise lease.ClusterGone("gone")

    monkeypatch.setattr(lease, "call", call)
    assert BACKEND.dead_runs() == ["aaaaaaaa"]


def begin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, noted: list[str]) -> None:
    def remove(register: Register, cluster: Any) -> list[str]:
        assert cluster._access.command_config is None, "the way of a dead run may be closed"
        noted.append(f"removed {register.path.stem}")
        register.end()
        return []

    monkeypatch.setattr(removal, "remove", remove)
    monkeypatch.setattr(
        runs,
        "require_alone",
        lambda client, own, beside, elsewhere: noted.append(f"alone but for {[*own]}, {[*beside]}, not {elsewhere}"),
    )
    workspace = tmp_path / "newtoken"
    workspace.mkdir()
    spec = ClusterSpec(backend="external", external=replace(EXTERNAL, access=replace(ACCESS, beside=("other",))))
    BACKEND.prepare(StartRequest(run_id="r", workspace=str(workspace), deadline_s=60, spec=spec))


def test_before_a_run_begins_what_dead_runs_left_is_removed_and_nobody_else_may_be_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ended("aaaaaaaa", access=ClusterAccess(command_config="/moved/client.properties"))
    ended("bbbbbbbb", cluster_id="another-id")
    far = f"{ended('cccccccc', host='far').path}, from the host far"
    noted = list[str]()
    begin(monkeypatch, tmp_path, noted)
    assert noted == ["removed aaaaaaaa", f"alone but for ['aaaaaaaa'], ['other'], not {{'cccccccc': '{far}'}}"]
    assert [each.path.stem for each in all_registers()] == ["cccccccc", "newtoken", "bbbbbbbb"]
    assert (tmp_path / "newtoken" / "external.json").stat().st_mode & 0o777 == 0o600
    assert BACKEND.attach(tmp_path / "newtoken").brokers == [11]
    with pytest.raises(lease.ClusterGone, match="is gone: this run has ended"):
        BACKEND.attach(tmp_path / "elsewhere")


def test_the_doctor_names_what_is_left_and_what_it_cannot_remove(monkeypatch: pytest.MonkeyPatch) -> None:
    ended("aaaaaaaa")
    assert "topics of run aaaaaaaa" in doctor._leftovers().found

    def remove(register: Register, cluster: object) -> list[str]:
        raise StepFailed("not removed from the cluster: kdv-aaaaaaaa-safe")

    monkeypatch.setattr(removal, "remove", remove)
    assert "not healed: run aaaaaaaa: not removed from the cluster: kdv-aaaaaaaa-safe" in [*doctor.heal()]
    assert not doctor._leftovers().ok


def test_an_unreadable_register_ends_only_runs_on_its_cluster_and_the_doctor_names_it_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ended("aaaaaaaa")
    torn = ended("bbbbbbbb", cluster_id="another-id")
    torn.path.write_bytes(b"nonsense\n")
    assert "topics of run bbbbbbbb" in doctor._leftovers().found
    with pytest.raises(StepFailed, match=r"bbbbbbbb\.jsonl cannot be read"):
        backend._dead("another-id")
    noted = list[str]()
    begin(monkeypatch, tmp_path, noted)
    assert noted[0] == "removed aaaaaaaa"
    ended("cccccccc")
    said = [*doctor.heal()]
    assert any(line.startswith("not healed: run bbbbbbbb: ") and str(torn.path) in line for line in said)
    assert "removed cccccccc" in noted


def test_what_another_process_has_removed_meanwhile_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    register = ended("aaaaaaaa")
    monkeypatch.setattr(backend, "all_registers", lambda: [register])
    register.end()
    assert BACKEND.remove("aaaaaaaa") == [] == BACKEND.dead_runs()
