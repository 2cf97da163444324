"""The operator's own commands: whatever is wrong in their file is refused with the field and a remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from delivery_verifier.catalogue.faults import FAULTS
from delivery_verifier.catalogue.parts import AT_ONCE, step
from delivery_verifier.catalogue.scenarios import ENTRIES
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.operator_commands import COMMANDABLE, HEALED_BY, lacking, parse, schema

FILE = Path("/home/me/commands/strimzi.toml")
KILL = '[actions.kill]\ncommand = ["kubectl", "delete", "pod", "kafka-{broker}"]\n'
START = "[actions.start]\nby_itself_s = 120\n"
WHOLE = f"""summary = "Strimzi"
environment = ["KUBECONFIG"]
effect_s = 30
{KILL}deadline_s = 20
{START}"""


def test_a_file_says_what_to_run_for_which_action() -> None:
    commands = parse(WHOLE.encode(), FILE)
    kill, start = commands.actions["kill"], commands.actions["start"]
    assert kill.words({"broker": "7", "host": "h"}) == ["kubectl", "delete", "pod", "kafka-7"]
    assert (kill.deadline_s, start.command, start.by_itself_s, commands.effect_s) == (20, (), 120, 30)


def test_json_in_a_word_is_no_placeholder() -> None:
    text = KILL.replace('"kafka-{broker}"', """'{"spec":{"replicas":0}}', "{host}\"""") + START
    words = parse(text.encode(), FILE).actions["kill"].words({"broker": "7", "host": "b7.example"})
    assert words[3:] == ['{"spec":{"replicas":0}}', "b7.example"]


def test_what_can_be_ordered_follows_from_the_actions_and_each_fault_has_one_that_ends_it() -> None:
    assert {*COMMANDABLE} == {"kill", "stop", "pause", "isolate", "rejoin", "resume", "start"}
    assert HEALED_BY == {"kill": "start", "stop": "start", "pause": "resume", "isolate": "rejoin"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no actions"),
        ("[actions", "is no TOML"),
        (WHOLE + "\n[more]", "allowed fields: actions, summary"),
        (WHOLE.replace("deadline_s", "deadline"), "actions.*unknown field `deadline`.*deadline_s"),
        (WHOLE.replace("deadline_s = 20", "deadline_s = 0"), "write it so"),
        (WHOLE.replace("by_itself_s = 120", ""), "actions.start has no command"),
        (WHOLE.replace("actions.kill", "actions.kil"), "actions.kil is no action.*did you mean kill"),
        (KILL.replace("kill", "power_off") + START, "power_off is no action that a command can order"),
        (KILL, "actions.kill has no actions.start beside it, so nobody would end the fault"),
        (KILL + "by_itself_s = 5\n" + START, "by_itself_s, which only an action that heals may have"),
        (WHOLE.replace("{broker}", "0"), "neither {broker} nor {host}"),
        (WHOLE.replace("{broker}", "{brokr}"), "did you mean {broker}"),
        (WHOLE.replace("{broker}", "{broker}{links}"), "placeholder {links}"),
        (WHOLE.replace('"kubectl"', '"bin/kubectl"'), "allowed: a name in PATH, an absolute path"),
        (WHOLE.replace('"kubectl"', '"/bin/{broker}"'), "a placeholder in its program"),
        (WHOLE.replace('"kubectl"', '""'), "an empty program"),
        (WHOLE.replace("kafka-", "kafka-\\n"), "control characters"),
        (WHOLE.replace("delete", "--password=hunter22"), "holds a password; process lists show"),
        (WHOLE.replace("delete", "https://me:hunter22@host/"), "holds a password"),
        (WHOLE.replace("delete", "-u admin:hunter22"), "holds a password"),
        (WHOLE.replace('"delete"', '"-u", "admin:hunter22"'), "holds a password"),
        (WHOLE.replace('"delete"', '"--user=admin:hunter22"'), "holds a password"),
        (WHOLE.replace("delete", "Authorization: Bearer hunter22"), "holds a password"),
        (WHOLE.replace("KUBECONFIG", "KDV_TOKEN"), "do not begin with KDV_ or AIRFLOW"),
        (WHOLE.replace("KUBECONFIG", "AIRFLOW_CONN_X"), "do not begin with KDV_ or AIRFLOW"),
        (WHOLE.replace("KUBECONFIG", "A=B"), "names of variables"),
        (WHOLE.replace('["kubectl", "delete", "pod", "kafka-{broker}"]', '"kubectl delete"'), "Expected `array`"),
    ],
)
def test_what_is_wrong_is_refused_with_the_file_the_field_and_the_remedy(text: str, said: str) -> None:
    with pytest.raises(BadInput, match=said) as raised:
        parse(text.encode(), FILE)
    assert str(FILE) in str(raised.value) and "hunter22" not in str(raised.value)


