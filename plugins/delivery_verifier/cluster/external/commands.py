"""The operator's own commands on this host: reads their file, runs one of them, and keeps what it printed without
secrets.

Whoever may write the file, or a program that it names, may start any program as the user of the verifier. So only
their owner may.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from delivery_verifier.cluster.external.cluster import read as read_access
from delivery_verifier.cluster.external.owned_files import content_of_owned, require_owned
from delivery_verifier.cluster.security import command_config, names
from delivery_verifier.host import folders
from delivery_verifier.host.processes import how_it_ended
from delivery_verifier.host.redaction import SECRET_VARIABLE, redact
from delivery_verifier.host.supervision import command
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.external_cluster import ClusterAccess
from delivery_verifier.model.inputs import BadInput, bad_input, choice
from delivery_verifier.model.operator_commands import PATTERN, PLACEHOLDER, CommandsFile, OperatorCommands, parse
from delivery_verifier.model.user_application import redacted_end, short_secret

OPTION, SUFFIX = "commands", ".toml"
INHERITED = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR")
"""The environment variables of the verifier that a command gets, too. Others have to be named in its file."""
SHOWN = 2_000
"""How many characters of the end of an output are kept as evidence."""
SHORTEST, _LINE_OF_A_KEY = 6, 16
"""The least length of a secret that is looked for, and of a line of one: shorter texts are also ordinary ones."""
_SECRET_NAME = re.compile(f"{SECRET_VARIABLE.pattern}|pass|key|auth|(?:^|_)pat(?:_|$)", re.IGNORECASE)
"""Matches the name of a variable whose value no command may print."""
_GLOB = re.compile(r"([*?[])")
_HOST = re.compile(r"[A-Za-z0-9:\[][A-Za-z0-9._:\[\]-]*")
"""What a host may be called that is put into a command: it must not look like an option."""


@dataclass(frozen=True)
class Ordered:
    """What became of one command.

    * `problem`: why it has failed; empty if it ended with exit code 0, printed no secret, and did so in time.
    * `output`: the end of what it printed, without secrets.
    """

    words: list[str]
    exit_code: int | None
    took_s: float
    output: str
    problem: str


@dataclass(frozen=True, repr=False)
class Commands:
    """The commands of one file. `environment` has the variables that they get, and may hold secrets."""

    file: Path
    described: CommandsFile
    operator: OperatorCommands
    environment: dict[str, str]

    def run(
        self, action: str, values: dict[str, str], secrets: Iterable[str], started: Callable[[int], None]
    ) -> Ordered:
        """Runs the command for `action`. `values` has the placeholders, `secrets` what must not be kept of its output.
        `started` is called with the number of its process group."""
        of_action = self.operator.actions[action]
        words = of_action.words({**values, "home": str(self.file.parent)})
        passed_on = self._passed_on()  # before anything runs: nothing may fail afterwards
        named = [value for name, value in passed_on.items() if _SECRET_NAME.search(name)]
        known, others = _spellings([*secrets, *named]), _spellings(passed_on.values())
        try:
            _require_host(values["host"], words)
            ended = command.run(words, self.environment, self.file.parent, of_action.deadline_s, started)
        except (OSError, BadInput) as error:
            return Ordered(words, None, 0.0, "", f"{words[0]} was not started: {error}")
        text, count = redact(ended.output.decode(errors="replace"), known, by_pattern=False)
        problem = _problem(ended, of_action.deadline_s)
        if count and not problem:
            problem = "it printed a secret of the connection, or of its environment"
        text, _ = redact(redacted_end(text, known), others, by_pattern=False)
        shown, _ = redact(redacted_end(text, others)[-SHOWN:], [])
        return Ordered(
            [redact(word, [*known, *others])[0] for word in words], ended.exit_code, ended.took_s, shown, problem
        )

    def _passed_on(self) -> dict[str, str]:
        """Returns the variables that the operator passes on. Each value may be secret, whatever its name, except a path
        that exists, or a list of such paths."""
        values = {name: self.environment[name] for name in self.operator.environment}
        return {name: value for name, value in values.items() if not all(map(_is_path, value.split(os.pathsep)))}


def named(reference: str) -> Path:
    """Returns the file of the commands that `reference` names (see PATTERN). Raises BadInput if there is none."""
    if not re.fullmatch(PATTERN, reference):
        raise bad_input(OPTION, reference, "the name of a file, of A-Z a-z 0-9 _ . -", "commands are never typed here")
    folder, name = folders.commands_dir(), reference.partition("@")[0]
    there = sorted(path.stem for path in folder.glob(f"*{SUFFIX}"))
    if name not in there:
        choice(OPTION, name, there, f"write it to {folder}/{name}{SUFFIX}; `kdv schema commands` has the form")
    return folder / f"{name}{SUFFIX}"


def read(reference: str) -> Commands:
    """Returns the commands that `reference` names.

    The digest is that of the file and of each file below {home} that its commands name.

    Raises BadInput if there are none, if others may write the file or a file that it names, if its content is wrong, if
    a program or a variable is missing on this host, if a variable has a secret that is too short to be found in what a
    command prints, or if `reference` has the digest of another file.
    """
    file = named(reference)
    content = content_of_owned(file)
    operator = parse(content, file)
    digest = _digest(content, {path: content_of_owned(file.parent / path) for path in _below_home(operator, file)})
    name, _, begin = reference.partition("@")
    if not digest.startswith(begin):
        raise BadInput(
            f"{OPTION} is {reference}, and {file}, or one that it names, is another file now (SHA-256 "
            f"{digest[:12]}); allowed: the files as they were; to go on with them as they are, name it {name} alone"
        )
    if absent := [each for each in operator.environment if each not in os.environ]:
        raise BadInput(f"{file}: environment names {', '.join(absent)}, which is not set here; set it, or leave it out")
    for variable in operator.environment:
        if problem := short_secret(variable, os.environ[variable]):
            raise BadInput(f"{file}: environment names {variable}, which {problem}")
    variables = [each for each in (*INHERITED, *operator.environment) if each in os.environ]
    environment = {each: os.environ[each] for each in variables}
    for action, of_action in operator.actions.items():
        _require_program(f"{file}: actions.{action}", of_action.words({"home": str(file.parent)}), environment)
    described = CommandsFile(name=name, sha256=digest, actions=tuple(sorted(operator.actions)))
    return Commands(file, described, operator, environment)


def of_run(described: CommandsFile) -> Commands:
    """Returns the commands of a run that was planned with `described`. Raises BadInput as `read` does, and StepFailed
    if the file has changed since."""
    commands = read(described.name)
    if commands.described.sha256 != described.sha256:
        raise StepFailed(
            f"{commands.file}, or a file that it names, has changed since the run was planned: leave it "
            "alone, and run again"
        )
    return commands


def secrets_to_hide(access: ClusterAccess) -> list[str]:
    """Returns the secrets that no output of a command may keep: those of the connection of the run, and of all
    connections of this operator."""
    own = [value for name, value in read_access(access).security.items() if name in names.SECRETS]
    return [*own, *command_config.known_secrets()]


def _spellings(secrets: Iterable[str]) -> list[str]:
    """Returns `secrets` as they may be printed, longest first: as they are, in URLs, and as kubectl shows them."""
    texts = {text for text in secrets if len(text) >= SHORTEST}
    texts |= {line for text in texts for line in text.splitlines() if len(line) >= _LINE_OF_A_KEY}
    texts |= {quote(text, safe="") for text in texts} | {base64.b64encode(text.encode()).decode() for text in texts}
    return sorted(texts, key=lambda text: (-len(text), text))


def _problem(ended: command.Ended, deadline_s: float) -> str:
    if ended.exit_code is None:
        return f"it had not ended after {deadline_s:g} s, and was ended"
    return f"it ended with {how_it_ended(ended.exit_code)}" if ended.exit_code else ""


def _require_host(host: str, words: list[str]) -> None:
    """Raises BadInput if the cluster calls a host something that a program could take for an option."""
    if any(host in word for word in words) and not _HOST.fullmatch(host):
        raise BadInput(f"the cluster calls the host of the broker {host!r}, which is no name of a host")


def _require_program(field: str, words: list[str], environment: dict[str, str]) -> None:
    if not words:
        return
    program = shutil.which(words[0], path=environment.get("PATH", os.defpath))
    if program is None:
        raise BadInput(
            f"{field} has the program {words[0]!r}, which this user cannot run here; install it, or correct its path"
        )
    for word in (program, *words[1:]):
        if Path(word).is_absolute() and os.path.isfile(word):  # noqa: PTH113 (Path.is_file fails at a text that is too long)
            require_owned(Path(word))


def _is_path(text: str) -> bool:
    return not text or (Path(text).is_absolute() and os.path.exists(text))  # noqa: PTH110 (Path.exists fails at a long text)


def _below_home(operator: OperatorCommands, file: Path) -> list[str]:
    """Returns the files below {home} that the commands name, as paths from there. A placeholder stands for any text."""
    named = set[Path]()
    for word in (word for of_action in operator.actions.values() for word in of_action.command):
        for pattern in _patterns(word):
            named |= {path for path in file.parent.glob(pattern) if path.is_file()}
    return sorted(str(path.relative_to(file.parent)) for path in named)


def _patterns(word: str) -> Iterator[str]:
    for path in (word.partition("{home}/")[2], *re.findall(r"\{home\}/([^\s\"';|&<>]+)", word)):
        if path := path.lstrip("/"):
            yield PLACEHOLDER.sub("*", _GLOB.sub(r"[\1]", path))


def _digest(content: bytes, named: dict[str, bytes]) -> str:
    digest = hashlib.sha256(content)
    for path, text in named.items():
        digest.update(f"\0{path}\0{hashlib.sha256(text).hexdigest()}".encode())
    return digest.hexdigest()
