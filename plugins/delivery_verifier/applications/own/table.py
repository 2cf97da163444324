"""A table of a database as the place of the effects of a user application: each row is one effect.

This module only reads the rows. Their order is unknown. So `Table.keep` remembers after each incarnation which rows
there are. Other modules import this one inside functions, because few runs have a table, and SQLAlchemy is slow to
import.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import sqlalchemy
from sqlalchemy import exc

from delivery_verifier.applications.own.scan import MAGIC, PlaceBusy, RecordPattern, Scan, scan_values
from delivery_verifier.applications.sink import CRC_OK, EFFECT, PARSED
from delivery_verifier.model import record
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.sink_location import OF_COLUMNS, TOPIC, SinkLocation
from delivery_verifier.model.user_application import redacted, secrets_of

CANARY_FILE = "canary.sqlite"
"""The name of the SQLite database that holds the canary's rows."""
_NUMBERS = re.compile(rb"\S+ (\d+)(?:\.0*)? (\d+)(?:\.0*)? (\d+)(?:\.0*)?")
_KEPT = "rows.npy"
_PART = "table"
_SQLITE_S = 1.0
"""Seconds that a reader waits for the lock of an SQLite database: a frozen member may hold it."""


class Table:
    """Reads effects from a table. `url` is the URL of the database, as SQLAlchemy or Airflow writes it. `location`
    names the table and its columns. `topic` is the arm's topic. `folder` is the folder of the member.

    The constructor raises BadInput if `url` cannot be used. Methods that read the database raise StepFailed if they
    cannot read it, and PlaceBusy if SQLite has locked it. No error message has the URL or its password.
    """

    def __init__(self, url: str, location: SinkLocation, topic: str, folder: Path) -> None:
        self._location, self._topic, self._folder, self._url = location, topic, folder, url
        schema, _, name = location.table.rpartition(".")
        columns = [*OF_COLUMNS, TOPIC] if location.identity == "columns" else [location.column]
        self._table = sqlalchemy.table(name, *map(sqlalchemy.column, columns), schema=schema or None)
        self._engine = self._create_engine()

    def sizes(self) -> dict[str, int]:
        """Maps the table to the number of its rows, including those of other runs. Empty if there is no such table."""
        with self._connection() as connection:
            if not sqlalchemy.inspect(connection).has_table(self._table.name, schema=self._table.schema):
                return {}
            query = sqlalchemy.select(sqlalchemy.func.count()).select_from(self._table)
            return {_PART: int(connection.execute(query).scalar_one())}

    def scans(self, pattern: RecordPattern) -> Iterator[tuple[str, Scan]]:
        """Yields the effects with the positions of their rows. A row that `keep` has remembered has its old position.
        All other rows have later positions."""
        if values := self._values():
            yield _PART, self._scan(values, pattern, self._order(values))

    def count(self, pattern: RecordPattern) -> int:
        """Returns how many effects there are. A separate query counts the rows. The rows of other runs are subtracted.

        Raises StepFailed if there is no such table.
        """
        if not (sizes := self.sizes()):
            raise StepFailed(
                f"effects.table is {self._location.table!r}, which the database does not have; there are: "
                f"{', '.join(self._tables()) or 'none'}; name the table to which the program writes"
            )
        return sizes[_PART] - sum(self._is_foreign(value, pattern) for value in self._values())

    def markers(self, pattern: RecordPattern, searched: dict[str, int]) -> Iterator[tuple[int, int]]:
        """Yields the partition and the round of each marker in the table. Yields nothing if the number of rows is the
        same as in `searched`. Updates `searched`."""
        sizes = self.sizes()
        if sizes == searched:
            return
        values = self._values()
        rows = self._scan(values, pattern, range(len(values))).rows
        for row in rows[rows["producer"] == record.MARKER_PRODUCER]:
            yield int(row["attempt"]), int(row["sequence"])
        searched |= sizes

    def undecided(self) -> int:
        """Returns 0, because a reader does not see the rows of an open transaction."""
        return 0

    def keep(self) -> None:
        """Remembers the rows and their order. Raises StepFailed if a row that was remembered earlier is gone."""
        values = self._values()
        keys = np.array([_key(value) for value in values], np.uint64)
        np.save(self._folder / _KEPT, keys[np.argsort(self._order(values))])

    def plant(self, values: Sequence[bytes]) -> None:
        """Creates the table, and writes one row for each of `values`. If columns identify a record, a row gets three
        numbers of its record. For a value that is not a record, each of the three numbers is -1."""
        text, number = sqlalchemy.LargeBinary, sqlalchemy.BigInteger
        columns = {TOPIC: sqlalchemy.Text, **dict.fromkeys(OF_COLUMNS, number), self._location.column: text}
        is_columns = self._location.identity == "columns"
        kinds = {column.name: columns[column.name] for column in self._table.columns}
        table = sqlalchemy.Table(
            self._table.name,
            sqlalchemy.MetaData(),
            *[sqlalchemy.Column(name, kind) for name, kind in kinds.items()],
        )
        rows = [self._columns(value) if is_columns else {self._location.column: value} for value in values]
        with self._engine.begin() as connection:
            table.create(connection)
            connection.execute(sqlalchemy.insert(table), rows)

    def _columns(self, value: bytes) -> dict[str, object]:
        header = record.parse(value)
        return {TOPIC: self._topic, **{name: getattr(header, name, -1) for name in OF_COLUMNS}}

    def _values(self) -> list[bytes | None]:
        """Returns, for each row, the bytes that identify its record. If columns identify a record, these bytes are a
        text of topic, producer, sequence and attempt."""
        if not self.sizes():
            return []
        columns = [self._table.c[name] for name in (TOPIC, *OF_COLUMNS)] if self._is_columns else [*self._table.columns]
        with self._connection() as connection:
            rows = connection.execute(sqlalchemy.select(*columns))
            if self._is_columns:
                return [" ".join(map(str, row)).encode() for row in rows]
            return [_as_bytes(value) for (value,) in rows]

    def _scan(self, values: Sequence[bytes | None], pattern: RecordPattern, positions: Sequence[int]) -> Scan:
        if not self._is_columns:
            return scan_values(values, pattern, positions)
        own = [index for index, value in enumerate(values) if not self._is_foreign(value, pattern)]
        rows = np.zeros(len(own), EFFECT)
        numbers = np.array([_numbers(values[index] or b"") for index in own], np.int64).reshape(-1, len(OF_COLUMNS))
        is_named = (numbers >= 0).all(axis=1)
        for column, name in enumerate(OF_COLUMNS):
            rows[name] = np.where(is_named, numbers[:, column], 0)
        rows["flags"] = is_named * (PARSED | CRC_OK)
        return Scan(rows, np.asarray(positions, np.int64)[own], len(values) - len(own))

    @property
    def _is_columns(self) -> bool:
        return self._location.identity == "columns"

    def _is_foreign(self, value: bytes | None, pattern: RecordPattern) -> bool:
        """Returns whether `value`, which identifies the record of a row, holds only records of other runs."""
        if self._is_columns:
            return not (value or b"").startswith(f"{self._topic} ".encode())
        return MAGIC in (value or b"") and pattern.beginning not in (value or b"")

    def _order(self, values: Sequence[bytes | None]) -> list[int]:
        """Returns the position of each row. A row gets the position of an equal row that was remembered. If there is
        none, the row gets a position after all remembered rows. Raises StepFailed if a remembered row is gone."""
        file = self._folder / _KEPT
        earlier = np.load(file).tolist() if file.exists() else []
        free = defaultdict[int, deque[int]](deque)
        for position, key in enumerate(earlier):
            free[key].append(position)
        positions, later = list[int](), len(earlier)
        for value in values:
            if places := free.get(_key(value)):
                positions.append(places.popleft())
            else:
                positions.append(later)
                later += 1
        if gone := sum(map(len, free.values())):
            raise StepFailed(
                f"{gone} rows of the table {self._location.table} are gone that were there when an incarnation ended: "
                "their "
                "effects can be counted no more; let the program only insert rows: it must not change or delete them"
            )
        return positions

    def _tables(self) -> list[str]:
        with self._connection() as connection:
            return sqlalchemy.inspect(connection).get_table_names(schema=self._table.schema)

    def _create_engine(self) -> sqlalchemy.Engine:
        """Returns the SQLAlchemy engine, which opens a new connection for each query. Raises BadInput if the driver of
        the database is missing, or if the URL is not valid."""
        try:
            url = sqlalchemy.make_url(_as_url(self._url))
            is_sqlite = url.get_backend_name() == "sqlite"
            options = {"connect_args": {"timeout": _SQLITE_S}} if is_sqlite else {}
            return sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool, **options)
        except (exc.NoSuchModuleError, ModuleNotFoundError):
            problem = (
                "names a database without a driver here; install one beside the verifier, e.g. psycopg2 for PostgreSQL"
            )
        except (exc.ArgumentError, ValueError):
            problem = "holds no URL of a database; write e.g. postgresql://user:password@host/database"
        raise BadInput(f"effects.where: the variable {self._location.where} {problem}")

    @contextmanager
    def _connection(self) -> Iterator[sqlalchemy.Connection]:
        """Gives a connection in a `with` block. Raises StepFailed or PlaceBusy instead of the database's own error,
        which is not attached, because its text may hold secrets. The message has no secrets."""
        try:
            with self._engine.connect() as connection:
                yield connection
            return
        except exc.SQLAlchemyError as error:
            text = redacted(str(getattr(error, "orig", None) or error), secrets_of({"URL": self._url}))
        if "database is locked" in text:
            raise PlaceBusy(f"the table {self._location.table} cannot be read now: {text}")
        raise StepFailed(
            f"the table {self._location.table} cannot be read: {text}; effects.where ({self._location.where}), "
            "effects.table and effects.column say where the rows are: correct them, or the right to read them"
        )


def _numbers(value: bytes) -> list[int]:
    """Returns the numbers in a row of columns. If a column has no whole number, e.g. NULL, all of them are -1: the row
    then names no record. A column of another type may hold 17 as 17.0."""
    match = _NUMBERS.fullmatch(value)
    return [int(text) for text in match.groups()] if match else [-1] * len(OF_COLUMNS)


def _as_url(text: str) -> str:
    """Returns the URL `text` of a database in SQLAlchemy's form. Airflow's forms are postgres:// and sqlite://<quoted
    path>."""
    scheme, separator, rest = text.partition("://")
    if scheme == "postgres":
        scheme = "postgresql"
    if scheme == "sqlite" and not rest.startswith("/"):
        rest = f"/{unquote(rest)}"
    return f"{scheme}{separator}{rest}"


def _as_bytes(value: object) -> bytes | None:
    """Returns the value of a column as bytes, in which the reader looks for records."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, memoryview | bytearray):
        return bytes(value)
    return (value if isinstance(value, str) else json.dumps(value, default=str)).encode()


def _key(value: bytes | None) -> int:
    """Returns a number that stands for the row `value`. Equal rows have the same number."""
    return int.from_bytes(blake2b(value or b"", digest_size=8).digest(), "big")
