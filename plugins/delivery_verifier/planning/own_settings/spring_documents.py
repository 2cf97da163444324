"""The documents of a Spring Boot file: where each property stands, which documents apply, and what Boot reads beside
the file.

Source: Spring Boot reference, "Externalized Configuration" (Profile Specific Files, Importing Additional Data, Working
With Multi-Document Files). Spellings and conditions were compared with what Boot 3.4.11 itself binds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from delivery_verifier.model.inputs import BadInput
from delivery_verifier.planning.own_settings.reading import NOT_KNOWN, Reading
from delivery_verifier.planning.own_settings.spring_names import SECTIONS, uniform
from delivery_verifier.planning.own_settings.translation import printable_name

KAFKA = ("spring", "kafka")
"""The path of the properties that are for Kafka."""
NamePath = tuple[str, ...]
"""Where a property stands, in the form in which Spring Boot compares names. Below `properties`, the last part is
Kafka's own name."""
Placed = dict[NamePath, tuple[str, str]]
"""Maps each path to the name of the property, as it was written, and its value."""

_ELEMENT = re.compile(r"\[(?P<indexed>[^\]]*)\]|(?P<plain>[^.\[\]]+)")
_PROFILES = ("spring", "profiles")
_ACTIVE = {(*_PROFILES, "active"), (*_PROFILES, "include")}
_ACTIVATE = ("spring", "config", "activate")
_ON_PROFILE = (*_ACTIVATE, "onprofile")
_IMPORT = ("spring", "config", "import")
_CLOUD = ("spring", "cloud")
_PLAIN_PROFILE = re.compile(r"!?\s*[\w.-]+")
_OF_A_PROFILE = re.compile(r"application-(?P<profile>.+?)(?P<suffix>\.(?:ya?ml|properties))?", re.IGNORECASE)
_BOOTSTRAP = re.compile(r"bootstrap(?:-.+)?\.(?:ya?ml|properties)", re.IGNORECASE)


class Documents(NamedTuple):
    """The documents of one file.

    * `merged`: the properties of all documents that always apply. If a name occurs in several, the last one counts.
    * `doubtful`: the properties of the documents of which nobody knows whether they apply.
    """

    merged: Placed
    doubtful: Placed


def name_path(name: str) -> NamePath:
    """Returns the path of the property `name` (see NamePath)."""
    elements = [match.group("indexed", "plain") for match in _ELEMENT.finditer(name)]
    plain = tuple(uniform(text) if indexed is None else indexed for indexed, text in elements)
    if plain[:2] == KAFKA:
        for index in (2, 3):
            if plain[index : index + 1] == ("properties",) and (index == 2 or plain[2] in SECTIONS):
                kafkas = ".".join(indexed if text is None else text for indexed, text in elements[index + 1 :])
                return (*plain[: index + 1], kafkas)
    return plain


def is_condition(name: str) -> bool:
    """Returns whether the property says which of Spring's profiles activate a document, or which are active."""
    path = name_path(name)
    return _is_condition(path) or path[:3] in _ACTIVE


def require_whole(file: str, field: str) -> None:
    """Raises BadInput if `file` has the name of a file that Spring Boot reads together with others.

    A profile's file, e.g. `application-prod.yml`, lies over application.yml: what that one sets, and this one does not,
    counts too. Spring Cloud's bootstrap.yml lies beneath application.yml.
    """
    if match := _OF_A_PROFILE.fullmatch(file):
        suffix = (match["suffix"] or ".yml").lower()
        base, between = f"application{suffix}", "#---" if suffix == ".properties" else "---"
        raise BadInput(
            f"{field} is a profile's file, {file}: Spring Boot lays it over {base}, which was not given, so what is in "
            f"force is not known; put both into one file, {base} first, with a line {between} between them; if there "
            f"is no {base}, give this file that name"
        )
    if _BOOTSTRAP.fullmatch(file):
        raise BadInput(
            f"{field} is {file}, which Spring Cloud reads before application.yml: what is there counts before it, so "
            "what is in force is not known; give application.yml"
        )


