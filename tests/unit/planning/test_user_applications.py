"""Tests of applications of the user's own before a run: their TOML files, their names, and what no form may say."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from delivery_verifier import catalogue
from delivery_verifier.cluster import topics
from delivery_verifier.command_line.main import main
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario_checks import check, loads
from delivery_verifier.model.user_application import (
    UserApplication,
    parse,
    read_folder,
    redacted,
    redacted_end,
    secrets_of,
)
from delivery_verifier.planning import user_applications
from delivery_verifier.planning.build import scenario_from_params
from delivery_verifier.planning.explanation import describe

FILE = Path("sink.toml")
ROOT = Path(__file__).resolve().parents[3]
TABLE = 'command = "a"\n[effects]\nkind = "table"\ntable = "orders"\n'
TOPIC = 'command = "a"\n[effects]\nkind = "topic"\n'
COMMAND = "java -jar {home}/sink.jar --brokers {bootstrap.servers} --topic {topic} --group {group}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user applications, with the application `sink`."""
    monkeypatch.setenv("KDV_APPLICATIONS", str(tmp_path))
    (tmp_path / "sink.toml").write_text(f'command = "{COMMAND}"\nmembers = 2\n')
    return tmp_path


def test_the_example_of_the_documentation_is_read() -> None:
    page = (ROOT / "docs" / "user-application.md").read_text()
    example = page.split("```toml\n")[1].split("```")[0]
    own = parse(example.encode(), FILE)
    assert own.effects.where == "{folder}/orders.jsonl" and own.environment


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("ter2-hunter2 is cut", "*** is cut"),
        ("cut: hunter2-hun", "cut: ***"),
        ("hunter2-hunter2", "***"),
        ("a hunter2-hunter2 z", "a *** z"),
        ("r2 hu", "r2 hu"),
    ],
)
def test_no_part_of_a_secret_survives_a_cut(text: str, kept: str) -> None:
    assert redacted_end(text, ["hunter2-hunter2"]) == kept


def test_placeholders_are_filled_word_by_word() -> None:
    own = UserApplication(command="run '{folder}/a b' {topic}{member}")
    values = dict.fromkeys(("bootstrap.servers", "group", "output.topic", "incarnation", "home"), "")
    assert own.words({**values, "folder": "/f", "topic": "t; rm", "member": 1}) == ["run", "/f/a b", "t; rm1"]


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("", ("sink.toml", "command", "allowed fields")),
        ("command = ", ("sink.toml", "is no TOML", "user-application.md")),
        ("command = 3", ("command: Expected `str`, got `int`",)),
        ('command = "a"\nmemebers = 2', ("unknown field `memebers`", "allowed fields: summary, command, members")),
        ('command = "a"\n[effects]\nkind = "tables"', ("effects.kind: Invalid enum value 'tables'",)),
        ('command = "a"\n[effects]\nkind = "table"', ("effects.table is ''", "write the name of the table")),
        (
            f"{TABLE}where = 'DSN'",
            ("effects.where is 'DSN'", "name the variable of [environment]", "there are: none yet"),
        ),
        (f"{TABLE}where = 'D'\n[environment]\nD = 'postgres://u:hunt@h/d'", ("environment.D", "fewer than 6")),
        ('command = "a"\n[effects]\ntable = "t"', ("effects.table is given", 'write kind = "table"')),
        (f'{TOPIC}where = "{{folder}}/x"', ("effects.where is given", "{output.topic}", "leave it out")),
        (f'{TOPIC}column = "headers"', ("effects.column is 'headers'", "allowed for a topic: value, key")),
        (f'{TOPIC}identity = "columns"', ("effects.identity is columns, which a topic does not have",)),
        (f'{TOPIC}containing = "x"', ("effects.containing is about lines, but kind is topic",)),
        ('command = "a"\n[effects]\nkind = "files"', ("effects.where is stdout", 'write kind = "lines"')),
        ('command = "a"\n[effects]\nwhere = "out"', ("effects.where is 'out'", "{folder}/out.jsonl")),
        ('command = "a"\n[effects]\nwhere = "{folder}/../x"', ("effects.where", "allowed: stdout")),
        ('command = "a"\n[effects]\nwhere = "{folder}/[ab]?.txt"', ("effects.where is", "only * is allowed")),
        ('command = "a"\n[effects]\nwhere = "{folder}/a**.txt"', ("effects.where is", "only * is allowed")),
        ('command = "a"\n[effects]\nwhere = "{folder}/"', ("effects.where is", "name files")),
        ('command = "a"\nmembers = 2\n[effects]\nwhere = "/x"', ("several members", "members = 1")),
        ('command = "a"\n[effects]\nidentity = "columns"', ("effects.identity is columns", 'identity = "value"')),
        (
            'command = "a"\n[effects]\nkind = "files"\nwhere = "/data/*.parquet"\nidentity = "columns"',
            ("effects.identity is columns", "outside {folder}", "earlier runs", 'identity = "header"'),
        ),
        ('command = "run {tpoic}"', ("unknown placeholder {tpoic}", "did you mean topic?")),
        ('command = "run \'a"', ("command cannot be split", "quotation mark")),
        ('command = "a"\nmembers = 17', ("members: Expected `int` <= 16",)),
        ('command = "a postgresql://u:hunter2hunter2@db/x"', ("command holds a password", "[environment]")),
        ('command = "a hunter2hunter2"\n[environment]\nDB_PASSWORD = "hunter2hunter2"', ("command holds a password",)),
        ('command = "a --password hunter2"', ("command holds a password", "[environment]")),
        ("command = 'a sasl.jaas.config=\"x password=hunter2;\"'", ("command holds a password",)),
        ('command = "a --api-token=hunter2"', ("command holds a password",)),
        ('command = "a"\n[environment]\nDB_PASSWORD = "hunt"', ("environment.DB_PASSWORD", "fewer than 6", "longer")),
        ('command = "a"\n[environment]\nDSN = "db://u:hunt@h/d"', ("environment.DSN", "fewer than 6")),
        ('command = "a"\n[environment]\nKDV_TOPIC = "t"', ("environment.KDV_TOPIC", "begins without KDV_")),
    ],
)
def test_a_wrong_file_names_itself_the_field_and_the_remedy(content: str, parts: tuple[str, ...]) -> None:
    with pytest.raises(BadInput) as refusal:
        parse(content.encode(), FILE)
    message = str(refusal.value)
    assert all(part in message for part in ("sink.toml", *parts)), message
    assert "hunter2" not in message


