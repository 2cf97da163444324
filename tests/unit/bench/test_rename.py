"""Tests of bench/kit/rename.py: names, sentences and long lines are rewritten as its table says, and only once."""

from __future__ import annotations

import pytest

from bench.kit.words import wrap
from bench.kit.words.table import Row, plural, rows
from bench.kit.words.texts import Rewriter

ROW = Row(
    name="agent",
    stage="words",
    becomes="warden -> cluster agent",
    seek="warden",
    words={"warden": "agent", "fault_hatch": "gateway"},
    names={"WARDENS": "PARENTS"},
    keep=["old_warden"],
    prose=[("(the|its) wardens", r"\1 cluster agents"), ("warden", "cluster agent")],
)
REWRITER = Rewriter(names=lambda code: ROW.code(code, frozenset({"warden_id"})), prose=ROW.sentence)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("warden", "agent"),
        ("_warden_of", "_agent_of"),
        ("WardenSpec", "AgentSpec"),
        ("WARDEN_SOCKET", "AGENT_SOCKET"),
        ("start_wardens", "start_agents"),
        ("WARDENS", "PARENTS"),
        ("old_warden", "old_warden"),
        ("stewarden", "stewarden"),
        ("FaultHatchSpec", "GatewaySpec"),
        ("test_a_warden_ends", "test_an_agent_ends"),
    ],
)
def test_the_words_of_an_identifier_keep_their_spelling(old: str, new: str) -> None:
    assert ROW.identifier(old) == new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Warden: a warden ends.", "Cluster agent: a cluster agent ends."),
        ("It has `warden.json` and\n    the wardens.", "It has `agent.json` and\n    the cluster agents."),
        ("see cluster/warden.py and WardenSpec", "see cluster/agent.py and AgentSpec"),
    ],
)
def test_a_sentence_gets_words_and_the_code_in_it_names(old: str, new: str) -> None:
    assert REWRITER.sentence(old) == new


def test_python_is_rewritten_token_by_token() -> None:
    old = 'warden = f"the warden {warden.of(\'warden\'):>5} {{warden}}"  # a warden\nraise X("warden", warden_id)\n'
    new = (
        "agent = f\"the cluster agent {agent.of('agent'):>5} {{agent}}\"  # a cluster agent\n"
        'raise X("agent", warden_id)\n'
    )
    assert REWRITER.python(old) == new


def test_settings_and_links_are_rewritten() -> None:
    assert REWRITER.settings('old = "if warden: pass"\nwhy = "the warden"\n') == (
        'old = "if agent: pass"\nwhy = "the cluster agent"\n'
    )
    assert REWRITER.markdown("[a warden](warden.md#the-warden)") == "[a cluster agent](agent.md#the-cluster-agent)"


def test_two_names_of_a_file_that_become_one_are_named() -> None:
    assert ROW.collisions("warden = agent", frozenset()) == ["warden and agent"]


@pytest.mark.parametrize("row", rows().values(), ids=lambda row: row.name)
def test_what_a_row_makes_it_leaves_alone(row: Row) -> None:
    made = {*row.names.values(), *row.words.values(), *map(plural, row.words.values())}
    assert {name: row.identifier(name) for name in made if row.identifier(name) != name} == {}
    assert row.sentence("") == "", "its phrases are patterns"


def test_lines_that_are_too_long_are_broken() -> None:
    words = "word " * 30
    for text in (
        f'"""{words}"""\n',
        f"# {words}\nx = 1\n",
        f'x = f(\n    "{words}",\n)\n',
        f'def f():\n    return "{words}"\n',
    ):
        shorter = wrap.python(text)
        assert max(map(len, shorter.splitlines())) <= wrap.WIDTH
        assert shorter.count("word") == 30
    assert max(map(len, wrap.markdown("", f"{words}{words}\n").splitlines())) <= 130
