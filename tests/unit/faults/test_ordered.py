"""Orders to an operator's commands, which are real processes: what is seen from outside proves them, and nothing else.

The commands of these tests move files, from which the cluster of these tests tells who answers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from delivery_verifier import catalogue
from delivery_verifier.cluster.connection import Address
from delivery_verifier.cluster.external import commands
from delivery_verifier.cluster.external.register import Head, Register
from delivery_verifier.cluster.observer import OBSERVATIONS
from delivery_verifier.faults import sightings
from delivery_verifier.faults.action import ActionContext
from delivery_verifier.faults.open_injection import OpenInjection, Proofs
from delivery_verifier.faults.ordered import Broken, CommandFailed, Healed, Orders
from delivery_verifier.host.waiting import DeadlinePassed
from delivery_verifier.model.external_cluster import ClusterAccess, ExternalCluster
from delivery_verifier.model.history import Observation, now_us
from delivery_verifier.model.operator_commands import HEALED_BY
from delivery_verifier.model.scenario import Load, Scenario

BROKERS = (11, 12, 13)
PROGRAM = """import json, pathlib, sys, time
folder, action, broker = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
with (folder / "ran").open("a") as ran:
    ran.write(f"{action} {broker}\\n")
how = json.loads((folder / "how.json").read_text())
print("ordered", action)
if action in how["lies"] or broker in how["lies_of"]:
    sys.exit(0)
if action in how["fails"]:
    sys.exit(4)
state = {"kill": "refuses", "stop": "refuses", "pause": "silent", "isolate": "fenced"}.get(action)
if state:
    (folder / broker).write_text(state)
else:
    (folder / broker).unlink(missing_ok=True)
if state != "fenced":
    at_us = time.time_ns() // 1000
    with (folder / "observations.jsonl").open("a") as out:
        seen = {"at_us": at_us, "kind": "answers", "broker": int(broker), "state": state or "answers", "pause_us": 1000}
        out.write(json.dumps(seen) + "\\n")
sys.exit(5 if action in how["starts_and_fails"] else 0)
"""


class World:
    """A cluster whose brokers are files, and its operator's commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "program.py").write_text(PROGRAM)
        (folder / OBSERVATIONS).touch()
        self.behaves()
        requests = SimpleNamespace(live_brokers=self.live_brokers)
        connection = SimpleNamespace(brokers={broker: Address("127.0.0.1", broker) for broker in BROKERS})
        self.cluster: Any = SimpleNamespace(
            workspace=folder,
            connection=connection,
            agent=SimpleNamespace(adopt=lambda pid: None),
            backend=SimpleNamespace(connection=connection, requests=requests),
        )

    def behaves(
        self,
        lies: tuple[str, ...] = (),
        fails: tuple[str, ...] = (),
        starts_and_fails: tuple[str, ...] = (),
        lies_of: tuple[str, ...] = (),
    ) -> None:
        how = {"lies": lies, "fails": fails, "starts_and_fails": starts_and_fails, "lies_of": lies_of}
        (self.folder / "how.json").write_text(json.dumps(how))

    def state(self, broker: int) -> str:
        file = self.folder / str(broker)
        return file.read_text() if file.exists() else ""

    def answers(self, broker: int) -> bool:
        return self.state(broker) in ("", "fenced")

    def live_brokers(self, broker: int) -> set[int]:
        if not self.answers(broker):
            raise ConnectionRefusedError
        return {each for each in BROKERS if each == broker or not self.state(each)}

    def saw(self, broker: int, state: str, at_us: int) -> None:
        seen = Observation(at_us=at_us, kind="answers", broker=broker, state=state, pause_us=1000)
        with (self.folder / OBSERVATIONS).open("ab") as out:
            out.write(msgspec.json.encode(seen) + b"\n")

    def ran(self) -> list[str]:
        file = self.folder / "ran"
        return file.read_text().splitlines() if file.exists() else []

    def context(self, *brokers: int, **options: str) -> ActionContext:
        return ActionContext(self.cluster, list(brokers), options)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(sightings, "HICCUP_US", 20_000)
    monkeypatch.setattr(sightings, "REFUSED_US", 20_000)
    monkeypatch.setenv("KDV_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KDV_COMMANDS", str(tmp_path))
    tmp_path.chmod(0o700)
    return World(tmp_path)


