"""The web application of the plugin: it serves run pages, run files and the Data Docs. Airflow's own access control
protects them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag, requires_access_view
from fastapi import Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse

from delivery_verifier.host import folders
from delivery_verifier.model import catalogue_run
from delivery_verifier.model.history import now_us
from delivery_verifier.model.steps import GATE
from delivery_verifier.orchestration.names import AUDIT_DAG_ID, CATALOGUE_DAG_ID, DAG_ID, SENTINEL_DAG_ID, WITH_REPORT
from delivery_verifier.orchestration.plugin import airflow_runs, dag_runs, icons, live_run, unreported
from delivery_verifier.orchestration.plugin.dag_runs import State
from delivery_verifier.reporting.matrix import page as catalogue_page
from delivery_verifier.reporting.overview import page
from delivery_verifier.reporting.overview.run_filter import RunFilter
from delivery_verifier.reporting.overview.unfinished import AirflowRun
from delivery_verifier.reporting.sentinel import page as sentinel_page
from delivery_verifier.run_directory import catalogue_runs, sentinel_history
from delivery_verifier.run_directory.judgeable import how_to_judge
from delivery_verifier.run_directory.manifests import NOT_WRITTEN
from delivery_verifier.run_directory.run_directory import IncompleteRun, RunDirectory
from delivery_verifier.run_directory.sentinel_history import History

HEADERS = {
    # Only the Airflow UI may show these pages in frames.
    "Content-Security-Policy": "frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_REPORT = "report.html"
LISTED = 100
"""The greatest number of catalogue runs in the list on the page of the matrix. The list shows the newest runs."""
_Field = Annotated[str, Query(max_length=200)]
_InAirflow = Annotated[dict[str, AirflowRun], Depends(airflow_runs.newest)]
_Sentinels = Annotated[dict[str, AirflowRun], Depends(airflow_runs.sentinels)]
_Known = Annotated[State | None, Depends(dag_runs.state)]
# The page of a failed run quotes the log of the failed task.
_MAY_READ_LOGS = Depends(requires_access_dag("GET", DagAccessEntity.TASK_LOGS))


def _reads_logs(request: Request, user: GetUserDep) -> bool:
    """Returns whether the user may read the logs of runs. The logs hold the errors of failed runs."""
    try:
        requires_access_dag("GET", DagAccessEntity.TASK_LOGS, DAG_ID)(request, user)
    except HTTPException:
        return False
    return True


def _reads_runs(request: Request, user: GetUserDep) -> bool:
    """Returns whether the user may read what Airflow knows of runs, i.e. the ids and the states of runs."""
    try:
        requires_access_dag("GET", DagAccessEntity.RUN, DAG_ID)(request, user)
    except HTTPException:
        return False
    return True


_ReadsLogs = Annotated[bool, Depends(_reads_logs)]
_ReadsRuns = Annotated[bool, Depends(_reads_runs)]

app = FastAPI(
    title="Delivery reports",
    docs_url=None,
    redoc_url=None,
    openapi_url=None,
    # A mounted app inherits no access control from Airflow: each request must come from a user who may view plugins.
    dependencies=[Depends(requires_access_view(AccessView.PLUGINS))],
)


@app.middleware("http")
async def _guard(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    """Adds HEADERS to every answer, even if the answer refuses the request."""
    response = await call_next(request)
    response.headers.update(HEADERS)
    return response


@app.get("/")
def index(
    in_airflow: _InAirflow,
    reads_runs: _ReadsRuns,
    verdict: _Field = "",
    profile: _Field = "",
    fault: _Field = "",
    kafka: _Field = "",
    text: _Field = "",
) -> HTMLResponse:
    """Answers with the page that lists all runs that match the filter, newest run first.

    The page lists every run directory. If the user may read runs (`reads_runs`), the page also lists every DAG run of
    `in_airflow`. The other parameters are the filter (see RunFilter). An empty parameter matches every run.
    """
    run_filter = RunFilter(verdict=verdict, profile=profile, fault=fault, kafka=kafka, text=text)
    runs, dag_path = folders.runs_dir(), f"../dags/{DAG_ID}"
    docs = (runs / folders.DATA_DOCS / "index.html").is_file()
    return HTMLResponse(
        page.overview(runs, run_filter, docs=docs, dag_path=dag_path, in_airflow=in_airflow if reads_runs else {})
    )


@app.get("/matrix/")
def matrix(reads_logs: _ReadsLogs, run: _Field = "") -> HTMLResponse:
    """Answers with the page that shows the matrix of the catalogue run called `run`, and a list of the newest catalogue
    runs.

    The matrix shows how each scenario of the catalogue run ended. If `run` is empty, the page shows the newest
    catalogue run. Answers 404 if no catalogue run in the list is called `run`. `reads_logs`: whether the user may read
    the logs of runs. For a user who may not, the page leaves out the errors of runs, because these errors come from the
    logs.
    """
    known = catalogue_runs.newest(LISTED)
    catalogue = next((listed for listed in known if run in ("", listed.id)), None)
    if catalogue is None and run:
        raise HTTPException(404, "no such catalogue run")
    if catalogue is None:
        return HTMLResponse(unreported.no_catalogue())
    return HTMLResponse(
        catalogue_page.render(catalogue if reads_logs else catalogue_run.without_errors(catalogue), "../runs", known)
    )


@app.get("/sentinel/")
def sentinel(in_airflow: _Sentinels, reads_logs: _ReadsLogs, reads_runs: _ReadsRuns) -> HTMLResponse:
    """Answers with the page that shows the history of the sentinel of each cluster.

    `in_airflow` has the DAG runs of the sentinels. If the user may read runs (`reads_runs`), the page names those that
    have ended without a result. For a user who may not read logs, it leaves out why a run has no verdict.
    """
    histories = {cluster: sentinel_history.newest_of(cluster) for cluster in sentinel_history.clusters()}
    return HTMLResponse(
        sentinel_page.render(
            histories,
            now_us(),
            runs=folders.runs_dir(),
            reads_logs=reads_logs,
            dag_path=f"../../dags/{SENTINEL_DAG_ID}",
            without_result=_without_result(in_airflow, histories) if reads_runs else (),
        )
    )


def _without_result(in_airflow: dict[str, AirflowRun], histories: dict[str, History]) -> list[str]:
    """Returns the ids of the DAG runs that have ended and left no result, newest first. Leaves out runs that are older
    than all results: theirs may have been removed."""
    known = {result.run for history in histories.values() for result in history.results}
    since_us = min((history.results[-1].at_us for history in histories.values() if history.results), default=0)
    return [
        run.run_id
        for name, run in in_airflow.items()
        if run.has_ended and name not in known and run.begun_at.timestamp() * 1e6 > since_us
    ]


@app.get("/dag/{dag_id}/{run_id}/", response_model=None, dependencies=[_MAY_READ_LOGS])
def tab_of_dag_run(dag_id: str, run_id: str, known: _Known) -> Response:
    """Answers with the content of the tab Delivery report of a DAG run.

    For a run of verify_delivery, audit_delivery or verify_sentinel, the tab shows the report. For a run of
    verify_catalogue, the tab shows the matrix. For any other run, and for a run without a report or matrix, the tab
    shows a page that says why there is none. `known` is the state of the DAG run in Airflow, or None if Airflow has no
    such run.
    """
    if (
        dag_id == CATALOGUE_DAG_ID
        and (catalogue_runs.folder() / folders.run_directory_name(run_id) / catalogue_runs.FILE).is_file()
    ):
        return RedirectResponse(f"../../../matrix/?run={quote(folders.run_directory_name(run_id))}", status_code=307)
    if dag_id not in WITH_REPORT:
        return HTMLResponse(unreported.another_dag())
    name = folders.run_directory_name(run_id)
    run = folders.runs_dir() / name
    if _has_report(run):
        return RedirectResponse(f"../../../runs/{quote(name)}/report.html", status_code=307)
    if unwritten := _not_written(run):
        return HTMLResponse(unwritten)
    if dag_id == SENTINEL_DAG_ID and (known is None or known.ended) and (result := sentinel_history.find(name)):
        return HTMLResponse(unreported.of_sentinel(result, known))
    live = None if known is None or known.ended or dag_id == AUDIT_DAG_ID else live_run.look(run, known)
    return HTMLResponse(unreported.run_without_report(run_id, known, live, how_to_judge(run), dag_id))


@app.get("/dag/{dag_id}/{run_id}/docs/", response_model=None)
def docs_of_dag_run(dag_id: str, run_id: str) -> Response:
    """Answers with the content of the tab Data Docs of a DAG run: the list of validations in the Data Docs, scrolled to
    the row of this run.

    If the step validate of the run did not finish, the tab shows a page that says so.
    """
    name = folders.run_directory_name(run_id)
    if dag_id not in WITH_REPORT or not (folders.runs_dir() / name / "validate.json").is_file():
        return HTMLResponse(unreported.no_docs())
    return RedirectResponse(f"../../../../runs/{folders.DATA_DOCS}/index.html#{quote(name)}", status_code=307)


@app.get("/icon/{name}.svg")
def icon(name: icons.Icon) -> Response:
    """Answers with the icon of a page or a tab in the Airflow UI, as SVG."""
    return Response(icons.svg(name), media_type="image/svg+xml")


@app.get("/docs/{path:path}")
def data_docs(path: str) -> FileResponse:
    """Answers with a file of the Data Docs, the site that Great Expectations writes. `path` is relative to the folder
    of the site."""
    return _file(folders.runs_dir() / folders.DATA_DOCS, path)


@app.get("/runs/{path:path}")
def run_file(path: str, reads_logs: _ReadsLogs) -> Response:
    """Answers with a file of a run directory or of a catalogue run. `path` is relative to the folder of all runs.

    * The address of a file ends with the file's path on disk. So a link between two reports works in the web server,
      and also when a user opens the files from disk.
    * A user gets files of catalogue runs and of sentinels only if the user may read the logs of runs (`reads_logs`),
      because these files quote errors of runs.
    * A report is void once the step reconcile or validate of its run was repeated. Instead of a void report, the answer
      is a page that says that the report is void.
    """
    file = _file(folders.runs_dir(), path)
    inside = Path(file.path).relative_to(folders.runs_dir().resolve())
    if inside.parts[0] in (folders.CATALOGUES, folders.SENTINELS) and not reads_logs:
        raise HTTPException(403, "the errors of runs are in it, and you may not read their logs")
    if inside.name == _REPORT and len(inside.parts) == 2 and not _has_report(Path(file.path).parent):
        return HTMLResponse(unreported.void(inside.parts[0]))
    return file


@app.get("/{path:path}")
def nothing(path: str) -> None:
    """Answers 404 to a request for any other path. A user who may not view plugins gets a refusal instead.

    FastAPI checks the access only for paths that have a route. Without this route, FastAPI would answer a request for
    any other path without a check of the user.
    """
    raise HTTPException(404, "no such page")


def _has_report(run: Path) -> bool:
    """Returns whether the run directory `run` has a report that is not void.

    The step conclude writes the report first, and then conclude.json. A report without conclude.json is void: it comes
    from an earlier judgement.
    """
    return (run / "conclude.json").is_file() and (run / _REPORT).is_file()


def _not_written(run: Path) -> str:
    """Returns the page for a judged run whose report could not be written. Returns an empty text for any other run."""
    try:
        why = RunDirectory(run).manifest(GATE).notes.get(f"{NOT_WRITTEN}{_REPORT}")
        return unreported.not_written(RunDirectory(run).verdict(), why) if why else ""
    except IncompleteRun:
        return ""


def _file(base: Path, path: str) -> FileResponse:
    """Returns the file `path` in the folder `base`. Raises HTTPException (404) if the file is outside `base`, hidden or
    missing."""
    try:
        target = (base / (path or "index.html")).resolve()
        target = target / "index.html" if target.is_dir() else target
        inside = target.relative_to(base.resolve())
    except (OSError, ValueError):
        raise HTTPException(404, "no such report") from None
    if any(part.startswith(".") for part in inside.parts) or not target.is_file():
        raise HTTPException(404, "no such report")
    return FileResponse(target)
