"""Two applications that nobody here wrote, on real brokers: Kafka's own ConsoleConsumer and VerifiableConsumer. Both
are killed and started again in one run."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from support.patience import PATIENCE_S
from support.user_applications import SECRET

from delivery_verifier.applications.handle import RunningApplications
from delivery_verifier.applications.incarnations import application_folder
from delivery_verifier.applications.own.sink import OwnEffects
from delivery_verifier.applications.pool import MemberPool
from delivery_verifier.applications.sink import CRC_OK, PARSED, SinkInputs
from delivery_verifier.catalogue.entry import ArmPlan, Entry, build
from delivery_verifier.catalogue.parts import AT_ONCE, step
from delivery_verifier.catalogue.profiles import PROFILES
from delivery_verifier.cluster import topics
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.faults.action import ActionContext
from delivery_verifier.faults.applications import are_caught_up
from delivery_verifier.faults.runner import FaultRunner
from delivery_verifier.host.java.jars import fetch
from delivery_verifier.host.java.runtime import java_home
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.load.handle import RunningLoad
from delivery_verifier.load.live_ledger import Gate, State, Word
from delivery_verifier.load.pool import ProducerPool
from delivery_verifier.model.application import Application
from delivery_verifier.model.fault_plan import FaultPlan, Trigger
from delivery_verifier.model.history import Injection
from delivery_verifier.model.scenario import Load, Scenario

TOOLS = "org.apache.kafka.tools"
COMMANDS = {
    "console": f"{TOOLS}.consumer.ConsoleConsumer --bootstrap-server {{bootstrap.servers}} --topic {{topic}} "
    "--group {group} --from-beginning --command-property session.timeout.ms=6000 "
    "--command-property auto.commit.interval.ms=1000",
    "verifiable": f"{TOOLS}.VerifiableConsumer --bootstrap-server {{bootstrap.servers}} --topic {{topic}} "
    "--group-id {group} --verbose --session-timeout 6000 --reset-policy earliest",
}
QUIET = """status=off
rootLogger.level=ERROR
rootLogger.appenderRefs=c
rootLogger.appenderRef.c.ref=C
appender.c.type=Console
appender.c.target=SYSTEM_ERR
appender.c.name=C
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=%m%n
"""
PLAN = FaultPlan(
    name="killed_and_started_again",
    summary="",
    steps=(
        step(Trigger(kind="reported", value=1000), "kill_application", "none"),
        step(AT_ONCE, "restart_application", "none"),
    ),
)


def write_files(folder: Path) -> None:
    """Writes the TOML files of both applications to `folder`."""
    (folder / "log4j2.properties").write_text(QUIET)
    options = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Xmx128m"
    classes = ":".join(map(str, fetch("kafka-tools-4.3.1")))
    for name, command in COMMANDS.items():
        java = f"{java_home()}/bin/java {options} -Dlog4j2.configurationFile={{home}}/log4j2.properties -cp {classes}"
        only = 'containing = "record_data"\n' if name == "verifiable" else ""
        text = f"command = '{java} {command}'\n[effects]\n{only}[environment]\nSINK_DSN = 'db://u:{SECRET}@h/d'\n"
        (folder / f"{name}.toml").write_text(text)


def entry() -> Entry:
    own = {name: Application(name=name, summary="", discipline="own", consumer={}) for name in COMMANDS}
    arms = tuple(
        ArmPlan(name=name, role="subject", profile=PROFILES["safe"], application=each) for name, each in own.items()
    )
    load, words = Load(partitions=1, rate=1000), {"title": "", "promise": "", "source": ""}
    return Entry(name="own", tags=(), arms=arms, records=3000, load=load, fault=PLAN, **words)


class Played(NamedTuple):
    """A run of both applications that has ended. `reported`: the number of acknowledged records, by arm."""

    scenario: Scenario
    workspace: Path
    killed: Injection
    reported: dict[str, int]


def play(cluster: Cluster, name: str, workspace: Path) -> Played:
    """Runs both applications on topics of the run `name`, kills them, and starts them again."""
    scenario = build(entry(), name)
    topics.create(scenario, cluster.connection)
    names = [arm.topic_name for arm in scenario.arms]
    wait_until(lambda: cluster.isr_full(names), "all replicas to be in sync", PATIENCE_S)
    properties = cluster.connection.client_properties()
    producers = ProducerPool(scenario, {"librdkafka": properties}, workspace)
    members = MemberPool(scenario, {"librdkafka": properties}, workspace, cluster.agent.adopt)
    handle, load = RunningApplications(scenario, workspace), RunningLoad(scenario, workspace)
    injections, ended = list[Injection](), threading.Event()

    def inject() -> None:
        try:
            injections.extend(FaultRunner(cluster, scenario, load, applications=handle).run())
        finally:
            ended.set()

    try:
        producers.wait_for(State.READY)
        members.start()
        producers.open(Gate.WARM_UP)
        producers.wait_for(State.WARM)
        members.wait_applying()
        producers.open(Gate.GO)
        threading.Thread(target=inject, daemon=True).start()

        def has_ended() -> bool:
            members.apply_commands()
            return members.check() and producers.check() and ended.is_set()

        wait_until(has_ended, "the plan to end", PATIENCE_S)
        producers.open(Gate.RELEASE)
        producers.wait_for(State.DONE)
        context = ActionContext(cluster, [], {}, scenario, load, handle)
        wait_until(lambda: members.check() and are_caught_up(context), "both to catch up", PATIENCE_S)
        members.stop()
    finally:
        members.close()
        producers.kill()
    (killed,) = injections
    reported = {each.arm.name: each.control[Word.REPORTED] for each in producers.producers}
    return Played(scenario, workspace, killed, reported)


def test_quiet_they_apply_each_record_once_and_after_a_kill_none_is_missing(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chance decides whether both applications have records in progress at one moment. A run in which they never had is
    INCONCLUSIVE, and is played again."""
    monkeypatch.setenv("KDV_APPLICATIONS", str(tmp_path))
    write_files(tmp_path)
    for name in ("own", "own-again", "own-once-more"):
        played = play(cluster, name, tmp_path / name)
        assert played.killed.took_effect, played.killed.proof
        proof: Any = played.killed.proof["process_before_heal"]
        in_progress = [proof[f"in progress of {arm.name}"] for arm in played.scenario.subjects]
        if all(in_progress):
            break
    scenario, workspace, killed, reported = played
    properties = cluster.connection.client_properties()
    assert all(in_progress), killed.proof
    for arm in scenario.subjects:
        folder = application_folder(workspace, arm.name)
        inputs = SinkInputs(arm, folder, 1, scenario.run_token, properties, payload_bytes=scenario.load.payload_bytes)
        first, second = OwnEffects().read(inputs)
        for incarnation in (first, second):
            assert len(incarnation.rows) == incarnation.counted > 0
            assert len(np.unique(incarnation.rows["sequence"])) == len(incarnation.rows), (
                f"{arm.name}: once in each incarnation"
            )
            assert set(incarnation.rows["flags"]) == {PARSED | CRC_OK}
        applied = {*first.rows["sequence"].tolist(), *second.rows["sequence"].tolist()}
        assert applied == set(range(reported[arm.name])), f"{arm.name}: a record was never applied"
