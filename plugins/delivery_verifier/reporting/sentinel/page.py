"""The page of the sentinels: one HTML document with the history of each cluster. The document loads nothing from
elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from delivery_verifier.model.figures import share
from delivery_verifier.model.sentinel import IN_TIME_MS, STATES, SentinelResult
from delivery_verifier.reporting.overview.page import render as render_page
from delivery_verifier.reporting.sentinel import figures, picture
from delivery_verifier.reporting.sentinel.figures import Stretch, Window
from delivery_verifier.reporting.sentinel.picture import Lane
from delivery_verifier.run_directory.sentinel_history import History

LISTED = 50
"""The greatest number of stretches, and of runs, that the page lists of each cluster."""
UNTOLD = "its log says why, and you may not read logs"
"""What stands on the page in place of the reason of a run without a verdict, for a user who may not read logs."""


class Shown(Struct, frozen=True, kw_only=True):
    """What the page shows of one cluster. `last`: the newest result that was not skipped. `overdue_s`: see
    `figures.overdue_s`."""

    cluster: str
    history: History
    last: SentinelResult | None
    overdue_s: float | None
    windows: list[Window]
    lanes: list[Lane]
    stretches: list[Stretch]


def render(
    histories: Mapping[str, History],
    at_us: int,
    *,
    runs: Path,
    reads_logs: bool = True,
    dag_path: str = "",
    without_result: Sequence[str] = (),
) -> str:
    """Returns the page as HTML. `histories` has the history of each cluster by its name, and `at_us` is the time.

    `runs`: the folder of the run directories, for links to the reports that are still there. `reads_logs`: whether the
    reader may read the logs of runs, which the reasons of runs without a verdict quote. `dag_path`: the address of the
    DAG in Airflow, or an empty text. `without_result`: the ids of DAG runs that have ended and left no result.
    """
    shown = [_of_cluster(cluster, history, at_us) for cluster, history in histories.items()]

    def why(result: SentinelResult) -> str:
        return result.why if reads_logs or result.state in ("HELD", "VIOLATED", "INCONCLUSIVE") else UNTOLD

    def address(result: SentinelResult) -> str:
        """The address of the report, or else of the run in Airflow; an empty text if there is neither."""
        if (runs / result.run / "report.html").is_file():
            return f"../runs/{quote(result.run)}/report.html"
        return f"{dag_path}/runs/{quote(result.run_id, safe='')}" if dag_path else ""

    return render_page(
        "sentinel.html.j2",
        "Sentinel",
        shown=shown,
        states=STATES,
        in_time_s=IN_TIME_MS / 1e3,
        figures=figures,
        percent=share,
        picture=picture,
        listed=LISTED,
        why=why,
        address=address,
        time_of=_time_of,
        dag_path=dag_path,
        without_result=without_result[:LISTED],
    )


def _of_cluster(cluster: str, history: History, at_us: int) -> Shown:
    results = history.results
    return Shown(
        cluster=cluster,
        history=history,
        last=next((result for result in results if result.state != "SKIPPED"), None),
        overdue_s=figures.overdue_s(results, at_us),
        windows=figures.windows(results, at_us),
        lanes=picture.lanes(results),
        stretches=figures.stretches(results)[:LISTED],
    )


def _time_of(result: SentinelResult) -> datetime:
    return datetime.fromtimestamp(result.at_us / 1e6, UTC)
