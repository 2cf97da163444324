"""The spec of a member: all inputs of one member process, stored as a JSON file in the member's folder."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from delivery_verifier.model.application import Discipline
from delivery_verifier.model.client import Client
from delivery_verifier.model.data import Setting


class MemberSpec(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All inputs of one member process.

    * `folder`: holds the member's control block, and a folder for each incarnation of the member.
    * `incarnation`: the number of this incarnation, from 0.
    * `client`, `client_version`: the client library of the member, and its version. Empty: the default version.
    * `connection`: the client properties with which the member connects, by the names of `client`. They may hold
      secrets, so a spec is never written into a run directory.
    * `settings`: the consumer settings of the application, with group.id and client.id. They have librdkafka's names,
      and are translated for the Java client (see `java.settings`). So are those of `producer`.
    * `topic`: the topic that the member consumes.
    * `run_token`, `arm`: a record belongs to this run and arm if its header has both values.
    * `batch`: the greatest number of records in a batch.
    * `producer`: the producer settings of a transform, with transactional.id and client.id. Empty for any other
      discipline.
    """

    folder: str
    incarnation: int
    connection: dict[str, str]
    settings: dict[str, Setting]
    topic: str
    run_token: str
    arm: int
    discipline: Discipline
    batch: int
    producer: dict[str, Setting] = {}
    client: Client = "librdkafka"
    client_version: str = ""


def incarnation_folder(spec: MemberSpec) -> Path:
    """Returns the folder of the incarnation that `spec` describes. It holds the effects and the journal of the
    incarnation."""
    return Path(spec.folder) / str(spec.incarnation)
