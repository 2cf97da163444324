"""Tests of --help: each option stands once, under the question that it answers."""

from __future__ import annotations

import argparse

import pytest

from delivery_verifier.command_line import main, options
from delivery_verifier.planning.request import FIELDS

GROUPS = list(dict.fromkeys(field.words.group for field in FIELDS.values() if field.option))
DECLARED = {
    *(field.option for field in FIELDS.values() if field.option),
    *(option for more in options.FILES.values() for option in more),
}


def groups(command: str) -> dict[str, list[str]]:
    """Maps the title of each group that `kdv COMMAND --help` shows to the names of its options."""
    (sub,) = [action for action in main._parser()._actions if isinstance(action, argparse._SubParsersAction)]
    shown = {
        group.title or "": [each.dest for each in group._group_actions] for group in sub.choices[command]._action_groups
    }
    return {title: names for title, names in shown.items() if names}


def test_every_option_of_a_run_stands_in_one_group_and_none_is_left_over() -> None:
    shown = groups("run")
    assert sorted(name for title in GROUPS for name in shown[title]) == sorted(DECLARED)
    assert options.FILES.keys() <= FIELDS.keys()


@pytest.mark.parametrize("command", ["run", "plan", "explain", "compare"])
def test_a_question_is_asked_before_its_load_and_help_alone_has_no_group(command: str) -> None:
    shown = groups(command)
    titles = [title for title in shown if title in GROUPS]
    assert titles == [title for title in GROUPS if title in shown] and titles[0] == "the question"
    assert all(not DECLARED & {*names} for title, names in shown.items() if title not in GROUPS)


def test_the_options_of_a_run_that_are_no_fields_say_how_it_runs_or_what_comes_out() -> None:
    shown = groups("run")
    assert (shown["options"], shown["how it runs"]) == (["help"], ["direct", "port", "run_id"])
    assert shown["output"] == ["json", "junit"]
