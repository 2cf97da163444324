"""The command `kdv completion`, and the answer to a shell that asks how to complete a command line.

argcomplete completes the names of commands and options by itself. This module adds the values of options.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable

from delivery_verifier.command_line.parsers import Add
from delivery_verifier.host import folders
from delivery_verifier.planning.choices import OWN
from delivery_verifier.planning.request import FIELDS

SHELLS = ("bash", "zsh", "fish")
_WHERE = {
    "bash": "kdv completion bash > ~/.local/share/bash-completion/completions/kdv",
    "zsh": 'kdv completion zsh > "${fpath[1]}/_kdv"',
    "fish": "kdv completion fish > ~/.config/fish/completions/kdv.fish",
}


def register(add: Add) -> None:
    """Adds `kdv completion` to the command line by a call of `add` (see `parsers.Add`)."""
    places = "\n".join(f"  {command}" for command in _WHERE.values())
    text = "Print a script that lets your shell complete commands, options and names."
    add("completion", completion, text, epilog=f"once per shell:\n{places}").add_argument("shell", choices=SHELLS)


def completion(arguments: argparse.Namespace) -> int:
    """Carries out `kdv completion`: prints the script with which the shell gets completions. Returns 0."""
    from argcomplete.shell_integration import shellcode

    sys.stdout.write(shellcode(["kdv"], shell=arguments.shell))
    return 0


def answer(parser: argparse.ArgumentParser) -> None:
    """If a shell asks for completions, writes them and ends this process. Otherwise does nothing.

    The shell sets the variable _ARGCOMPLETE when it asks. Only then is argcomplete imported, so that it does not slow
    down other commands.
    """
    if "_ARGCOMPLETE" not in os.environ:
        return
    import argcomplete

    _add_values(parser)
    argcomplete.autocomplete(parser)


def _add_values(parser: argparse.ArgumentParser) -> None:
    """Attaches the functions in _VALUES to the options and arguments of `parser`, and of the parsers of its commands.

    argcomplete calls such a function to list the values that the option or argument can have.
    """
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub_parser in action.choices.values():
                _add_values(sub_parser)
        elif action.dest in _VALUES:
            action.completer = _completer(_VALUES[action.dest])  # type: ignore[attr-defined]


def _completer(values: Callable[[], Iterable[str]]) -> Callable[..., list[str]]:
    return lambda prefix, **_: [value for value in values() if value.startswith(prefix)]


def _choices_of(field: str) -> Callable[[], Iterable[str]]:
    """Returns a function that lists the values that a field of a run allows, or proposes."""

    def values() -> Iterable[str]:
        propose = FIELDS[field].words.examples
        names = propose() if propose else FIELDS[field].choices
        return [name for name in names if name != OWN]  # that is for the form: a command line names files

    return values


def _runs() -> Iterable[str]:
    return [folders.LATEST, *(run.name for run in folders.stored_runs())]


_VALUES: dict[str, Callable[[], Iterable[str]]] = {
    "run": _runs,
    **{name: _choices_of(name) for name, field in FIELDS.items() if field.has_choices or field.words.examples},
}
"""Maps the name of an option or argument to a function that lists its values."""
