"""Tells people that a run is red, that is, that a DAG run has failed: by mail, in Slack, or by a request to a server.

Airflow's own notifiers send the messages. Each notifier takes the address and the secret of its server from an Airflow
connection.
"""

from __future__ import annotations

import html
import os
from typing import Any

from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.sdk import Context

from delivery_verifier.orchestration.tasks import channels, message
from delivery_verifier.orchestration.tasks.channels import MessageOf
from delivery_verifier.orchestration.tasks.message import Message

VARIABLE = "KDV_NOTIFY_EMAIL"
"""The environment variable with the addresses of the mail, separated by commas. All Airflow processes must have this
variable. Without the variable, no mail is sent."""


class RedRunMail(SmtpNotifier):
    """A mail that reports a red run. It is sent over the Airflow connection smtp_default. `message_of` returns the
    content of the mail. If it returns None, no mail is sent."""

    def __init__(self, *, message_of: MessageOf, **more: Any) -> None:
        super().__init__(**more)
        self._message_of = message_of

    def notify(self, context: Context) -> None:
        """Sends the mail. Raises any error of SMTP. Airflow logs the error and does not change the state of the run.

        The subject and the text are set in this method, and not in the constructor. Reason: Airflow renders the fields
        of a notifier as templates before it calls this method, and texts of the run must not be rendered.
        """
        content = self._message_of(context)
        if content is None:
            return
        self.subject, self.html_content = content.subject, html_text(content)
        super().notify(context)


def on_red(message_of: MessageOf = message.of_run) -> list[Any]:
    """Returns the callbacks that a DAG calls when a run is red: one notifier for each channel that the environment
    chooses.

    The mail goes to all addresses in KDV_NOTIFY_EMAIL. For the other channels, see `notifiers`. Returns an empty list
    if no channel is chosen. Raises BadInput if a chosen channel cannot be used.
    """
    addresses = [address.strip() for address in os.environ.get(VARIABLE, "").split(",") if address.strip()]
    mails = [RedRunMail(to=addresses, message_of=message_of)] if addresses else []
    return [*mails, *channels.chosen(message_of)]


def html_text(content: Message) -> str:
    """Returns HTML with a paragraph for each line of the message, and a link to the run. Escapes all texts."""
    first, *others = (html.escape(line) for line in content.lines)
    url = html.escape(content.url)
    return "".join(f"<p>{line}</p>" for line in [f"<b>{first}</b>", *others, f'<a href="{url}">{url}</a>'])
