"""Readers: from the files of an application's ledger to one Parquet file of claims, with flat memory.

Arrow reads whole blocks of lines. Only where a block is refused, `misread` reads it line by line, to name the place.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.json as arrow_json
import pyarrow.parquet as pq

from delivery_verifier.audit import verifiable
from delivery_verifier.audit.chunks import Chunk, chunks
from delivery_verifier.audit.columns import COLUMNS, IDENTIFYING, NUMBERS, are_sound, contradiction, unsure
from delivery_verifier.audit.ends import END, is_torn, without_end
from delivery_verifier.audit.misread import REMEDY, column_in, refuse, refuse_csv, refuse_line, refuse_lines
from delivery_verifier.model.audit import HashKind, LedgerFormat
from delivery_verifier.model.inputs import BadInput, bad_input, nearest
from delivery_verifier.model.ledger_line import LedgerEnd, LedgerHead, LedgerLine

WRITTEN = COLUMNS.append(pa.field("line", pa.int64())).append(pa.field("file", pa.int32()))
"""The columns of the file of claims. `line` is the number of a claim's line (of its row, in Parquet), from 1. `file` is
the number of its file, from 0."""
_HEAD = b"kdv_ledger"


class Part(NamedTuple):
    """Some claims of a file: a table with COLUMNS, and the number of the line (row) of each."""

    table: pa.Table
    lines: pa.Array


@dataclass
class Declared:
    """What the files say beside their claims. `topic` and `identity`: None if no head names one. `empty`: the names of
    files without any claim."""

    topic: str | None = None
    identity: str | None = None
    complete: bool = False
    cut: str = ""
    failed_because: str = ""
    empty: tuple[str, ...] = ()


@dataclass
class Claims:
    """The claims of a ledger, as read.

    `file` holds them, with the columns WRITTEN. `outcomes` counts them by outcome, as the reader saw them. `filled`:
    how many claims have a value, by column. `without_offset`: how many are acked, without an offset. `first`: the
    place of the first claim.
    """

    file: Path
    names: tuple[str, ...]
    told: Declared = field(default_factory=Declared)
    outcomes: Counter[str] = field(default_factory=Counter)
    filled: Counter[str] = field(default_factory=Counter)
    without_offset: int = 0
    first: str = ""

    @property
    def count(self) -> int:
        return self.outcomes.total()

    @property
    def hash(self) -> HashKind:
        """The checksum that claims have. If they have both, the stronger one."""
        kinds: dict[str, HashKind] = {"value_sha256": "sha256", "value_crc32": "crc32"}
        return next((kind for name, kind in kinds.items() if self.filled[name]), "")

    @property
    def hashed(self) -> int:
        """How many claims have the checksum `hash`."""
        return self.filled[{"sha256": "value_sha256", "crc32": "value_crc32", "": ""}[self.hash]]

    @property
    def ordered(self) -> bool:
        return self.filled["sequence"] > 0


def read_ledger(files: Sequence[Path], form: LedgerFormat, out: Path, limit: int | None = None) -> Claims:
    """Reads `files`, which have the format `form`, and writes their claims to `out`. Returns what was read.

    `limit`: the size of the blocks that are read at once, in bytes. Raises BadInput, with line and column, if a file
    has anything else than claims, and OSError if it cannot be read.
    """
    claims = Claims(out, tuple(file.name for file in files))
    repeated = ["outcome", "producer", "error", "transaction_outcome", "file"]
    with pq.ParquetWriter(out, WRITTEN, compression="zstd", compression_level=1, use_dictionary=repeated) as writer:
        for number, file in enumerate(files):
            notes, before = Declared(), claims.count
            for part in _PARTS[form](file, notes, limit or 8 << 20):
                if part.table.num_rows:
                    _check(file, part, claims, is_binary=form == "parquet")
                    index = pa.array([number] * part.table.num_rows, pa.int32())
                    columns = [
                        column.combine_chunks()
                        for column in (part.table if notes.failed_because else unsure(part.table)).columns
                    ]
                    writer.write_table(pa.Table.from_arrays([*columns, part.lines, index], schema=WRITTEN))
            if claims.count == before:
                notes.empty = (file.name,)
            _join(claims.told, notes, file, is_first=not number)
    if not claims.count:
        raise bad_input("--ledger", str(files[0]), "a file with at least one claim", REMEDY)
    _check_columns(claims)
    return claims


def _join(notes: Declared, more: Declared, file: Path, is_first: bool) -> None:
    """Adds to `notes` what one more file says. Only if all files are complete, the ledger is."""
    for name in ("topic", "identity", "failed_because"):
        known, new = getattr(notes, name), getattr(more, name)
        if known and new and known != new:
            raise BadInput(
                f"{file}, line 1: {name} is {new!r}, but {known!r} in another file; give one ledger at a time"
            )
        setattr(notes, name, known or new)
    notes.complete = more.complete and (is_first or notes.complete)
    notes.cut = notes.cut or more.cut
    notes.empty += more.empty


def _check(file: Path, part: Part, claims: Claims, is_binary: bool) -> None:
    """Counts a part, and raises BadInput if fields of a claim do not fit together, or to the claims before."""
    table, rows = part.table, part.table.num_rows
    if wrong := contradiction(table):
        index, name, text = wrong
        number = part.lines[index].as_py()
        column = "" if is_binary else column_in(file, number, name)
        raise BadInput(f"{file}, line {number}{column}: {text}")
    claims.first = claims.first or f"{file}, line {part.lines[0].as_py()}"
    before = claims.count
    for name in COLUMNS.names:
        filled = rows - table[name].null_count
        if name in IDENTIFYING:
            _check_consistent(file, part, name, claims.first, bool(claims.filled[name]) if before else bool(filled))
        claims.filled[name] += filled
    for row in table["outcome"].value_counts().to_pylist():
        claims.outcomes[row["values"]] += row["counts"]
    claims.without_offset += (
        pc.sum(pc.and_(pc.equal(table["outcome"], "acked"), table["offset"].is_null())).as_py() or 0
    )


def _check_consistent(file: Path, part: Part, name: str, first: str, is_given: bool) -> None:
    """Raises BadInput, with two lines, if one claim has the field `name`, and another has not. `is_given`: whether the
    claim at the place `first` has it, or any in the first part."""
    column = part.table[name]
    with_it, without = (pc.index(rows, True).as_py() for rows in (column.is_valid(), column.is_null()))

    def here(index: int) -> str:
        return f"{file}, line {part.lines[index].as_py()}"

    if with_it >= 0 and without >= 0:
        pair = here(with_it), here(without)
    elif is_given and without >= 0:
        pair = first, here(without)
    elif not is_given and with_it >= 0:
        pair = here(with_it), first
    else:
        return
    raise BadInput(f"{name} is given in {pair[0]}, and missing in {pair[1]}; give it in every line or in none")


def _check_columns(claims: Claims) -> None:
    has = {name: claims.filled[name] > 0 for name in IDENTIFYING}
    if has["producer"] != has["sequence"]:
        raise BadInput("producer and sequence belong together: give both in every line, or none")
    if not has["id"] and not has["sequence"]:
        raise BadInput("no line has an id, or producer and sequence, so no record can be notes from another; give one")


def _json_lines(file: Path, notes: Declared, size: int) -> Iterator[Part]:
    end: LedgerEnd | None = None
    claims = 0
    for chunk in chunks(file, size):
        data, first = chunk.data, chunk.first
        if end is not None:
            refuse(file, first, 1, "a line stands behind the one that says kdv_ledger_end; it must be the last")
        if first == 1 and _HEAD in (line := data.partition(b"\n")[0]) and not END.search(line):
            line, _, data = data.partition(b"\n")
            _read_head(file, line, notes)
            first = 2
        if chunk.is_torn and data:
            if is_torn(data):
                notes.cut = f"line {first} of {file.name}, its last, is torn"
                continue
            data += b"\n"
        data, end = without_end(file, data, first)
        if data:
            table = _parsed(file, Chunk(data, first), _claims_of_json, LedgerLine)
            claims += table.num_rows
            if not are_sound(table):
                refuse_lines(file, data, first, _claims_of_json, "a value is not allowed", LedgerLine)
            yield _numbered(table, first)

    if end is None:
        notes.complete = False  # the writer may have been killed between two lines
    elif end.attempts != claims:
        notes.cut = f"{file.name} has {claims:,} attempts, and its last line says {end.attempts:,}"


def _read_head(file: Path, line: bytes, notes: Declared) -> None:
    refuse_line(file, 1, line, LedgerHead)
    head = msgspec.json.decode(line, type=LedgerHead)
    notes.topic, notes.identity, notes.complete = head.topic, head.identity, head.complete
    notes.failed_because = head.failed_because


def _parsed(file: Path, chunk: Chunk, parse: Callable[[bytes], pa.Table], kind: type[object]) -> pa.Table:
    """Returns the rows of a chunk of JSON lines. Raises BadInput, with the place, if a line is not one object."""
    reason = "a line holds more or less than one object"
    try:
        table = parse(chunk.data)
        if table.num_rows == chunk.lines:
            return table
    except (pa.ArrowException, UnicodeError) as error:
        reason = str(error)
    return refuse_lines(file, chunk.data, chunk.first, parse, reason, kind)


def _json_table(data: bytes, schema: pa.Schema, others: str) -> pa.Table:
    options = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=others)
    reading = arrow_json.ReadOptions(block_size=max(len(data), 1))
    table = arrow_json.read_json(io.BytesIO(data), read_options=reading, parse_options=options)
    table.validate(full=True)
    return table


def _claims_of_json(data: bytes) -> pa.Table:
    return _json_table(data, COLUMNS, "error").select(COLUMNS.names)


def _verifiable(file: Path, notes: Declared, size: int) -> Iterator[Part]:
    end = verifiable.End()

    def parse(data: bytes) -> pa.Table:
        return _json_table(data, verifiable.LINES, "ignore")

    for chunk in chunks(file, size):
        data = chunk.data
        if chunk.is_torn:
            if is_torn(data):
                notes.cut = f"line {chunk.first} of {file.name}, its last, is torn"
                continue
            data += b"\n"
        table = _parsed(file, Chunk(data, chunk.first), parse, verifiable.Line)
        for index, text in verifiable.wrong(table):
            refuse(file, chunk.first + index, 1, text)
        if mixed := verifiable.other_topic(table, notes.topic):
            refuse(file, chunk.first + mixed[0], 1, mixed[1])
        lines, claims, topic = verifiable.claims(table, chunk.first, end)
        notes.topic = notes.topic or topic
        yield Part(claims, lines)
    notes.complete, cut = end.is_complete, end.why_cut
    notes.cut = notes.cut or (f"{file.name} {cut}" if cut else "")


def _csv(file: Path, notes: Declared, size: int) -> Iterator[Part]:
    names: list[str] = []
    for chunk in chunks(file, size):
        data, first = chunk.data, chunk.first
        if chunk.is_torn:  # the last value may be cut off, and nothing would show it
            notes.cut = f"line {first} of {file.name}, its last, has no end of line, so it may be torn"
            continue
        if first == 1:
            line, _, data = data.partition(b"\n")
            names, first = _csv_names(file, line), 2
        if data:
            yield _numbered(_csv_table(file, Chunk(data, first), names), first)


def _csv_names(file: Path, line: bytes) -> list[str]:
    names = [name.strip().strip('"') for name in line.decode(errors="replace").split(",")]
    for name in names:
        if name not in COLUMNS.names:
            near = nearest(name, COLUMNS.names)
            refuse(
                file,
                1,
                line.decode(errors="replace").index(name) + 1,
                f"{name!r} is no column" + (f"; did you mean {near}?" if near else ""),
            )
    if len(set(names)) < len(names):
        refuse(file, 1, 1, "a column is named twice")
    return names


def _csv_table(file: Path, chunk: Chunk, names: list[str]) -> pa.Table:
    def is_readable(line: bytes) -> bool:
        try:
            return _claims_of_csv(line, 1, names) is not None
        except (pa.ArrowException, UnicodeError):
            return False

    try:
        claims = _claims_of_csv(chunk.data, chunk.lines, names)
        if claims is not None:
            return claims
        reason = "a value is not allowed"
    except (pa.ArrowException, UnicodeError) as error:
        reason = str(error)
    return refuse_csv(file, chunk.data, chunk.first, names, is_readable, reason)


def _claims_of_csv(data: bytes, lines: int, names: list[str]) -> pa.Table | None:
    """Returns the claims in `lines` lines of CSV, or None if a value is not allowed."""
    texts = arrow_csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=[""]
    )
    table = arrow_csv.read_csv(
        io.BytesIO(data),
        read_options=arrow_csv.ReadOptions(column_names=names, block_size=len(data) + 1),
        parse_options=arrow_csv.ParseOptions(newlines_in_values=False, ignore_empty_lines=False),
        convert_options=texts,
    )
    digits = all(
        pc.all(pc.match_substring_regex(table[name], "^[0-9]{1,19}$"), min_count=0).as_py() is not False
        for name in names
        if name in NUMBERS
    )
    claims = _with_all_columns(table) if table.num_rows == lines and digits else None
    return claims if claims is not None and are_sound(claims) else None


def _with_all_columns(table: pa.Table) -> pa.Table:
    """Returns `table` with COLUMNS. Columns that it lacks are null. Raises ArrowException if a value does not fit."""
    columns = [
        table[item.name].cast(item.type) if item.name in table.column_names else pa.nulls(table.num_rows, item.type)
        for item in COLUMNS
    ]
    return pa.Table.from_arrays(columns, schema=COLUMNS)


def _parquet(file: Path, notes: Declared, size: int) -> Iterator[Part]:
    try:
        source = pq.ParquetFile(file)
    except pa.ArrowException as error:
        raise BadInput(f"{file} cannot be read as Parquet: {str(error).rstrip('. ')}; copy it again") from None
    for name in source.schema_arrow.names:
        if name not in COLUMNS.names:
            near = nearest(name, COLUMNS.names)
            raise BadInput(
                f"{file}: {name!r} is no column of a ledger" + (f"; did you mean {near}?" if near else f"; {REMEDY}")
            )
    if head := (source.schema_arrow.metadata or {}).get(_HEAD):
        _read_head(file, head, notes)
    first = 1
    for batch in source.iter_batches(batch_size=max(1, size >> 6)):
        table = pa.Table.from_batches([batch])
        for item in table.schema:
            expected = COLUMNS.field(item.name).type
            is_time = pa.types.is_timestamp(item.type) and item.name in ("sent_at", "settled_at")
            if pa.types.is_floating(item.type) or (not is_time and _is_text(item.type) != _is_text(expected)):
                raise BadInput(f"{file}: the column {item.name} is {item.type}; allowed: {expected}")
            if is_time:
                column = table[item.name].cast(pa.timestamp("ms", item.type.tz), safe=False).cast(pa.int64())
                table = table.set_column(table.column_names.index(item.name), item.name, column)
        yield _numbered(_parquet_table(file, table, first), first)
        first += table.num_rows


def _is_text(data_type: pa.DataType) -> bool:
    value = data_type.value_type if pa.types.is_dictionary(data_type) else data_type
    return bool(pa.types.is_string(value) or pa.types.is_large_string(value))


def _parquet_table(file: Path, table: pa.Table, first: int) -> pa.Table:
    """Returns the rows `table` with COLUMNS. Raises BadInput, with row and column, if a value is not allowed."""
    try:
        claims = _with_all_columns(table)
        if are_sound(claims):
            return claims
    except pa.ArrowException as error:
        raise BadInput(f"{file}, rows {first} to {first + table.num_rows - 1}: {error}; {REMEDY}") from None
    for number, row in enumerate(claims.to_pylist(), first):
        try:
            msgspec.convert({name: value for name, value in row.items() if value is not None}, LedgerLine)
        except msgspec.ValidationError as error:
            raise BadInput(f"{file}, row {number}: {error}; {REMEDY}") from None
    raise BadInput(f"{file}, rows {first} and following, cannot be read; {REMEDY}")


def _numbered(table: pa.Table, first: int) -> Part:
    return Part(table, pa.array(range(first, first + table.num_rows), pa.int64()))


_PARTS: dict[LedgerFormat, Callable[[Path, Declared, int], Iterator[Part]]] = {
    "jsonl": _json_lines,
    "csv": _csv,
    "parquet": _parquet,
    "verifiable-producer": _verifiable,
}
