"""A database as a sink. Each effect is a row of an SQLite table. Another table of the same database holds the offsets.

All members of an application share one file, `FILE`. What a committed transaction wrote survives a crash of the process
and a crash of the host. What an uncommitted transaction wrote is lost.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from delivery_verifier.applications.lives import LifeEnd, lives_of, members_of, read_end, write_end
from delivery_verifier.applications.sink import (
    EFFECT,
    LifeEffects,
    PlannedEffect,
    Sink,
    SinkInputs,
    count_of_life,
    identity,
)
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.history import now_us

FILE = "effects.sqlite"
"""The name of the database in the folder of an application."""
LOCK_S = 30.0
"""Seconds that a member waits for the transaction of another connection."""

_COLUMNS = ", ".join(f'"{name}"' for name in EFFECT.names or ())
_TABLES = f"""
    CREATE TABLE IF NOT EXISTS effects(
        member INTEGER NOT NULL, life INTEGER NOT NULL,
        {
    ", ".join(
        f'"{name}" INTEGER' + (" PRIMARY KEY AUTOINCREMENT" if name == "order" else " NOT NULL")
        for name in EFFECT.names or ()
    )
}
    );
    CREATE TABLE IF NOT EXISTS offsets("partition" INTEGER PRIMARY KEY, "next" INTEGER NOT NULL);
"""
_INSERT = f"INSERT INTO effects(member, life, {_COLUMNS}) VALUES (?, ?{', ?' * len(EFFECT.names or ())})"


class OffsetMoved(VerifierError, RuntimeError):
    """An offset in the database differs from the offset that the member expects, because another member has moved
    it."""


class DamagedDatabase(VerifierError, ValueError):
    """SQLite reports that the file of a database is damaged."""


class Database:
    """The connection to the database of an application, for one life of a member. `folder` is the folder of the
    application.

    Creates the database if it does not exist. Raises sqlite3.OperationalError if another connection holds the lock for
    longer than `LOCK_S` seconds.
    """

    def __init__(self, folder: Path, member: int, life: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._member, self._life = member, life
        self._connection = sqlite3.connect(folder / FILE, timeout=LOCK_S, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.executescript(_TABLES)

    def begin(self) -> None:
        """Begins a transaction. Waits until the connection has the lock for writing."""
        self._connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Commits the transaction. Once this returns, the rows of the transaction survive the end of the process."""
        self._connection.execute("COMMIT")

    def close(self) -> None:
        """Closes the connection. An open transaction is rolled back."""
        self._connection.close()

    def append(
        self, partition: int, offset: int, batch: int, value: bytes | None, run_token: str, arm_ordinal: int
    ) -> None:
        """Applies a record: writes a row for it. `run_token` is the token of the run. `arm_ordinal` is the ordinal of
        the arm."""
        row = {
            **identity(value, run_token, arm_ordinal)._asdict(),
            **{"partition": partition, "offset": offset, "batch": batch, "applied_at": now_us(), "order": None},
        }
        self._connection.execute(_INSERT, (self._member, self._life, *(row[name] for name in EFFECT.names or ())))

    def offsets(self) -> dict[int, int]:
        """Maps each partition to the offset of the record to apply next. A partition is missing if the database has no
        offset for it yet."""
        return dict(self._connection.execute('SELECT "partition", "next" FROM offsets'))

    def set_offsets(self, offsets: Mapping[int, int]) -> None:
        """Sets the offset of each partition in `offsets`, whatever offset the database had before."""
        self._connection.executemany(
            'INSERT OR REPLACE INTO offsets("partition", "next") VALUES (?, ?)', offsets.items()
        )

    def move_offsets(self, offsets: Mapping[int, int], expected: Mapping[int, int]) -> None:
        """Sets the offset of each partition in `offsets`, if the database still has the offset in `expected` for the
        partition.

        `expected` lacks a partition if the database is expected to have no offset for it. Raises OffsetMoved if the
        database has another offset than expected. The caller must then roll the transaction back.
        """
        for partition, offset in offsets.items():
            if partition in expected:
                query = 'UPDATE offsets SET "next" = ? WHERE "partition" = ? AND "next" = ?'
                changed = self._connection.execute(query, (offset, partition, expected[partition]))
            else:
                query = 'INSERT INTO offsets("partition", "next") VALUES (?, ?) ON CONFLICT DO NOTHING'
                changed = self._connection.execute(query, (partition, offset))
            if changed.rowcount != 1:
                raise OffsetMoved(f"partition {partition}: the offset is not {expected.get(partition, 0)} any more")


class Tables(Sink):
    """The sink of the applications that write to a database."""

    def read(self, inputs: SinkInputs) -> Iterator[LifeEffects]:
        """Yields one LifeEffects for each life. The rows of the LifeEffects are in the order of the column `order`.

        A separate query counts the effects of the life. The count is -1 if the supervisor has made no folder for the
        life; -1 breaks the law `effects_read`. Raises DamagedDatabase, sqlite3.OperationalError if there is no
        database, and FileNotFoundError if the supervisor did not write down how a life ended.
        """
        ends = {
            (member, life): read_end(path)
            for member, folder in members_of(inputs.folder).items()
            for life, path in lives_of(folder).items()
        }
        rows = defaultdict[tuple[int, int], list[tuple[int, ...]]](list)
        with closing(sqlite3.connect(f"file:{inputs.folder / FILE}?mode=rw", uri=True)) as connection:
            if (answer := connection.execute("PRAGMA integrity_check").fetchone()) != ("ok",):
                raise DamagedDatabase(f"{inputs.folder / FILE} is damaged: {answer[0]}")
            query = "SELECT member, life, count(*) FROM effects GROUP BY member, life"
            present = {(member, life): count for member, life, count in connection.execute(query)}
            for member, life, *row in connection.execute(
                f'SELECT member, life, {_COLUMNS} FROM effects ORDER BY "order"'
            ):
                rows[member, life].append(tuple(row))
        for life_id in sorted({*ends, *present, *rows}):
            end = ends.get(life_id)
            counted = count_of_life(end, present.get(life_id, 0), inputs.batch) if end else -1
            yield LifeEffects(*life_id, np.array(rows[life_id], EFFECT), counted)

    def plant(self, inputs: SinkInputs, effects: Sequence[PlannedEffect]) -> None:
        """Writes `effects` to a new database in one transaction, as member 0 would in its life 0."""
        life = inputs.folder / "0" / "0"
        life.mkdir(parents=True)
        with closing(Database(inputs.folder, 0, 0)) as database:
            database.begin()
            for effect in effects:
                database.append(effect.partition, effect.offset, 0, effect.value, inputs.run_token, inputs.arm.ordinal)
            database.commit()
        write_end(life, LifeEnd(applied=len(effects), exit_code=0, killed=False))
