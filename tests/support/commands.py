"""Commands that a sentence or a page proposes: each must be one that the real parser and planner accept."""

from __future__ import annotations

import argparse
import html
import re
import shlex
from collections.abc import Callable, Iterator
from functools import cache, lru_cache

import pytest

from delivery_verifier.command_line import main, options
from delivery_verifier.planning import build
from delivery_verifier.planning.build import scenario_from_params
from delivery_verifier.suite import selection

_QUOTED = re.compile(r"`(kdv [^`]*)`")
_SHOWN = re.compile(r"<(?:code|pre)[^>]*>\s*(kdv [^<]*)<")


def without_git(patch: pytest.MonkeyPatch) -> None:
    """Makes plans quick: they ask neither git nor the installed packages."""
    patch.setattr(build, "commit", lambda: "unknown")
    patch.setattr(build, "versions_of", lambda kafka: {"kafka": kafka})


def commands(text: str) -> Iterator[str]:
    """Yields every command in `text`, which is plain text with commands in backquotes, or HTML."""
    yield from _QUOTED.findall(text)
    yield from (html.unescape(command).strip() for command in _SHOWN.findall(text))


_PLANS: dict[Callable[[argparse.Namespace], int], Callable[[argparse.Namespace], object]] = {
    main.running.run: lambda arguments: scenario_from_params(options.params_of(arguments), "proposed"),
    main.running.plan: lambda arguments: scenario_from_params(options.params_of(arguments), "proposed"),
    main.running.explain: lambda arguments: scenario_from_params(options.params_of(arguments), "proposed"),
    main.catalogue.catalogue: lambda arguments: selection.entries(arguments.names, arguments.tag),
}


_PARSER = cache(main._parser)


@lru_cache(maxsize=1000)
def plan(command: str) -> object:
    """Parses `command` as kdv does, and plans what it would run. Returns the plan; None if it plans nothing.

    Raises BadInput or SystemExit if the command is refused.
    """
    program, *words = shlex.split(command)
    assert program == "kdv", command
    arguments = _PARSER().parse_args(words)
    return _PLANS.get(arguments.command, lambda _: None)(arguments)