@pytest.mark.parametrize(
    "words",
    [
        '"docker", "exec", "-u", "1000:1000"',
        '"sudo", "-u", "kafka"',
        '"sh", "-c", "curl -u me:$MINE http://h"',
        '"sh", "-c", "curl -H \'Authorization: Bearer $MINE\'"',
    ],
)
def test_ids_and_names_of_variables_are_no_password(words: str) -> None:
    assert parse(WHOLE.replace('"kubectl", "delete", "pod"', words).encode(), FILE)


def test_a_step_that_no_command_can_do_is_named() -> None:
    commands = parse(WHOLE.encode(), FILE)
    plan = FAULTS["kill_leader"].steps
    assert [lacking(commands, each) for each in plan] == ["", ""]
    assert [lacking(None, each) for each in plan] == ["kill", "start"]
    assert [lacking(commands, each) for each in FAULTS["pause_leader"].steps] == ["pause", "resume"]
    assert lacking(commands, step(AT_ONCE, "power_off", "all")) == "power_off (which no command can order)"
    assert lacking(None, step(AT_ONCE, "alter_topic", "none")) == "", "it needs no command"


def test_links_are_cut_only_if_the_command_is_told_which_and_if_it_can_be_seen() -> None:
    isolate = '[actions.isolate]\ncommand = ["cut", "{broker}"]\n[actions.rejoin]\ncommand = ["join", "{broker}"]\n'
    deaf, told = (parse(isolate.replace('"cut"', word).encode(), FILE) for word in ('"cut"', '"cut", "{links}"'))
    usual, more = step(AT_ONCE, "isolate", "leader"), step(AT_ONCE, "isolate", "leader", links="controller,client")
    assert (lacking(deaf, usual), lacking(told, usual), lacking(told, more)) == ("", "", "")
    assert lacking(deaf, more) == "isolate on controller,client: its command has no {links}"
    unseen = step(AT_ONCE, "isolate", "leader", links="replication")
    assert lacking(told, unseen) == "isolate on replication, of which nothing is seen from outside"


def test_most_of_the_catalogue_that_breaks_processes_can_be_ordered() -> None:
    actions = "".join(f'[actions.{name}]\ncommand = ["x", "{{broker}}"]\n' for name in COMMANDABLE)
    commands = parse(actions.encode(), FILE)
    fitting = [
        name for name, entry in ENTRIES.items() if not any(lacking(commands, each) for each in entry.fault.steps)
    ]
    assert {"everyday.kill_leader", "everyday.rolling_restart", "acks_1.frozen_followers"} <= {*fitting}


def test_the_schema_has_every_action_and_every_field_with_its_meaning() -> None:
    shown = schema()["$defs"]
    fields = shown["OperatorCommands"]["properties"]
    assert {*fields["actions"]["properties"]} == {*COMMANDABLE} and not fields["actions"]["additionalProperties"]
    for each in (*fields.values(), *shown["Command"]["properties"].values()):
        assert each["description"]
