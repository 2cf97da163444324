"""The TOML file that describes a user application (a program of the user's own). From this file, a run learns where
the effects of the application land, and which values the environment of the application has."""

from __future__ import annotations

import hashlib
import os

from msgspec.structs import replace

from delivery_verifier.applications.own.scan import RecordPattern
from delivery_verifier.applications.sink import SinkInputs
from delivery_verifier.host import folders
from delivery_verifier.model.data import dumps
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.sink_location import SinkLocation, several_at_one_path
from delivery_verifier.model.user_application import UserApplication, parse, short_secret


def read_own(name: str) -> UserApplication:
    """Returns the user application called `name`. Raises BadInput if the file that describes the application is
    wrong, and FileNotFoundError if there is no such file."""
    file = folders.applications_dir() / f"{name}.toml"
    return parse(file.read_bytes(), file)


def location_of(inputs: SinkInputs) -> SinkLocation:
    """Returns the place where the effects of an arm land. The effects of the canary land in lines (text files).

    Raises BadInput if all members of the arm would write to the same place. Raises StepFailed if the file that
    describes the application has changed since the first call for the arm, or if its kind of effects has changed since
    the run was planned.
    """
    application = inputs.arm.application
    if application is None:
        return SinkLocation()
    own = read_own(application.name)
    if problem := several_at_one_path(own.effects, application.members):
        raise BadInput(f"{application.name}.toml: effects.where {problem}")
    seal, digest = inputs.folder / "toml.sha256", _digest(own)
    if not seal.exists():
        inputs.folder.mkdir(parents=True, exist_ok=True)
        seal.write_text(digest)
    if seal.read_text() != digest or (application.effects or own.effects.kind) != own.effects.kind:
        raise StepFailed(
            f"{application.name}.toml has changed during the run, so its effects would be read in another way than "
            "they were written; leave the file alone while a run uses it, and run again"
        )
    return own.effects


def _digest(own: UserApplication) -> str:
    """Returns the digest of the description of a user's application. Leaves out the environment, which has secrets."""
    return hashlib.sha256(dumps(replace(own, environment={}, connections={}))).hexdigest()


def pattern_of(inputs: SinkInputs, location: SinkLocation) -> RecordPattern:
    """Returns the pattern with which a reader finds the records of the arm in the arm's effects."""
    return RecordPattern(
        inputs.run_token,
        inputs.arm.ordinal,
        inputs.payload_bytes,
        location.identity == "header",
        location.containing.encode(),
    )


def secret_environment(own: UserApplication) -> dict[str, str]:
    """Returns the environment variables that the operator gives to the application, and the variables that hold the
    URIs of the application's connections.

    Raises BadInput if a connection has no value. Also raises BadInput if the password of a connection is too short to
    be found in a text.
    """
    uris = {}
    for name, connection in own.connections.items():
        variable = f"AIRFLOW_CONN_{connection.upper()}"
        uri = os.environ.get(variable)
        if not uri:
            raise BadInput(
                f"connections.{name} names the connection {connection!r}, which is not known; set {variable}"
            )
        if problem := short_secret(name, uri):
            raise BadInput(f"connections.{name}: the connection {connection!r} {problem}")
        uris[name] = uri
    return own.environment | uris
