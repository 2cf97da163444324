"""The reader of people's own settings: finds out which format a text has, and reads it.

`kdv explain`, `kdv plan`, `kdv run`, `kdv init` and the Airflow form all read through this module. A format that is not
read is refused in one sentence, which names it.
"""

from __future__ import annotations

import re
from pathlib import Path

from delivery_verifier.model.inputs import BadInput
from delivery_verifier.planning.own_settings import (
    client_log,
    flat_files,
    fluent_bit,
    known_names,
    properties,
    secret_values,
    shippers,
    spring,
    spring_documents,
    topic,
    topic_files,
    tree_files,
    trees,
)
from delivery_verifier.planning.own_settings.reading import NO_VALUE, Reading, Role, role_of
from delivery_verifier.planning.own_settings.translation import printable_name
from delivery_verifier.planning.own_settings.trees import Syntax

_SUFFIXES: dict[str, Syntax] = {".yml": "YAML", ".yaml": "YAML", ".toml": "TOML", ".json": "JSON"}
_UTF_8_MARK = "\u00ef\u00bb\u00bf"
"""UTF-8's byte order mark, decoded as Latin-1."""
_LOGSTASH = re.compile(r"^\s*(?:input|filter|output)\s*\{", re.MULTILINE)
_FLUENT_BIT = re.compile(
    r"^\s*\[(?:SERVICE|INPUT|OUTPUT|FILTER)\]\s*$|^@(?:INCLUDE|SET) ", re.MULTILINE | re.IGNORECASE
)
_BLOCK = re.compile(r"^\s*[\w.\"-]+\s*[=:]?\s*\{\s*$|^\s*<[?!\w]", re.MULTILINE)
"""Matches what begins a block of braces, e.g. in HOCON, and a tag of XML."""
_TOML = re.compile(r"^\s*\[\[?[\w.\"' -]+\]\]?\s*(?:#.*)?$", re.MULTILINE)
_YAML = re.compile(r"^(?:---|[\w.\"'-]+:)[ \t]*(?:#.*)?\r?\n(?:[ \t]*(?:#.*)?\r?\n)*(?:[ ]+|- )\S", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\$\{|\$[A-Z_]+|\{\{|%\{|@[\w.-]+@")
"""Matches a placeholder of any framework, shell or template."""


def read_file(path: str, field: str) -> Reading:
    """Returns the settings in the file at `path`.

    Java's encoding of .properties files is Latin-1 with escapes. `field` is the field of the run that names the file;
    messages show it. Raises BadInput if the file cannot be read or its content is refused.
    """
    try:
        content = Path(path).expanduser().read_bytes()
    except OSError as error:
        raise BadInput(
            f"{field} is {path!r}: cannot be read ({error.strerror}); allowed: a file in .properties syntax, YAML, "
            "JSON or TOML; docs/settings.md lists the formats"
        ) from None
    syntax = _SUFFIXES.get(Path(path).suffix.lower())
    latin_1 = content.decode("latin-1").removeprefix(_UTF_8_MARK)
    if syntax is None and not path.lower().endswith(".properties"):
        syntax = syntax_of(latin_1)
    if syntax is not None:
        documents = trees.documents(content.decode("utf-8-sig", "replace"), syntax, field)
        if syntax == "YAML" and any(fluent_bit.of_tree(document) for document in documents):
            documents = trees.documents(content.decode("utf-8-sig", "replace"), syntax, field, typed=False)
        if any(spring.is_spring(trees.flat(document)) for document in documents):
            spring_documents.require_whole(Path(path).name, field)
        return _complete(tree_files.read(documents, role_of(field), field), field)
    if spring.is_spring(properties.entries_of(latin_1, field)):
        spring_documents.require_whole(Path(path).name, field)
    elif content.decode("latin-1") != latin_1:
        raise BadInput(
            f"{field} begins with a byte order mark, which Java takes for a part of the first name; save it without one"
        )
    return read_text(latin_1, field)


def read_text(text: str, field: str) -> Reading:
    """Returns the settings in `text`, which has .properties syntax or that of Logstash or Fluent Bit, was printed by
    Kafka's tools, or logged by the Java client. `field`: as in `read_file`. Raises BadInput if the text is refused."""
    role = role_of(field)
    if topic_files.is_described(text):
        return _complete(topic_files.described(text, role, field), field)
    if client_log.is_log(text):
        return _complete(client_log.read(text, role, field), field)
    if _FLUENT_BIT.search(text):
        return _complete(fluent_bit.read(fluent_bit.of_text(text), role, field), field)
    if _LOGSTASH.search(text):
        return _complete(shippers.logstash(text, role, field), field)
    if _BLOCK.search(text):
        raise BadInput(f"{field} has blocks of braces or tags, in a format that is not read; give .properties syntax")
    return _complete(_of_properties(text, role, field), field)


def foreign_syntax(text: str) -> str | None:
    """Returns what the syntax of `text` is, in words, if it is not that of .properties files. Returns None if it is."""
    if _FLUENT_BIT.search(text):
        return "a file of Fluent Bit"
    return "a pipeline of Logstash" if _LOGSTASH.search(text) else syntax_of(text)


def syntax_of(text: str) -> Syntax | None:
    """Returns YAML, TOML or JSON if the text looks like that, and like none of the syntaxes of `read_text`."""
    if text.lstrip().startswith("{"):
        return "JSON"
    if _FLUENT_BIT.search(text) or _LOGSTASH.search(text) or topic_files.is_described(text):
        return None
    if _TOML.search(text):
        return "TOML"
    return "YAML" if _YAML.search(text) else None


def _of_properties(text: str, role: Role, field: str) -> Reading:
    entries = properties.entries_of(text, field)
    if spring.is_spring(entries):
        return spring.read([properties.entries_of(each, field) for each in documents_of(text)], role, field)
    return flat_files.read(entries, role, field)


_DOCUMENT = re.compile(r"[#!]---[ \t\r]*\n?")


def documents_of(text: str) -> list[str]:
    """Splits the text of an application.properties file into its documents. A line `#---` or `!---` ends a document,
    unless a comment with the same sign stands in the line before or behind it (Spring Boot reference, "Working With
    Multi-Document Files")."""
    documents, lines = [""], text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        beside = (*lines[max(number - 1, 0) : number], *lines[number + 1 : number + 2])
        if _DOCUMENT.fullmatch(line) and not any(other.startswith(line[0]) for other in beside):
            documents.append("")
        else:
            documents[-1] += line
    return documents


def _complete(reading: Reading, field: str) -> Reading:
    """Returns `reading`. Leaves out values with placeholders, if they play no part. Raises BadInput if they do, and for
    a value that may hold a secret: the messages of all later checks quote values."""
    secret_values.require_none_quotable(reading.settings, field)
    role = role_of(field)
    if logged := [name for name, value in reading.settings.items() if value == "null" and known_names.owner(name)]:
        raise BadInput(
            f"{field}: {logged[0]} is null, as the Java client logs it where there is no value; leave it out, or give "
            "the whole log, with its line ProducerConfig values or ConsumerConfig values"
        )
    for name, value in list(reading.settings.items()):
        if not _PLACEHOLDER.search(value):
            continue
        if not known_names.is_judged(name, role) or name in topic.RUN_OPTIONS:
            del reading.settings[name]
            reading.leave_out([name], NO_VALUE)
            continue
        raise BadInput(f"{field}: {printable_name(name)} is a placeholder. Write the value in its place")
    return reading
