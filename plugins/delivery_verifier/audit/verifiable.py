"""The lines that Kafka's VerifiableProducer prints (org.apache.kafka.tools.VerifiableProducer, 4.3.1).

It prints a line per answer, and none when it sends. At its end it prints how many records it sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from delivery_verifier.audit.columns import COLUMNS

LINES = pa.schema(
    [
        ("timestamp", pa.int64()),
        ("name", pa.string()),
        ("key", pa.string()),
        ("value", pa.string()),
        ("offset", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("exception", pa.string()),
        ("sent", pa.int64()),
        ("acked", pa.int64()),
    ]
)
SUCCESS, ERROR, AT_THE_END, ENDED = "producer_send_success", "producer_send_error", "tool_data", "shutdown_complete"
NAMES = pa.array([SUCCESS, ERROR, AT_THE_END, ENDED, "startup_complete"])
_VALUE = r"^(?:(?P<producer>[0-9]+)\.)?(?P<sequence>[0-9]{1,18})$"


class Line(Struct, frozen=True):
    """One line, as far as it is used."""

    name: str
    timestamp: int | None = None
    key: str | None = None
    value: str | None = None
    offset: int | None = None
    topic: str | None = None
    partition: int | None = None
    exception: str | None = None
    sent: int | None = None
    acked: int | None = None


@dataclass
class End:
    """What the lines say about their own completeness. `lines` and `acked` count the answers; `sent`, `told`: what
    tool_data says that they are; -1 without it."""

    lines: int = 0
    acked: int = 0
    sent: int = -1
    told: int = -1

    @property
    def is_complete(self) -> bool:
        """Whether each record that was sent has a line."""
        return (self.sent, self.told) == (self.lines, self.acked)

    @property
    def why_cut(self) -> str:
        if self.sent < 0:
            return f"ends without {AT_THE_END}: its producer was killed, or still runs"
        if not self.is_complete:
            return (
                f"has {self.lines} answers ({self.acked} acked), but {AT_THE_END} says {self.sent} ({self.told} acked)"
            )
        return ""


def wrong(table: pa.Table) -> Iterator[tuple[int, str]]:
    """Yields the index of the first row that VerifiableProducer does not print, and what is wrong with it."""
    is_answer = pc.or_(pc.equal(table["name"], SUCCESS), pc.equal(table["name"], ERROR))
    is_success = pc.equal(table["name"], SUCCESS)
    bare = pc.or_kleene(table["value"].is_null(), pc.or_(table["timestamp"].is_null(), table["topic"].is_null()))
    placeless = pc.or_(table["partition"].is_null(), table["offset"].is_null())
    for rows, text in (
        (pc.invert(pc.is_in(table["name"], NAMES)), f"`name` is none of {', '.join(NAMES.to_pylist())}"),
        (pc.and_kleene(is_answer, bare), "an answer lacks value, timestamp or topic"),
        (pc.and_kleene(is_success, placeless), f"{SUCCESS} lacks partition or offset"),
        (pc.and_kleene(is_success, pc.less(table["partition"], 0)), "partition is below 0"),
    ):
        if (index := pc.index(rows, True).as_py()) >= 0:
            yield index, text


def other_topic(table: pa.Table, topic: str | None) -> tuple[int, str] | None:
    """Returns the index of the first row of another topic than `topic` (than the first topic of `table`, if it is
    None), and what is wrong with it. Returns None if there is no such row."""
    known = (
        topic if topic is not None else next((name for name in table["topic"].to_pylist() if name is not None), None)
    )
    if known is None or (index := pc.index(pc.not_equal(table["topic"], known), True).as_py()) < 0:
        return None
    return (
        index,
        f"topic is {table['topic'][index].as_py()!r}, but {known!r} in earlier lines; give one topic at a time",
    )


def claims(table: pa.Table, first: int, end: End) -> tuple[pa.Array, pa.Table, str | None]:
    """Returns the number of each claim's line, the claims (COLUMNS), and the topic. `first` is the number of the first
    line of `table`. Adds to `end`.

    The value is the id. Its number is the order, because numbers are sent in ascending order.
    """
    lines = pa.array(range(first, first + table.num_rows), pa.int64())
    for row in table.filter(pc.equal(table["name"], AT_THE_END)).to_pylist():
        end.sent, end.told = row["sent"], row["acked"]
    is_answer = pc.or_(pc.equal(table["name"], SUCCESS), pc.equal(table["name"], ERROR))
    answers, lines = table.filter(is_answer), lines.filter(is_answer.combine_chunks())
    acked = pc.equal(answers["name"], SUCCESS)
    end.lines += answers.num_rows
    end.acked += pc.sum(acked).as_py() or 0
    parts = pc.extract_regex(answers["value"].combine_chunks(), _VALUE)
    producer = pc.struct_field(parts, "producer")
    named = pc.if_else(pc.equal(producer, ""), "-", producer)
    numbered = not parts.null_count
    has_offset = pc.and_(acked, pc.greater_equal(answers["offset"], 0))
    columns = {
        "outcome": pc.if_else(acked, "acked", "unknown"),
        "id": answers["value"],
        "producer": named if numbered else None,
        "sequence": pc.struct_field(parts, "sequence").cast(pa.int64()) if numbered else None,
        "partition": answers["partition"],
        "offset": pc.if_else(has_offset, answers["offset"], None),
        "settled_at": answers["timestamp"],
        "error": answers["exception"],
    }
    rows = answers.num_rows
    arrays = [
        pa.nulls(rows, item.type) if columns.get(item.name) is None else columns[item.name].cast(item.type)
        for item in COLUMNS
    ]
    return lines, pa.Table.from_arrays(arrays, schema=COLUMNS), answers["topic"][0].as_py() if rows else None
