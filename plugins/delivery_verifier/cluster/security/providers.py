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

    If no provider is listed, `entries` are returned as they are, as Kafka does: a password may look like a placeholder.

    Raises BadInput, which shows no value, for a provider that is not known, and for a value that is not there. Of a
    placeholder in a property that may be secret, it shows at most the path of a file that exists and that others may
    read, for the remedy.
    """
    listed = [name.strip() for name in entries.get(LISTED, "").split(",") if name.strip()]
    if not listed:
        return entries
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
    is_secret = name not in names.NAMES or name in names.SECRETS
    shown = "a placeholder (not shown)" if is_secret else f"the placeholder {match[0]}"
    if provider not in kinds:
        raise BadInput(
            f"{name} has {shown} of a provider that is not listed; allowed: those that {LISTED} lists "
            f"({', '.join(kinds)})"
        )
    if kinds[provider] == "environment":
        value = os.environ.get(key)
    else:
        file = stores.path_of(name, f"{path}/{key}" if kinds[provider] == "folder" else path)
        value = _in_file(f"{name} has {shown}", file, key, kinds[provider])
        if name in names.SECRETS:
            stores.require_private(name, file, stores.OWNER_AND_GROUP, ["what its placeholder stands for"])
    if value is None:
        raise BadInput(f"{name} has {shown}, and there is no such key where it points")
    return value


def _in_file(whose: str, file: Path, key: str, kind: str) -> str | None:
    """Returns the value of `key` in a file of properties, or the content of a file in a folder. `whose` begins the
    message of a BadInput."""
    try:
        data = file.read_bytes()
        return data.decode() if kind == "folder" else javaproperties.loads(data.decode("latin-1")).get(key)
    except OSError as error:
        raise BadInput(f"{whose}, whose file cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise BadInput(f"{whose}, whose file is not in UTF-8 (not shown)") from None
    except javaproperties.InvalidUEscapeError:
        said = "whose file has a broken \\u escape (not shown): write \\u and four hexadecimal digits"
        raise BadInput(f"{whose}, {said}") from None
