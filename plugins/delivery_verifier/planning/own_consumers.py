"""Consumers of the user's own: explains which guarantee a consumer gives if it has the settings in the user's file.

Consumer settings often leave the discipline to the user's code. Then there is one explanation for each discipline that
the code may have. Each explanation names the condition under which the code has this discipline.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.application import Application, Discipline
from delivery_verifier.model.client import Client
from delivery_verifier.model.data import Setting
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.planning.consumers import ConsumerExplanation, explain
from delivery_verifier.planning.own_settings import client_values, clients, consumer, files, releases
from delivery_verifier.planning.own_settings.clients import ClientVersion
from delivery_verifier.planning.own_settings.reading import require_client

_ELSEWHERE = "otherwise, e.g. where records are applied by other threads while poll() goes on"
_POLLED = (
    "if your code applies all that poll() returned before it calls poll() or close() again (Apache Kafka javadoc, "
    "KafkaConsumer: automatic offset committing)"
)
_CANDIDATES: dict[tuple[Client, bool], tuple[tuple[Discipline, str], ...]] = {
    ("librdkafka", True): (("at_handover", "whatever your code does: the timer commits what was handed over"),),
    ("librdkafka", False): (
        ("store_after", "if your code stores the offset of a record after it has applied the record"),
        ("at_handover", "if your code stores the offset of a record before it has applied the record"),
    ),
    ("java", True): (("store_after", _POLLED), ("at_handover", _ELSEWHERE)),
}
"""The disciplines that the user's code may have if enable.auto.commit is true, each with its condition. The keys are a
client and the value of enable.auto.offset.store. The Java client does not have this setting. If enable.auto.commit is
false, _BY_HAND has the disciplines instead."""
_BY_HAND: tuple[tuple[Discipline, str], ...] = (
    ("commit_after", "if your code commits an offset after it has applied the records before it"),
    ("commit_first", "if your code commits an offset before it has applied the records before it"),
    (
        "database_together",
        "if your code writes effects and offsets in one transaction of a database, and starts from these offsets",
    ),
    (
        "database_compared",
        "if your code writes effects and offsets in one transaction of a database, and moves an offset only if it is "
        "still the one from which your code started",
    ),
)

_DEFAULTS: dict[Client, dict[str, Setting]] = {
    "librdkafka": {
        "auto.offset.reset": "largest",
        "enable.auto.commit": True,
        "enable.auto.offset.store": True,
        "isolation.level": "read_committed",
    },
    "java": {"auto.offset.reset": "latest", "enable.auto.commit": True, "isolation.level": "read_uncommitted"},
}
"""The defaults of the consumer settings on which the rules depend, in librdkafka since 1.2 and in the Java client since
2.1 (measured, see `releases`)."""
_ISOLATION_SINCE = (1, 2)
"""The first version of librdkafka with isolation.level. Older ones hand over records of aborted transactions, too."""
_RESETS = {"smallest": "earliest", "beginning": "earliest", "error": "earliest"}
"""Values of auto.offset.reset that the rules treat as `earliest`, because a group never jumps over a record with them.
With `error`, the consumer ends instead of jumping."""


def consumers(
    settings: Settings, application: Application | None, file: str | None, client: str | None
) -> list[ConsumerExplanation]:
    """Returns explanations of consumers. The first is about `application`, if it is not None. The others are about a
    consumer with the settings in `file`, if it is not None (see `of_file`).

    `settings`: the settings of the arm whose topic is consumed. `client`: the client for which the file was written. If
    it is None, the names in the file decide.
    """
    explained = [explain(settings, application)] if application else []
    return explained + (of_file(settings, file, client) if file else [])


def of_file(settings: Settings, file: str, client: str | None) -> list[ConsumerExplanation]:
    """Explains which guarantee a consumer with the settings in `file` gives. There is one explanation for each
    discipline that the user's code may have.

    `settings`: the settings of the arm whose topic the consumer reads. `client`: the client for which the file was
    written. If `client` is None, the property names in the file show the client. If they fit both clients, there are
    explanations for both. Raises BadInput, whose message names the file or the property.
    """
    reading = files.read_file(file, "consumer_config")
    require_client(reading, client, "consumer_config")
    own = consumer.translate(reading.settings).settings
    named = client or reading.client
    of_clients = [clients.parse(named)] if named else [ClientVersion(each) for each in _clients_of(reading.settings)]
    is_open = len(of_clients) > 1
    of_clients = _starting(of_clients, reading.settings)
    explained = []
    for chosen in of_clients:
        each = chosen.client
        full = {**_defaults(chosen), **own}
        commits, stores = (full.get(name, True) is True for name in ("enable.auto.commit", "enable.auto.offset.store"))
        which = f"with {chosen.name}, " if is_open else ""
        reset = str(full["auto.offset.reset"])
        ruled = {**full, "auto.offset.reset": _RESETS.get(reset, reset)}
        for discipline, condition in _CANDIDATES[each, stores or each == "java"] if commits else _BY_HAND:
            application = Application(name="own", summary="", discipline=discipline, consumer=ruled)
            explanation = explain(settings, application, which + condition)
            defaults = tuple(name for name in full if name not in own)
            explained.append(replace(explanation, consumer=full, defaults=defaults))
    return explained


def _starting(of_clients: list[ClientVersion], settings: Mapping[str, str]) -> list[ClientVersion]:
    """Returns those of the clients that start with the values in the file. Raises BadInput, which says why the last of
    them does not, if none does."""
    reasons = {}
    for client in of_clients:
        errors = {name: _refusal(name, text, client) for name, text in settings.items()}
        if text := next((f"{name} is {settings[name]!r}, and {errors[name]}" for name in errors if errors[name]), ""):
            reasons[client] = text
    if len(reasons) == len(of_clients):
        raise BadInput(reasons[of_clients[-1]])
    return [client for client in of_clients if client not in reasons]


def _refusal(name: str, text: str, client: ClientVersion) -> str:
    is_duration = name == "auto.offset.reset" and text.startswith(client_values.DURATION)
    since = releases.text(client_values.DURATION_SINCE)
    if is_duration and client.client == "librdkafka":
        return "librdkafka does not have it; allowed: earliest, latest, error"
    if is_duration and client.version and client.version < client_values.DURATION_SINCE:
        allowed = f"allowed: earliest, latest, none, or --written-for java:{since} or later"
        return f"the Java client has it since {since}; {allowed}"
    return client_values.refusal(name, text, client.client)


def _defaults(client: ClientVersion) -> dict[str, Setting]:
    defaults = _DEFAULTS[client.client]
    if client.client == "librdkafka" and client.release.first < _ISOLATION_SINCE:
        return {**defaults, "isolation.level": "read_uncommitted"}
    return defaults


def _clients_of(names: Collection[str]) -> tuple[Client, ...]:
    """Returns the clients for which a file with these property `names` may have been written: one or both."""
    present = set(names)
    if "enable.auto.offset.store" in present or clients.LIBRDKAFKA_ONLY & present:
        return ("librdkafka",)
    return ("java",) if present & (consumer.JAVA_ONLY.keys() | clients.JAVA_ONLY) else ("librdkafka", "java")
