"""The sink of own applications: lines or files that the user's command writes, read back at the end of the run.

Such effects keep neither partition nor offset of their records: both are -1. `spark_jobs.own_effects` finds them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from delivery_verifier.applications.lives import LifeEnd, lives_of, members_of, read_end, write_end
from delivery_verifier.applications.own.files import effects_in, files_of, grown_sizes, scans_of
from delivery_verifier.applications.own.planting import plant_values
from delivery_verifier.applications.own.scan import RecordPattern
from delivery_verifier.applications.sink import EFFECT, LifeEffects, PlannedEffect, SinkInputs
from delivery_verifier.host import folders
from delivery_verifier.model.data import dumps
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.own_application import STDOUT, EffectsPlace, OwnApplication, parse, several_at_one_path
from delivery_verifier.model.record import MARKER_PRODUCER

LEAST_REPEATED, REPEATED_SHARE = 20, 0.95
"""Two limits for effects that look doubled because a program writes two lines per record. If a life has at least
LEAST_REPEATED records, and REPEATED_SHARE of them appear equally often, then the run fails. The repetitions are not
counted as anomalies."""


def read_own(name: str) -> OwnApplication:
    """Returns the own application called `name`. Raises BadInput if its file is wrong, and FileNotFoundError if there
    is none."""
    file = folders.applications_dir() / f"{name}.toml"
    return parse(file.read_bytes(), file)


def landing_of(inputs: SinkInputs) -> EffectsPlace:
    """Returns where the effects of an arm land. Those of the canary land in lines.

    Raises BadInput if all members of the arm would write to the same place, and StepFailed if the file of the
    application has changed since the first call for the arm.
    """
    application = inputs.arm.application
    if application is None:
        return EffectsPlace()
    own = read_own(application.name)
    if problem := several_at_one_path(own.effects, application.members):
        raise BadInput(f"{application.name}.toml: effects.where {problem}")
    seal, digest = inputs.folder / "toml.sha256", _digest(own)
    if not seal.exists():
        inputs.folder.mkdir(parents=True, exist_ok=True)
        seal.write_text(digest)
    if seal.read_text() != digest:
        raise StepFailed(
            f"{application.name}.toml has changed during the run, so its effects would be read in another way than "
            "they were written; leave the file alone while a run uses it, and run again"
        )
    return own.effects


def _digest(own: OwnApplication) -> str:
    """Returns the digest of an application without its environment, which holds secrets."""
    return hashlib.sha256(dumps(replace(own, environment={}, connections={}))).hexdigest()


def pattern_of(inputs: SinkInputs, landing: EffectsPlace) -> RecordPattern:
    """Returns what to look for in the effects of an arm."""
    return RecordPattern(
        inputs.run_token,
        inputs.arm.ordinal,
        inputs.payload_bytes,
        landing.identity == "header",
        landing.containing.encode(),
    )


class OwnFiles:
    """The sink of own applications. `landing` is where the effects land. If it is None, the effects land where the file
    of the application says, and those of the canary land in lines."""

    def __init__(self, landing: EffectsPlace | None = None) -> None:
        self._landing = landing

    def read(self, inputs: SinkInputs) -> Iterator[LifeEffects]:
        """Yields the effects of each life of each member. Also counts all effects of a member in another way. This
        count, minus the counts of the member's earlier lives, is the count that its last life must have.

        Raises FileNotFoundError if nobody saw how a life ended, BadInput if the file of the application is wrong, and
        StepFailed if files hold less than they held when a life ended, or nearly all records equally often.
        """
        landing = self._landing or landing_of(inputs)
        pattern = pattern_of(inputs, landing)
        for member, folder in members_of(inputs.folder).items():
            ends = {life: read_end(path) for life, path in lives_of(folder).items()}
            lives = {life: list[npt.NDArray[np.void]]() for life in ends}
            counted = 0
            for file in files_of(landing, folder):
                counted += effects_in(landing, file, pattern)
                for part in scans_of(landing, file, pattern):
                    which = _lives(file, part.positions, ends, landing)
                    for life, parts in lives.items():
                        parts.append(part.rows[which == life])
            _check_growth(member, counted, ends, landing, folder)
            for life, parts in lives.items():
                rows = _completed(np.concatenate([np.zeros(0, EFFECT), *parts]), ends[life])
                _check_repetition(member, life, rows)
                counted -= len(rows)
                is_last = life == max(lives)
                yield LifeEffects(member, life, rows, len(rows) + (counted if is_last else 0))

    def plant(self, inputs: SinkInputs, effects: Sequence[PlannedEffect]) -> None:
        """Writes the values of `effects` to the sink's own files, as member 0 would in its life 0."""
        folder = inputs.folder / "0" / "0"
        folder.mkdir(parents=True)
        plant_values(self._landing or landing_of(inputs), folder.parent, [effect.value for effect in effects])
        write_end(folder, LifeEnd(applied=len(effects), exit_code=0, killed=False))


