"""The secrets that are known on this host, which `host.redaction` takes out of texts."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from delivery_verifier.cluster.security import command_config
from delivery_verifier.host import folders
from delivery_verifier.host.redaction import SECRET_VARIABLE

SHORTEST = 6
"""The least length, in characters, of a known secret. A shorter value is not replaced, because it may occur in ordinary
text, too."""


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
        elif SECRET_VARIABLE.search(name) and not Path(value).exists():
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
            if isinstance(value, str) and SECRET_VARIABLE.search(name):
                yield value
