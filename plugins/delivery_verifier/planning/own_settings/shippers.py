"""Settings of log shippers: the part of their files that reaches a Kafka client. Fluent Bit has a module of its own.

Vector uses librdkafka, Logstash the Java client. Beats and Telegraf use sarama, of which the contract has
no rules. Sources: vector's `sinks/kafka/config.rs`, and `outputs/kafka.rb` of logstash-integration-kafka.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from delivery_verifier.model.inputs import BadInput
from delivery_verifier.planning.own_settings import known_names, trees
from delivery_verifier.planning.own_settings.producer_names import SAME
from delivery_verifier.planning.own_settings.reading import Reading, Role, require_no_transactional_id
from delivery_verifier.planning.own_settings.translation import printable_name

_VECTOR = {
    "message_timeout_ms": "message.timeout.ms",
    "socket_timeout_ms": "socket.timeout.ms",
    "compression": "compression.codec",
}
"""Vector's own names of librdkafka's properties."""
_VECTOR_DEFAULTS = {"message.timeout.ms": "300000", "socket.timeout.ms": "60000", "compression.codec": "none"}
"""What vector sets where the file says nothing."""
_VECTOR_BATCH = {
    "timeout_secs": "queue.buffering.max.ms",
    "max_events": "batch.num.messages",
    "max_bytes": "batch.size",
}
_LOGSTASH = frozenset(
    """
    acks batch_size bootstrap_servers buffer_memory client_dns_lookup client_id compression_type key_serializer
    linger_ms max_request_size metadata_max_age_ms receive_buffer_bytes reconnect_backoff_ms request_timeout_ms retries
    retry_backoff_ms send_buffer_bytes value_serializer security_protocol sasl_mechanism sasl_jaas_config
    """.split()
)
"""The options that Logstash's kafka output passes on. Kafka's names have dots."""
_LOGSTASH_DEFAULTS = {"acks": "1", "linger.ms": "0", "request.timeout.ms": "40000"}
"""Those defaults of Logstash's kafka output that are not the Java client's."""


def vector_sinks(tree: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the Kafka sinks in a file of vector, by name. A sink whose type is a variable is one if it has options of
    librdkafka."""
    sinks = {name: sink for name, sink in trees.below(tree, "sinks").items() if isinstance(sink, dict)}
    return {
        name: sink
        for name, sink in sinks.items()
        if sink.get("type") == "kafka" or ("$" in str(sink.get("type")) and "librdkafka_options" in sink)
    }


def vector(sinks: Mapping[str, dict[str, Any]], role: Role, field: str) -> Reading:
    """Returns the settings that vector gives librdkafka. Raises BadInput for several sinks, and for another role."""
    require_producer(role, field, "a file of vector")
    sink = only(sinks, field, "vector")
    reading = Reading(client="librdkafka")
    options = _vector_options(sink, field)
    own = _VECTOR_DEFAULTS | {_VECTOR[name]: value for name, value in trees.scalars(sink).items() if name in _VECTOR}
    for name, value in trees.scalars(trees.below(sink, "batch")).items():
        if name in _VECTOR_BATCH:
            kafkas = _VECTOR_BATCH[name]
            own[kafkas] = _in_ms(value) if name == "timeout_secs" else value
            if kafkas in options:
                raise BadInput(
                    f"{field} sets {kafkas} twice, by batch.{name} and in librdkafka_options, and vector does not "
                    "start with both; remove one"
                )
    reading.put_all({name: value for name, value in own.items() if name not in options})
    reading.put_all(_without_second_names(reading, options, own, field))
    require_no_transactional_id(reading, field, "vector")
    rest = [name for name in sink if name not in {*_VECTOR, "librdkafka_options", "batch"}]
    leave_out_own(reading, rest, "vector", "below librdkafka_options")
    return reading


def _vector_options(sink: Mapping[str, Any], field: str) -> dict[str, str]:
    """Returns librdkafka_options. vector reads them as a map of texts to texts, so its reader (serde) refuses every
    other value. Raises BadInput for one."""
    options = trees.below(sink, "librdkafka_options")
    for name, value in options.items():
        if not isinstance(value, str):
            path = next(iter(trees.flat({name: value})), str(name))
            raise BadInput(
                f"{field}: {printable_name(path)} in librdkafka_options is no text, and vector does not start with "
                "it; write its value in quotes, and its whole name, with dots, in quotes, too"
            )
    return {str(name): str(value) for name, value in options.items()}


