"""Sends messages about red runs to Slack and to other servers, by Airflow's own notifiers.

The notifiers come with provider packages that need not be installed. So this module imports a notifier, and defines the
class that extends it, only if the environment chooses the channel of this notifier.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException

from delivery_verifier.model.errors import StepFailed
from delivery_verifier.orchestration import notifiers
from delivery_verifier.orchestration.tasks.message import Message
from delivery_verifier.reporting.words import clean

# The libraries log the address of a server that does not answer. They also log what a server answers, which may quote
# the address.
_SILENT = logging.getLogger(f"{__name__}.webhook")
_SILENT.setLevel(logging.CRITICAL + 1)
_MARKUP, _SIGNS = re.compile(r"(?<![A-Za-z0-9*_~])[*_~]+|[*_~]+(?![A-Za-z0-9*_~])|`"), str.maketrans("*_~`", "∗ˍ∼ˋ")
_STATUS = re.compile(r"\b[1-5][0-9]{2}\b")
MessageOf = Callable[[Context], Message | None]
"""A function that returns the message about a run, from Airflow's context of the callback; None: nobody is told."""


def chosen(message_of: MessageOf) -> list[Any]:
    """Returns a notifier for each channel that the environment chooses. Raises BadInput if a channel cannot be used."""
    selected = []
    if connection := notifiers.connection_of(notifiers.SLACK):
        selected.append(_slack(connection, message_of))
    if connection := notifiers.connection_of(notifiers.WEBHOOK):
        selected.append(_webhook(connection, message_of))
    return selected


# Each notifier sets its text in `notify`, because Airflow renders the fields of a notifier as templates before it calls
# this method. Texts of the run must not be rendered.


def _slack(connection: str, message_of: MessageOf) -> Any:
    from airflow.providers.slack.notifications.slack_webhook import SlackWebhookNotifier

    class RedRunSlack(SlackWebhookNotifier):  # type: ignore[misc, unused-ignore]
        def notify(self, context: Context) -> None:
            if (message := message_of(context)) is None:
                return
            self.text = slack_text(message)
            with _naming_no_address(connection):
                self.hook.client.logger = _SILENT
                super().notify(context)  # type: ignore[no-untyped-call, unused-ignore]

    return RedRunSlack(slack_webhook_conn_id=connection, text="", unfurl_links=False, unfurl_media=False)


def _webhook(connection: str, message_of: MessageOf) -> Any:
    from airflow.providers.http.notifications import HttpNotifier

    class RedRunWebhook(HttpNotifier):  # type: ignore[misc, unused-ignore]
        def notify(self, context: Context) -> None:
            if (message := message_of(context)) is None:
                return
            self.json = message.as_json()
            self.hook._log = _SILENT  # type: ignore[assignment, unused-ignore]
            with _naming_no_address(connection):
                super().notify(context)

    return RedRunWebhook(http_conn_id=connection)


@contextmanager
def _naming_no_address(connection: str) -> Iterator[None]:
    """Turns any error in the block into StepFailed. The message of StepFailed names only the connection.

    The error of the block may quote the address of the webhook, and the address is a secret.
    """
    try:
        yield
    except Exception as error:
        # AirflowException quotes what the server answered, which may hold the address.
        status = _STATUS.search(str(error)) if isinstance(error, AirflowException) else None
        why = f"the server answered with status {status[0]}" if status else type(error).__name__
        raise StepFailed(f"the message over the connection {connection} was not delivered: {why}") from None


def slack_text(message: Message) -> str:
    """Returns the message in Slack's markup. Texts that come from the run are escaped, so that Slack does not read them
    as markup."""
    first, *others = (_escaped(line) for line in message.lines)
    return "\n".join([f"*{first}*", *others, message.url])


def _escaped(text: str) -> str:
    # Slack's own three escapes. The others are the signs of its markup, which have none. Within a word, e.g. in the
    # name of a profile, they are no markup.
    for sign, escape in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(sign, escape)
    return _MARKUP.sub(lambda match: match[0].translate(_SIGNS), clean(text))
