"""The cases of a run: the rows of anomalies/, which list the records with anomalies, and their evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delivery_verifier.run_directory.cases import record_name
from delivery_verifier.run_directory.times import as_us

_TIMES = ("sent_at", "settled_at", "appended_after", "appended_before")
_OTHERS = (
    "arm",
    "kind",
    "also",
    "producer",
    "session",
    "sequence",
    "attempt",
    "partition",
    "outcome",
    "acked_offset",
    "offsets",
    "partitions",
    "overwritten",
)
COLUMNS = (*_OTHERS, *_TIMES)
"""The columns of the files in anomalies/ of which a Case is made."""
EVIDENCE = ("detail",)
"""A further column of these files, which `verdict.causes` needs."""


class Case(NamedTuple):
    """One case, with the values of its row in anomalies/. None: the value is unknown. All times are in µs since the
    epoch.

    * The first of `kinds` is the anomaly of the case. The others are further anomalies that the record shows.
    * `sent_us`: when the record was sent. `settled_us`: when the client reported the record's outcome.
    * `offsets`: the offsets of its copies in the log. `partitions`: the partitions of these copies.
    * `record`: its name (see `run_directory.cases.record_name`). `sequence`, `attempt`: with the partition, the order
      of cases.
    * `overwritten`, `appended_after_us`, `appended_before_us`: see the table `anomalies`
      (docs/reference/run-directory.md).
    """

    arm: str
    kinds: tuple[str, ...]
    producer: int | None
    partition: int | None
    sent_us: int | None
    settled_us: int | None
    outcome: str | None = None
    acked_offset: int | None = None
    offsets: tuple[int, ...] | None = None
    partitions: tuple[int, ...] | None = None
    overwritten: bool | None = None
    appended_after_us: int | None = None
    appended_before_us: int | None = None
    sequence: int | None = None
    attempt: int | None = None
    record: str = ""

    @property
    def sort_key(self) -> tuple[tuple[bool, int], ...]:
        """The place of the case in a list of cases: by partition, sequence and attempt. Unknown ones come last."""
        return tuple((value is None, value or 0) for value in (self.partition, self.sequence, self.attempt))

    @property
    def stands_where_acked(self) -> bool:
        """Whether the record has one copy in the log, at the offset at which it was acknowledged."""
        return self.acked_offset is not None and self.offsets == (self.acked_offset,)


def read_cases(cases: pa.Table, of_arm: str = "") -> Iterator[Case]:
    """Yields each row of `cases` as a Case. `cases` has the columns in COLUMNS. If `of_arm` is given, yields only the
    rows of this arm."""
    if of_arm:
        cases = cases.filter(pc.equal(cases["arm"], of_arm))
    columns = {name: as_us(cases[name]).to_pylist() for name in _TIMES}
    columns |= {name: cases[name].to_pylist() for name in _OTHERS}
    for values in zip(*columns.values(), strict=True):
        yield case_of(dict(zip(columns, values, strict=True)))


def case_of(row: Mapping[str, Any]) -> Case:
    """Returns a row of anomalies/ as a Case. `row` has the columns in COLUMNS, with times in µs since the epoch."""
    offsets, partitions = row["offsets"], row["partitions"]
    return Case(
        arm=row["arm"],
        kinds=(row["kind"], *(row["also"] or ())),
        producer=row["producer"],
        partition=row["partition"],
        sent_us=row["sent_at"],
        settled_us=row["settled_at"],
        outcome=row["outcome"],
        acked_offset=row["acked_offset"],
        offsets=None if offsets is None else tuple(offsets),
        partitions=None if partitions is None else tuple(partitions),
        overwritten=row["overwritten"],
        appended_after_us=row["appended_after"],
        appended_before_us=row["appended_before"],
        sequence=row["sequence"],
        attempt=row["attempt"],
        record=record_name(row),
    )


def read_case_files(folder: Path) -> pa.Table | None:
    """Reads all files in `folder` (anomalies/ of a run directory), and returns their columns COLUMNS and EVIDENCE as
    one table. Returns None if the folder has no file.

    Raises pyarrow.ArrowException if a file is no Parquet file, or lacks a column.
    """
    files = sorted(folder.glob("*.parquet"))
    columns = [*COLUMNS, *EVIDENCE]
    return pa.concat_tables([pq.read_table(file, columns=columns) for file in files]) if files else None
