"""The interface of sinks. A *sink* is where the effects of an application land, e.g. slots of the verifier or a table
of a database.

A sink has two sides. The members write to it while they run. At the end of the run, `Sink.read` reads all effects back,
in one form for all sinks. `sealing` then writes the effects to the run directory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from delivery_verifier.applications.lives import LifeEnd
from delivery_verifier.model import record
from delivery_verifier.model.scenario import Arm

PARSED, CRC_OK, FOREIGN = 1, 2, 4
"""The flags of an effect. PARSED: the value is a record of the verifier. CRC_OK: the checksum of the record is right.
FOREIGN: the record names another run or another arm."""

EFFECT = np.dtype(
    [
        ("offset", "<i8"),
        ("order", "<i8"),
        ("sequence", "<i8"),
        ("partition_sequence", "<i8"),
        ("partition", "<i4"),
        ("producer", "<i4"),
        ("session", "<i4"),
        ("attempt", "<i4"),
        ("batch", "<i4"),
        ("flags", "<u4"),
        ("applied_at", "<i8"),
    ]
)
"""The form of an effect that was read back: 64 bytes. The names are those of columns of the table effects/.

`order` is the sink's own order, in which a later effect has a greater number. `applied_at` is in µs since the epoch.
"""


class Identity(NamedTuple):
    """The attempt that an effect applied, and the flags of the effect. The five numbers come from the header of the
    record. They are 0 if what was applied is not a record of the verifier."""

    sequence: int
    partition_sequence: int
    producer: int
    session: int
    attempt: int
    flags: int


def identity(value: bytes | None, run_token: str, arm_ordinal: int) -> Identity:
    """Returns the identity of the record `value`. The identity has the flag FOREIGN if the header names another run
    than `run_token`, or another arm than `arm_ordinal`."""
    header = record.parse(value or b"")
    if header is None:
        return Identity(0, 0, 0, 0, 0, 0)
    is_foreign = header.run != run_token or header.arm != arm_ordinal
    flags = PARSED | (CRC_OK if header.crc_ok else 0) | (FOREIGN if is_foreign else 0)
    return Identity(header.sequence, header.partition_sequence, header.producer, header.session, header.attempt, flags)


class Effects(Protocol):
    """The writing side of a sink: one life of a member writes its effects here. `SlotWriter` has this interface."""

    def append(self, partition: int, offset: int, batch: int, value: bytes, run_token: str, arm_ordinal: int) -> None:
        """Writes the effect of one record. `run_token` is the token of the run. `arm_ordinal` is the ordinal of the
        arm."""


class PlannedEffect(NamedTuple):
    """An effect that the verifier itself writes for the canary, as if a member had applied the record `value`."""

    partition: int
    offset: int
    value: bytes


def uncounted(_: str) -> int:
    """Returns -1 as the number of visible records of a topic. It means that nobody has counted these records. No real
    number is -1, so every comparison with -1 fails."""
    return -1


class SinkInputs(NamedTuple):
    """What a sink must know to find the effects of one arm.

    * `arm`: the arm, which may be the canary.
    * `folder`: has a folder for each member of the arm's application, named by the member's number.
    * `batch`: the greatest number of records in a batch of a member.
    * `run_token`: a record belongs to the run if its header has this token.
    * `connection`: the client properties with which members reach the cluster.
    * `count_visible`: returns how many records of a topic a read_committed consumer must be handed. It counts them
      without reading the records.
    * `payload_bytes`: the size of a record.
    """

    arm: Arm
    folder: Path
    batch: int
    run_token: str
    connection: Mapping[str, str]
    count_visible: Callable[[str], int] = uncounted
    payload_bytes: int = 0


class LifeEffects(NamedTuple):
    """All effects of one life of a member.

    `rows` has them in the form EFFECT, in the sink's own order. `counted` is how many effects there must be, counted
    without reading them. The law `effects_read` compares it with the number of rows. If `is_shared` is true, any member
    may have written them in its life of the same number: members are killed, stopped and started together.
    """

    member: int
    life: int
    rows: npt.NDArray[np.void]
    counted: int
    is_shared: bool = False


class Sink(Protocol):
    """The interface of one kind of sink."""

    def read(self, inputs: SinkInputs) -> Iterator[LifeEffects]:
        """Yields the effects of each life of each member, in order. Call it after all members have ended.

        Raises an error if a row is damaged, or if the supervisor did not write down how a life ended.
        """

    def plant(self, inputs: SinkInputs, effects: Sequence[PlannedEffect]) -> None:
        """Writes `effects` to a new sink, as member 0 would in its life 0. Notes that this life ended in an orderly
        way."""

    def expected(self, rows: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        """Returns planted effects as this sink must give them back: as they are, if it keeps all of an effect. `rows`
        and the result have the form EFFECT."""
        return rows


def count_of_life(end: LifeEnd, present: int, most_uncounted: int) -> int:
    """Returns how many effects of a life there must be. `present` is the number of effects that the sink reports.

    Members count their effects themselves. A kill may hit a member after it wrote effects, and before it counted them.
    So after a kill up to `most_uncounted` more effects may be present than counted; then returns `present`. Any other
    difference is damage. Then returns the member's own count, which breaks the law `effects_read`.
    """
    is_explained = end.killed and 0 <= present - end.applied <= most_uncounted
    return present if is_explained else end.applied
