"""The section of the form in which a user gives settings of the user's own: a whole file, or single settings."""

from __future__ import annotations

from airflow.sdk import Param

from delivery_verifier.orchestration.tasks import form_fields as fields
from delivery_verifier.planning.own_settings import clients
from delivery_verifier.planning.own_settings.profiles import OWN

PASTED = f"{OWN}: the producer settings that you paste below, under Own settings"
"""The label of the profile that stands for pasted settings."""


def params() -> dict[str, Param]:
    """Returns the fields of the section by name, in the order of the form."""
    section = "Own settings (default: none)"
    return {
        "producer_config": fields.text(
            "Producer settings",
            f"A whole .properties file: Kafka's own names, Spring Boot's or Kafka Connect's. Choose the profile "
            f"{OWN} above. The topic then has Kafka's own defaults. Passwords are refused: Airflow keeps what "
            "is entered here, and no run uses them.",
            section,
        ),
        "client": Param(
            None,
            type=["string", "null"],
            examples=list(clients.PROPOSED),
            title="Client of the producer settings",
            description="Whose defaults fill the gaps, also with a version, e.g. java:3.1. Empty: the client by the "
            "names of the settings, in its newest version.",
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
