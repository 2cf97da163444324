"""The message about a red run. Each channel (mail, Slack, webhook) sends the message in its own format."""

from __future__ import annotations

import logging
from typing import Any

from airflow.sdk import Context
from msgspec import Struct
from msgspec.structs import replace

from delivery_verifier.host import folders
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.orchestration.names import AUDIT_DAG_ID, CATALOGUE_DAG_ID, DAG_ID
from delivery_verifier.orchestration.tasks import verdict_event
from delivery_verifier.orchestration.tasks.addresses import run_url
from delivery_verifier.reporting.matrix import page
from delivery_verifier.reporting.overview.rows import NO_VERDICT, StoredRunRow, read
from delivery_verifier.run_directory import catalogue_runs
from delivery_verifier.run_directory.judgeable import how_to_judge
from delivery_verifier.run_directory.run_directory import RunDirectory

_log = logging.getLogger(__name__)


class Message(Struct, frozen=True):
    """A message about a red run. The fields of this class are the only data that leave the host.

    * `subject`: what happened, on one line. `lines`: what happened, with the reason; the first line is the shortest.
    * `dag_id`, `run_id`: the ids of the DAG and of the DAG run. `url`: the address of the DAG run in Airflow.
    * `verdict`: the verdict of the run, or `NO VERDICT`. It is an empty text for a catalogue run.
    """

    subject: str
    lines: list[str]
    dag_id: str
    run_id: str
    url: str
    verdict: str = ""

    def as_json(self) -> dict[str, Any]:
        """Returns the message as JSON values. The entries have the names of the fields, with one exception: the entry
        `text` holds all `lines` as one text."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__ if name != "lines"}
        return {**fields, "text": "\n".join(self.lines)}


def of_run(context: Context) -> Message:
    """Returns the message about a red run of verify_delivery. `context` is Airflow's context of the callback.

    If the run has no verdict, the message gives the reason and, if the evidence of the run is complete, the command
    that judges it. Otherwise the message has the figures of the arms, what to
    change, what the run does not show, and the command that repeats the run. A verdict of an earlier try, before the
    run was cleared, counts as none.
    """
    run_id = str(context["run_id"])
    run = folders.run_directory(run_id)
    row = _of_this_try(read(run), context)
    sentence = row.sentence or f"The run has no verdict that counts; {row.why}."
    lines = [row.verdict, sentence, f"Run {run_id}", *filter(None, [how_to_judge(run)])]
    if row.sentence:  # only a verdict that can be trusted has one
        from delivery_verifier.reporting.brief import plain_lines  # it imports more than the DAG's file may

        lines += plain_lines(RunDirectory(run).verdict(), run.parent)
    subject = f"Delivery run is red: {row.verdict} ({run_id})"
    return Message(subject, lines, DAG_ID, run_id, run_url(DAG_ID, run_id), row.verdict)


def _of_this_try(row: StoredRunRow, context: Context) -> StoredRunRow:
    """Returns `row`, the row of a red run, without a verdict that does not count for this try of the run."""
    if not row.concluded or row.verdict == NO_VERDICT:
        return row
    why = ""
    try:
        if verdict_event.of_this_try(context) != row.verdict:
            why = "the verdict in its directory is of an earlier try"
    except Exception as error:  # people must be told of the red run all the same
        _log.warning("Airflow does not say whether the verdict is of this try: %s", error)
        why = "Airflow does not say whether the verdict in its directory is of this try"
    if not why and row.green:  # the run is red all the same
        why = f"its verdict was {row.verdict}, but a step failed"
    return replace(row, verdict=NO_VERDICT, sentence="", why=why) if why else row


def of_audit(context: Context) -> Message:
    """Returns the message about a red run of audit_delivery. It has what the message about a run has, or says that
    there is no verdict. `context`: as in `of_run`."""
    run_id = str(context["run_id"])
    run = folders.run_directory(run_id)
    row = read(run)
    judged = row.concluded and row.verdict != NO_VERDICT and not row.green  # a green one ended red for another reason
    verdict, sentence = (row.verdict, row.sentence) if judged else (NO_VERDICT, "The audit has no verdict that counts.")
    lines = [verdict, sentence, f"Run {run_id}"]
    if judged:
        from delivery_verifier.reporting.brief import plain_lines

        lines += plain_lines(RunDirectory(run).verdict(), run.parent)
    subject = f"Delivery audit is red: {verdict} ({run_id})"
    return Message(subject, lines, AUDIT_DAG_ID, run_id, run_url(AUDIT_DAG_ID, run_id), verdict)


def of_catalogue(context: Context) -> Message:
    """Returns the message about a red run of verify_catalogue. It names the red scenarios. `context`: as in
    `of_run`."""
    run_id = str(context["run_id"])
    try:
        catalogue = catalogue_runs.read(folders.run_directory_name(run_id))
    except BadInput:
        subject, lines = f"Catalogue run is red: it never began ({run_id})", ["Nothing was run."]
    else:
        red = [f"{item.name}: {item.state}" for item in catalogue.items if not item.green]
        subject = f"Catalogue run is red: {len(red)} of {len(catalogue.items)} scenarios ({run_id})"
        lines = [page.headline(catalogue), *red]
        if not red:
            subject = f"Catalogue run is red: a step failed ({run_id})"
            lines = ["Every scenario ended as expected, but a step of the catalogue run failed."]
    return Message(subject, lines, CATALOGUE_DAG_ID, run_id, run_url(CATALOGUE_DAG_ID, run_id))
