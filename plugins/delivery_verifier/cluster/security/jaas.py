"""JAAS configurations: the text in which Java's clients have a user name and a password (`sasl.jaas.config`).

The syntax is that of `javax.security.auth.login.Configuration`, as Kafka's `JaasConfig` reads it: a login module, the
word `required`, options `key=value` with or without quotes, and a semicolon.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from delivery_verifier.model.inputs import BadInput

PROPERTY = "sasl.jaas.config"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
MODULES = {"PLAIN": PLAIN_MODULE, "SCRAM-SHA-256": SCRAM_MODULE, "SCRAM-SHA-512": SCRAM_MODULE}
"""The login module of each SASL mechanism that has a user name and a password (Kafka's documentation, 7.4)."""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s=;"]+|[=;]', re.DOTALL)
_BREAKS = {"n": "\n", "r": "\r"}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_CLASS = re.compile(r"[A-Za-z0-9]+(?:\.[A-Za-z0-9]+)+")
_OPTIONS = {"username", "password"}


class Login(NamedTuple):
    """A user name and a password. Both are secret."""

    username: str
    password: str

    def __repr__(self) -> str:
        return "Login(hidden)"


def read(text: str) -> tuple[str, Login]:
    """Returns the login module and the user name and password in the JAAS configuration `text`.

    Raises BadInput, without any value of `text`, if it is no such configuration, or if it has other options (e.g.
    `tokenauth`) or another login module than PLAIN's and SCRAM's.
    """
    tokens = _TOKEN.findall(text)
    if len(tokens) < 3 or tokens[-1] != ";" or tokens[1].lower() != "required":
        raise BadInput(
            f"{PROPERTY} cannot be read (its value is not shown); allowed: MODULE required "
            'username="..." password="..."; with the semicolon at the end'
        )
    module, options = tokens[0], tokens[2:-1]
    if module not in MODULES.values():
        shown = module if _CLASS.fullmatch(module) else "(not shown)"
        raise BadInput(f"{PROPERTY} names the login module {shown}; allowed: {PLAIN_MODULE}, {SCRAM_MODULE}")
    if len(options) % 3 or any(sign != "=" for sign in options[1::3]):
        raise BadInput(f"{PROPERTY} has an option that cannot be read (not shown); allowed: name=value, in quotes")
    values = {name: _unquoted(value) for name, value in zip(options[::3], options[2::3], strict=True)}
    if values.keys() != _OPTIONS:
        extra = sorted(name for name in values.keys() - _OPTIONS if name.isalnum())
        finding = f"has the options {', '.join(extra)}" if extra else "lacks username or password"
        raise BadInput(f"{PROPERTY} {finding}; allowed: username and password, both and no others")
    return module, Login(**values)


def written(mechanism: str, login: Login) -> str:
    """Returns the JAAS configuration of `login` for a SASL mechanism in MODULES."""
    return f"{MODULES[mechanism]} required username={_quoted(login.username)} password={_quoted(login.password)};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def _unquoted(token: str) -> str:
    return (
        _ESCAPE.sub(lambda escape: _BREAKS.get(escape[1], escape[1]), token[1:-1]) if token.startswith('"') else token
    )
