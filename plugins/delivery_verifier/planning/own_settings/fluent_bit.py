"""Settings of Fluent Bit's Kafka output, in its classic syntax and in YAML. Its client is librdkafka.

Source: Fluent Bit's manual ("Kafka" output, "Commands", "Environment variables") and `flb_cf_fluentbit.c`: an included
file adds sections of its own, and no properties to the section in which it is included. A variable that the file
itself sets counts before the environment. `flb_cf_key_translate` says which name counts, and `flb_kafka.c` hands the
properties to librdkafka in the order of the file, so the last one counts. Every value in YAML is a text (libyaml).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from delivery_verifier.model.inputs import BadInput
from delivery_verifier.planning.own_settings import trees
from delivery_verifier.planning.own_settings.reading import Reading, Role, require_no_transactional_id
from delivery_verifier.planning.own_settings.shippers import leave_out_own, numbered, only, require_producer

_PREFIX = "rdkafka."
_VARIABLE = re.compile(r"\$\{([^{}]*)\}")


class Pipeline(NamedTuple):
    """A file of Fluent Bit.

    * `outputs`: the properties of each output, of any kind.
    * `included`: the files that it includes.
    * `variables`: maps each variable to all values that the file gives it.
    """

    outputs: list[dict[str, str]]
    included: list[str]
    variables: dict[str, list[str]]


def of_text(text: str) -> Pipeline:
    """Returns the pipeline in a text in the classic syntax."""
    pipeline = Pipeline([], [], {})
    is_output = False
    for line in text.splitlines():
        if line.lstrip().startswith("@"):
            command, _, argument = line.lstrip().partition(" ")
            if command.upper() == "@INCLUDE":
                pipeline.included.append(argument.strip())
            elif command.upper() == "@SET":
                name, _, value = argument.partition("=")
                pipeline.variables.setdefault(name.strip(), []).append(value.strip())
        elif head := re.fullmatch(r"\s*\[(\w+)\]\s*", line):
            is_output = head[1].upper() == "OUTPUT"
            if is_output:
                pipeline.outputs.append({})
        elif is_output and (pair := line.split(None, 1)) and not pair[0].startswith("#"):
            pipeline.outputs[-1][pair[0].lower()] = pair[1].strip() if len(pair) > 1 else ""
    return pipeline


def of_tree(tree: Mapping[str, Any]) -> Pipeline | None:
    """Returns the pipeline in a YAML file; None if the file is none of Fluent Bit's."""
    outputs = trees.below(tree, "pipeline").get("outputs")
    included = tree.get("includes")
    is_main = isinstance(included, list) and not tree.keys().isdisjoint({"pipeline", "service"})
    if not isinstance(outputs, list) and not is_main:
        return None
    return Pipeline(
        [_plain(output) for output in outputs or [] if isinstance(output, dict)],
        [str(file) for file in included] if isinstance(included, list) else [],
        _variables(tree.get("env")),
    )


def _plain(output: Mapping[str, Any]) -> dict[str, str]:
    """Returns the properties of an output. One with names below it has an empty value: Fluent Bit does not read it."""
    plain = {**dict.fromkeys(map(str, output), ""), **trees.scalars(output)}
    return {_translated(name): value for name, value in plain.items()}


def _translated(name: str) -> str:
    """Returns the name that Fluent Bit gives a property in YAML: it turns camelCase into snake_case."""
    if not name[:1].islower():
        return name
    return name.lower() if "_" in name else re.sub("(?<=.)([A-Z])", r"_\1", name).lower()


def _variables(env: Any) -> dict[str, list[str]]:
    """Returns the variables of the section `env`: a mapping, or a list of entries with a name and a value or a URI."""
    if isinstance(env, dict):
        return {name: [value] for name, value in trees.scalars(env).items()}
    values: dict[str, list[str]] = {}
    for entry in env if isinstance(env, list) else []:
        if isinstance(entry, dict) and "value" in entry:
            values.setdefault(str(entry.get("name")), []).append(trees.scalars(entry)["value"])
    return values


def read(pipeline: Pipeline, role: Role, field: str) -> Reading:
    """Returns the settings that Fluent Bit gives librdkafka. Raises BadInput for another role, and if the file has no
    Kafka output, or several."""
    require_producer(role, field, "a file of Fluent Bit")
    output = only(numbered(_kafka_outputs(pipeline, field)), field, "Fluent Bit")
    reading = Reading(client="librdkafka")
    named = {name: value for name, value in output.items() if name.lower().startswith(_PREFIX)}
    reading.put_all({name[len(_PREFIX) :]: value for name, value in named.items()})
    require_no_transactional_id(reading, field, "Fluent Bit")
    leave_out_own(reading, [name for name in output if name not in named], "Fluent Bit", f"with {_PREFIX} before them")
    if pipeline.included:
        reading.notes.append(
            "the file includes others, which were not given: a Kafka output that stands there is not judged"
        )
    return reading


def _kafka_outputs(pipeline: Pipeline, field: str) -> list[dict[str, str]]:
    """Returns the outputs to Kafka, with the variables that are known replaced. Raises BadInput if there are none here,
    but may be in an included file."""
    outputs = [{name: _replaced(value, pipeline) for name, value in output.items()} for output in pipeline.outputs]
    of_kafka = [output for output in outputs if _is_kafka(output.items())]
    if not of_kafka and pipeline.included:
        raise BadInput(
            f"{field} has no Kafka output of Fluent Bit, but includes other files, which were not given; give the file "
            "in which the output stands"
        )
    return of_kafka


def _replaced(value: str, pipeline: Pipeline) -> str:
    """Returns `value` with its variables replaced, if the file sets each of them once, and includes no other file that
    may set them, too."""

    def known(match: re.Match[str]) -> str:
        values = pipeline.variables.get(match[1], [])
        return values[0] if len(values) == 1 and not pipeline.included else match[0]

    return _VARIABLE.sub(known, value)


def _is_kafka(properties: Iterable[tuple[str, str]]) -> bool:
    """Returns whether an output with these properties writes to Kafka, or may: a variable can stand for its name."""
    lower = [(name.lower(), value.lower()) for name, value in properties]
    names = [value for name, value in lower if name == "name"]
    return "kafka" in names or ("${" in "".join(names) and any(name.startswith(_PREFIX) for name, _ in lower))
