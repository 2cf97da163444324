"""Files in YAML, TOML and JSON: their documents as trees of names and values."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from delivery_verifier.model.inputs import BadInput
from delivery_verifier.planning.own_settings import placeholders
from delivery_verifier.planning.own_settings.translation import printable_name

Syntax = Literal["YAML", "TOML", "JSON"]
Tree = dict[str, Any]


def documents(text: str, syntax: Syntax, field: str, typed: bool = True) -> list[Tree]:
    """Returns the documents of a text that are not empty. Only YAML allows several.

    `typed`: whether the reader of a YAML file takes yes for true and 010 for 8. Otherwise every value is a text.
    `field` is the field of the run that names the file; messages show it. Raises BadInput, which names the line, if the
    text has another syntax, or if a document is no mapping of names to values.
    """
    parsed = _parsed(text, syntax, field, typed)
    if syntax == "YAML":
        _require_single_keys(text, field)
    if any(not isinstance(document, dict) for document in parsed):
        raise BadInput(f"{field} holds no mapping of names to values; give one, or .properties syntax")
    return parsed


def _parsed(text: str, syntax: Syntax, field: str, typed: bool) -> list[Any]:
    import yaml

    try:
        if syntax == "JSON":
            return [json.loads(text)]
        if syntax == "TOML":
            return [tomllib.loads(text)]
        loader = yaml.SafeLoader if typed else yaml.BaseLoader
        parsed = [each for each in yaml.load_all(placeholders.readable(text), loader) if each not in (None, "")]
        flat({"": parsed})  # an alias may refer to what it stands in
        return parsed
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
    except json.JSONDecodeError as error:
        where = f" at line {error.lineno}"
    except tomllib.TOMLDecodeError as error:
        position = str(error).rpartition("(at ")[2].rstrip(")")  # its text may quote a value, but not this part
        where = f" at {position}" if position.startswith(("line ", "end ")) else ""
    except (ValueError, RecursionError):
        where = ""
    raise BadInput(f"{field} is no valid {syntax}{where}; correct it, or give .properties syntax")


def _require_single_keys(text: str, field: str) -> None:
    """Raises BadInput if a mapping of YAML has one key twice. Spring Boot refuses that, too (YAML 1.2, 3.2.1.3)."""
    import yaml

    nodes = yaml.compose_all(placeholders.readable(text), yaml.SafeLoader)
    waiting, visited = [node for node in nodes if node is not None], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in visited:  # an alias
            continue
        visited.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
        elif isinstance(node, yaml.MappingNode):
            keys = set[str]()
            for key, value in node.value:
                waiting.append(value)
                if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                    if key.value in keys:
                        raise BadInput(f"{field} has a key twice at line {key.start_mark.line + 1}; keep one of them")
                    keys.add(key.value)


def flat(tree: Mapping[Any, Any]) -> dict[str, str]:
    """Returns each value of the tree under its path of keys, in the way of Spring Boot: keys are joined with dots, a
    key in brackets keeps them, and the members of a list are numbered in brackets."""
    return dict(_paths(tree))


def below(tree: object, *path: str) -> Tree:
    """Returns the mapping below the keys of `path`; an empty one if there is none."""
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree if isinstance(tree, dict) else {}


def scalars(tree: Mapping[Any, Any]) -> dict[str, str]:
    """Returns the members of the tree that are no mappings. The members of a list are joined with commas, as Kafka has
    them; a list of anything but plain values is left out."""
    lists = {key: value if isinstance(value, list) else [value] for key, value in tree.items()}
    return {
        str(key): ",".join(map(_text, items))
        for key, items in lists.items()
        if not any(isinstance(item, dict | list) for item in items)
    }


def only_scalars(tree: Mapping[Any, Any], field: str) -> dict[str, str]:
    """Returns the members of the tree as `scalars` does. Raises BadInput, which shows `field`, if one has names below
    it."""
    plain = scalars(tree)
    if nested := [str(name) for name in tree if str(name) not in plain]:
        raise BadInput(f"{field}: {printable_name(nested[0])} has names below it; write each as one name, with dots")
    return plain


def _paths(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            name = str(key)
            yield from _paths(inner, f"{path}.{name}" if path and not name.startswith("[") else f"{path}{name}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _paths(item, f"{path}[{number}]")
    else:
        yield path, _text(value)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
