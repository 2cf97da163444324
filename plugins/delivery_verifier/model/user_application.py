"""An application of the user's own: a command, the place where its effects land, and its environment.

The operator of the host describes the application in a TOML file. The name of the file is the name of the application.
Scenarios, forms and requests contain only this name, so nobody can start a command through them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
from msgspec import Meta

from delivery_verifier.model.data import Data, Name
from delivery_verifier.model.inputs import BadInput, nearest
from delivery_verifier.model.sink_location import SinkLocation, place_problems

PLACEHOLDERS: dict[str, str] = {
    "bootstrap.servers": "the addresses of the brokers, separated by commas",
    "topic": "the topic to consume",
    "group": "the group.id to consume with",
    "output.topic": "the topic to write to, if the application writes to a topic",
    "folder": "the folder of the member, in which it runs",
    "member": "the number of the member, from 0",
    "incarnation": "how often the member was started before",
    "home": "the folder of the TOML file",
}
"""Every placeholder of a command, with its meaning."""
VARIABLES: dict[str, str] = {
    "KDV_BOOTSTRAP_SERVERS": "bootstrap.servers",
    "KDV_TOPIC": "topic",
    "KDV_GROUP": "group",
    "KDV_OUTPUT_TOPIC": "output.topic",
    "KDV_FOLDER": "folder",
    "KDV_MEMBER": "member",
    "KDV_INCARNATION": "incarnation",
}
"""The environment variables that a member gets, each with the placeholder that has the same value."""
_PASSWORD = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/@:]*:[^\s/@]+@", re.IGNORECASE)
_OPTION = re.compile(r"""(?:pass|secret|token)\w*["' =:]+[^\s"' =:$]""", re.IGNORECASE)
"""Matches a password as the value of an option, e.g. `--password x` or `password="x"`. Does not match a value that
begins with $, because such a value is only the name of a variable. A process list does not show the value of the
variable."""
_SECRET_NAME = re.compile("PASS|SECRET|TOKEN|KEY", re.IGNORECASE)
_FIELD = re.compile(
    r"""\b(?=\w*(?:password|passwd|pwd|passphrase|secret|token))\w+["']?\s*[=:]\s*(?:(["'])(.*?)\1|([^\s"'&;,}]+))""",
    re.IGNORECASE,
)
"""Matches a secret field of a query, of JSON, or of a text like `host=h password='p'`. The second or third group of the
match is the value of the field."""
_SHORTEST_SECRET, _SHORTEST_PART = 6, 3
_LEAK = (
    "process lists show commands: put the value into [environment] or [connections], and let the program read the "
    "variable"
)
LEAK = "process lists show commands: let the program read it from a file, or from a variable in environment"
"""The remedy for a password in a command whose file has no values of variables."""


class UserApplication(Data, frozen=True, kw_only=True):
    """The content of a TOML file. The fields:

    * `command`: the command line of one member, split as a shell would split it. No shell runs it.
    * `members`: the number of processes. All of them run the command.
    * `environment`: further environment variables. Their values are secret: no file of a run contains them.
    * `connections`: maps the name of an environment variable to the id of an Airflow connection. The variable gets the
      URI of the connection as its value.
    """

    summary: str = "An application of your own."
    command: Annotated[str, Meta(min_length=1)]
    members: Annotated[int, Meta(ge=1, le=16)] = 1
    effects: SinkLocation = SinkLocation()
    environment: dict[str, str] = {}
    connections: dict[str, Name] = {}

    def words(self, values: Mapping[str, object]) -> list[str]:
        """Returns the command as a list of words, with each placeholder filled. `values` maps each name in PLACEHOLDERS
        to its value."""
        return [_filled(word, values) for word in shlex.split(self.command)]


def parse(content: bytes, file: Path) -> UserApplication:
    """Returns the application that `content`, the content of the TOML file `file`, describes.

    Raises BadInput if the content is wrong. The message names the file, the field and the remedy.
    """
    try:
        own = msgspec.toml.decode(content, type=UserApplication)
    except msgspec.ValidationError as error:
        raise BadInput(f"{file}: {_in_words(str(error))}") from None
    except msgspec.DecodeError as error:
        raise BadInput(f"{file} is no TOML: {error}; the page user-application.md has an example") from None
    for field, problem in _problems(own):
        raise BadInput(f"{file}: {field} {problem}")
    return own


def read_folder(folder: Path) -> dict[str, UserApplication | str]:
    """Maps the name of each TOML file in `folder` to the application that the file describes. The names have no suffix.
    If a file cannot be read, the value is a text that says what is wrong."""
    results: dict[str, UserApplication | str] = {}
    for file in sorted(folder.glob("*.toml")):
        try:
            msgspec.convert(file.stem, Name)
            results[file.stem] = parse(file.read_bytes(), file)
        except msgspec.ValidationError:
            results[file.stem] = f"{file}: the name of the file names the application; allowed: A-Z a-z 0-9 _ . -"
        except (OSError, BadInput) as error:
            results[file.stem] = str(error)
    return results


def secrets_of(values: Mapping[str, str]) -> list[str]:
    """Returns the texts that must stay secret, longest first: the texts in `values`, and the passwords within these
    texts (see `_passwords`). Leaves out texts of fewer than 6 characters."""
    passwords = {part for value in values.values() for part in _passwords(value)}
    secret = {text for text in (*values.values(), *passwords) if len(text) >= _SHORTEST_SECRET}
    return sorted(secret, key=lambda text: (-len(text), text))


def short_secret(name: str, value: str) -> str:
    """Checks `value`, the value of the variable `name`. Returns a text that says what is wrong, if `value` holds a
    secret that is too short. (A short secret cannot be found in what a program prints.) Otherwise returns ""."""
    secrets = [*_passwords(value), *([value] if _SECRET_NAME.search(name) else [])]
    if not any(0 < len(text) < _SHORTEST_SECRET for text in secrets):
        return ""
    return (
        f"holds a secret of fewer than {_SHORTEST_SECRET} characters, which nobody finds in what the program prints; "
        "take a longer secret or, if it is none, a name without pass, secret, token and key"
    )


def holds_password(command: str) -> bool:
    """Returns whether a command line seems to hold a password: as the value of an option, or in a URL."""
    return bool(_OPTION.search(command) or _PASSWORD.search(command))


def redacted(text: str, secrets: list[str]) -> str:
    """Returns `text`, in which `***` replaces each of `secrets`."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


def redacted_end(text: str, secrets: list[str]) -> str:
    """Like `redacted`, but for a text that was cut at both ends. A cut may have left only a part of a secret at an end
    of the text. `***` also replaces such a part, if the part has at least 3 characters."""
    text = redacted(text, secrets)
    parts = [(secret, length) for secret in secrets for length in range(len(secret) - 1, _SHORTEST_PART - 1, -1)]
    begin = max((length for secret, length in parts if text.startswith(secret[-length:])), default=0)
    text = "***" * bool(begin) + text[begin:]
    end = max((length for secret, length in parts if text.endswith(secret[:length])), default=0)
    return text[: len(text) - end] + "***" * bool(end)


def _passwords(value: str) -> Iterator[str]:
    """Yields the passwords in `value`. A password is the password of a URL, or the value of a secret field. The
    function looks for secret fields in the query of a URL, in a text like `host=h password=p`, and in JSON."""
    yield from (match[2] or match[3] for match in _FIELD.finditer(value))
    try:
        url = urlsplit(value)
        password, query = url.password, parse_qsl(url.query)
    except ValueError:
        return
    yield from (text for name, text in query if _SECRET_NAME.search(name))
    if password:
        yield from (password, unquote(password))


def _filled(word: str, values: Mapping[str, object]) -> str:
    for name in PLACEHOLDERS:
        word = word.replace(f"{{{name}}}", str(values[name]))
    return word


def _in_words(error: str) -> str:
    """Rewrites an error message of msgspec: puts the name of the wrong field, which msgspec writes last, in front. Adds
    a hint at the end."""
    message, _, path = error.partition(" - at `$")
    field = path.rstrip("`").removeprefix(".")
    fields = ", ".join(UserApplication.__struct_fields__)
    hint = f"; allowed fields: {fields}, and in [effects]: {', '.join(SinkLocation.__struct_fields__)}"
    return f"{field or 'the file'}: {message}" + (hint if "field" in message else "; write it so")


def _problems(own: UserApplication) -> Iterator[tuple[str, str]]:
    """Yields each problem of `own` as a pair: the name of the field, and a text with the problem and its remedy.

    The types of the fields were checked before.
    """
    yield from _command_problems(own)
    yield from place_problems(own.effects, own.members, [*own.environment, *own.connections])
    for name in (*own.environment, *own.connections):
        if name.startswith("KDV_") or not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
            yield f"environment.{name}", "is no name of your own for a variable; choose one that begins without KDV_"
    for name, value in own.environment.items():
        if problem := short_secret(name, value):
            yield f"environment.{name}", problem


def _command_problems(own: UserApplication) -> Iterator[tuple[str, str]]:
    try:
        words = shlex.split(own.command)
    except ValueError as error:
        yield "command", f"cannot be split into words: {error}; close each quotation mark"
        return
    if not words:
        yield "command", "is empty; write the command line of your program"
    for name in re.findall(r"\{([^{}]*)\}", own.command):
        if name not in PLACEHOLDERS:
            near = nearest(name, PLACEHOLDERS)
            yield (
                "command",
                f"has the unknown placeholder {{{name}}}; allowed: {', '.join(PLACEHOLDERS)}"
                + (f"; did you mean {near}?" if near else "; leave it out"),
            )
    named = {name: value for name, value in own.environment.items() if _SECRET_NAME.search(name)}
    urls = {password for value in own.environment.values() for password in _passwords(value)}
    if holds_password(own.command) or any(text in own.command for text in (*secrets_of(named), *urls)):
        yield "command", f"holds a password; {_LEAK}"
