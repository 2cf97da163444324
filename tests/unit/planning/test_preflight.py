"""Tests of the checks before a run, on made-up hosts. The checks find everything that a host lacks, and name a remedy
for each lack."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from delivery_verifier.command_line import main as cli
from delivery_verifier.host.java import jars, runtime
from delivery_verifier.host.java.jars import JarError
from delivery_verifier.host.java.runtime import JavaError
from delivery_verifier.host.librdkafka import wheels
from delivery_verifier.host.librdkafka.wheels import WheelError
from delivery_verifier.planning import preflight
from delivery_verifier.planning.build import scenario_from_params
from delivery_verifier.planning.preflight import GB, FolderSpace, Host, Unfit

GOOD = Host(
    runs=FolderSpace(path="/runs", device=1, free=100 * GB),
    workspace=FolderSpace(path="/ws", device=1, free=100 * GB),
    cache=FolderSpace(path="/cache", device=2, free=100 * GB),
    memory=16 * GB,
    open_files=524_288,
)


def host(**change: Any) -> Host:
    return msgspec.structs.replace(GOOD, **change)


def place(free_gb: float, device: int = 1, path: str = "/x") -> FolderSpace:
    return FolderSpace(path=path, device=device, free=free_gb * GB)


def lacking(made: Host, **params: Any) -> str:
    with pytest.raises(Unfit) as unfit:
        preflight.require(scenario_from_params(params, "r"), made)
    return str(unfit.value)


def test_a_good_host_lacks_nothing() -> None:
    preflight.require(scenario_from_params({"records": 1_000_000}, "r"), GOOD)
    assert all(check.ok for check in preflight.general(GOOD))


def test_too_little_disk_for_records_times_payload_times_replicas_is_reported_with_both_sizes() -> None:
    params = {"records": 10_000_000, "payload_bytes": 10_000, "replication_factor": 3}
    told = lacking(host(workspace=place(100, 3, "/ws")), **params)
    assert "disk: 100.0 GB free in /ws, 331.3 GB needed; remedy: lower --records" in told and "KDV_WORKSPACES" in told
    preflight.require(scenario_from_params({**params, "payload_bytes": 1000}, "r"), host(workspace=place(100, 3)))


def test_folders_on_one_file_system_share_its_space() -> None:
    params = {"records": 10_000_000, "payload_bytes": 100}  # 4.6 GB in the workspace, 0.7 GB in the runs
    apart = host(workspace=place(5.0, 3), runs=place(1.0, 4))
    preflight.require(scenario_from_params(params, "r"), apart)
    assert "/ws, /runs" in lacking(host(workspace=place(5.0, 3, "/ws"), runs=place(5.0, 3, "/runs")), **params)


def test_a_load_that_its_rate_makes_longer_than_its_floor_needs_space_for_all_of_it() -> None:
    floor = preflight.needed_bytes(scenario_from_params({"records": 1000}, "r"))
    rated = preflight.needed_bytes(scenario_from_params({"records": 1000, "rate": 10_000, "duration_s": 3600}, "r"))
    assert rated["workspace"] > 36_000_000 * 100 * 3 > floor["workspace"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"memory": 1.5 * GB}, ("memory: 1.5 GB available", "stop something")),
        ({"open_files": 1024}, ("files: 1024 of open files allowed", "ulimit -Hn")),
        ({"unwritable": ["/dev/shm"]}, ("temporary: cannot be written: /dev/shm", "mode 1777")),
        (
            {"missing_bytes": 2e8, "mirror": "https://m does not answer (no route)"},
            ("jars: 200 MB to be fetched once", "no route", "KDV_MAVEN_MIRROR"),
        ),
        (
            {"missing_bytes": 2e8, "cache": place(0.1, 9, "/cache")},
            ("disk: 0.1 GB free in /cache, 0.2 GB needed", "KDV_CACHE"),
        ),
    ],
)
def test_each_lack_is_reported_with_its_remedy(change: dict[str, Any], told: tuple[str, ...]) -> None:
    message = lacking(host(**change))
    for part in (*told, "remedy: "):
        assert part in message


def test_many_partitions_need_many_files() -> None:
    made = host(open_files=4096)
    preflight.require(scenario_from_params({}, "r"), made)
    assert "lower --partitions" in lacking(made, partitions=1000)


def test_the_doctor_wants_more_than_a_run_needs() -> None:
    tight = host(memory=3 * GB, runs=place(4))
    preflight.require(scenario_from_params({}, "r"), tight)
    assert {check.name for check in preflight.general(tight) if not check.ok} == {"disk", "memory"}


def test_the_network_is_asked_only_if_jars_are_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[str] = []
    monkeypatch.setattr(preflight, "_why_unreachable", lambda mirror: asked.append(mirror) or "gone")
    monkeypatch.setattr(jars, "missing_bytes", lambda: 0)
    assert preflight.look().mirror == "" and asked == []
    monkeypatch.setattr(jars, "missing_bytes", lambda: 7)
    assert preflight.look().mirror == "gone" and asked == [jars.MAVEN_CENTRAL]


def test_a_mirror_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KDV_CACHE", str(tmp_path))
    monkeypatch.setenv("KDV_MAVEN_MIRROR", "http://127.0.0.1:9")
    found = preflight.look()
    assert found.missing_bytes > 1e7
    assert found.mirror.startswith("http://127.0.0.1:9 does not answer")


def test_a_run_is_refused_before_anything_is_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KDV_HOME", str(tmp_path))
    monkeypatch.setenv("KDV_LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr(preflight, "look", lambda: host(memory=0.5 * GB))
    for line in (["run", "--direct", "--run-id", "r"], ["run", "--run-id", "r"]):
        assert cli.main(line) == 70
        told = capsys.readouterr().err
        assert "memory: 0.5 GB available; remedy: stop something" in told and "Traceback" not in told
    assert not (tmp_path / "runs" / "r").exists() and not (tmp_path / ".kdv").exists()


def refused_wheel(version: str) -> Path | None:
    if not version:
        return None  # the installed one
    raise WheelError(f"librdkafka {version} cannot be had: no route. Check the network")


def refused_jars(version: str) -> list[Path]:
    raise JarError(f"cannot fetch the Java client {version}. Check the network")


def refused_java() -> Path:
    raise JavaError("Java 17+ was not found. Install a JRE")


@pytest.mark.parametrize(
    ("options", "place", "name", "refuse", "said"),
    [
        ("--clients librdkafka:2.13.0", wheels, "environment", refused_wheel, "librdkafka 2.13.0 cannot be had"),
        ("--clients java:4.1.1", jars, "java_client_jars", refused_jars, "cannot fetch the Java client 4.1.1"),
        ("--clients librdkafka,java", runtime, "java_home", refused_java, "Java 17+ was not found"),
    ],
    ids=["librdkafka", "jars", "java"],
)
def test_a_client_that_cannot_be_had_is_told_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: str,
    place: ModuleType,
    name: str,
    refuse: Callable[..., object],
    said: str,
) -> None:
    monkeypatch.setenv("KDV_HOME", str(tmp_path))
    monkeypatch.setenv("KDV_LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr(preflight, "look", lambda: GOOD)
    monkeypatch.setattr(place, name, refuse)
    for line in (["run", "--direct", "--run-id", "r"], ["run", "--run-id", "r"]):
        assert cli.main([*line, *options.split()]) == 70
        told = capsys.readouterr().err
        assert said in told and "Traceback" not in told
    assert not (tmp_path / "runs" / "r").exists() and not (tmp_path / ".kdv").exists()


def test_each_client_of_a_run_must_be_on_the_host_that_of_the_members_too(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()
    monkeypatch.setattr(wheels, "environment", asked.append)
    for params, versions in (
        ({"scenario": "consumer.eof_events"}, ["", "2.13.0", "2.13.2"]),
        ({"clients": "librdkafka:2.13.0"}, ["", "2.13.0"]),  # the weak control has the installed one
        ({"profile": "acks_0"}, [""]),
    ):
        preflight.require(scenario_from_params(params, "r"), GOOD)
        assert sorted(asked) == versions
        asked.clear()
