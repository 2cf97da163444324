"""Tests of a catalogue run. Every entry runs, and an INCONCLUSIVE entry runs once more. An interruption loses no
result. The run is green only if every entry ended as expected."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace
from support import run_builder
from support.catalogue_runs import Scripted, catalogue, item
from support.run_builder import RunBuilder, unjudged
from support.stored_data import relink

from delivery_verifier.catalogue.applications import APPLICATIONS
from delivery_verifier.cluster.check import facts
from delivery_verifier.cluster.embedded import capabilities
from delivery_verifier.cluster.external.cluster import OtherCluster
from delivery_verifier.command_line import main as cli
from delivery_verifier.command_line.catalogue import _listener_that_writes
from delivery_verifier.host import folders, machine
from delivery_verifier.maintenance import retention
from delivery_verifier.model.catalogue_run import Attempt, CatalogueRun, Item, State
from delivery_verifier.model.external_cluster import ClusterAccess, ExternalCluster
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.operator_commands import CommandsFile
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.pipeline import direct
from delivery_verifier.planning import external_runs
from delivery_verifier.planning.cluster_plan import ClusterPlan, Line
from delivery_verifier.reporting.overview.rows import rows
from delivery_verifier.run_directory import catalogue_runs
from delivery_verifier.run_directory.run_directory import RunDirectory
from delivery_verifier.suite import begin, directly, results, selection
from delivery_verifier.suite.loop import Loop, attempt_or_failure

NAME = "acks_1.frozen_followers"


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KDV_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("KDV_HOME", str(tmp_path))
    monkeypatch.setenv("KDV_LOCK", str(tmp_path / "lock"))
    return tmp_path / "runs"


def looped(script: dict[str, list[State]], *items: Item) -> tuple[CatalogueRun, list[str]]:
    """Returns the catalogue run whose entries end as `script` says, and the names of the runs that were begun."""
    runner = Scripted(script)
    ended = Loop(
        catalogue(*(items or [item(name) for name in script]), ended=False), runner, lambda catalogue, item: None
    ).run()
    return ended, runner.begun


def states(ended: CatalogueRun) -> dict[str, State]:
    return {item.name: item.state for item in ended.items}


def test_every_entry_is_taken_and_one_that_fails_does_not_stop_the_rest() -> None:
    ended, _ = looped({"a": ["as expected"], "b": ["failed"], "c": ["not as expected"], "d": ["as expected"]})
    assert states(ended) == {"a": "as expected", "b": "failed", "c": "not as expected", "d": "as expected"}
    assert ended.ended_at and not ended.green and ended.exit_code == 1


def test_an_inconclusive_entry_is_run_once_more_and_both_are_kept() -> None:
    ended, begun = looped({"a": ["inconclusive", "as expected"], "b": ["inconclusive", "inconclusive"]})
    assert states(ended) == {"a": "as expected", "b": "inconclusive"}
    assert [[one.state for one in each.attempts] for each in ended.items] == [
        ["inconclusive", "as expected"],
        ["inconclusive"] * 2,
    ]
    assert len(begun) == 4
    assert ended.exit_code == 2


def test_every_attempt_is_on_disk_before_the_next_entry_sends_its_load() -> None:
    seen: list[list[State]] = []

    class Looking(Scripted):
        def begin(self, entry, run, before_load):  # type: ignore[no-untyped-def]
            before = super().begin(entry, run, before_load)
            seen.append([one.state for one in catalogue_runs.read("c").items])
            return before

    Loop(
        catalogue(item("a"), item("b"), ended=False),
        Looking({"a": ["as expected"], "b": ["as expected"]}),
        lambda *_: None,
    ).run()
    assert seen == [["pending", "pending"], ["as expected", "pending"]]
    assert states(catalogue_runs.read("c")) == {"a": "as expected", "b": "as expected"}


def test_an_interrupted_one_is_taken_up_where_it_was(runs: Path) -> None:
    class Interrupted(Scripted):
        def begin(self, entry, run, before_load):  # type: ignore[no-untyped-def]
            if self.begun:
                before_load()
                raise KeyboardInterrupt
            return super().begin(entry, run, before_load)

    started = begin.begin("c", names=[NAME], rounds=2, direct=True)
    with pytest.raises(KeyboardInterrupt):
        Loop(started, Interrupted({NAME: ["as expected"]}), lambda *_: None).run()
    (runs / f"c-{NAME}-r2").mkdir(parents=True)  # what was interrupted left a directory
    again = begin.resume("c")
    assert [one.state for one in again.items] == ["as expected", "pending"]
    runner = Scripted({NAME: ["as expected"]})
    ended = Loop(again, runner, lambda *_: None).run()
    assert runner.begun == [f"c-{NAME}-r2-2"]
    assert ended.green and ended.exit_code == 0 and len(ended.items) == 2


def test_what_failed_is_done_again_when_it_is_resumed_and_a_verdict_never(monkeypatch: pytest.MonkeyPatch) -> None:
    begin.begin("c", names=[NAME], rounds=3, direct=True)
    before = catalogue_runs.read("c")
    ended, _ = looped({NAME: ["failed", "not as expected", "as expected"]}, *before.items)
    with pytest.raises(BadInput, match="was begun by abc on 2 CPUs"):  # its verdicts would stand for other code
        begin.resume("c")
    monkeypatch.setattr(begin, "commit", lambda: "abc")
    monkeypatch.setattr(machine, "describe", lambda: "2 CPUs")
    monkeypatch.setattr(begin, "versions_of", lambda _: {"kafka": "4.3.1"})
    assert [one.open for one in begin.resume("c").items] == [True, False, False]
    assert ended.exit_code == 1


@pytest.mark.parametrize(
    ("items", "code"),
    [
        ([item("a", "as expected")], 0),
        ([item("a", "as expected"), item("b", unavailable="needs root", expected_unavailable=True)], 0),
        ([item("a", "as expected"), item("b", unavailable="needs root")], 1),
        ([item("b", unavailable="needs root", expected_unavailable=True)], 70),  # nothing was run: nothing is green
        ([item("a", "as expected"), item("b", "failed")], 70),
        ([item("a", "as expected"), item("b")], 70),
        ([item("a", "as expected"), item("b", "inconclusive", "inconclusive")], 2),
        ([item("a", "inconclusive", "inconclusive"), item("b", "failed")], 70),
        ([item("a", "not as expected"), item("b", "failed")], 1),
        ([], 70),
    ],
)
def test_green_means_that_everything_is_as_expected(items: list[Item], code: int) -> None:
    ended = catalogue(*items)
    assert (ended.exit_code, ended.green) == (code, code == 0)


def test_an_unavailable_entry_is_not_run() -> None:
    ended, begun = looped({"a": ["as expected"]}, item("a"), item("b", unavailable="needs root"))
    assert [run for run in begun if "-b" in run] == [] and states(ended)["b"] == "unavailable"


def lacking(monkeypatch: pytest.MonkeyPatch, **all_unavailable: capabilities.Unavailability) -> None:
    monkeypatch.setattr(capabilities, "tried", all_unavailable.get)


def expected(words: str, name: str = "power.all_brokers") -> bool:
    return (
        begin.new_catalogue_run("c", names=[name], expect_unavailable=words, direct=True).items[0].expected_unavailable
    )


def test_an_entry_is_expected_to_be_unavailable_by_name_kind_or_the_capability_it_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert selection.expectable("power, network") == ("power", "network")
    lacking(monkeypatch, power=capabilities.Unavailability("only root may do that"))
    assert expected("power") and expected("proxy, power") and expected("power.all_brokers")
    assert not expected("network") and not expected("") and not expected("acks")
    assert expected("acks", NAME)
    with pytest.raises(BadInput, match="'promises'"):  # a tag says nothing of what a host has
        expected("promises")


def test_named_clients_reach_every_run_and_what_they_cannot_do_is_expected_to_be_unavailable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    both = "librdkafka,java"
    new = begin.begin("both", names=[NAME, "transactional.coordinator_killed"], direct=True, clients=both)
    assert (new.clients, new.wanted.endswith(f" with {both}")) == (both, True)
    first, second = new.items
    assert (first.unavailable, second.expected_unavailable) == ("", True)
    assert second.unavailable.startswith("other clients: ") and "exactly one producer" in second.unavailable
    assert begin.resume("both").clients == both
    asked = list[dict[str, object]]()
    monkeypatch.setattr(direct, "observe", lambda fields, *_, **__: asked.append(fields))
    monkeypatch.setattr(directly, "_session", lambda spark: None)
    for clients in (both, ""):
        with directly.runner(lambda progress: None, clients=clients) as direct_runner:
            direct_runner.begin(NAME, "a-run", lambda: None)
    assert [fields.get("clients") for fields in asked] == [both, None]
    with pytest.raises(BadInput, match="clients is 'perl'"):
        begin.begin("other", direct=True, clients="perl")
    assert cli.main(["catalogue", "--list", "--clients", both, "transactional.coordinator_killed"]) == 0
    assert "exactly one producer" in capsys.readouterr().out
    assert cli.main(["catalogue", "--clients", both]) == 64
    assert "none of --resume, --repeat and --clients" in capsys.readouterr().err


def test_what_is_lacking_beside_the_capability_that_was_named_is_not_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking(
        monkeypatch,
        power=capabilities.Unavailability("only root may do that"),
        network=capabilities.Unavailability("iptables not found"),
    )
    monkeypatch.setattr(begin, "capabilities_of", lambda fault: ("network", "power"))
    assert expected("network, power") and not expected("power")


def test_a_trial_that_went_wrong_is_never_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking(monkeypatch, power=capabilities.Unavailability("mkfs.ext4: No space left on device", failed=True))
    item = begin.new_catalogue_run("c", names=["power.all_brokers"], expect_unavailable="power", direct=True).items[0]
    assert item.unavailable == "power: the trial went wrong: mkfs.ext4: No space left on device"
    assert not item.expected_unavailable and not item.green


def test_on_a_cluster_of_somebody_else_what_no_such_cluster_allows_is_expected_and_what_this_one_lacks_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = ClusterPlan(
        cluster_id="an-id",
        principal="User:verifier",
        fit=False,
        exit_code=69,
        took_s=0.1,
        features={},
        assumed={},
        lines=(Line("right", "missing", "Alter on the cluster", "kafka-acls --operation Alter"),),
    )
    fit, asked = replace(plan, fit=True, exit_code=0), list[str]()

    def check(access: ClusterAccess, run: Scenario) -> tuple[None, ClusterPlan]:
        asked.append(run.name)
        return None, fit if run.name == "everyday.none" else plan

    monkeypatch.setattr(external_runs, "check", check)
    access = ClusterAccess(cluster="staging")
    fitting = ["everyday.none", "everyday.preferred_election"]
    names = [*fitting, "transform.zombie", "acks_1.frozen_followers"]
    started = begin.new_catalogue_run("c", names=names, rounds=2, direct=True, external=access)
    items = {item.name: item for item in started.items}
    assert asked == fitting and len(started.items) == 8 and started.wanted.endswith(" on the cluster staging")
    assert items["everyday.none"].state == "pending"
    assert items["everyday.preferred_election"].unavailable.endswith(
        "missing: Alter on the cluster; remedy: kafka-acls --operation Alter"
    )
    assert "transform_assigned must be REAPPLIED" in items["transform.zombie"].unavailable
    assert "only a cluster of the verifier's own can be broken so" in items["acks_1.frozen_followers"].unavailable
    expected = {name: item.expected_unavailable for name, item in items.items() if item.state == "unavailable"}
    assert expected == {
        "everyday.preferred_election": False,
        "transform.zombie": True,
        "acks_1.frozen_followers": True,
    }


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"names": ["acks_1.frozen_folowers"]}, "did you mean acks_1.frozen_followers?"),
        ({"tag": "smok"}, "did you mean smoke?"),
        ({"expect_unavailable": "powr"}, "did you mean power?"),
        ({"rounds": "0"}, "a whole number from 1 to"),
    ],
)
def test_what_is_mistyped_is_refused_with_a_remedy(given: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput, match="allowed") as refused:
        begin.begin("c", direct=True, **given)  # type: ignore[arg-type]
    assert said in str(refused.value)


def test_no_name_is_given_twice_and_an_unknown_one_cannot_be_resumed(capsys: pytest.CaptureFixture[str]) -> None:
    begin.begin("once", names=[NAME], direct=True)
    with pytest.raises(BadInput, match="--resume once"):
        begin.begin("once", names=[NAME], direct=True)
    assert cli.main(["catalogue", "--direct", "--resume", "onse"]) == 64
    assert "did you mean once?" in capsys.readouterr().err


def test_a_damaged_record_is_never_resumed_as_something_else() -> None:
    begin.begin("c", names=[NAME], direct=True)
    (catalogue_runs.directory("c") / catalogue_runs.FILE).write_text('{"id": "c", "items": []}')
    with pytest.raises(BadInput, match="damaged"):
        begin.resume("c")


def test_an_error_is_an_attempt_with_one_line(tmp_path: Path) -> None:
    def raises() -> Attempt:
        raise RuntimeError("first\nsecond")

    found = attempt_or_failure(raises, "r")
    assert (found.state, found.error, found.verdict) == ("failed", "first | second", None)


def test_catalogue_runs_are_no_runs(runs: Path) -> None:
    begin.begin("c", names=[NAME], direct=True)
    assert rows(runs) == [] and retention.runs(runs) == []
    assert folders.run_directory_name(folders.CATALOGUES) != folders.CATALOGUES


def test_p99_is_read_off_the_timeline() -> None:
    buckets = [
        {"latency_ms_from": 1.0, "latency_ms_until": 2.0, "records": 99},
        {"latency_ms_from": 90.0, "latency_ms_until": 100.0, "records": 1},
    ]
    assert results.p99(buckets) == 2.0 and results.p99(buckets[1:]) == 100.0 and results.p99([]) is None


def test_throughput_of_an_arm_is_that_of_the_load_proper_as_on_every_other_page(tmp_path: Path) -> None:
    run = run_builder.priced(tmp_path, "price.flat_out.acks_1")
    (arm,) = results.attempt(run).arms
    assert arm.records_per_s == pytest.approx(1001)


def test_the_result_of_an_arm_names_its_application(tmp_path: Path) -> None:
    run = RunDirectory(run_builder.priced(tmp_path, "price.flat_out.acks_1"))
    scenario = run.read_scenario()
    assert [arm.application for arm in results.attempt(run.path).arms] == [""]
    arms = tuple(replace(arm, application=APPLICATIONS["commit_first"]) for arm in scenario.arms)
    with run.writing("plan") as output:
        output.write_json("scenario.json", replace(scenario, arms=arms))
    relink(run)
    assert [arm.application for arm in results.attempt(run.path).arms] == ["commit_first"]


def test_settings_beside_a_scenario_of_the_catalogue_are_refused_and_not_passed_over(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["plan", "--scenario", NAME, "--claim", "exactly_once", "--cycles", "20"]) == 64
    assert "which settles claim, cycles itself" in capsys.readouterr().err
    assert cli.main(["plan", "--scenario", NAME, "--seed", "1"]) == 0


def test_a_page_that_cannot_be_written_stops_no_catalogue_run(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Item] = []

    def fail(_: CatalogueRun) -> Path:
        raise OSError("no space left")

    listener = _listener_that_writes(fail, lambda catalogue, item: heard.append(item))
    ended = Loop(
        catalogue(item("a"), item("b"), ended=False), Scripted({"a": ["as expected"], "b": ["as expected"]}), listener
    ).run()
    assert len(heard) == 2 and ended.ended_at
    assert "warning: matrix.html failed: OSError: no space left" in caplog.text


def test_an_entry_without_a_verdict_whose_evidence_is_complete_says_how_to_judge_it(runs: Path) -> None:
    unjudged(runs, "of-entry")
    failed = attempt_or_failure(lambda: {}["missing"], "of-entry")
    assert failed.error.endswith("| The evidence of this run is complete. To judge it: kdv reconcile of-entry")


def test_verdicts_of_two_clusters_of_one_name_are_never_mixed(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    access = ClusterAccess(bootstrap_server="b:1")
    scenario = run_builder.planned(runs, "elsewhere").read_scenario()
    spec = replace(
        scenario.cluster,
        backend="external",
        external=ExternalCluster(access=access, cluster_id="an-id", brokers=(1, 2, 3)),
    )
    RunBuilder(replace(scenario, run_id="first", cluster=spec)).write(runs)
    attempt = Attempt(run="first", started_at="", seconds=1.0, verdict="HELD")
    before = replace(catalogue(replace(item(NAME), attempts=(attempt,))), external=access)
    monkeypatch.setattr(facts, "members", lambda *_: facts.Members("another", ()))
    with pytest.raises(OtherCluster, match="belong to the cluster another now, and the run began on an-id"):
        begin._require_same_cluster(before)
    monkeypatch.setattr(facts, "members", lambda *_: facts.Members("an-id", ()))
    begin._require_same_cluster(before)
    own = SimpleNamespace(described=CommandsFile(name="mine", sha256="ab" * 32, actions=("kill", "start")))
    monkeypatch.setattr(external_runs, "commands_of", lambda _: own)
    with pytest.raises(BadInput, match="commands of the operator are others than when this catalogue run began"):
        begin._require_same_cluster(before)
