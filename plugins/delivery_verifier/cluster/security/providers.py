"""Placeholders `${provider:path:key}` in a file of properties, which Java's clients resolve (KIP-297, KIP-421).

Kafka's own three providers are read here: files of properties, folders, and environment variables. Any other provider
is refused by name, because its class would have to be loaded and run.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import javaproperties

from delivery_verifier.cluster.security import names, stores
from delivery_verifier.model.inputs import BadInput

LISTED = "config.providers"
_PACKAGE = "org.apache.kafka.common.config.provider."
KNOWN = {
    f"{_PACKAGE}FileConfigProvider": "file",
    f"{_PACKAGE}DirectoryConfigProvider": "folder",
    f"{_PACKAGE}EnvVarConfigProvider": "environment",
}
_PLACEHOLDER = re.compile(r"\$\{([^}:]*):(?:([^}]*?):)?([^}:]*)\}")
"""Kafka's own pattern (`ConfigTransformer`): the provider, a path that may be missing, and a key."""


def resolved(entries: dict[str, str], source: str) -> dict[str, str]:
    """Returns `entries` with the values in place of their placeholders, and without the properties of the providers.

    Raises BadInput, which shows no value, for a provider that is not known, and for a value that is not there.
    """
    listed = [name.strip() for name in entries.get(LISTED, "").split(",") if name.strip()]
    kinds = {name: _kind(entries, name, source) for name in listed}
    others = {name: value for name, value in entries.items() if not name.startswith(LISTED)}
    return {name: _resolved(name, value, kinds) for name, value in others.items()}


def _resolved(name: str, value: str, kinds: dict[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda match: _value(match, name, kinds), value)


def _kind(entries: dict[str, str], provider: str, source: str) -> str:
    class_name = entries.get(f"{LISTED}.{provider}.class", "")
    if class_name not in KNOWN:
        raise BadInput(f"{source}: {LISTED}.{provider}.class is {class_name!r}; allowed: {', '.join(KNOWN)}")
    return KNOWN[class_name]


def _value(match: re.Match[str], name: str, kinds: dict[str, str]) -> str:
    provider, path, key = match.groups(default="")
    if provider not in kinds:
        raise BadInput(
            f"{name} has a placeholder of the provider {provider!r}; allowed: those that {LISTED} lists "
            f"({', '.join(kinds) or 'it lists none'})"
        )
    file = Path(path) / key if kinds[provider] == "folder" else Path(path)
    if name in names.SECRETS and file.is_file():
        stores.require_private(name, file, stores.OWNER_AND_GROUP, [key])
    if kinds[provider] == "environment":
        value = os.environ.get(key)
    elif kinds[provider] == "folder":
        value = stores.content(name, str(file)).decode() if file.is_file() else None
    else:
        value = javaproperties.loads(stores.content(name, path).decode("latin-1")).get(key)
    if value is None:
        raise BadInput(f"{name}: there is no {key!r} where its placeholder {match[0]} points")
    return value
