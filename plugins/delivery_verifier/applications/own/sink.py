"""The sink of own applications (programs of the user's own). Reads back, at the end of the run, what the user's command
has written.

These effects have neither the partition nor the offset of their records: both are -1. `spark_jobs.effects.own_effects`
finds the partitions and the offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from delivery_verifier.applications.lives import LifeEnd, lives_of, members_of, read_end, write_end
from delivery_verifier.applications.own.described import landing_of, pattern_of
from delivery_verifier.applications.own.readers import EffectReader, check_grown, reader_of
from delivery_verifier.applications.own.scan import RecordPattern
from delivery_verifier.applications.sink import CRC_OK, EFFECT, PARSED, LifeEffects, PlannedEffect, Sink, SinkInputs
from delivery_verifier.model.effects_place import IN_FOLDER, OF_COLUMNS, EffectsPlace
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.record import HEADER_BYTES, MARKER_PRODUCER

LEAST_REPEATED, REPEATED_SHARE = 20, 0.95
"""Two limits for effects that look doubled because a program writes two lines per record. If a life has at least
LEAST_REPEATED records, and REPEATED_SHARE of them appear equally often, then the run fails. The repetitions are not
counted as anomalies."""


def planted_place(landing: EffectsPlace) -> EffectsPlace:
    """Returns `landing`, changed to a place of the verifier: files move into the folder of the member, and a table
    loses its schema, which SQLite does not have. So the verifier plants nothing in the files and tables of the user."""
    if landing.kind == "table":
        return replace(landing, table=landing.table.rpartition(".")[2])
    return replace(landing, where=IN_FOLDER + landing.where[1:]) if landing.where.startswith("/") else landing


class OwnEffects(Sink):
    """The sink of own applications (programs of the user's own). `landing` is the place where the effects land. If it
    is None, the file that describes the application names the place, and the effects of the canary land in lines (text
    files)."""

    def __init__(self, landing: EffectsPlace | None = None) -> None:
        self._landing = landing

    def read(self, inputs: SinkInputs) -> Iterator[LifeEffects]:
        """Yields the effects of each life of each member, with their number. All effects of the member are also counted
        in a second way. The number of the last life is this count, minus the effects of the earlier lives. So any
        difference between both counts shows in the last life. If all members write to one place, all effects are those
        of member 0.

        Raises FileNotFoundError if the supervisor did not write down how a life ended. Raises BadInput if the file that
        describes the application is wrong. Raises StepFailed in each of these cases:

        * The place cannot be read, or holds less than when a life ended. (An output topic may hold less: see
          `settlement.outputs`.)
        * Nearly all records are there equally often, and more than once.
        * `effects.identity` is wrong.
        """
        landing = self._landing or landing_of(inputs)
        pattern = pattern_of(inputs, landing)
        members = members_of(inputs.folder)
        for member, folder in members.items():
            if member and landing.is_shared:
                yield from (LifeEffects(member, life, np.zeros(0, EFFECT), 0) for life in lives_of(folder))
                continue
            ends = {life: read_end(path) for life, path in lives_of(folder).items()}
            lives = {life: list[npt.NDArray[np.void]]() for life in ends}
            reader = reader_of(inputs, folder, landing)
            counted = reader.count(pattern)
            for name, part in reader.scans(pattern):
                which = _lives(name, part.positions, ends, landing)
                for life, parts in lives.items():
                    parts.append(part.rows[which == life])
            if landing.kind != "topic":  # only the cluster can shrink it: `settlement.outputs` finds out whether it did
                _check_growth(member, counted, ends, reader, landing)
            _check_identity(reader, pattern, lives, landing)
            for life, parts in lives.items():
                rows = _completed(np.concatenate([np.zeros(0, EFFECT), *parts]), ends[life])
                _check_repetition(member, life, rows)
                counted -= len(rows)
                is_last = life == max(lives)
                is_shared = landing.is_shared and len(members) > 1
                yield LifeEffects(member, life, rows, len(rows) + (counted if is_last else 0), is_shared)

    def plant(self, inputs: SinkInputs, effects: Sequence[PlannedEffect]) -> None:
        """Writes the values of `effects` as effects of life 0 of member 0. Writes them to a place that only the
        verifier uses."""
        folder = inputs.folder / "0" / "0"
        folder.mkdir(parents=True)
        landing = self._landing or landing_of(inputs)
        most = HEADER_BYTES if landing.identity == "header" else None
        reader_of(inputs, folder.parent, landing).plant([effect.value[:most] for effect in effects])
        write_end(folder, LifeEnd(applied=len(effects), exit_code=0, killed=False))

    def expected(self, rows: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        """Returns effects as they look after they were written to the place and read back, without partition, offset
        and batch.

        * If the place keeps only the headers of records, an effect that names a record gets the flag CRC_OK, because
          there is no checksum to check.
        * If the place keeps columns, an effect that names a record gets this flag, too, and keeps only three numbers of
          the record. An effect that names no record keeps neither numbers nor flags.
        """
        rows, identity = rows.copy(), self._landing.identity if self._landing else "value"
        is_parsed = rows["flags"] & PARSED != 0
        if identity == "header":
            rows["flags"][is_parsed] |= CRC_OK
        if identity == "columns":
            for name in OF_COLUMNS:
                rows[name] = np.where(is_parsed, rows[name], 0)
            rows["partition_sequence"] = rows["session"] = 0
            rows["flags"] = is_parsed * (PARSED | CRC_OK)
        rows["partition"] = rows["offset"] = rows["batch"] = -1
        return rows


def _check_growth(
    member: int, count: int, ends: dict[int, LifeEnd], reader: EffectReader, landing: EffectsPlace
) -> None:
    """Raises StepFailed if the place of a member holds less than when a life ended.

    `count` is the present number of effects in the place.
    """
    sizes = reader.sizes()
    for life, end in ends.items():
        check_grown(end.sizes, sizes, landing)
        if count < end.applied:
            raise StepFailed(
                f"member {member} had {end.applied} effects when its life {life} ended, and now there are only "
                f"{count}; let the program only append to the place in [effects]"
            )


def _check_identity(
    reader: EffectReader, pattern: RecordPattern, lives: dict[int, list[npt.NDArray[np.void]]], landing: EffectsPlace
) -> None:
    """Raises StepFailed if these three conditions hold: `effects.identity` is `value`, no effect holds a whole record,
    and some effects hold the header of a record."""
    parts = [part for parts in lives.values() for part in parts]
    if landing.identity != "value" or any(np.any(part["flags"] & CRC_OK) for part in parts):
        return
    scans = [scan for _, scan in reader.scans(pattern._replace(is_header=True))]
    if headers := sum(int(np.count_nonzero(scan.rows["flags"] & PARSED)) for scan in scans):
        raise StepFailed(
            f"effects.identity is value, but no effect holds the whole value of a record, and {headers} hold its "
            'first 60 characters; write identity = "header"'
        )


def _check_repetition(member: int, life: int, rows: npt.NDArray[np.void]) -> None:
    """Raises StepFailed if a life has nearly every record equally often, and more than once. Then the program probably
    writes one line when it receives a record, and another when it applies the record."""
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
    name: str, positions: npt.NDArray[np.int64], ends: dict[int, LifeEnd], landing: EffectsPlace
) -> npt.NDArray[np.int64]:
    """Returns, for each effect, the number of the life in which it was written. `positions` has the position of each
    effect in the part `name` of the place.

    Standard output has one file per life. Several lives share any other part, and such a part only grows. An effect
    belongs to the first life at whose end the part already contained the effect.
    """
    numbers = np.array(list(ends))
    if landing.output:
        return np.full(len(positions), int(Path(name).parent.name))
    sizes = np.maximum.accumulate([end.sizes.get(name, 0) for end in ends.values()])
    which = np.searchsorted(sizes, positions, side="right")
    return np.asarray(numbers[np.minimum(which, len(numbers) - 1)])


def _completed(rows: npt.NDArray[np.void], end: LifeEnd) -> npt.NDArray[np.void]:
    """Returns `rows` with the fields filled in that an own application does not report. Partition, offset and batch
    become -1. The order is the order of the lines. The time of every effect is the end of the life."""
    rows["partition"] = rows["offset"] = rows["batch"] = -1
    rows["order"] = end.ended_us * 1000 + np.arange(len(rows))
    rows["applied_at"] = end.ended_us
    return rows
