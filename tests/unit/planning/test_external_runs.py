"""A run on a cluster that somebody else runs: what it assumes of the cluster, and the names that nobody else has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from delivery_verifier import catalogue
from delivery_verifier.catalogue.parts import AT_ONCE, MOVED, step
from delivery_verifier.cluster.check.cluster_check import Checked
from delivery_verifier.cluster.check.facts import Broker, Software
from delivery_verifier.cluster.check.rights import Answer, Created
from delivery_verifier.cluster.connection import Address
from delivery_verifier.cluster.external import backend
from delivery_verifier.cluster.security.names import UnsupportedSecurity
from delivery_verifier.cluster.security.spark_options import SecretsOutOfReach
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.data import dumps
from delivery_verifier.model.external_cluster import RETURN_S, ClusterAccess
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import Load, Scenario
from delivery_verifier.model.scenario_checks import loads
from delivery_verifier.planning import cluster_needs, cluster_plan, external_runs
from delivery_verifier.planning.build import scenario_from_params

NEW = Software({"eligible.leader.replicas.version": 1, "transaction.version": 2}, 30, True, 0.001)
ACCESS = ClusterAccess(bootstrap_server="b:1", command_config="/c/my file", beside=("other",))


def scenario(profile: str = "safe", application: str | None = None, **load: Any) -> Scenario:
    return catalogue.scenario(
        "r",
        profile=catalogue.PROFILES[profile],
        fault=catalogue.FAULTS["none"],
        load=Load(**load),
        records=1000,
        application=None if application is None else catalogue.APPLICATIONS[application],
        command="kdv run",
    )


def checked(*software: Software, settings: dict[str, str] | None = None) -> Checked:
    """A cluster whose brokers, from 11 on, have this software, in racks a, a, b, b ..."""
    brokers = tuple(Broker(11 + n, Address("b", n), "ab"[n // 2 % 2]) for n in range(len(software)))
    return Checked(
        cluster_id="an-id",
        principal="User:verifier",
        servers="b:1",
        brokers=brokers,
        software=dict(zip((each.number for each in brokers), software, strict=True)),
        settings=settings,
        rights=(),
        created={},
        unreached=(),
        beside=(),
        took_s=1.0,
    )


def on(run: Scenario, found: Checked) -> Scenario:
    return external_runs.on_cluster(ACCESS, run, found)


def test_replicas_are_placed_on_as_many_brokers_as_needed_and_in_other_racks() -> None:
    cluster = on(scenario(), checked(*[NEW] * 5)).cluster
    assert cluster.external is not None and cluster.external.brokers == (11, 13, 12)
    assert (cluster.brokers, cluster.backend, cluster.external.cluster_id) == (3, "external", "an-id")
    every = on(scenario("transactional"), checked(*[NEW] * 5)).cluster.external
    assert every is not None and every.brokers == (11, 13, 12, 14, 15), "its coordinators may be anywhere"


@pytest.mark.parametrize(
    ("software", "release", "elr"),
    [
        ([NEW, NEW, NEW], "4.3", True),
        ([NEW, NEW._replace(newest_metadata=27), NEW], "4.1", True),
        ([NEW, Software({}, 21, False, 0.1), NEW], "3.9", False),
        ([NEW, NEW._replace(newest_metadata=None), NEW], "not known", False),
        ([NEW, NEW._replace(newest_metadata=999), NEW], "not known", False),
        ([NEW._replace(features={}), NEW, NEW], "4.3", False),
    ],
)
def test_the_contract_assumes_the_weaker_value_of_what_is_not_known(
    software: list[Software], release: str, elr: bool
) -> None:
    run = on(scenario(), checked(*software))
    assert (run.cluster.kafka_version, run.versions["kafka"]) == (release, release)
    settings = Settings.of_arm(run, run.subjects[0])
    assert (settings.elr, settings.transaction_log_min_isr) == (elr, 1)
    said = cluster_plan.assumptions_from(checked(*software))["eligible leader replicas"]
    assert said.startswith("kept" if elr else "none"), "what is printed is what counts"


def test_what_the_brokers_tell_is_kept_and_what_they_do_not_is_none() -> None:
    told = on(
        scenario(), checked(NEW, NEW, NEW, settings={cluster_plan.MIN_ISR: "2", "broker.session.timeout.ms": "9000"})
    )
    assert Settings.of_arm(told, told.subjects[0]).transaction_log_min_isr == 2
    assert told.cluster.session_timeout_ms == 9000
    silent = on(scenario(), checked(NEW, NEW, NEW)).cluster
    assert silent.external is not None and silent.external.settings is None
    assert silent.session_timeout_ms == 300, "so that no silence counts as brief"


def test_the_command_repeats_the_run_on_this_cluster_and_the_scenario_is_read_back() -> None:
    run = on(scenario(), checked(NEW, NEW, NEW))
    wanted = "kdv run --direct --bootstrap-server b:1 --command-config '/c/my file' --beside other"
    assert run.command == wanted
    assert msgspec.json.decode(dumps(run), type=Scenario) == run


def test_a_cluster_with_a_name_is_all_that_airflow_needs_to_repeat_the_run() -> None:
    named = ClusterAccess(cluster="staging", beside=("r-1", "r-2"))
    assert ClusterAccess.of_fields(named.fields) == named and named.unnamed == ()
    assert ClusterAccess.of_fields({"cluster": "", "beside": "r"}) is None
    assert ACCESS.unnamed == ("--bootstrap-server", "--command-config")
    run = external_runs.on_cluster(named, scenario(), checked(NEW, NEW, NEW))
    assert run.command == "kdv run --cluster staging --beside r-1 --beside r-2"


def commands_of(folder: Path, monkeypatch: pytest.MonkeyPatch, *actions: str) -> ClusterAccess:
    """An access with a file of commands for these actions."""
    monkeypatch.setenv("KDV_COMMANDS", str(folder))
    folder.chmod(0o700)
    text = "".join(f"[actions.{name}]\ncommand = ['sh', '{{broker}}']\n" for name in actions)
    (folder / "mine.toml").write_text(text)
    return msgspec.structs.replace(ACCESS, commands="mine")


def test_a_fault_fits_if_the_commands_have_all_of_its_actions_and_the_missing_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = commands_of(tmp_path, monkeypatch, "kill", "start")
    killed, paused = (
        msgspec.structs.replace(scenario(rate=500), fault=catalogue.FAULTS[name])
        for name in ("kill_leader", "pause_leader")
    )
    external_runs.require_possible(killed, access)
    with pytest.raises(BadInput, match="the commands mine have none for pause, resume; allowed there"):
        external_runs.require_possible(paused, access)
    with pytest.raises(
        BadInput, match=r"kill, start: only a cluster of the verifier's own.*commands of your own: --commands NAME"
    ):
        external_runs.require_possible(killed, ACCESS)
    with pytest.raises(BadInput, match="commands is 'other'; allowed: mine"):
        external_runs.require_possible(killed, msgspec.structs.replace(access, commands="other"))
    needed = cluster_needs.needs(killed, external_runs.commands_of(access))
    assert needed.ordered == ("kill", "start") and needed.impossible == ()
    assert any(line.topic == "orders" and "kill, start" in line.text for line in cluster_plan.of_run(needed))


def test_the_digest_of_the_commands_is_in_the_scenario_and_in_the_command_that_repeats_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = commands_of(tmp_path, monkeypatch, "kill", "start", "isolate", "rejoin")
    isolated = FaultPlan(name="cut", summary="", steps=(step(AT_ONCE, "isolate", "leader"), step(MOVED, "rejoin")))
    asked = msgspec.structs.replace(scenario(), fault=isolated)
    asked = msgspec.structs.replace(asked, cluster=msgspec.structs.replace(asked.cluster, capabilities=("network",)))
    run = external_runs.on_cluster(access, asked, checked(NEW, NEW, NEW))
    own = run.cluster.external.commands if run.cluster.external else None
    assert own is not None and own.actions == ("isolate", "kill", "rejoin", "start")
    assert run.command.endswith(f"--beside other --commands mine@{own.sha256[:12]}") or own.reference in run.command
    assert loads(dumps(run)) == run and backend.BACKEND.unsupported(run.cluster, run.fault) is None
    lacking = backend.BACKEND.unsupported(run.cluster, catalogue.FAULTS["pause_leader"])
    assert lacking is not None and "pause, resume" in lacking.why


def planned(run: Scenario, monkeypatch: pytest.MonkeyPatch, standing: Any = "granted") -> Scenario:
    """Plans `run` on a cluster on which each right has this standing, and nobody else is."""
    answers = tuple(Answer(right, standing) for right in cluster_needs.needs(run).rights)
    found = checked(NEW, NEW, NEW)._replace(rights=answers)
    samples = cluster_needs.sample_topics(run, [11, 12, 13])
    found = found._replace(created={name: Created(0, "", dict(each.settings)) for name, each in samples.items()})
    monkeypatch.setattr(external_runs, "check", lambda *_: (found, cluster_plan.judge(run, found)))
    monkeypatch.setattr(backend.ExternalBackend, "require_alone", lambda *_: None)
    return external_runs.planned(ACCESS, run)


def test_every_name_of_a_run_has_a_token_that_no_other_run_has(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = scenario("transactional", "transform_assigned")
    runs = [planned(asked, monkeypatch) for _ in range(2)]
    tokens = {run.run_token for run in runs}
    assert len(tokens) == 2 and asked.run_token not in tokens and all(re.fullmatch("[a-z0-9]{8}", t) for t in tokens)
    for run in runs:
        for arm, before in zip(run.arms, asked.arms, strict=True):
            assert arm.topic_name == before.topic_name.replace(asked.run_token, run.run_token)
            assert all(name.startswith(f"kdv-{run.run_token}-") for name in arm.transactional_ids)
            application = arm.application
            assert application is None or application.transactional_id in ("", f"kdv-{run.run_token}")
    assert runs[0].transactional_ids


def test_a_transactional_id_of_the_users_own_keeps_its_beginning_for_which_he_has_the_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = scenario("transactional")
    own = {**asked.subjects[0].profile.producer, "transactional.id": "payments"}
    arms = tuple(
        msgspec.structs.replace(arm, profile=msgspec.structs.replace(arm.profile, producer=own))
        if arm.role == "subject"
        else arm
        for arm in asked.arms
    )
    run = planned(msgspec.structs.replace(asked, arms=arms), monkeypatch)
    assert run.subjects[0].transactional_id == f"payments-{run.run_token}"


@pytest.mark.parametrize(
    ("standing", "error", "code"),
    [("missing", external_runs.ClusterUnfit, 69), ("not known", external_runs.ClusterUnknown, 70)],
)
def test_a_cluster_that_is_not_fit_is_refused_with_the_lines_of_the_plan(
    monkeypatch: pytest.MonkeyPatch, standing: str, error: type[Exception], code: int
) -> None:
    with pytest.raises(error, match=rf"{standing}: Write on topics kdv-\*; remedy: kafka-acls") as raised:
        planned(scenario(), monkeypatch, standing)
    assert raised.value.exit_code == code  # type: ignore[attr-defined]


def test_a_program_of_the_users_own_is_refused_because_it_would_get_no_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = scenario(application="commit_after")
    own = {"discipline": "own", "consumer": {}, "effects": "database"}
    arms = tuple(
        msgspec.structs.replace(arm, application=msgspec.structs.replace(arm.application, **own))
        if arm.application
        else arm
        for arm in asked.arms
    )
    with pytest.raises(BadInput, match="is a program of your own"):
        planned(msgspec.structs.replace(asked, arms=arms), monkeypatch)


@pytest.mark.parametrize(
    ("properties", "workspaces", "error", "said"),
    [
        ({"security.protocol": "SSL", "ssl.ca.location": "{folder}"}, "w", UnsupportedSecurity, "is a folder"),
        ({"sasl.username": "verifier"}, "w", UnsupportedSecurity, "is given no sasl.username"),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "verifier",
                "sasl.password": "a",
            },
            "w:x",
            SecretsOutOfReach,
            "KDV_WORKSPACES is .*allowed: a path without :",
        ),
    ],
)
def test_a_connection_that_spark_cannot_use_is_refused_before_any_server_is_asked(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    properties: dict[str, str],
    workspaces: str,
    error: type[Exception],
    said: str,
) -> None:
    monkeypatch.setenv("KDV_WORKSPACES", str(tmp_path / workspaces))
    asked = list[object]()
    monkeypatch.setattr(external_runs.cluster_check, "check", lambda found, *_: asked.append(found))
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value.format(folder=tmp_path)}\n" for name, value in properties.items()))
    file.chmod(0o600)
    with pytest.raises(error, match=said):
        external_runs.check(ClusterAccess(bootstrap_server="b:1", command_config=str(file)), scenario())
    assert asked == []


def test_observe_is_for_a_cluster_that_somebody_else_runs_and_knows_no_cycles() -> None:
    observed = scenario_from_params({"fault": "observe", "rate": 500}, "r")
    external_runs.require_possible(observed, ACCESS)
    assert observed.load.deadline_s > observed.load.duration_s + RETURN_S
    with pytest.raises(BadInput, match=r"another fault, e\.g\. kill_leader"):
        external_runs.refuse_observing(observed)
    external_runs.refuse_observing(scenario())
    with pytest.raises(BadInput, match="raise --duration-s to watch longer"):
        scenario_from_params({"fault": "observe", "cycles": 2}, "r")
