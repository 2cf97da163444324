"""The section of the form in which a user gives settings of the user's own: a whole file, or single settings."""

from __future__ import annotations

from airflow.sdk import Param

from delivery_verifier.model.scenario import Client
from delivery_verifier.orchestration.tasks import form_fields as fields
from delivery_verifier.planning.own_settings.profiles import OWN

PASTED = f"{OWN}: the producer settings that you paste below, under Own settings"
"""The label of the profile that stands for pasted settings."""
CLIENTS: dict[str, str] = {
    "java": "java: the defaults of the Java client fill the gaps",
    "librdkafka": "librdkafka: the defaults of librdkafka fill the gaps",
}
"""The label of each client for which pasted settings can be written."""


def params() -> dict[str, Param]:
    """Returns the fields of the section by name, in the order of the form."""
    section = "Own settings: none"
    return {
        "producer_config": fields.text(
            "Producer settings",
            f"A whole .properties file: Kafka's own names, Spring Boot's or Kafka Connect's. Choose the profile "
            f"{OWN} above. The topic then has Kafka's own defaults. Passwords are refused: Airflow keeps what "
            "is entered here, and no run uses them.",
            section,
        ),
        "client": fields.optional_choice(
            "Client of the producer settings",
            fields.labels(Client, CLIENTS),
            "by the names of the settings",
            "Only where the pasted names fit both clients.",
            section=section,
        ),
        "producer_overrides": fields.text(
            "Producer overrides",
            "One name=value to a line, in place of the profile's, e.g. linger.ms=100. Not beside pasted settings.",
            section,
        ),
        "topic_overrides": fields.text(
            "Topic overrides",
            "One name=value to a line, in place of the profile's, e.g. unclean.leader.election.enable=true.",
            section,
        ),
    }