def orders_of(world: World, more: str = "", *, without: tuple[str, ...] = ()) -> Orders:
    """The orders of a run whose file has a command for each action, with deadlines of a moment."""
    text = f"effect_s = 1\nwhole_s = 1\n{more}\n"
    for action in ("kill", "stop", "pause", "isolate", "rejoin", "resume", "start"):
        if action not in without:
            words = f"['{sys.executable}', '{{home}}/program.py', '{{home}}', '{action}', '{{broker}}']"
            text += f"[actions.{action}]\ncommand = {words}\n"
        elif action in ("start", "resume", "rejoin"):
            text += f"[actions.{action}]\nby_itself_s = 1\n"
    (world.folder / "mine.toml").write_text(text)
    external = ExternalCluster(
        access=ClusterAccess(bootstrap_server="b:1"),
        cluster_id="an-id",
        brokers=BROKERS,
        commands=commands.read("mine").described,
    )
    register = Register.of_run("an-id", world.folder.name)
    head = Head(
        run="r", token="t", cluster_id="an-id", host="h", access=external.access, addresses=(), workspace="", began_us=1
    )
    register.begin(head)
    return Orders(world.cluster, run_on(external))


def run_on(external: ExternalCluster) -> Scenario:
    asked = catalogue.scenario(
        "r",
        profile=catalogue.PROFILES["safe"],
        fault=catalogue.FAULTS["kill_leader"],
        load=Load(),
        records=1000,
    )
    return msgspec.structs.replace(asked, cluster=msgspec.structs.replace(asked.cluster, external=external))


def standing(world: World) -> list[str]:
    return [entry.name for entry in Register.of_run("an-id", world.folder.name).standing()]


def test_a_kill_is_proven_by_a_broker_that_answers_no_more_and_healed_by_its_start(world: World) -> None:
    orders, began_us = orders_of(world), now_us()
    kill, context = Broken("kill", orders), world.context(12)
    done = kill.do(context)
    assert done.at_us >= began_us, "no sign before the order counts"
    assert "it refused connections" in str(kill.proof(context, done)["broker 12"])
    assert standing(world) == ["kill of broker 12"] and orders.broken() == [12]
    Healed("start", orders).do(context)
    assert world.ran() == ["kill 12", "start 12"] and standing(world) == [] == orders.broken()
    assert kill.proof(context, done), "what was seen stays seen"
    assert [(order.action, order.exit_code, order.problem) for order in orders.log] == [
        ("kill", 0, ""),
        ("start", 0, ""),
    ]


def test_a_command_that_lies_is_not_believed(world: World) -> None:
    orders = orders_of(world)
    world.behaves(lies=("kill",))
    with pytest.raises(DeadlinePassed, match=r"kill of brokers \[12\] to be seen from outside"):
        Broken("kill", orders).do(world.context(12))
    orders.heal()
    assert world.ran() == ["kill 12", "start 12"], "what it does may come late"
    assert standing(world) == ["kill of broker 12"], "until somebody looks again, at the end of the run"


@pytest.mark.parametrize("action", ["isolate", "pause", "kill"])
@pytest.mark.parametrize("how", ["lies", "fails"])
def test_a_fault_that_was_not_seen_is_ended_by_its_command_though_the_broker_looks_whole(
    world: World, action: str, how: str
) -> None:
    """It may be there in part, e.g. one of two rules of iptables, or come after all had looked."""
    orders = orders_of(world)
    world.behaves(**{how: (action,)})
    with pytest.raises((CommandFailed, DeadlinePassed)):
        Broken(action, orders).do(world.context(11))
    orders.heal()
    assert world.ran() == [f"{action} 11", f"{HEALED_BY[action]} 11"]
    assert standing(world) == [f"{action} of broker 11"] and orders.broken() == []


def test_only_those_of_several_brokers_are_healed_that_are_not_whole_or_on_which_nothing_was_seen(world: World) -> None:
    orders = orders_of(world)
    world.behaves(lies_of=("12",))
    with pytest.raises(DeadlinePassed):
        Broken("kill", orders).do(world.context(11, 12))
    world.behaves()
    (world.folder / "11").unlink()
    orders.heal()
    assert sorted(world.ran()) == ["kill 11", "kill 12", "start 12"] and standing(world) == ["kill of broker 12"]