def count_of_member(inputs: SinkInputs, folder: Path) -> int:
    """Returns how many effects a member has in all of its lives. `folder` is the folder of the member."""
    landing = landing_of(inputs)
    pattern = pattern_of(inputs, landing)
    return sum(effects_in(landing, file, pattern) for file in files_of(landing, folder))


def _check_growth(member: int, count: int, ends: dict[int, LifeEnd], landing: EffectsPlace, folder: Path) -> None:
    """Raises StepFailed if the files of a member hold less than they held when a life ended.

    `count` is how many effects they hold now.
    """
    for life, end in ends.items():
        grown_sizes(end.sizes, landing, folder)
        if count < end.applied:
            raise StepFailed(
                f"member {member} had {end.applied} effects when its life {life} ended, and its files now hold only "
                f"{count}; let the program only append to the files in effects.where"
            )


def _check_repetition(member: int, life: int, rows: npt.NDArray[np.void]) -> None:
    """Raises StepFailed if a life has nearly every record equally often, and more than once: then its program probably
    writes a line when it receives a record, and another when it applies the record."""
    records = rows[rows["producer"] != MARKER_PRODUCER]
    _, counts = np.unique(records[["producer", "session", "sequence", "attempt"]], return_counts=True)
    times, attempts = np.unique(counts, return_counts=True)
    for number, share in zip(times, attempts / max(len(counts), 1), strict=True):
        if number > 1 and share >= REPEATED_SHARE and len(counts) >= LEAST_REPEATED:
            raise StepFailed(
                f"member {member} has nearly every record {number} times in its life {life}: some of these lines are "
                "probably no effects; name in effects.containing a text that only lines of applied records have"
            )


def _lives(
    file: Path, positions: npt.NDArray[np.int64], ends: dict[int, LifeEnd], landing: EffectsPlace
) -> npt.NDArray[np.int64]:
    """Returns the number of the life in which each effect was written. `positions` are those of the effects in `file`.

    Standard output has one file per life. Any other file is shared by several lives, and only grows. A line belongs to
    the first life at whose end the file already contained the line.
    """
    numbers = np.array(list(ends))
    if landing.where == STDOUT:
        return np.full(len(positions), int(file.parent.name))
    sizes = np.maximum.accumulate([end.sizes.get(str(file), 0) for end in ends.values()])
    which = np.searchsorted(sizes, positions, side="right")
    return np.asarray(numbers[np.minimum(which, len(numbers) - 1)])


def _completed(rows: npt.NDArray[np.void], end: LifeEnd) -> npt.NDArray[np.void]:
    """Fills in the fields that an own application does not report. Partition, offset and batch become -1. The order is
    the order of the lines. The time of every effect is the end of the life."""
    rows["partition"] = rows["offset"] = rows["batch"] = -1
    rows["order"] = end.ended_us * 1000 + np.arange(len(rows))
    rows["applied_at"] = end.ended_us
    return rows