def documents(entries: Iterable[Mapping[str, str]], reading: Reading, role: str, field: str) -> Documents:
    """Returns the properties of the documents of one file, each given as names and values, and adds to `reading` which
    names of Kafka are left out with a document that does not apply.

    `role`: producer or consumer. Raises BadInput if a document has one property under two spellings with two values:
    Spring's choice then depends on the order in which it asks. Also raises BadInput if a document imports settings from
    elsewhere.
    """
    placed = [_by_path(document, field) for document in entries]
    active = _active(placed)
    merged: Placed = {}
    doubtful: Placed = {}
    for document in placed:
        applies = _applies(document, active)
        if applies is not False:
            _require_no_import(document, role, field)
            (merged if applies else doubtful).update(document)
            continue
        of_kafka = [name for path, (name, _) in document.items() if path[:2] == KAFKA]
        reading.leave_out(of_kafka, "in a document that applies only under a condition (spring.config.activate)")
    reading.notes += _note_on_profiles(active)
    return Documents(merged, doubtful)


def _note_on_profiles(active: set[str] | None) -> list[str]:
    """Returns a note on the files of the profiles that the file makes active. None: it leaves open which these are."""
    if active == {"default"}:
        return []
    makes = "makes profiles active" if active else "leaves open which of Spring's profiles are active"
    files = ", ".join(f"application-{profile}" for profile in sorted(active or {"PROFILE"}))
    return [
        f"the file {makes}, so Spring Boot also reads files called {files} (.yml or .properties), if there are any: "
        "they would count before this one, and are not judged"
    ]


def _require_no_import(document: Placed, role: str, field: str) -> None:
    """Raises BadInput if the document imports settings. Spring Boot takes what is imported as a document right below
    the one that imports it, so it counts before it."""
    imported = [name for path, (name, value) in document.items() if value and _imports(path, value)]
    if imported:
        raise BadInput(
            f"{field} has {printable_name(imported[0])}: what Spring Boot imports is not in this file, and counts "
            f"before it, so what this application's {role} promises is not known; {NOT_KNOWN}; or remove this name, to "
            "judge the file alone"
        )


def _imports(path: NamePath, value: str) -> bool:
    """Returns whether a property imports settings: with spring.config.import, or from a server of settings (Spring
    Cloud's Config, Consul, Kubernetes, Nacos, Vault, Azure; Apollo)."""
    if path[:3] == _IMPORT:
        return True
    if path[:1] == ("apollo",):
        return True
    if path[:2] != _CLOUD or path[2:3] == ("stream",) or "importcheck" in path:
        return False
    is_server = "config" in path[2:4] or "vault" in path[2:3] or "appconfiguration" in path
    return is_server and not (path[-1] == "enabled" and value.lower() == "false")


def _active(placed: Iterable[Placed]) -> set[str] | None:
    """Returns the profiles that the file makes active; `default` if there are none. Returns None if it does not show
    them: a group makes further ones active, and a placeholder stands for others."""
    active = set[str]()
    for document in placed:
        for path, (_, value) in document.items():
            if path[:3] in ((*_PROFILES, "group"), (*_PROFILES, "default")):
                return None
            if path[:3] in _ACTIVE:
                active |= {profile.strip() for profile in value.split(",")} - {""}
    if not all(map(_PLAIN_PROFILE.fullmatch, active)):
        return None
    return active or {"default"}


def _by_path(document: Mapping[str, str], field: str) -> Placed:
    placed: Placed = {}
    for name, value in document.items():
        before = placed.setdefault(name_path(name), (name, value))
        if before[1] != value:
            raise BadInput(
                f"{field}: {printable_name(before[0])} and {printable_name(name)} are one property for Spring Boot, "
                "and have two values; keep one of them"
            )
    return placed


def _applies(document: Placed, active: set[str] | None) -> bool | None:
    """Returns whether the document applies if the profiles `active` are. Knows single profiles, their lists, and `!`.
    None: nobody knows. Boot finds out itself on which cloud platform it runs."""
    conditions = [(path, value) for path, (_, value) in document.items() if _is_condition(path)]
    of_profiles = [(path, value) for path, value in conditions if path[:2] == _PROFILES or path[:4] == _ON_PROFILE]
    profiles = [profile.strip() for _, value in of_profiles for profile in value.split(",")]
    if profiles and active is not None and all(map(_PLAIN_PROFILE.fullmatch, profiles)):
        meets = (name[1:].strip() not in active if name.startswith("!") else name in active for name in profiles)
        if not any(meets):
            return False
    elif profiles:
        return None
    return True if len(of_profiles) == len(conditions) else None


def _is_condition(path: NamePath) -> bool:
    return path[:3] == _ACTIVATE or (path[:2] == _PROFILES and (len(path) == 2 or path[2].isdigit()))
