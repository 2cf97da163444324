"""The applications of the catalogue: consumers under test. Each has settings and a discipline, which says when the
application lets go of a record (see `DISCIPLINES`). The module also has functions that describe an application in
words."""

from __future__ import annotations

from collections.abc import Mapping

from delivery_verifier.model.application import DISCIPLINES, REQUIRED, TIMED, Application, Discipline
from delivery_verifier.model.client import VersionedClient
from delivery_verifier.model.data import Setting, setting_text

_CONSUMER: dict[str, Setting] = {
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 1000,
    "max.poll.interval.ms": 300000,
    "auto.commit.interval.ms": 1000,
    "group.protocol": "classic",
    "partition.assignment.strategy": "range",
}


_PRODUCER: dict[str, Setting] = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 5,
    "delivery.timeout.ms": 60000,
}
_TRANSACTIONAL: dict[str, Setting] = {"transactional.id": "kdv", "transaction.timeout.ms": 60000}
_OUTPUTS: dict[Discipline, dict[str, Setting]] = {
    "transform_first": _PRODUCER,
    "transform": _PRODUCER,
    "transform_transactional": _PRODUCER | _TRANSACTIONAL,
    "transform_assigned": _PRODUCER | _TRANSACTIONAL,
    "transform_fenced": _PRODUCER | _TRANSACTIONAL,
}
"""The producer settings of transforms, i.e. applications that write to an output topic."""


def application_of(discipline: Discipline, summary: str, **consumer: Setting) -> Application:
    """Returns an application with the discipline `discipline`. The name of the application is the name of the
    discipline.

    `consumer` holds consumer settings. In the names of these settings, a `_` stands for a dot. All other consumer
    settings come from `_CONSUMER` and from the discipline. `summary` describes the application to people.
    """
    named = {key.replace("_", "."): value for key, value in consumer.items()}
    commits, stores = TIMED[discipline]
    timer: dict[str, Setting] = {"enable.auto.commit": commits, "enable.auto.offset.store": stores}
    return Application(
        name=discipline,
        summary=summary,
        discipline=discipline,
        consumer=_CONSUMER | timer | named,
        batch=10,
        producer=_OUTPUTS.get(discipline, {}),
    )


APPLICATIONS: dict[str, Application] = {
    application.name: application
    for application in (
        application_of("at_handover", "librdkafka's defaults: a timer commits what was handed over, applied or not."),
        application_of("commit_first", "At most once: commits a batch, and then applies it."),
        application_of("commit_after", "At least once: applies a batch, and then commits it."),
        application_of("store_after", "At least once: applies a record, and then stores its offset for the timer."),
        application_of("transform_first", "At most once: commits a batch, and then writes it to an output topic."),
        application_of("transform", "At least once: writes a batch to an output topic, and then commits it."),
        application_of(
            "transform_transactional",
            "Exactly once: writes a batch to an output topic and commits it in one transaction.",
        ),
        application_of("database_apart", "Into SQLite: a transaction for the rows, and another for the offset."),
        application_of("database_together", "Into SQLite: rows and offset in one transaction."),
        application_of(
            "database_compared", "Into SQLite: rows and offset in one transaction, if the offset is as left."
        ),
        application_of(
            "transform_assigned",
            "As transform_transactional, with assign(): a process that was replaced is not fenced.",
        ),
        application_of(
            "transform_fenced",
            "Exactly once: as transform_assigned, but its successor gets its transactional.id.",
        ),
    )
}
"""The applications by name. If an application commits by the client's timer, the timer commits once a second."""


MEMBERS_CLIENT = "client of the members"
"""The name under which tables show the client of an application's members. `client` is that of an arm's producers."""


def application_properties(application: Application | None) -> dict[str, Setting]:
    """Returns the properties of an application that a run tests: discipline, sizes and settings, by name. Returns an
    empty dictionary if `application` is None."""
    if application is None:
        return {}
    own = {"discipline": application.discipline, "members": application.members, "records at a time": application.batch}
    client = {} if application.discipline == "own" else {MEMBERS_CLIENT: application.versioned_client.words}
    output = {f"output {name}": value for name, value in application.producer.items()}
    return {**client, **own, **application.consumer, **output}


def application_lines(application: Application | None) -> list[str]:
    """Returns lines of text about an arm's application: what the application does, its consumer settings and, for a
    transform, its producer settings.

    For a user application, returns only the first of these lines. For None, returns no lines.
    """
    if application is None:
        return []
    members = f"{application.members} member{'s' if application.members > 1 else ''}"
    if application.discipline == "own":
        return [f"applied by {application.name}: {DISCIPLINES['own']}; {members}"]
    settings = ", ".join(f"{name}={setting_text(value)}" for name, value in in_order(application.consumer).items())
    return [
        f"applied by {name_and_discipline(application.name, application.discipline)}: "
        f"{DISCIPLINES[application.discipline]}; {members}{_client(application)}, "
        f"at most {application.batch} records at a time",
        f"consumer settings: {settings}",
        *([f"producer settings: {_in_words(application.producer)}"] if application.producer else []),
    ]


def _client(application: Application) -> str:
    """Returns in words which client the members have, if it is not the installed librdkafka."""
    client = application.versioned_client
    if client == VersionedClient():
        return ""
    return f" with {client.words}{' and the same settings by its own names' if client.client == 'java' else ''}"


def _in_words(settings: Mapping[str, Setting]) -> str:
    return ", ".join(f"{name}={setting_text(value)}" for name, value in sorted(settings.items()))


def in_order(consumer: Mapping[str, Setting]) -> dict[str, Setting]:
    """Returns the consumer settings `consumer` in another order. First come the settings on which delivery depends.
    Then come the others, sorted by name."""
    first = [name for name in REQUIRED if name in consumer]
    return {name: consumer[name] for name in (*first, *sorted(consumer.keys() - set(first)))}


def name_and_discipline(name: str, discipline: Discipline) -> str:
    """Returns `name`, the name of an application. If the discipline has a different name, adds its name in
    parentheses."""
    return name if name == discipline else f"{name} ({discipline})"


def profile_and_application(profile: str, application: str) -> str:
    """Returns a name for what an arm tests: the name of its profile and, if `application` is not empty, of its
    application."""
    return f"{profile}, applied by {application}" if application else profile
