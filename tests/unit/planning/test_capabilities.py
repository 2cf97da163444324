"""Tests of the capabilities of a host (e.g. iptables). If a capability is missing, the error gives reason and remedy. A
scenario that needs this capability is refused before anything starts."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import msgspec
import pytest

from delivery_verifier import catalogue
from delivery_verifier.cluster import means
from delivery_verifier.cluster.embedded import capabilities, disks, packet_filter
from delivery_verifier.command_line import main as cli
from delivery_verifier.host import processes
from delivery_verifier.model.act import CAPABILITIES, Capability
from delivery_verifier.model.fault_plan import FaultStep, Trigger
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.planning import preflight
from delivery_verifier.planning.build import scenario_from_params
from delivery_verifier.planning.preflight import Unavailable


def why_not(capability: Capability) -> str | None:
    """Returns why this host lacks the capability; None if the host has it."""
    unavailable = capabilities.tried(capability)
    return unavailable.why if unavailable else None


@pytest.fixture(autouse=True)
def _afresh() -> None:
    capabilities.tried.cache_clear()


def needing(needed: Capability) -> Scenario:
    made = scenario_from_params({}, "r")
    return msgspec.structs.replace(made, cluster=msgspec.structs.replace(made.cluster, capabilities=(needed,)))


def refuse(name: Capability, monkeypatch: pytest.MonkeyPatch) -> None:
    module = means.module(capabilities.PACKAGE, name)
    monkeypatch.setattr(module, "unavailable", lambda: capabilities.Unavailability("no iptables: install it"))


def test_a_scenario_whose_capabilities_the_host_lacks_is_unavailable_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refuse("network", monkeypatch)
    with pytest.raises(Unavailable, match="UNAVAILABLE on this host: it needs network: no iptables: install it"):
        preflight.require(needing("network"))
    preflight.require(needing("proxy"))


def test_a_fault_that_a_user_chooses_gets_the_capability_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert scenario_from_params({"fault": "stop_leader"}, "r").cluster.capabilities == ()
    cut = FaultStep(trigger=Trigger(kind="reported", value=0.5), action="isolate", target="leader")
    plan = msgspec.structs.replace(catalogue.FAULTS["stop_leader"], steps=(cut,))
    monkeypatch.setitem(catalogue.FAULTS, "stop_leader", plan)
    assert scenario_from_params({"fault": "stop_leader"}, "r").cluster.capabilities == ("network",)


def test_unavailable_has_an_exit_code_of_its_own_and_starts_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    refuse("power", monkeypatch)
    monkeypatch.setenv("KDV_HOME", str(tmp_path))
    monkeypatch.setenv("KDV_LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr(
        "delivery_verifier.pipeline.steps.plan.scenario_from_params", lambda params, name: needing("power")
    )
    assert cli.main(["run", "--direct"]) == 69
    assert "kdv: safe.kill_leader is UNAVAILABLE on this host: it needs power" in capsys.readouterr().err
    assert not list((tmp_path / "runs").glob("*"))


def test_only_root_has_capabilities_that_changes_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert {name: why_not(name) for name in CAPABILITIES} == {
        "proxy": None,
        "network": "only root may do that: run as root",
        "power": "only root may do that: run as root",
    }


def test_a_host_without_the_programs_names_them_and_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", "/nowhere")
    assert "iptables, iptables-save, iptables-restore not found: install iptables" in str(why_not("network"))
    assert "mkfs.ext4, mount, umount not found: install e2fsprogs" in str(why_not("power"))


def test_what_cannot_be_tried_with_success_is_unavailable_in_the_tools_own_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(capabilities, "missing_programs", lambda *_: None)
    monkeypatch.setattr(disks, "_call", _refusing(disks.DiskError, "permission denied"))
    monkeypatch.setattr(packet_filter, "_call", _refusing(packet_filter.FilterError, "permission denied"))
    monkeypatch.setattr(packet_filter.Chain, "destroy", lambda self: None)
    for name in ("network", "power"):
        assert "(permission denied): run as root with CAP_" in str(why_not(name))


@pytest.mark.parametrize(
    ("said", "failed"),
    [
        ("mount: /x: permission denied.", False),
        ("Warning: Extension owner revision 0 not supported, missing kernel module?", False),
        ("mkfs.ext4: No space left on device", True),
        ("Command 'mount' timed out after 60 seconds", True),
    ],
)
def test_a_kernel_that_refuses_is_lacking_and_any_other_error_is_a_trial_that_went_wrong(
    said: str, failed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capabilities, "missing_programs", lambda *_: None)
    monkeypatch.setattr(disks, "_call", _refusing(disks.DiskError, said))
    unavailable = capabilities.tried("power")
    assert unavailable is not None and unavailable.failed == failed and said in unavailable.why


@pytest.mark.parametrize("is_there", [True, False])
def test_loop_devices_are_lacking_where_there_is_no_device_and_else_are_but_busy(
    is_there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = tmp_path / "loop-control"
    if is_there:
        control.touch()
    monkeypatch.setattr(capabilities, "LOOP_CONTROL", str(control))
    monkeypatch.setattr(capabilities, "missing_programs", lambda *_: None)
    monkeypatch.setattr(disks, "_call", _refusing(disks.DiskError, "mount: /x: failed to setup loop device for /y."))
    unavailable = capabilities.tried("power")
    assert unavailable is not None and unavailable.failed == is_there


def test_the_folder_and_mounts_of_a_trial_that_was_killed_are_found_and_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    me, released = processes.myself(), list[Path]()
    dead, alive = tmp_path / "kdv-trial-1-1-abc", tmp_path / f"kdv-trial-{me.pid}-{me.started}-abc"
    for folder in (dead, alive, tmp_path / "kdv-trial-of-mine"):
        folder.mkdir()
    (tmp_path / "kdv-trial-1-2-abc").symlink_to(alive)
    monkeypatch.setattr(disks, "release", released.append)
    assert capabilities.abandoned() == [dead]
    assert capabilities.sweep() == [dead] == released
    assert not dead.exists() and alive.exists() and capabilities.abandoned() == []


def test_a_file_system_that_goes_on_after_its_shutdown_is_no_capabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities, "missing_programs", lambda *_: None)
    for name in ("make", "cut_power"):
        monkeypatch.setattr(disks.Disk, name, lambda *_: None)
    monkeypatch.setattr(disks.Disk, "is_off", lambda self: False)
    assert "ext4 goes on after its shutdown" in str(why_not("power"))


def test_the_doctor_names_all_capabilities_and_fails_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse("network", monkeypatch)
    checks = {check.name: check for check in preflight.capabilities()}
    assert set(checks) == set(CAPABILITIES) and all(check.ok for check in checks.values())
    assert checks["network"].found == "not available: no iptables: install it"


def _refusing(error: type[Exception], said: str) -> object:
    def refuse(*_command: object, **_more: object) -> None:
        raise error(said)

    return refuse