@pytest.mark.parametrize("content", [f"{TABLE}where = 'D'\n[environment]\nD = 'sqlite:////x'", TOPIC])
def test_several_members_may_write_to_one_topic_or_table(content: str) -> None:
    own = parse(f"members = 2\n{content}".encode(), FILE)
    assert own.members == 2 and own.effects.is_shared


@pytest.mark.parametrize(
    "command",
    ["sh -c 'a --password $DB_PASSWORD'", "a --password-file {home}/p", "a token.url={home}", "a passthrough"],
)
def test_a_command_may_name_where_a_secret_stands(command: str) -> None:
    assert parse(f'command = "{command}"'.encode(), FILE).command == command


def test_a_scenario_says_in_what_kind_of_place_effects_land(folder: Path) -> None:
    (folder / "sink.toml").write_text(TOPIC)
    scenario = scenario_from_params({"application": "sink"}, "r")
    assert scenario.subjects[0].application.effects == "topic"  # type: ignore[union-attr]
    assert topics.output_topics(scenario) == [
        f"{arm.topic_name}-out" for arm in (scenario.subjects[0], scenario.canary)
    ]
    (folder / "sink.toml").write_text('command = "a"')
    assert topics.output_topics(scenario_from_params({"application": "sink"}, "r")) == []


def test_a_run_takes_only_the_name(folder: Path) -> None:
    scenario = scenario_from_params({"application": "sink"}, "r")
    (subject,) = scenario.subjects
    assert subject.application is not None
    assert (subject.application.name, subject.application.members) == ("sink", 2)
    assert b"sink.jar" not in msgspec.json.encode(scenario)


@pytest.mark.parametrize(
    "command",
    [COMMAND, "java -jar hunter2.jar", "/bin/hunter2", "postgresql://u:hunter2@db/x", "a;hunter2", "$(hunter2)"],
)
def test_a_command_in_the_form_is_refused_with_the_remedy(folder: Path, command: str) -> None:
    with pytest.raises(BadInput) as refusal:
        scenario_from_params({"application": command}, "r")
    message = str(refusal.value)
    assert message.startswith("application is no name; allowed: at_handover")
    assert f"{folder}/NAME.toml" in message and "hunter2" not in message and "sink.jar" not in message


