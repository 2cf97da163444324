"""Consumers of the user's own: what a consumer with the settings of a file gives.

Consumer settings often leave the discipline to the user's code. Then every discipline that the code may have is
explained, with its condition.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.application import Application, Discipline
from delivery_verifier.model.data import Setting
from delivery_verifier.model.scenario import Client
from delivery_verifier.planning.consumers import ConsumerExplanation, explain
from delivery_verifier.planning.own_settings import clients, consumer, properties

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
"""Maps a client and enable.auto.offset.store to the disciplines that the user's code may have with enable.auto.commit.
Each has its condition. The Java client has no enable.auto.offset.store. Without enable.auto.commit the disciplines are
those of _BY_HAND."""
_BY_HAND: tuple[tuple[Discipline, str], ...] = (
    ("commit_after", "if your code commits an offset after it has applied the records before it"),
    ("commit_first", "if your code commits an offset before it has applied the records before it"),
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
"""The defaults of the consumer settings on which the rules depend, in librdkafka 2.16 and in the Java client 4.x."""
_RESETS = {"smallest": "earliest", "beginning": "earliest", "error": "earliest"}
"""Maps words for auto.offset.reset to the word `earliest` if nothing is jumped over with them. With `error` a consumer
ends instead."""


def consumers(
    settings: Settings, application: Application | None, file: str | None, client: Client | None
) -> list[ConsumerExplanation]:
    """Returns what `application` gives, and what a consumer with the settings in `file` gives. Each may be None.

    The other parameters are those of `of_file`.
    """
    explained = [explain(settings, application)] if application else []
    return explained + (of_file(settings, file, client) if file else [])


def of_file(settings: Settings, file: str, client: Client | None) -> list[ConsumerExplanation]:
    """Returns what a consumer with the settings in `file` gives, for each discipline that the user's code may have.

    `settings`: those of the arm behind which it stands. `client`: the client for which the file was written. If it is
    None, the names decide. If they do not, the result is about both clients. Raises BadInput, which names the file or
    the property.
    """
    entries = properties.read_file(file, "consumer_config")
    own = consumer.translate(entries).settings
    of_clients = (client,) if client else _clients_of(entries)
    explained = []
    for each in of_clients:
        full = {**_DEFAULTS[each], **own}
        commits, stores = (full.get(name, True) is True for name in ("enable.auto.commit", "enable.auto.offset.store"))
        which = f"with {clients.CLIENT_NAMES[each]}, " if len(of_clients) > 1 else ""
        reset = str(full["auto.offset.reset"])
        ruled = {**full, "auto.offset.reset": _RESETS.get(reset, reset)}
        for discipline, condition in _CANDIDATES[each, stores or each == "java"] if commits else _BY_HAND:
            application = Application(name="own", summary="", discipline=discipline, consumer=ruled)
            explanation = explain(settings, application, which + condition)
            defaults = tuple(name for name in full if name not in own)
            explained.append(replace(explanation, consumer=full, defaults=defaults))
    return explained


def _clients_of(names: Collection[str]) -> tuple[Client, ...]:
    """Returns the clients that know all property `names`, as far as the names tell."""
    present = set(names)
    if "enable.auto.offset.store" in present or clients.LIBRDKAFKA_ONLY & present:
        return ("librdkafka",)
    return ("java",) if present & (consumer.JAVA_ONLY.keys() | clients.JAVA_ONLY) else ("librdkafka", "java")
