"""Declarations of tables of the run directory: the file of a table, and its columns with type, unit and meaning.

Only `arrow_schema` imports pyarrow, which is slow to import. Airflow's DAG processor imports this module every few
seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pyarrow as pa

ColumnType = Literal["string", "int32", "int64", "double", "boolean", "timestamp", "list<string>", "list<int64>"]
"""The type of a column. A `timestamp` is in UTC, with a resolution of one microsecond."""


@dataclass(frozen=True)
class Column:
    """The declaration of one column. `nullable`: whether the column may have nulls.

    `meaning` explains the column in the documentation. `unit` is empty for names, flags and plain numbers.
    """

    name: str
    type: ColumnType
    meaning: str
    nullable: bool = False
    unit: str = ""


@dataclass(frozen=True)
class Table:
    """The declaration of one table.

    * `file`: the path of the table's file, relative to the run directory. If the table has several files, a glob
      pattern.
    * `rows`: says what one row is.
    * `may_be_empty`: whether the table can have no rows although nothing is missing from the run.
    """

    name: str
    file: str
    rows: str
    columns: tuple[Column, ...]
    may_be_empty: bool = False

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns, in the order in which they are written."""
        return tuple(item.name for item in self.columns)

    def column(self, name: str) -> Column:
        """Returns the column called `name`. Raises KeyError if there is no such column."""
        for item in self.columns:
            if item.name == name:
                return item
        raise KeyError(f"{self.name} has no column {name}")


ARM = Column("arm", "string", "name of the arm")
PARTITION = Column("partition", "int32", "partition of the arm's topic")
"""ARM and PARTITION are the declarations of two columns that many tables have."""


def arrow_schema(table: Table) -> pa.Schema:
    """Returns the columns of `table` as an Arrow schema, with their nullability."""
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "list<string>": pa.list_(pa.field("element", pa.string())),
        "list<int64>": pa.list_(pa.field("element", pa.int64())),
    }
    return pa.schema([pa.field(item.name, types[item.type], nullable=item.nullable) for item in table.columns])
