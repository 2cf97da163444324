"""The channels, other than mail, by which people learn of red runs: Slack, and a request to any server that takes JSON.

An environment variable per channel holds the id of an Airflow connection. The variable never holds the address of a
webhook, because the address is a secret. Airflow's own notifiers send the messages. The notifiers come with provider
packages that this project does not need otherwise.
"""

from __future__ import annotations

import importlib.util
import os
import re

from msgspec import Struct

from delivery_verifier.model.inputs import BadInput

_CONNECTION_ID = re.compile(r"[A-Za-z0-9_.-]{1,250}")


class Channel(Struct, frozen=True):
    """A way to tell people of a red run.

    `variable` is the environment variable that holds the id of the Airflow connection. `module` is the module with
    Airflow's notifier, and `package` is the name of the package that contains `module`.
    """

    variable: str
    module: str
    package: str


SLACK = Channel(
    "KDV_NOTIFY_SLACK", "airflow.providers.slack.notifications.slack_webhook", "apache-airflow-providers-slack"
)
WEBHOOK = Channel("KDV_NOTIFY_WEBHOOK", "airflow.providers.http.notifications", "apache-airflow-providers-http")


def connection_of(channel: Channel) -> str | None:
    """Returns the id of the Airflow connection that the variable of `channel` holds; None if the variable is unset.

    Raises BadInput if the value is not an id, or if the package of the channel is not installed. The message of the
    error never quotes the value, because the value may be an address that somebody set by mistake.
    """
    value = os.environ.get(channel.variable, "").strip()
    if not value:
        return None
    if not _CONNECTION_ID.fullmatch(value):
        raise BadInput(
            f"{channel.variable} holds no id of an Airflow connection; allowed: letters, digits, _ . -; put the "
            "address into a connection, e.g. into AIRFLOW_CONN_<ID>, and name the connection here"
        )
    if not _is_installed(channel.module):
        raise BadInput(
            f"{channel.variable} is set, but {channel.package} is not installed: pip install {channel.package} into "
            "the environment of Airflow, or unset the variable"
        )
    return value


def check() -> None:
    """Raises BadInput if the environment chooses a channel that cannot be used (see `connection_of`)."""
    for channel in (SLACK, WEBHOOK):
        connection_of(channel)


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a package that contains the module is missing
        return False
