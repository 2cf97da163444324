"""The operator's own commands: what is run for an action of a fault plan on a cluster that somebody else runs.

The operator writes them into a TOML file. The name of the file is the name of the commands. Scenarios, forms and
requests contain only this name, so nobody can start a command through them.

A command only orders. What it did is seen from outside, or the fault has no proof.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from delivery_verifier.model.act import Act, links_cut
from delivery_verifier.model.data import Data, Name
from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.model.fault_plan import FaultStep
from delivery_verifier.model.inputs import BadInput, nearest
from delivery_verifier.model.user_application import LEAK, holds_password

COMMANDABLE: dict[str, Act] = {name: act for name, act in ACTS.items() if act.means in ("process", "network")}
"""The actions that a command can order. Not those of the proxy, which stands only before a cluster of the verifier's
own. Not a loss of power: nobody sees from outside whether what was not flushed is gone, and it permits losses. (A
command that cuts the power of a host may stand under `kill`.)"""
HEALED_BY: dict[str, str] = {
    fault: act.name
    for act in COMMANDABLE.values()
    for fault in act.heals
    if fault in COMMANDABLE and not act.takes_effect
}
"""Maps each fault that a command can order to the action that ends it."""
PLACEHOLDERS: dict[str, str] = {
    "broker": "the id of the broker",
    "host": "the host name or address at which the broker is reached",
    "links": "in isolate: the links to cut, separated by commas",
    "home": "the folder of the TOML file",
}
"""Every placeholder of a command, with its meaning."""
PATTERN = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}(@[0-9a-f]{12})?"
"""Matches how a run names commands: the name of the file, and the begin of its SHA-256, if it must be this file."""
_LONGEST_S = 3600
_OURS = ("KDV_", "AIRFLOW")
"""How the names of variables begin that may hold secrets of the verifier."""
_CREDENTIALS = re.compile(
    r"""(?:^|\s)(?:-u|-U|--user|--proxy-user)[\s=]*["']?[^\s:"'$/]+:(?!\d+(?:\s|$))[^\s"'$]|\b(?:Bearer|Basic)\s+[^\s"'$]""",
    re.IGNORECASE,
)
"""Matches a user with a password, as curl takes them, and the value of a header. Does not match the ids of a user and a
group, and the name of a variable."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_Seconds = Annotated[float, Meta(ge=0, le=_LONGEST_S)]
_Deadline = Annotated[float, Meta(ge=1, le=_LONGEST_S)]


class Command(Data, frozen=True):
    """What is run for one action, for one broker at a time."""

    command: Annotated[
        tuple[str, ...],
        Meta(description="The words of the command line, the program first. No shell runs it."),
    ] = ()
    deadline_s: Annotated[
        _Deadline, Meta(description="After so many seconds the command is ended, and has failed.")
    ] = 60.0
    by_itself_s: Annotated[
        _Seconds,
        Meta(
            description="Only for an action that heals: for so many seconds, the cluster may heal itself, e.g. because "
            "Kubernetes starts the pod again. Only then the command is run, if there is one."
        ),
    ] = 0.0

    def words(self, values: dict[str, str]) -> list[str]:
        """Returns the command with each placeholder filled. `values` maps each name in PLACEHOLDERS to its value."""
        return [PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), word) for word in self.command]


class OperatorCommands(Data, frozen=True):
    """The content of a TOML file."""

    actions: Annotated[
        dict[str, Command], Meta(description="The command for each action, by its name in a fault plan.")
    ] = {}
    summary: Annotated[str, Meta(description="What it is for, in one sentence.")] = "Commands of your own."
    environment: Annotated[
        tuple[str, ...],
        Meta(description="The names of environment variables that the commands get, too, e.g. KUBECONFIG."),
    ] = ()
    effect_s: Annotated[
        _Deadline, Meta(description="So many seconds after a command has ended, its effect must be seen from outside.")
    ] = 60.0
    whole_s: Annotated[
        _Deadline, Meta(description="So many seconds after it was healed, the cluster must be whole again.")
    ] = 180.0


def parse(content: bytes, file: Path) -> OperatorCommands:
    """Returns the commands that `content`, the content of the TOML file `file`, describes.

    Raises BadInput if the content is wrong. The message names the file, the field and the remedy.
    """
    try:
        commands = msgspec.toml.decode(content, type=OperatorCommands)
    except msgspec.ValidationError as error:
        raise BadInput(f"{file}: {_in_words(str(error))}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{file} is no TOML: {error}; `kdv schema commands` has the form") from None
    if problems := [f"{file}: {field} {problem}" for field, problem in _problems(commands)]:
        raise BadInput(*problems)
    return commands


def lacking(commands: OperatorCommands | None, step: FaultStep) -> str:
    """Returns why `step` of a fault plan cannot be done by `commands`; empty if it can, or needs none."""
    name = step.action
    if not step.act.means:
        return ""
    if commands is None or name not in commands.actions:
        return name if name in COMMANDABLE else f"{name} (which no command can order)"
    return _lacks_links(commands.actions[name], step) if name == "isolate" else ""


def schema() -> dict[str, Any]:
    """Returns the JSON Schema of the TOML file, whose actions have names."""
    form: dict[str, Any] = msgspec.json.schema(OperatorCommands)
    actions = form["$defs"]["OperatorCommands"]["properties"]["actions"]
    of_command = actions.pop("additionalProperties")
    actions["properties"] = {name: {**of_command, "description": act.summary} for name, act in COMMANDABLE.items()}
    actions["additionalProperties"] = False
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Commands of an operator", **form}


PLACEHOLDER = re.compile(r"\{([A-Za-z_.]+)\}")
"""Matches a placeholder, and leaves JSON alone."""


def _lacks_links(command: Command, step: FaultStep) -> str:
    links = links_cut(step.options)
    if "controller" not in links:
        return f"isolate on {','.join(links)}, of which nothing is seen from outside"
    if step.options.get("links") and "{links}" not in " ".join(command.command):
        return f"isolate on {','.join(links)}: its command has no {{links}}"
    return ""


def _problems(commands: OperatorCommands) -> Iterator[tuple[str, str]]:
    """Yields each problem as a pair: the field, and a text with the problem and its remedy."""
    if not commands.actions:
        yield "it", f"has no actions; write at least one of [actions.NAME]: {', '.join(COMMANDABLE)}"
    for name in commands.environment:
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) or name.startswith(_OURS):
            yield "environment", f"names {name!r}; allowed: names of variables that do not begin with KDV_ or AIRFLOW"
    for name, command in commands.actions.items():
        field = f"actions.{name}"
        if name not in COMMANDABLE:
            near = nearest(name, COMMANDABLE)
            hint = f"did you mean {near}?" if near else "leave it out"
            yield field, f"is no action that a command can order; allowed: {', '.join(COMMANDABLE)}; {hint}"
            continue
        yield from ((field, problem) for problem in _command_problems(name, command))
        healing = HEALED_BY.get(name)
        if healing and healing not in commands.actions:
            text = f"has no actions.{healing} beside it, so nobody would end the fault"
            yield field, f"{text}; give it a command, or by_itself_s if the cluster heals itself"


def _command_problems(name: str, command: Command) -> Iterator[str]:
    words = command.command
    if COMMANDABLE[name].takes_effect and command.by_itself_s:
        yield "has by_itself_s, which only an action that heals may have; leave it out"
    if not words:
        if COMMANDABLE[name].takes_effect or not command.by_itself_s:
            yield "has no command; write the words of its command line"
        return
    if not words[0] or any(_CONTROL.search(word) for word in words):
        yield "has a word with control characters, or an empty program; write each word as text"
    if "/" in words[0] and not words[0].startswith(("/", "{home}/")):
        yield f"has the program {words[0]!r}; allowed: a name in PATH, an absolute path, or one that begins {{home}}/"
    if "{" in words[0].removeprefix("{home}/"):
        yield "has a placeholder in its program; only {home}/ may begin it"
    text = " ".join(words)
    for placeholder in PLACEHOLDER.findall(text):
        if placeholder not in PLACEHOLDERS or (placeholder == "links" and name != "isolate"):
            near = nearest(placeholder, PLACEHOLDERS)
            hint = f"did you mean {{{near}}}?" if near and near != placeholder else "leave it out"
            allowed = f"{', '.join(PLACEHOLDERS)} (links: in isolate alone)"
            yield f"has the placeholder {{{placeholder}}}; allowed: {allowed}; {hint}"
    if "{broker}" not in text and "{host}" not in text:
        yield "has neither {broker} nor {host}, so it would do the same whichever broker is meant; add one of them"
    if holds_password(text) or _CREDENTIALS.search(text):
        yield f"holds a password; {LEAK}"


def _in_words(error: str) -> str:
    """Rewrites an error message of msgspec: puts the name of the wrong field, which msgspec writes last, in front."""
    message, _, path = error.partition(" - at `$")
    field = path.rstrip("`").removeprefix(".")
    fields = ", ".join(OperatorCommands.__struct_fields__)
    hint = f"; allowed fields: {fields}, and of an action: {', '.join(Command.__struct_fields__)}"
    return f"{field or 'the file'}: {message}" + (hint if "field" in message else "; write it so")


class CommandsFile(Data, frozen=True):
    """The commands of a run: the name and the SHA-256 of their file, and the actions that have an entry there."""

    name: Name
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    actions: tuple[str, ...]

    @property
    def reference(self) -> str:
        """How a command that repeats the run names them: another file is then refused."""
        return f"{self.name}@{self.sha256[:12]}"
