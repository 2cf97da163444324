"""Who gives way on this host: a sentinel skips its run if another run works or waits, and another run waits until the
sentinel has ended.

Otherwise a sentinel each five minutes would make some runs fail that people or the nightly schedule have started.
"""

from __future__ import annotations

import logging

from airflow.sdk import Context

from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.sentinel import NOTE
from delivery_verifier.orchestration.names import CATALOGUE_DAG_ID, DAG_ID
from delivery_verifier.run_directory.run_directory import IncompleteRun, RunDirectory

AFTER_S = 240.0
"""How long a run waits for the end of a sentinel's cluster, in seconds. The step plan may take a little longer."""
_log = logging.getLogger(__name__)


def wait_for_sentinel() -> None:
    """Waits as long as a run of a sentinel holds the host's lock. Raises DeadlinePassed after AFTER_S seconds."""
    if _is_sentinel_at_work():
        _log.info("a sentinel holds the host's lock; this run goes on when it has ended")
        wait_until(lambda: not _is_sentinel_at_work(), "the end of a sentinel's run", AFTER_S, every_s=1.0)


def _is_sentinel_at_work() -> bool:
    from delivery_verifier.cluster import lease

    owner = lease.lock_owner()
    if owner is None or owner.run_dir is None:
        return False
    try:
        return NOTE in RunDirectory(owner.run_dir).manifest("plan").notes
    except IncompleteRun:
        return False


def busy_with(context: Context) -> str:
    """Returns which runs of this Airflow work or wait, before which a sentinel gives way; an empty text if there are
    none. `context` is the context of a task."""
    for dag_id in (CATALOGUE_DAG_ID, DAG_ID):
        if count := context["ti"].get_dr_count(dag_id=dag_id, states=["running", "queued"]):
            return f"{count} run{'s'[: count != 1]} of {dag_id} under way or waiting in this Airflow"
    return ""
