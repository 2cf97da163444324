"""Tests of effects in a table: they are read, belong to lives, and errors name the field and no secret."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support import user_applications
from support.own_members import ARM, OTHER_RUN, Member, value
from support.user_applications import SECRET

from delivery_verifier.applications.own.scan import PlaceBusy
from delivery_verifier.applications.own.table import Table, _as_url
from delivery_verifier.applications.sink import CRC_OK, PARSED
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.record import HEADER_BYTES
from delivery_verifier.model.sink_location import SinkLocation

FIELDS = ("[effects]", 'kind = "table"', 'where = "ORDERS_DSN"', 'table = "orders"')


class Orders:
    """The database of the user application, and its member 0."""

    def __init__(self, folder: Path, kind: str = "TEXT") -> None:
        self.file, self.member = folder / "orders.sqlite", Member(folder)
        self.connection = sqlite3.connect(self.file, isolation_level=None)
        self.connection.execute(f"CREATE TABLE orders(value {kind}, topic TEXT, producer, sequence, attempt)")

    def insert(self, *values: object) -> None:
        self.connection.executemany("INSERT INTO orders(value) VALUES (?)", [(each,) for each in values])


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Orders]:
    monkeypatch.setenv("KDV_APPLICATIONS", str(tmp_path / "own"))
    describe(tmp_path)
    made = Orders(tmp_path)
    with closing(made.connection):
        yield made


def describe(folder: Path, *fields: str) -> None:
    user_applications.toml(folder / "own", "true", *FIELDS, *fields)
    with (folder / "own" / "sink.toml").open("a") as file:
        file.write(f'ORDERS_DSN = "sqlite:///{folder}/orders.sqlite"\n')


def text(sequence: int) -> str:
    return value(sequence).decode()


def test_rows_belong_to_the_incarnations_in_which_they_appeared(orders: Orders) -> None:
    orders.insert(text(1), f'{{"v": "{text(2)}"}}', text(2), OTHER_RUN.decode(), value(3))
    orders.member.end_incarnation()
    orders.connection.execute("CREATE TABLE copy AS SELECT * FROM orders ORDER BY value DESC")
    orders.connection.executescript("DELETE FROM orders; INSERT INTO orders SELECT * FROM copy")  # another order
    orders.insert(text(2), None, text(4))
    orders.member.end_incarnation()
    incarnations = orders.member.read()
    assert [sorted(incarnation.rows["sequence"].tolist()) for incarnation in incarnations] == [[1, 2, 2, 3], [0, 2, 4]]
    assert [(incarnation.counted, incarnation.rows["applied_at"][0]) for incarnation in incarnations] == [
        (4, 1),
        (3, 2),
    ]


def test_rows_that_are_gone_are_no_loss_of_the_program(orders: Orders) -> None:
    orders.insert(text(1), text(2))
    orders.member.end_incarnation()
    orders.connection.execute("DELETE FROM orders WHERE value = ?", (text(1),))
    orders.insert(text(3), text(4))
    with pytest.raises(StepFailed, match=r"1 rows of the table orders are gone.*only insert rows"):
        orders.member.end_incarnation()


def test_columns_name_the_record_and_the_topic_the_run(orders: Orders, tmp_path: Path) -> None:
    describe(tmp_path, 'identity = "columns"')
    rows = [(ARM.topic_name, 0, 7, 1), (ARM.topic_name, 0, None, 0), ("kdv-other-run", 0, 8, 0)]
    orders.connection.executemany("INSERT INTO orders(topic, producer, sequence, attempt) VALUES (?, ?, ?, ?)", rows)
    orders.member.end_incarnation()
    (incarnation,) = orders.member.read()
    assert incarnation.rows[["sequence", "attempt"]].tolist() == [(7, 1), (0, 0)] and incarnation.counted == 2


def test_columns_that_hold_no_whole_numbers_name_no_record(orders: Orders, tmp_path: Path) -> None:
    """A NULL beside two numbers names no attempt, and a column of floats names the same as one of integers."""
    describe(tmp_path, 'identity = "columns"')
    rows = [(0, 17.0, 0), (0, None, 0), (None, 3, 0), (0, "x", 0), (0, -2, 0), (0, 2.5, 0)]
    orders.connection.executemany(
        "INSERT INTO orders(topic, producer, sequence, attempt) VALUES (?, ?, ?, ?)",
        [(ARM.topic_name, *row) for row in rows],
    )
    orders.member.end_incarnation()
    (incarnation,) = orders.member.read()
    named = [(int(row["producer"]), int(row["sequence"]), int(row["flags"])) for row in incarnation.rows]
    assert sorted(named) == [(0, 0, 0)] * 5 + [(0, 17, PARSED | CRC_OK)]


def test_headers_that_are_taken_for_values_name_the_field(orders: Orders) -> None:
    orders.insert(text(1)[:HEADER_BYTES], text(2)[:HEADER_BYTES])
    orders.member.end_incarnation()
    with pytest.raises(StepFailed, match=r'effects\.identity is value.*2 hold its first 60.*write identity = "header"'):
        orders.member.read()


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ('table = "ordres"', "effects.table is 'ordres', which the database does not have; there are: orders"),
        ('column = "payload"', "no such column: orders.payload; .*effects.column say where the rows are"),
    ],
)
def test_a_table_or_column_that_is_not_there_is_named(
    orders: Orders, tmp_path: Path, field: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.insert(text(1))
    file = tmp_path / "own" / "sink.toml"
    file.write_text(
        file.read_text().replace('table = "orders"', f'table = "orders"\n{field}' if "column" in field else field)
    )
    with pytest.raises(StepFailed, match=message):
        orders.member.end_incarnation()


def test_a_table_that_is_locked_is_busy_and_no_error_of_the_run(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("delivery_verifier.applications.own.table._SQLITE_S", 0.01)
    orders.connection.execute("BEGIN EXCLUSIVE")
    with pytest.raises(PlaceBusy, match="the table orders cannot be read now: database is locked"):
        orders.member.end_incarnation()


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        (f"postgresql://u:{SECRET}@127.0.0.1:1/d", (StepFailed, BadInput), "cannot be read|without a driver"),
        (f"nosuch://u:{SECRET}@h/d", BadInput, "effects.where: the variable DSN names a database without a driver"),
        (f"password={SECRET}", BadInput, "effects.where: the variable DSN holds no URL of a database"),
        (f"sqlite://u:{SECRET}@/x", (StepFailed, BadInput), "cannot be read|holds no URL"),
    ],
)
def test_no_error_has_a_secret(tmp_path: Path, url: str, error: type[Exception], message: str) -> None:
    location = SinkLocation(kind="table", where="DSN", table="orders")
    with pytest.raises(error, match=message) as raised:
        Table(url, location, "t", tmp_path).sizes()
    assert SECRET not in str(raised.value) and raised.value.__cause__ is None and raised.value.__context__ is None


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("postgres://u:p@h/d", "postgresql://u:p@h/d"),
        ("sqlite://%2Ftmp%2Fx.db", "sqlite:////tmp/x.db"),
        ("sqlite:////tmp/x.db", "sqlite:////tmp/x.db"),
        ("mysql+pymysql://u:p@h/d", "mysql+pymysql://u:p@h/d"),
    ],
)
def test_a_url_may_be_written_as_airflow_does(text: str, url: str) -> None:
    assert _as_url(text) == url
