"""Redaction: replaces the secrets in a text. A secret is found by its value, if the value is known, or by a pattern."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from delivery_verifier.cluster.security import command_config
from delivery_verifier.host import folders

REDACTED = "[redacted]"
"""The text that replaces a secret."""
SHORTEST = 6
"""The least length, in characters, of a known secret. A shorter value is not replaced, because it may occur in ordinary
text, too."""
_WORDS = r"password|passwd|passphrase|secret|api[._-]?key|private[._-]?key|fernet[._-]?key|credentials?|jaas\.config"
_SECRET_VARIABLE = re.compile(f"{_WORDS}|token", re.IGNORECASE)
_NAMED = re.compile(
    rf"((?:{_WORDS}|(?<!run_)token|user\.info|keystore\.key)[\w.-]*\\?[\"']?\s*[=:]\s*|--(?:{_WORDS})\s+)"
    r"""(\\"[^"\n]*\\"|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|(?!null\b|true\b|false\b|\[redacted\])[^\s,;&})\]"']+)""",
    re.IGNORECASE,
)
"""Matches the name of a secret together with its value, in properties, JSON, JSON in a log, or a command line.

Does not match `run_token`, which is no secret.
"""


def _quotes(value: str) -> str:
    return value[: 2 if value.startswith('\\"') else 1] if value[0] in "\"'\\" else ""


_PATTERNS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (_NAMED, lambda match: match[1] + _quotes(match[2]) + REDACTED + _quotes(match[2])),
    (re.compile(r"(\b(?:Bearer|Basic)\s+)[\w.~+/=-]{8,}"), lambda match: match[1] + REDACTED),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"), lambda match: REDACTED),
    (re.compile(r"(://[^\s/:@]*:)[^\s/]+(?=@)"), lambda match: match[1] + REDACTED),
    (
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S),
        lambda match: REDACTED,
    ),
)


def known_secrets() -> list[str]:
    """Returns the secret values in the local Airflow's state folder, in the environment of this process, and in the
    files of the operator's own clusters.

    Longer values come first. So if one value is part of another value, `redact` replaces the longer value first.
    """
    values = {
        value
        for value in (*_airflow_secrets(), *_environment_secrets(), *command_config.known_secrets())
        if len(value) >= SHORTEST
    }
    return sorted(values, key=lambda value: (-len(value), value))


def redact(text: str, secrets: list[str], *, by_pattern: bool = True) -> tuple[str, int]:
    """Replaces each of `secrets` in `text` by `[redacted]`. Returns the new text and the number of replacements.

    With `by_pattern`, also replaces values that look like secrets, for example the value of `password=...`, or a
    private key.
    """
    count = 0
    for secret in secrets:
        count += text.count(secret)
        text = text.replace(secret, REDACTED)
    for pattern, replacement in _PATTERNS if by_pattern else ():
        text, replaced = pattern.subn(replacement, text)
        count += replaced
    return text, count


def _airflow_secrets() -> Iterator[str]:
    """Yields the secrets and passwords in the state folder of the local Airflow."""
    state = folders.state_dir()
    for file in (state / "secrets").glob("*"):
        if file.is_file():
            yield file.read_text(errors="replace").strip()
    passwords = state / "airflow" / "passwords.json"
    if passwords.is_file():
        yield from re.findall(r':\s*"([^"]+)"', passwords.read_text(errors="replace"))


def _environment_secrets() -> Iterator[str]:
    """Yields the secrets in this process's environment variables.

    They are the values of variables whose names suggest a secret, and the passwords of Airflow connections.
    """
    for name, value in os.environ.items():
        if name.startswith("AIRFLOW_CONN_"):
            yield from _connection_passwords(value)
        elif _SECRET_VARIABLE.search(name) and not Path(value).exists():
            yield value


def _connection_passwords(text: str) -> Iterator[str]:
    """Yields the passwords in the `text` of an Airflow connection, which is JSON or a URI."""
    try:
        fields = json.loads(text)
    except ValueError:
        try:
            password = urlsplit(text).password or ""
        except ValueError:
            return
        yield from (password, unquote(password))
        return
    if isinstance(fields, dict):
        extra = fields.get("extra")
        for name, value in {**fields, **(extra if isinstance(extra, dict) else {})}.items():
            if isinstance(value, str) and _SECRET_VARIABLE.search(name):
                yield value
