"""The mail that reports a red run, that is, a DAG run that has failed. Airflow's own notifier sends the mail to the
addresses in KDV_NOTIFY_EMAIL, over the Airflow connection smtp_default."""

from __future__ import annotations

import html
import os
from typing import Any

from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.sdk import Context

from delivery_verifier.host import folders
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.orchestration.local.settings import CATALOGUE_DAG_ID, DAG_ID
from delivery_verifier.orchestration.tasks.addresses import run_url
from delivery_verifier.pages.brief import plain_lines
from delivery_verifier.pages.matrix import page
from delivery_verifier.pages.overview.rows import read
from delivery_verifier.store import catalogue_runs
from delivery_verifier.store.run_directory import RunDirectory

VARIABLE = "KDV_NOTIFY_EMAIL"
"""The environment variable with the addresses of the mail, separated by commas. All Airflow processes must have this
variable. Without the variable, no mail is sent."""


class RedRunMail(SmtpNotifier):
    """A mail that reports a red run of verify_delivery.

    The mail holds the verdict with its sentence, the run id, the figures of the arms, what to change, what the run does
    not show, the command that repeats it, and the address of the run in Airflow. If the run has no verdict, the
    sentence says why. No other data leave the host.
    """

    def notify(self, context: Context) -> None:
        """Sends the mail. Raises any error of SMTP. Airflow logs the error and does not change the state of the run.

        This method, and not the constructor, sets subject and text, because Airflow renders the fields of a notifier as
        templates before it calls this method. Texts of the run must not be rendered.
        """
        self.subject, self.html_content = self.message(str(context["run_id"]))
        super().notify(context)

    def message(self, run_id: str) -> tuple[str, str]:
        """Returns the subject and the HTML text of the mail about the DAG run `run_id`."""
        return message(run_id)


class RedCatalogueMail(RedRunMail):
    """A mail that reports a red catalogue run, and names the scenarios that did not end as expected."""

    def message(self, run_id: str) -> tuple[str, str]:
        """Returns the subject and the HTML text of the mail about the run `run_id` of verify_catalogue."""
        return catalogue_message(run_id)


def on_red(mail: type[RedRunMail] = RedRunMail) -> list[Any]:
    """Returns the callbacks that a DAG calls when a run is red: one notifier of the class `mail`.

    The notifier sends its mail to all addresses in KDV_NOTIFY_EMAIL. Returns an empty list if there are no addresses.
    """
    addresses = [address.strip() for address in os.environ.get(VARIABLE, "").split(",") if address.strip()]
    return [mail(to=addresses)] if addresses else []


def message(run_id: str) -> tuple[str, str]:
    """Returns the subject and the HTML text of the mail about `run_id`, a red run of verify_delivery."""
    run = folders.run_directory(run_id)
    row = read(run)
    sentence = row.sentence or f"The run failed before a verdict could be given; {row.why}."
    lines = [f"<b>{html.escape(row.verdict)}</b>", html.escape(sentence), f"Run {html.escape(run_id)}"]
    if row.sentence:  # only a verdict that can be trusted has one
        lines += map(html.escape, plain_lines(run, RunDirectory(run).verdict()))
    return f"Delivery run is red: {row.verdict} ({run_id})", _text(lines, DAG_ID, run_id)


def catalogue_message(run_id: str) -> tuple[str, str]:
    """Returns the subject and the HTML text of the mail about `run_id`, a red run of verify_catalogue."""
    try:
        catalogue = catalogue_runs.read(folders.run_directory_name(run_id))
    except BadInput:
        return f"Catalogue run is red: it never began ({run_id})", _text(["Nothing was run."], CATALOGUE_DAG_ID, run_id)
    red = [f"{html.escape(item.name)}: {item.state}" for item in catalogue.items if not item.green]
    subject = f"Catalogue run is red: {len(red)} of {len(catalogue.items)} scenarios ({run_id})"
    return subject, _text([f"<b>{html.escape(page.headline(catalogue))}</b>", *red], CATALOGUE_DAG_ID, run_id)


def _text(lines: list[str], dag_id: str, run_id: str) -> str:
    """Returns HTML with a paragraph for each of `lines` and a link to the run. `lines` are HTML already."""
    url = html.escape(run_url(dag_id, run_id))
    return "".join(f"<p>{line}</p>" for line in [*lines, f'<a href="{url}">{url}</a>'])
