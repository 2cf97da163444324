"""The request validation of the DAG verify_delivery: a middleware that refuses a run with bad input at the moment when
a user triggers the run.

Without the validation, the first task of the run would fail later. Airflow itself checks each field of the form
separately, names only the first wrong field, and stores the fields that it has accepted. The request validation sees
the request before Airflow does, and answers with all errors at once.
"""

from __future__ import annotations

import json
import re
from typing import Any

from airflow.api_fastapi.auth.managers.base_auth_manager import COOKIE_NAME_JWT_TOKEN
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_dag, resolve_user_from_token
from airflow.models.asset import TaskOutletAssetReference
from airflow.utils.session import create_session
from fastapi import HTTPException, Request
from fastapi.responses import JSONResponse
from sqlalchemy import select
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from delivery_verifier.model.external_cluster import ClusterAccess
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.orchestration.names import DAG_ID

PATH = f"/api/v2/dags/{DAG_ID}/dagRuns"
_MATERIALIZE = re.compile(r"/api/v2/assets/([0-9]+)/materialize$")
"""The path of a request to materialize an asset. For the asset of the verdicts, such a request starts a run."""
MOST_BYTES = 100_000
"""The greatest size of a request that starts a run, in bytes. A larger one is refused."""
_TOO_LARGE = f"the request has more than {MOST_BYTES:,} bytes; leave out of the form what no run needs"
_require_access = requires_access_dag("POST", DagAccessEntity.RUN, DAG_ID)


class RequestValidation:
    """The middleware that checks each request that triggers a run of verify_delivery.

    It passes on every other request to Airflow. It also passes on every request of a user who may not start a run:
    Airflow refuses such a request.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not await _starts_a_run(scope) or not await _may_trigger(Request(scope)):
            await self._app(scope, receive, send)
            return
        messages = await _read(receive)
        body = b"".join(message.get("body", b"") for message in messages)
        # What is not looked at must not reach Airflow, which would store it: it may hold a password.
        refusal = _TOO_LARGE if len(body) > MOST_BYTES else await run_in_threadpool(refusal_of, body)
        if refusal:
            await JSONResponse({"detail": refusal}, status_code=400)(scope, receive, send)
            return
        replay = iter(messages)

        async def again() -> Message:
            return next(replay, None) or await receive()

        await self._app(scope, again, send)


async def _starts_a_run(scope: Scope) -> bool:
    """Whether the request asks Airflow to start a run of verify_delivery: from its form, or from its asset."""
    if scope["type"] != "http" or scope["method"] != "POST":
        return False
    if asset := _MATERIALIZE.search(scope["path"]):
        return await run_in_threadpool(_is_of_verdicts, int(asset[1]))
    return bool(scope["path"].endswith(PATH))


def _is_of_verdicts(asset_id: int) -> bool:
    """Whether the asset with this id in Airflow's database is one that runs of verify_delivery produce."""
    query = select(TaskOutletAssetReference.dag_id).where(TaskOutletAssetReference.asset_id == asset_id)
    with create_session(scoped=False) as session:
        return DAG_ID in session.scalars(query).all()


def refusal_of(body: bytes) -> str:
    """Returns all errors of the fields in a request that triggers a run. Returns an empty text if the fields have no
    error.

    `body` is JSON with the fields of the form in the entry `conf`. For any other body, returns an empty text, because
    Airflow itself refuses such a body.
    """
    try:
        conf = json.loads(body).get("conf") or {}
        fields = dict(conf)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return ""
    from delivery_verifier.planning import external_runs
    from delivery_verifier.planning.build import scenario_from_params

    try:
        scenario = scenario_from_params(fields, "planned")
        if (access := ClusterAccess.of_fields(fields)) is not None:
            external_runs.require_possible(scenario, access)
        else:
            external_runs.refuse_observing(scenario)
    except BadInput as error:
        return str(error)
    return ""


async def _read(receive: Receive) -> list[Message]:
    """Returns the messages of the request's body. If it has more than MOST_BYTES, leaves out the rest."""
    messages: list[Message] = []
    size = 0
    while size <= MOST_BYTES:
        messages.append(await receive())
        size += len(messages[-1].get("body", b""))
        if not messages[-1].get("more_body"):
            break
    return messages


async def _may_trigger(request: Request) -> bool:
    """Returns whether the request has a token of a user who may start a run. Other users get no answer of the
    validation, because the errors in such an answer can show facts about this host."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    chosen: Any = token if scheme.lower() == "bearer" else request.cookies.get(COOKIE_NAME_JWT_TOKEN)
    try:
        user = await resolve_user_from_token(chosen)
        await run_in_threadpool(_require_access, request, user)
    except HTTPException:
        return False
    return True