def test_a_scenario_file_with_a_command_is_refused(folder: Path) -> None:
    written = msgspec.to_builtins(scenario_from_params({"application": "sink"}, "r"))
    written["arms"][0]["application"]["command"] = "rm -rf /"
    with pytest.raises(BadInput, match="unknown field `command`"):
        loads(msgspec.json.encode(written))
    del written["arms"][0]["application"]["command"]
    written["arms"][0]["application"]["name"] = "rm -rf /"
    with pytest.raises(BadInput, match=r"application\.name"):
        loads(msgspec.json.encode(written))


def test_an_unreadable_application_says_why_instead_of_being_unknown(folder: Path) -> None:
    (folder / "sink.toml").write_text("command = 1")
    with pytest.raises(BadInput, match=r"sink\.toml: command: Expected `str`"):
        scenario_from_params({"application": "sink"}, "r")


def test_the_claim_ordered_is_refused(folder: Path) -> None:
    with pytest.raises(BadInput, match="effects have no order; allowed with it: contract"):
        scenario_from_params({"application": "sink", "claim": "ordered"}, "r")


def test_the_list_names_each_user_application_with_its_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "broken.toml").write_text("command = 1")
    (folder / "commit_after.toml").write_text('command = "a"')
    assert main(["list", "applications"]) == 0
    printed = capsys.readouterr().out
    assert f"2 members, effects in lines; {folder}/sink.toml" in printed
    assert f"broken         cannot be read: {folder}/broken.toml: command" in printed
    assert "its name is taken by an application of the catalogue" in printed
    assert list(user_applications.known()) == [*catalogue.APPLICATIONS, "sink"]


def test_a_file_whose_name_is_no_name_is_not_offered(folder: Path) -> None:
    (folder / "a b.toml").write_text('command = "a"')
    result = read_folder(folder)["a b"]
    assert isinstance(result, str) and "the name of the file names the application" in result


def test_secrets_are_the_values_and_the_passwords_in_them() -> None:
    secrets = secrets_of({"DSN": "postgresql://u:s%40cret1@db/x", "SHORT": "on"})
    assert secrets == ["postgresql://u:s%40cret1@db/x", "s%40cret1", "s@cret1"]
    assert "hunter22" in secrets_of({"DSN": "host=h password='hunter22'"})
    assert "hunter23" in secrets_of({"DSN": "db://h/d?password=hunter23"})
    assert "hunter24" in secrets_of({"CONNECTION": '{"conn_type": "db", "password": "hunter24"}'})
    assert redacted("cannot reach postgresql://u:s%40cret1@db/x with s@cret1", secrets) == "cannot reach *** with ***"


def test_a_run_names_the_connections_that_its_tasks_need(folder: Path) -> None:
    (folder / "sink.toml").write_text('command = "a"\n[connections]\nSINK_DSN = "my_sink"')
    assert user_applications.connections_of(scenario_from_params({"application": "sink"}, "r")) == {"my_sink"}
    assert user_applications.connections_of(scenario_from_params({"application": "commit_after"}, "r")) == set()


def test_a_user_application_cannot_stand_at_a_crash_point(folder: Path) -> None:
    scenario = scenario_from_params({"application": "sink", "fault": "kill-application"}, "r")
    assert [each.action for each in scenario.fault.steps] == ["park", "kill_application", "restart_application"]
    check(scenario)  # the control parks
    alone = tuple(arm for arm in scenario.arms if arm.role != "control")
    with pytest.raises(BadInput, match="about crash points, and the user application of safe has none"):
        check(msgspec.structs.replace(scenario, arms=alone))


def test_the_plan_of_a_kill_says_that_the_group_must_commit(folder: Path) -> None:
    said = "if its group never commits (it keeps its offsets in a checkpoint, say), it is not known what a kill hits"
    for fault, count in (("none", 0), ("kill_application", 1)):
        assert describe(scenario_from_params({"application": "sink", "fault": fault}, "r")).count(said) == count


def test_a_kill_of_applications_needs_one() -> None:
    with pytest.raises(BadInput, match=r"no arm has one; allowed: such faults with --application NAME"):
        scenario_from_params({"fault": "kill_application"}, "r")
