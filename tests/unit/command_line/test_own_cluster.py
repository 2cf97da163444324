"""`kdv plan` with a cluster that somebody else runs: what it prints, and the exit codes that a pipeline reads."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from delivery_verifier.cluster.check import cluster_check
from delivery_verifier.cluster.check.cluster_check import Checked, Unreachable
from delivery_verifier.cluster.check.facts import Broker, Software
from delivery_verifier.cluster.check.rights import Answer, Created, Right
from delivery_verifier.cluster.connection import Address
from delivery_verifier.cluster.security import command_config
from delivery_verifier.command_line import main as cli
from delivery_verifier.command_line import own_cluster, run
from delivery_verifier.model.external_cluster import ClusterAccess
from delivery_verifier.model.inputs import BadInput

COMMAND = ["plan", "--fault", "none", "--profile", "safe"]
SERVER = ["--bootstrap-server", "b1:9093"]
SOFTWARE = Software({"transaction.version": 2}, 25, True, 0.001)


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDV_HOME", str(tmp_path))


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Lets the check of a cluster find that each right is what a function says."""

    def find(standing: Callable[[Right], Any]) -> None:
        def check(access: object, needed: list[Right], topics_of: Callable[[list[int]], Any]) -> Checked:
            brokers = tuple(Broker(number, Address(f"b{number}", 9093), None) for number in (1, 2, 3))
            return Checked(
                cluster_id="an-id",
                principal="User:verifier",
                servers="b1:9093",
                brokers=brokers,
                software=dict.fromkeys((1, 2, 3), SOFTWARE),
                settings=None,
                rights=tuple(Answer(right, standing(right)) for right in needed),
                created={name: Created(0, "", dict(each.settings)) for name, each in topics_of([1, 2, 3]).items()},
                unreached=(),
                beside=(),
                took_s=1.0,
            )

        monkeypatch.setattr(cluster_check, "check", check)

    return find


def test_a_fit_cluster_is_0_and_the_promises_are_made_with_what_it_keeps(
    found: Callable[[Any], None], capsys: pytest.CaptureFixture[str]
) -> None:
    found(lambda _: "granted")
    assert cli.main([*COMMAND, *SERVER]) == 0
    text = capsys.readouterr().out
    assert "cluster  an-id, as User:verifier" in text and "outcome  the cluster has all that this run needs" in text
    assert "eligible leader replicas: none" in text and "Kafka 4.0" in text
    assert "embedded" not in text, "nothing is said of a cluster of the verifier's own"


@pytest.mark.parametrize(("standing", "code"), [("missing", 69), ("not known", 70)])
def test_what_is_missing_is_69_and_what_is_not_known_is_70(
    found: Callable[[Any], None], capsys: pytest.CaptureFixture[str], standing: str, code: int
) -> None:
    found(lambda right: standing if right.operation == "Write" else "granted")
    assert cli.main([*COMMAND, *SERVER, "--json"]) == code
    told = json.loads(capsys.readouterr().out)
    assert (told["fit"], told["exit_code"]) == (False, code)
    (line,) = [line for line in told["lines"] if line["mark"] == standing]
    assert line["text"] == "Write on topics kdv-*" and "--operation Write" in line["remedy"]