def test_a_broker_that_a_failed_kill_has_killed_when_it_was_frozen_is_started(world: World) -> None:
    orders, context = orders_of(world), world.context(12)
    Broken("pause", orders).do(context)
    world.behaves(starts_and_fails=("kill",), lies=("resume",))
    with pytest.raises(CommandFailed):
        Broken("kill", orders).do(context)
    orders.heal()
    assert world.ran() == ["pause 12", "kill 12", "resume 12", "start 12"] and world.answers(12)


def test_a_command_that_fails_has_failed_and_what_it_may_have_done_is_healed(world: World) -> None:
    orders = orders_of(world)
    world.behaves(starts_and_fails=("kill",))
    with pytest.raises(CommandFailed, match="mine failed: kill of broker 12: it ended with exit code 5"):
        Broken("kill", orders).do(world.context(12))
    assert orders.log[0].output == "ordered kill\n"
    orders.heal()
    assert world.ran() == ["kill 12", "start 12"] and standing(world) == ["kill of broker 12"]


def test_a_command_that_nobody_can_follow_has_failed_and_is_healed_and_stands_in_the_log(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unfollowed(pid: int) -> None:
        raise KeyError("hush-hush")

    orders = orders_of(world)
    monkeypatch.setattr(world.cluster.agent, "adopt", unfollowed)
    with pytest.raises(CommandFailed, match=r"kill of broker 12: it could not be followed to its end \(KeyError\)"):
        Broken("kill", orders).do(world.context(12))
    orders.heal()
    assert [(order.action, bool(order.problem)) for order in orders.log] == [("kill", True), ("start", True)]
    assert "hush" not in str(orders.log) and standing(world) == ["kill of broker 12"]


def test_a_long_secret_does_not_end_a_run_in_the_middle_of_a_fault(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLUSTER_TOKEN", "e" * 900)
    orders = orders_of(world, "environment = ['CLUSTER_TOKEN']")
    Broken("kill", orders).do(world.context(12))
    orders.heal()
    assert world.ran() == ["kill 12", "start 12"] and len(orders.log) == 2 and standing(world) == []


def test_a_broker_that_did_not_answer_before_is_not_touched(world: World) -> None:
    orders = orders_of(world)
    (world.folder / "12").write_text("refuses")
    with pytest.raises(CommandFailed, match="broker 12 did not answer before"):
        Broken("kill", orders).do(world.context(12))
    orders.heal()
    assert world.ran() == [] == standing(world), "and not started either: no order has broken it"
    assert Healed("start", orders).do(world.context(12)) and world.ran() == []


@pytest.mark.parametrize("broker", [12, 11], ids=["before the order", "another broker"])
def test_a_silence_before_the_order_or_of_another_broker_is_no_proof(world: World, broker: int) -> None:
    orders = orders_of(world)
    world.behaves(lies=("kill",))
    world.saw(broker, "refuses", now_us() - 5_000_000)
    if broker != 12:
        world.saw(broker, "answers", now_us() - 4_000_000)
        world.saw(broker, "refuses", now_us() + 1_000)
    with pytest.raises(DeadlinePassed):
        Broken("kill", orders).do(world.context(12))


def test_of_several_brokers_all_must_be_hit(world: World) -> None:
    orders = orders_of(world)
    done = Broken("kill", orders).do(world.context(11, 12))
    assert sorted(world.ran()) == ["kill 11", "kill 12"]
    assert Broken("kill", orders).proof(world.context(11, 12, 13), done) == {}
    orders.heal()
    assert len(world.ran()) == 4 and standing(world) == []


def test_a_frozen_broker_never_refuses_and_one_that_is_killed_afterwards_does(world: World) -> None:
    orders = orders_of(world)
    pause, kill, context = Broken("pause", orders), Broken("kill", orders), world.context(12)
    done = pause.do(context)
    assert "nothing came back" in str(pause.proof(context, done)["broker 12"])
    killed = kill.do(context)
    assert killed.at_us > done.at_us and kill.proof(context, killed)
    assert pause.proof(context, done) == {}, "it refuses now, so it is not frozen"
    assert standing(world) == ["kill of broker 12"], "the kill has ended the freeze"
    orders.heal()
    assert world.ran() == ["pause 12", "kill 12", "start 12"]


def test_a_broker_that_answers_again_before_it_is_resumed_was_late_and_not_frozen(world: World) -> None:
    orders = orders_of(world)
    pause, context = Broken("pause", orders), world.context(12)
    done = pause.do(context)
    world.saw(12, "answers", now_us())
    assert pause.proof(context, done) == {}
    world.behaves(lies=("pause",))
    asked_us = now_us()
    world.saw(11, "silent", asked_us + 1_000)
    world.saw(11, "answers", asked_us + 50_000)
    with pytest.raises(DeadlinePassed):
        pause.do(world.context(11))


def test_a_broker_that_is_cut_off_answers_and_no_other_knows_it(world: World) -> None:
    orders = orders_of(world)
    isolate, context = Broken("isolate", orders), world.context(12)
    done = isolate.do(context)
    assert "no other broker knows it" in str(isolate.proof(context, done)["broker 12"])
    Healed("rejoin", orders).do(context)
    assert isolate.proof(context, done) == {} and standing(world) == []
    world.behaves(lies=("isolate",))
    with pytest.raises(DeadlinePassed):
        isolate.do(context)


def test_a_cluster_that_heals_itself_needs_no_command(world: World) -> None:
    orders = orders_of(world, without=("start",))
    Broken("kill", orders).do(world.context(12))
    (world.folder / "12").unlink()
    orders.heal()
    assert world.ran() == ["kill 12"] and standing(world) == [], "a broker that is back is left alone"


def test_a_broker_that_does_not_come_back_is_named_and_stands_in_the_register(world: World) -> None:
    orders = orders_of(world)
    Broken("kill", orders).do(world.context(12))
    world.behaves(lies=("start",))
    with pytest.raises(DeadlinePassed, match=r"start them by hand \(broker 12 not back\)"):
        orders.heal()
    orders.give_up()
    orders.heal()
    assert world.ran() == ["kill 12", "start 12"] and standing(world) == ["kill of broker 12"]


def test_nothing_is_ordered_once_another_process_has_ended_the_run(world: World) -> None:
    orders = orders_of(world)
    Register.of_run("an-id", world.folder.name).end()
    with pytest.raises(RuntimeError, match="another process has ended this run"):
        Broken("kill", orders).do(world.context(12))
    assert world.ran() == []


def test_nothing_is_ordered_where_nobody_sees_which_broker_answers(world: World) -> None:
    orders = orders_of(world)
    world.cluster.connection.brokers = dict.fromkeys(BROKERS, Address("127.0.0.1", 9092))
    with pytest.raises(CommandFailed, match="brokers have one address"):
        Broken("kill", orders).do(world.context(12))
    assert world.ran() == [] == standing(world)


def injection_of(broker: int) -> OpenInjection:
    return OpenInjection(
        id=0,
        cycle=0,
        action="kill",
        brokers=[broker],
        hit={},
        led=True,
        options={},
        requested_at_us=1,
        effect_at_us=2,
        proofs=Proofs(process={}, before={}, required=[]),
        took_effect=True,
    )


def test_the_commands_stand_in_the_proof_of_the_injection_and_a_failed_one_takes_it_away(world: World) -> None:
    orders, killed, other = orders_of(world), injection_of(12), injection_of(11)
    Broken("kill", orders).do(world.context(12))
    world.behaves(starts_and_fails=("start",))
    orders.heal()
    assert world.ran() == ["kill 12", "start 12"] and standing(world) == [], "what is seen decides that it is healed"
    orders.in_evidence([killed, other])
    shown = {name: order.problem for name, order in killed.proofs.ordered.items()}
    assert shown == {"1: kill of broker 12": "", "2: start of broker 12": "it ended with exit code 5"}
    assert killed.proofs.failed == "a command failed: start of broker 12: it ended with exit code 5"
    assert not killed.took_effect and other.took_effect and other.proofs.ordered == {}
    written = killed.to_injection().proof["ordered"]
    assert isinstance(written, dict) and written["1: kill of broker 12"]["exit_code"] == 0
