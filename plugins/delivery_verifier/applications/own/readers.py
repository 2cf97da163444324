"""Readers of the effects of own applications (programs of the user's own). Files, output topics and tables have readers
with the same interface."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from delivery_verifier.applications.own.described import landing_of, read_own, secret_environment
from delivery_verifier.applications.own.files import Files
from delivery_verifier.applications.own.scan import RecordPattern, Scan
from delivery_verifier.applications.own.topic import Topic
from delivery_verifier.applications.sink import SinkInputs
from delivery_verifier.model.application import output_topic
from delivery_verifier.model.effects_place import EffectsPlace
from delivery_verifier.model.errors import StepFailed


class EffectReader(Protocol):
    """Reads the effects of one member from the place where they land. A place has parts, each with a name. The parts
    are files, the partitions of a topic, or one table."""

    def sizes(self) -> dict[str, int]:
        """Maps each part of the place to its size. The unit is that of the positions in `scans`: bytes, offsets or
        rows."""

    def scans(self, pattern: RecordPattern) -> Iterator[tuple[str, Scan]]:
        """Yields all effects, in portions. A portion is a pair: the name of a part, and effects with their positions in
        this part."""

    def count(self, pattern: RecordPattern) -> int:
        """Returns how many effects there are. Counts them by another method than `scans`."""

    def markers(self, pattern: RecordPattern, searched: dict[str, int]) -> Iterator[tuple[int, int]]:
        """Yields a pair for each marker that was applied since the last call: the partition of the marker, and the
        number of its round.

        `searched` maps each part to the position up to which earlier calls have looked for markers. The call updates
        it.
        """

    def undecided(self) -> int:
        """Returns how many offsets of the place are not decided: those from the oldest open transaction to the end of
        each partition."""

    def plant(self, values: Sequence[bytes]) -> None:
        """Writes an effect for each of `values`, as a program would: records, or what identifies a record at this
        place. Also writes what a wrong reader would take for an effect. Only the verifier uses such a place."""

    def keep(self) -> None:
        """Remembers which effects there are at the end of a life. Does nothing if the positions of the effects show in
        which life they were written."""


def reader_of(inputs: SinkInputs, folder: Path, landing: EffectsPlace | None = None) -> EffectReader:
    """Returns the reader of a member's effects. `folder` is the folder of the member.

    `landing` is the place of the effects. If it is None, the file that describes the application names the place. The
    canary has no such file, so its caller must give `landing`. If the place is a table, the canary's rows are in a
    database of the verifier. Raises BadInput and StepFailed in the same cases as `landing_of` and `secret_environment`.
    """
    landing = landing or landing_of(inputs)
    topic = inputs.arm.topic_name
    if landing.kind == "topic":
        return Topic(output_topic(topic), inputs.connection, landing, inputs.count_visible, inputs.folder)
    if landing.kind == "table":
        from delivery_verifier.applications.own.table import CANARY_FILE, Table

        if inputs.arm.application is None:
            return Table(f"sqlite:///{inputs.folder / CANARY_FILE}", landing, topic, folder)
        environment = secret_environment(read_own(inputs.arm.application.name))
        return Table(environment[landing.where], landing, topic, folder)
    return Files(landing, folder)


def check_grown(before: Mapping[str, int], sizes: Mapping[str, int], landing: EffectsPlace) -> None:
    """Raises StepFailed if a part of the place `landing` is gone or has shrunk. The program had written effects that
    are now missing, and this must not count against the program. `before` has the earlier sizes of the parts.

    Never raises for an output topic: only the cluster can shrink it. `settlement.outputs` finds out whether it did.
    """
    for name, size in before.items() if landing.kind != "topic" else ():
        if sizes.get(name, -1) < size:
            what = f"has shrunk from {size} to {sizes[name]}" if name in sizes else "is gone"
            raise StepFailed(
                f"{name} held effects, and {what}: its effects can be counted no more; let the program only append to "
                "the place in [effects]: it must not rotate, truncate or remove files, and not delete rows"
            )
