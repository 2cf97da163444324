"""The spec of a member: all inputs of one member process, stored as a JSON file in the member's folder."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from delivery_verifier.model.application import Discipline
from delivery_verifier.model.data import Setting


class MemberSpec(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All inputs of one member process.

    `folder` holds the member's control block, and a folder for each life of the member. `life` is the number of this
    life, from 0. `connection` has the client properties with which the member connects. They may hold secrets, so a
    spec is never written into a run directory. `settings` are the consumer settings of the application, with group.id
    and client.id. The member consumes `topic`, in batches of at most `batch` records. `run_token` and `arm` are those
    in the headers of the records that belong to this run and arm.
    """

    folder: str
    life: int
    connection: dict[str, str]
    settings: dict[str, Setting]
    topic: str
    run_token: str
    arm: int
    discipline: Discipline
    batch: int


def life_folder(spec: MemberSpec) -> Path:
    """Returns the folder of the life that `spec` describes. It holds the effects and the journal of the life."""
    return Path(spec.folder) / str(spec.life)
