"""The applications of the catalogue: consumers under test, each with its discipline and its settings. Each is one
literal."""

from __future__ import annotations

from delivery_verifier.model.application import TIMED, Application, Discipline
from delivery_verifier.model.data import Setting

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


def application_of(discipline: Discipline, summary: str, **consumer: Setting) -> Application:
    """Returns an application of `discipline`, under the name of its discipline, with the settings in `consumer`.

    All other settings come from `_CONSUMER`. In the names of `consumer` a `_` stands for a dot. `summary` describes the
    application to people.
    """
    named = {key.replace("_", "."): value for key, value in consumer.items()}
    commits, stores = TIMED[discipline]
    timer: dict[str, Setting] = {"enable.auto.commit": commits, "enable.auto.offset.store": stores}
    return Application(
        name=discipline, summary=summary, discipline=discipline, consumer=_CONSUMER | timer | named, batch=10
    )


APPLICATIONS: dict[str, Application] = {
    application.name: application
    for application in (
        application_of("at_handover", "librdkafka's defaults: a timer commits what was handed over, applied or not."),
        application_of("commit_first", "At most once: commits a batch, and then applies it."),
        application_of("commit_after", "At least once: applies a batch, and then commits it."),
        application_of("store_after", "At least once: applies a record, and then stores its offset for the timer."),
    )
}
"""The applications by name. The timer of the client commits once a second, where it commits at all."""
