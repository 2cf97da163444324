"""The reports behind Airflow's own access control: run pages, run files and the Data Docs."""

from __future__ import annotations

import html
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import quote

import msgspec
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import requires_access_view
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse

from delivery_verifier import home
from delivery_verifier.orchestration.settings import DAG_ID
from delivery_verifier.verdict import RunVerdict

HEADERS = {
    # Shown in frames of the Airflow UI, and of nobody else.
    "Content-Security-Policy": "frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_LISTED = 200

app = FastAPI(
    title="Delivery reports", docs_url=None, redoc_url=None, openapi_url=None,
    # A mounted app inherits no access control: each request must carry an Airflow user who may view plugins.
    dependencies=[Depends(requires_access_view(AccessView.PLUGINS))],
)  # fmt: skip


@app.middleware("http")
async def _guard(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    """Headers on every answer, refusals too."""
    response = await call_next(request)
    response.headers.update(HEADERS)
    return response


@app.get("/")
def index() -> HTMLResponse:
    """All runs, newest first."""
    found = sorted(home.runs_dir().glob("*/scenario.json"), key=lambda file: file.stat().st_mtime, reverse=True)
    rows = "".join(_row(file.parent) for file in found[:_LISTED]) or "<tr><td>No run yet.</td></tr>"
    docs = '<p><a href="docs/index.html">Data Docs</a></p>' if (home.runs_dir() / home.DATA_DOCS).is_dir() else ""
    return _page("Delivery reports", f"{docs}<table>{rows}</table>")


@app.get("/dag/{dag_id}/{run_id}/", response_model=None)
def of_dag_run(dag_id: str, run_id: str) -> Response:
    """The tab of a DAG run: its report, or a page that says why there is none."""
    if dag_id != DAG_ID:
        return _page("No delivery report", f"<p>Runs of <b>{html.escape(DAG_ID)}</b> have one; this DAG has none.</p>")
    name = home.run_directory_name(run_id)
    if (home.runs_dir() / name / "report.html").is_file():
        return RedirectResponse(f"../../../runs/{quote(name)}/report.html", status_code=307)
    return _page("No delivery report yet", _progress(home.runs_dir() / name), refresh_s=5)


@app.get("/docs/{path:path}")
def data_docs(path: str) -> FileResponse:
    """The Data Docs site."""
    return _file(home.runs_dir() / home.DATA_DOCS, path)


@app.get("/runs/{path:path}")
def run_file(path: str) -> FileResponse:
    """A file of a run directory. The paths are those on disk, so that links between reports work in both places."""
    return _file(home.runs_dir(), path)


@app.get("/{path:path}")
def nothing(path: str) -> None:
    """Any other path: 404, but only for those who may ask. (A path without a route would skip the access control.)"""
    raise HTTPException(404, "no such page")


def _file(base: Path, path: str) -> FileResponse:
    """A file below `base`; 404 for whatever is outside, hidden or missing."""
    try:
        target = (base / (path or "index.html")).resolve()
        target = target / "index.html" if target.is_dir() else target
        inside = target.relative_to(base.resolve())
    except (OSError, ValueError):
        raise HTTPException(404, "no such report") from None
    if any(part.startswith(".") for part in inside.parts) or not target.is_file():
        raise HTTPException(404, "no such report")
    return FileResponse(target)


def _row(run: Path) -> str:
    verdict = _verdict(run)
    name = html.escape(run.name)
    if verdict is None:
        return f"<tr><td>{name}</td><td></td><td>no verdict</td></tr>"
    colour = "green" if verdict.green else "red"
    reported = (run / "report.html").is_file()
    link = f'<a href="runs/{quote(run.name)}/report.html">{name}</a>' if reported else name
    return f'<tr><td>{link}</td><td class="{colour}">{verdict.verdict}</td><td>{html.escape(verdict.sentence)}</td></tr>'


def _verdict(run: Path) -> RunVerdict | None:
    try:
        return msgspec.json.decode((run / "verdict.json").read_bytes(), type=RunVerdict)
    except (OSError, msgspec.MsgspecError):
        return None  # shown as what it is: no verdict


def _progress(run: Path) -> str:
    if not run.is_dir():
        return "<p>The run has not been planned yet, or its directory has been removed.</p>"
    done = sorted(file.stem for file in run.glob("*.json") if file.stem in _STEPS_WITH_MANIFEST)
    steps = ", ".join(done) or "none"
    return (
        f"<p>The report is written by the last step, <b>conclude</b>. Steps finished: {html.escape(steps)}.</p>"
        "<p>If the run has ended, a step failed and there is no verdict: the log of the failed task says why.</p>"
    )


_STEPS_WITH_MANIFEST = frozenset(
    {"plan", "start_cluster", "create_topics", "produce", "inject_fault", "settle", "reconcile", "validate"}
)

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem;background:#fff;color:#1a202c}
table{border-collapse:collapse}td{padding:.35rem .8rem;border-bottom:1px solid #e2e8f0;text-align:left}
.green{color:#276749;font-weight:600}.red{color:#c53030;font-weight:600}a{color:#2b6cb0}
@media(prefers-color-scheme:dark){body{background:#111827;color:#e5e7eb}td{border-color:#374151}a{color:#90cdf4}
.green{color:#68d391}.red{color:#fc8181}}
"""


def _page(title: str, body: str, refresh_s: int | None = None) -> HTMLResponse:
    refresh = f'<meta http-equiv="refresh" content="{refresh_s}">' if refresh_s else ""
    return HTMLResponse(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{refresh}<title>{title}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{title}</h1>{body}</body></html>"
    )
