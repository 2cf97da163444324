"""A member of a user application whose program is played by the test: nothing runs, and effects are written by
hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from delivery_verifier.applications.incarnations import IncarnationEnd, write_end
from delivery_verifier.applications.own.described import location_of, pattern_of
from delivery_verifier.applications.own.readers import EffectReader, reader_of
from delivery_verifier.applications.own.sink import OwnEffects
from delivery_verifier.applications.sink import IncarnationEffects, SinkInputs
from delivery_verifier.model import record
from support import user_applications

SCENARIO = user_applications.scenario()
ARM = SCENARIO.subjects[0]
SIZE = SCENARIO.load.payload_bytes


def value(sequence: int, attempt: int = 0, producer: int = 0) -> bytes:
    """Returns the record with `sequence`, as the producers of the arm write it."""
    return record.encode(SCENARIO.run_token, ARM.ordinal, producer, 0, sequence, attempt, sequence, SIZE)


OTHER_RUN = record.encode("ffffffff", ARM.ordinal, 0, 0, 9, 0, 9, SIZE)
"""A record of another run."""


class Member:
    """Member 0 of the user application `sink`. `connection` has the client properties."""

    def __init__(self, folder: Path, connection: Mapping[str, str] | None = None) -> None:
        properties = connection or {}
        self.inputs = SinkInputs(ARM, folder / "members", 10, SCENARIO.run_token, properties, payload_bytes=SIZE)
        self.folder, self.work, self.incarnation = folder / "members" / "0", folder / "members" / "0" / "work", -1
        self.work.mkdir(parents=True)

    @property
    def reader(self) -> EffectReader:
        """A new reader of the effects."""
        return reader_of(self.inputs, self.folder)

    def end_incarnation(self) -> None:
        """Ends an incarnation as the pool does."""
        self.incarnation += 1
        folder = self.folder / str(self.incarnation)
        folder.mkdir()
        count = self.reader.count(pattern_of(self.inputs, location_of(self.inputs)))
        self.reader.keep()
        sizes = self.reader.sizes()
        write_end(
            folder, IncarnationEnd(applied=count, exit_code=0, killed=False, ended_us=1 + self.incarnation, sizes=sizes)
        )

    def read(self) -> list[IncarnationEffects]:
        """Returns the effects of each incarnation."""
        return list(OwnEffects().read(self.inputs))

    def sequences(self) -> list[int]:
        """Returns the sequences of all effects. Asserts that their count agrees."""
        incarnations = self.read()
        assert all(incarnation.counted == len(incarnation.rows) for incarnation in incarnations)
        return [int(row["sequence"]) for incarnation in incarnations for row in incarnation.rows]
