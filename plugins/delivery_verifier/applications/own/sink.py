"""The sink of user applications (programs of the user's own). Reads back, at the end of the run, what the user's
command has written.

These effects have neither the partition nor the offset of their records: both are -1. `spark_jobs.effects.own_effects`
finds the partitions and the offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from delivery_verifier.applications.incarnations import IncarnationEnd, incarnations_of, members_of, read_end, write_end
from delivery_verifier.applications.own.described import location_of, pattern_of
from delivery_verifier.applications.own.readers import EffectReader, check_grown, reader_of
from delivery_verifier.applications.own.scan import RecordPattern
from delivery_verifier.applications.sink import (
    CRC_OK,
    EFFECT,
    PARSED,
    IncarnationEffects,
    PlannedEffect,
    Sink,
    SinkInputs,
)
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.record import HEADER_BYTES, MARKER_PRODUCER
from delivery_verifier.model.sink_location import IN_FOLDER, OF_COLUMNS, SinkLocation

LEAST_REPEATED, REPEATED_SHARE = 20, 0.95
"""Two limits for effects that look doubled because a program writes two lines per record. If an incarnation has at
least LEAST_REPEATED records, and REPEATED_SHARE of them appear equally often, then the run fails. The repetitions are
not counted as anomalies."""


def planted_place(location: SinkLocation) -> SinkLocation:
    """Returns `location`, changed to a place of the verifier: files move into the folder of the member, and a table
    loses its schema, which SQLite does not have. So the verifier plants nothing in the files and tables of the user."""
    if location.kind == "table":
        return replace(location, table=location.table.rpartition(".")[2])
    return replace(location, where=IN_FOLDER + location.where[1:]) if location.where.startswith("/") else location


class OwnEffects(Sink):
    """The sink of user applications (programs of the user's own). `location` is the place where the effects land. If it
    is None, the file that describes the application names the place, and the effects of the canary land in lines (text
    files)."""

    def __init__(self, location: SinkLocation | None = None) -> None:
        self._location = location

    def read(self, inputs: SinkInputs) -> Iterator[IncarnationEffects]:
        """Yields the effects of each incarnation of each member, with their number. All effects of the member are also
        counted in a second way. The number of the last incarnation is this count, minus the effects of the earlier
        incarnations. So any difference between both counts shows in the last incarnation. If all members write to one
        place, all effects are those of member 0.

        Raises FileNotFoundError if the supervisor did not write down how an incarnation ended. Raises BadInput if the
        file that describes the application is wrong. Raises StepFailed in each of these cases:

        * The place cannot be read, or holds less than when an incarnation ended. (An output topic may hold less: see
          `settlement.outputs`.)
        * Nearly all records are there equally often, and more than once.
        * `effects.identity` is wrong.
        """
        location = self._location or location_of(inputs)
        pattern = pattern_of(inputs, location)
        members = members_of(inputs.folder)
        for member, folder in members.items():
            if member and location.is_shared:
                yield from (
                    IncarnationEffects(member, incarnation, np.zeros(0, EFFECT), 0)
                    for incarnation in incarnations_of(folder)
                )
                continue
            ends = {incarnation: read_end(path) for incarnation, path in incarnations_of(folder).items()}
            incarnations = {incarnation: list[npt.NDArray[np.void]]() for incarnation in ends}
            reader = reader_of(inputs, folder, location)
            counted = reader.count(pattern)
            for name, part in reader.scans(pattern):
                which = _incarnations(name, part.positions, ends, location)
                for incarnation, parts in incarnations.items():
                    parts.append(part.rows[which == incarnation])
            # only the cluster can shrink it: `settlement.outputs` finds out whether it did
            if location.kind != "topic":
                _check_growth(member, counted, ends, reader, location)
            _check_identity(reader, pattern, incarnations, location)
            for incarnation, parts in incarnations.items():
                rows = _completed(np.concatenate([np.zeros(0, EFFECT), *parts]), ends[incarnation])
                _check_repetition(member, incarnation, rows)
                counted -= len(rows)
                is_last = incarnation == max(incarnations)
                is_shared = location.is_shared and len(members) > 1
                yield IncarnationEffects(member, incarnation, rows, len(rows) + (counted if is_last else 0), is_shared)

    def plant(self, inputs: SinkInputs, effects: Sequence[PlannedEffect]) -> None:
        """Writes the values of `effects` as effects of incarnation 0 of member 0. Writes them to a place that only the
        verifier uses."""
        folder = inputs.folder / "0" / "0"
        folder.mkdir(parents=True)
        location = self._location or location_of(inputs)
        most = HEADER_BYTES if location.identity == "header" else None
        reader_of(inputs, folder.parent, location).plant([effect.value[:most] for effect in effects])
        write_end(folder, IncarnationEnd(applied=len(effects), exit_code=0, killed=False))

    def expected(self, rows: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        """Returns effects as they look after they were written to the place and read back, without partition, offset
        and batch.

        * If the place keeps only the headers of records, an effect that names a record gets the flag CRC_OK, because
          there is no checksum to check.
        * If the place keeps columns, an effect that names a record gets this flag, too, and keeps only three numbers of
          the record. An effect that names no record keeps neither numbers nor flags.
        """
        rows, identity = rows.copy(), self._location.identity if self._location else "value"
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
    member: int, count: int, ends: dict[int, IncarnationEnd], reader: EffectReader, location: SinkLocation
) -> None:
    """Raises StepFailed if the place of a member holds less than when an incarnation ended.

    `count` is the present number of effects in the place.
    """
    sizes = reader.sizes()
    for incarnation, end in ends.items():
        check_grown(end.sizes, sizes, location)
        if count < end.applied:
            raise StepFailed(
                f"member {member} had {end.applied} effects when its incarnation {incarnation} ended, and now there "
                "are only "
                f"{count}; let the program only append to the place in [effects]"
            )


def _check_identity(
    reader: EffectReader,
    pattern: RecordPattern,
    incarnations: dict[int, list[npt.NDArray[np.void]]],
    location: SinkLocation,
) -> None:
    """Raises StepFailed if these three conditions hold: `effects.identity` is `value`, no effect holds a whole record,
    and some effects hold the header of a record."""
    parts = [part for parts in incarnations.values() for part in parts]
    if location.identity != "value" or any(np.any(part["flags"] & CRC_OK) for part in parts):
        return
    scans = [scan for _, scan in reader.scans(pattern._replace(is_header=True))]
    if headers := sum(int(np.count_nonzero(scan.rows["flags"] & PARSED)) for scan in scans):
        raise StepFailed(
            f"effects.identity is value, but no effect holds the whole value of a record, and {headers} hold its "
            'first 60 characters; write identity = "header"'
        )


def _check_repetition(member: int, incarnation: int, rows: npt.NDArray[np.void]) -> None:
    """Raises StepFailed if an incarnation has nearly every record equally often, and more than once. Then the program
    probably writes one line when it receives a record, and another when it applies the record."""
    records = rows[rows["producer"] != MARKER_PRODUCER]
    _, counts = np.unique(records[["producer", "session", "sequence", "attempt"]], return_counts=True)
    times, attempts = np.unique(counts, return_counts=True)
    for number, share in zip(times, attempts / max(len(counts), 1), strict=True):
        if number > 1 and share >= REPEATED_SHARE and len(counts) >= LEAST_REPEATED:
            raise StepFailed(
                f"member {member} has nearly every record {number} times in its incarnation {incarnation}: some of "
                "these lines are "
                "probably no effects; name in effects.containing a text that only lines of applied records have"
            )


def _incarnations(
    name: str, positions: npt.NDArray[np.int64], ends: dict[int, IncarnationEnd], location: SinkLocation
) -> npt.NDArray[np.int64]:
    """Returns, for each effect, the number of the incarnation in which it was written. `positions` has the position of
    each effect in the part `name` of the place.

    Standard output has one file per incarnation. Several incarnations share any other part, and such a part only grows.
    An effect belongs to the first incarnation at whose end the part already contained the effect.
    """
    numbers = np.array(list(ends))
    if location.output:
        return np.full(len(positions), int(Path(name).parent.name))
    sizes = np.maximum.accumulate([end.sizes.get(name, 0) for end in ends.values()])
    which = np.searchsorted(sizes, positions, side="right")
    return np.asarray(numbers[np.minimum(which, len(numbers) - 1)])


def _completed(rows: npt.NDArray[np.void], end: IncarnationEnd) -> npt.NDArray[np.void]:
    """Returns `rows` with the fields filled in that a user application does not report. Partition, offset and batch
    become -1. The order is the order of the lines. The time of every effect is the end of the incarnation."""
    rows["partition"] = rows["offset"] = rows["batch"] = -1
    rows["order"] = end.ended_us * 1000 + np.arange(len(rows))
    rows["applied_at"] = end.ended_us
    return rows