def test_a_cluster_that_cannot_be_reached_is_69_with_the_cause(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def check(*_: object) -> None:
        raise Unreachable("bootstrap server b1:9093: sasl.mechanism: wrong")

    monkeypatch.setattr(cluster_check, "check", check)
    assert cli.main([*COMMAND, *SERVER]) == 69
    assert "kdv: bootstrap server b1:9093: sasl.mechanism: wrong" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--cluster", "staging"], "--cluster is 'staging'"),
        (["--cluster", ""], "--cluster is ''"),
        (["--bootstrap-server", ""], "--bootstrap-server: bootstrap.servers is missing"),
        (["--bootstrap-server", "b1"], "bootstrap.servers is 'b1'; allowed: HOST:PORT"),
        (["--command-config", "/nowhere"], "--command-config is '/nowhere', which cannot be read"),
        ([*SERVER, "--command-property", "sasl.password=hush-7"], "has a value for sasl.password"),
        (["--command-property", "security.protocol=SSL"], "--command-property: bootstrap.servers is missing"),
        (
            [*SERVER, "--command-property", "security.protocol=SASL_SSL"],
            "sasl.mechanism is missing, which means GSSAPI",
        ),
    ],
)
def test_a_connection_that_cannot_work_is_64_before_anything_is_sent(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert cli.main([*COMMAND, *words]) == 64
    printed = capsys.readouterr()
    assert said in printed.err and "hush" not in printed.err + printed.out


def test_properties_that_are_no_connection_are_named(
    found: Callable[[Any], None], capsys: pytest.CaptureFixture[str]
) -> None:
    found(lambda _: "granted")
    assert cli.main([*COMMAND, *SERVER, "--command-property", "acks=all"]) == 0
    assert "kdv: acks is no property of a connection, and has no effect here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (SERVER, "--bootstrap-server cannot travel to the tasks of Airflow; allowed: --cluster NAME; write"),
        (["--command-config", "/c.properties"], "--command-config cannot travel to the tasks of Airflow"),
        (["--cluster", "a", "--command-property", "client.id=x"], "--command-property cannot travel to the tasks of"),
        (["--cluster", "airflow:c", "--rate", "3000"], "limit: more than 2,000 records/s are not sent to a cluster"),
        (["--direct", "--beside", "r"], "--beside names a run on a cluster that somebody else runs, and no cluster is"),
        (
            ["--direct", "--commands", "c"],
            "--commands break a cluster that somebody else runs, and no cluster is named",
        ),
    ],
)
def test_a_run_there_names_its_cluster_and_through_airflow_only_by_its_name(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", "--fault", "none", *words]) == 64
    assert said in capsys.readouterr().err


def test_a_run_gets_the_way_to_the_cluster_with_the_file_by_its_absolute_path(
    found: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found(lambda _: "granted")
    monkeypatch.setenv("KDV_LOCK", str(tmp_path / "lock"))  # a run of somebody else may hold the host
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.properties").write_text("bootstrap.servers=b1:9093\nacks=all\n")
    taken = list[Any]()

    def run(params: object, name: str, listener: object, external: object) -> None:
        taken.append(external)
        raise KeyboardInterrupt

    monkeypatch.setattr("delivery_verifier.pipeline.direct.run", run)
    command = ["run", "--direct", "--fault", "none", "--command-config", "c.properties", "--beside", "other"]
    assert cli.main(command) == 130
    (access,) = taken
    assert (access.command_config, access.beside) == (str(tmp_path / "c.properties"), ("other",))
    said = capsys.readouterr().err
    assert "acks is no property of a connection" in said and "cluster  an-id, as User:verifier" in said
    assert "transaction.state.log.min.isr: 1 (not known)" in said


@pytest.mark.parametrize(
    ("words", "fields", "said"),
    [
        (["--command-config", "connections/staging.properties"], {"cluster": "staging"}, "cluster  an-id"),
        (
            ["--cluster", "staging", "--beside", "r-1", "--beside", "r-2"],
            {"cluster": "staging", "beside": "r-1\nr-2"},
            "",
        ),
        (["--cluster", "staging", "--commands", "mine"], {"cluster": "staging", "commands": "mine"}, ""),
        (
            ["--cluster", "airflow:c"],
            {"cluster": "airflow:c"},
            "Airflow alone knows airflow:c: the log of the step plan",
        ),
    ],
    ids=["a file of the folder", "a name", "commands", "a connection that only Airflow has"],
)
def test_to_airflow_only_the_name_of_the_cluster_goes(
    words: list[str],
    fields: dict[str, str],
    said: str,
    found: Callable[[Any], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found(lambda _: "granted")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "connections").mkdir()
    (tmp_path / "connections" / "staging.properties").write_text("bootstrap.servers=b1:9093\n")
    write_commands(tmp_path)
    sent = list[dict[str, Any]]()

    def through(params: dict[str, Any], *_: object) -> None:
        sent.append(params)
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "_run_through_airflow", through)
    assert cli.main(["run", "--fault", "none", *words]) == 130
    assert sent == [{"fault": "none", **fields}] and said in capsys.readouterr().err


def write_commands(home: Path) -> None:
    """Writes commands with the name `mine`, which can kill and start brokers."""
    (home / "commands").mkdir(mode=0o700)
    text = "".join(f"[actions.{name}]\ncommand = ['sh', '{{broker}}']\n" for name in ("kill", "start"))
    (home / "commands" / "mine.toml").write_text(text)


def test_a_plan_says_what_commands_would_order_and_which_action_has_none(
    found: Callable[[Any], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found(lambda _: "granted")
    write_commands(tmp_path)
    asked = ["plan", "--rate", "500", *SERVER, "--commands", "mine"]
    assert cli.main([*asked, "--fault", "kill_leader"]) == 0
    assert "orders   kill, start, by the operator's commands mine" in capsys.readouterr().out
    assert cli.main([*asked, "--fault", "pause_leader"]) == 69
    assert "[refused] the commands mine have none for pause, resume" in capsys.readouterr().out


def test_the_form_of_commands_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["schema", "commands"]) == 0
    assert '"by_itself_s"' in capsys.readouterr().out
    assert cli.main(["schema", "ledger"]) == 0
    assert '"outcome"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("file", "more", "name"),
    [
        ("staging.properties", [], "staging"),
        ("staging.conf", [], "staging.conf"),
        ("staging.properties.new", [], "staging.properties.new"),
        ("staging", [], None),
        ("staging.properties", ["--cluster", "other"], None),
    ],
)
def test_a_task_reads_by_the_name_the_file_that_the_user_gave_or_the_run_is_refused(
    file: str, more: list[str], name: str | None, tmp_path: Path
) -> None:
    folder = tmp_path / "connections"
    (folder / "staging").mkdir(parents=True)
    for each in ("staging.properties", "staging.conf", "staging.properties.new", "staging/a.properties"):
        (folder / each).write_text("bootstrap.servers=b1:9093\n")
    parser = argparse.ArgumentParser()
    own_cluster.add(parser, runs=True)
    arguments = parser.parse_args(["--command-config", str(folder / file), *more])
    if name is None:
        with pytest.raises(BadInput, match="--command-config cannot travel to the tasks of Airflow"):
            own_cluster.access_of(arguments, is_direct=False)
    else:
        assert own_cluster.access_of(arguments, is_direct=False) == ClusterAccess(cluster=name)
        assert command_config.named(name) == folder / file


def test_a_cluster_that_is_not_fit_is_refused_before_airflow_is_brought_up(
    found: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found(lambda right: "missing" if right.operation == "Write" else "granted")
    (tmp_path / "connections").mkdir()
    (tmp_path / "connections" / "staging.properties").write_text("bootstrap.servers=b1:9093\n")
    monkeypatch.setattr(run, "_run_through_airflow", lambda *_: pytest.fail("the run has begun"))
    assert cli.main(["run", "--fault", "none", "--cluster", "staging"]) == 69
    assert "missing: Write on topics kdv-*; remedy: kafka-acls" in capsys.readouterr().err
