"""The message about a sentinel whose result has turned, e.g. from HELD to VIOLATED, or back."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import Context

from delivery_verifier.host import folders
from delivery_verifier.model.sentinel import SentinelResult
from delivery_verifier.orchestration.names import SENTINEL_DAG_ID
from delivery_verifier.orchestration.tasks.addresses import run_url
from delivery_verifier.orchestration.tasks.message import Message
from delivery_verifier.run_directory import sentinel_history
from delivery_verifier.run_directory.run_directory import IncompleteRun, RunDirectory


def of_sentinel(context: Context) -> Message | None:
    """Returns the message about a run of verify_sentinel. `context` is Airflow's context of the callback.

    Returns None if the result of the run is no turn (see `has_turned`), so each turn gives one message.
    """
    run_id = str(context["run_id"])
    result = sentinel_history.find(folders.run_directory_name(run_id))
    if result is None or not sentinel_history.is_turn(result):
        return None
    earlier = sentinel_history.before(result)
    subject = f"Sentinel of {result.cluster}: {result.state}, was {_was(earlier)} ({run_id})"
    lines = [result.state, result.why, _since(earlier), f"Cluster {result.cluster}", f"Run {run_id}"]
    return Message(
        subject, lines + _details(result), SENTINEL_DAG_ID, run_id, run_url(SENTINEL_DAG_ID, run_id), result.state
    )


def _was(earlier: SentinelResult | None) -> str:
    return "without a result" if earlier is None else earlier.state


def _since(earlier: SentinelResult | None) -> str:
    if earlier is None:
        return "This is the first result of this cluster."
    when = datetime.fromtimestamp(earlier.at_us / 1e6, UTC)
    return f"The result before was {earlier.state}, at {when:%Y-%m-%d %H:%M:%S} UTC."


def _details(result: SentinelResult) -> list[str]:
    """Returns what the message about a red run of verify_delivery says of its arms."""
    if result.state in ("HELD", "NO VERDICT", "SKIPPED"):
        return []
    from delivery_verifier.reporting.brief import plain_lines  # it imports more than the DAG's file may

    run = folders.runs_dir() / result.run
    try:
        return plain_lines(RunDirectory(run).verdict(), run.parent)
    except IncompleteRun:
        return []