def _without_second_names(
    reading: Reading, options: Mapping[str, str], own: Mapping[str, str], field: str
) -> dict[str, str]:
    """Returns `options` without second names of what vector sets itself (`own`), which are left out.

    vector keeps both names in a hash map, and librdkafka takes the one that comes last: nobody knows which. Raises
    BadInput if a promise depends on it.
    """
    first = {SAME.get(name, name): name for name in own}
    doubtful = {
        name: first[SAME.get(name, name)]
        for name, value in options.items()
        if name not in own and SAME.get(name, name) in first and own[first[SAME.get(name, name)]] != value
    }
    for name, owned in doubtful.items():
        if known_names.is_judged(name, "producer"):
            raise BadInput(
                f"{field}: {name} in librdkafka_options is another name of {owned}, which vector sets itself, and "
                f"which of both counts is not known; write {owned} there instead"
            )
    reading.leave_out(doubtful, "vector sets it itself under another name; which of both counts is not known")
    return {name: value for name, value in options.items() if name not in doubtful}


_SIGN = re.compile(r"""#[^\n]*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|=>|[{}\[\],]|[^\s{}\[\],#"'=]+|=""")


def logstash(text: str, role: Role, field: str) -> Reading:
    """Returns the settings that Logstash gives the Java client. Raises BadInput if the text has no Kafka output or
    several, and for another role."""
    require_producer(role, field, "a pipeline of Logstash")
    signs = [sign for sign in _SIGN.findall(text) if not sign.startswith("#")]
    output = only(numbered(_logstash_outputs(signs)), field, "Logstash")
    reading = Reading(client="java")
    reading.put_all({name.replace("_", "."): value for name, value in output.items() if name in _LOGSTASH})
    leave_out_own(reading, [name for name in output if name not in _LOGSTASH], "Logstash", "")
    reading.lay_beneath(_LOGSTASH_DEFAULTS, "Logstash")
    if reading.settings["acks"] not in ("0", "1"):
        reading.settings["enable.idempotence"] = "false"
        reading.notes.append(
            "enable.idempotence=false: Logstash has no option for it, and may have a client before 3.0"
        )
    reading.notes.append("Logstash itself sends a batch again that failed: see the class of faults `resend`")
    return reading


def _logstash_outputs(signs: list[str]) -> Iterator[dict[str, str]]:
    """Yields the options of each `kafka { ... }` inside `output { ... }`."""
    path: list[str] = []
    options: dict[str, str] = {}
    for index, sign in enumerate(signs):
        before = signs[index - 1] if index else ""
        if sign in "{[":
            path.append(before)
            if path[:1] == ["output"] and before == "kafka":
                options = {}
        elif sign in "}]":
            if path[:1] == ["output"] and path[-1:] == ["kafka"]:
                yield options
            path = path[:-1]
        elif sign == "=>" and path[-1:] == ["kafka"] and index + 1 < len(signs):
            value = signs[index + 1]
            is_list = value in "{[" or before in options  # Logstash makes a list of an option that it has twice
            options[before] = "" if is_list else value.strip("\"'")


def only(outputs: Mapping[str, dict[str, Any]], field: str, framework: str) -> dict[str, Any]:
    """Returns the only member of `outputs`. Raises BadInput if there are none or several."""
    if len(outputs) != 1:
        names = f": {', '.join(outputs)}" if outputs else ""
        raise BadInput(f"{field} has {len(outputs)} Kafka outputs of {framework}{names}; allowed: 1")
    return next(iter(outputs.values()))


def numbered(outputs: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns the outputs by number, from 1."""
    return {str(number): each for number, each in enumerate(outputs, 1)}


def _in_ms(seconds: str) -> str:
    try:
        return str(int(float(seconds) * 1000))
    except ValueError:
        return seconds


def require_producer(role: Role, field: str, what: str) -> None:
    """Raises BadInput for another role than the producer. `what`: the file, in words."""
    if role != "producer":
        raise BadInput(f"{field} is {what}, of which only the producer is read; give .properties syntax")


def leave_out_own(reading: Reading, names: list[str], framework: str, where: str) -> None:
    """Leaves out names that do not reach the client. Says apart which of them are a producer's, and have no effect."""
    kafkas = [name for name in names if known_names.spelt(name, "producer") and not known_names.is_connection(name)]
    would = f"; {where} they would have one" if where else ""
    reading.leave_out(kafkas, f"{framework} does not read these names here, so they have no effect{would}")
    reading.leave_out([name for name in names if name not in kafkas], f"{framework}'s own")
