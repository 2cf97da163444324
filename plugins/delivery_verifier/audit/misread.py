"""Finds the place of an error in a ledger: line and column. It reads line by line, so it runs only after an error."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import NoReturn

import msgspec
import pyarrow as pa

from delivery_verifier.model.inputs import BadInput, shown
from delivery_verifier.model.ledger_line import LedgerLine

_BYTE = re.compile(r" \(byte (\d+)\)$")
_PATH = re.compile(r" - at `\$\.(\w+)`$")
_FIELD = re.compile(r"field `(\w+)`")
REMEDY = "`kdv schema ledger` says what is allowed"
Parse = Callable[[bytes], pa.Table]
"""Reads lines in the way that refused them."""


def refuse(file: Path, line: int, column: int, text: str) -> NoReturn:
    """Raises BadInput with the place of an error. `line` and `column` begin at 1."""
    raise BadInput(f"{file}, line {line}, column {column}: {text}; {REMEDY}")


def refuse_lines(file: Path, chunk: bytes, first: int, parse: Parse, reason: str, kind: type[object]) -> NoReturn:
    """Raises BadInput that names the first wrong line of `chunk`, whole lines of JSON of which the first is line
    `first` of the file.

    `parse` has refused the chunk with `reason`. `kind` is the type that a line must have.
    """
    for number, line in enumerate(chunk.removesuffix(b"\n").split(b"\n"), first):
        refuse_line(file, number, line, kind)
        try:
            rows = parse(line + b"\n").num_rows
        except (pa.ArrowException, UnicodeError) as error:
            refuse(file, number, 1, str(error).removesuffix(" in row 0"))
        if rows != 1:
            refuse(file, number, 1, f"the line holds {rows} objects; allowed: one")
    raise BadInput(f"{file}, lines {first} and following, cannot be read: {reason}; {REMEDY}")


def refuse_line(file: Path, number: int, line: bytes, kind: type[object]) -> None:
    """Raises BadInput if `line`, one line of JSON, is not an object of the type `kind`."""
    if not line.strip():
        refuse(file, number, 1, "the line is empty")
    try:
        msgspec.json.decode(line, type=kind)
    except msgspec.ValidationError as error:
        path = _PATH.search(str(error)) or _FIELD.search(str(error))
        text = _PATH.sub("", str(error))
        refuse(file, number, _column(line, path[1]) if path else 1, f"{path[1]}: {text}" if path else text)
    except msgspec.DecodeError as error:
        position = _BYTE.search(str(error))
        column = int(position[1]) + 1 if position else len(line.rstrip()) + 1
        refuse(file, number, column, _BYTE.sub("", str(error)))
    except UnicodeDecodeError as error:
        refuse(file, number, line.find(error.object) + error.start + 1, "the text is not UTF-8")


def _column(line: bytes, name: str) -> int:
    """Returns the column of the value of the field `name`, or of the field itself, or 1 if it is missing."""
    match = re.search(rb'"%s"\s*:\s*' % name.encode(), line)
    return match.end() + 1 if match else 1


def column_in(file: Path, number: int, name: str) -> str:
    """Returns `, column N`: where the field `name`, or its value, stands in the line `number` of a text file; empty if
    the line has no such field."""
    with file.open("rb") as lines:
        names, line = next(lines), next(islice(lines, number - 2, None), b"") if number > 1 else b""
    if not number > 1:
        line = names
    if line.lstrip().startswith(b"{"):
        return f", column {_column(line, name)}" if f'"{name}"'.encode() in line else ""
    headers = [header.strip().strip('"') for header in names.decode(errors="replace").split(",")]
    values = next(csv.reader(io.StringIO(line.decode(errors="replace"))), [])
    if name not in headers[: len(values)]:
        return ""
    return f", column {sum(len(value) + 1 for value in values[: headers.index(name)]) + 1}"


def refuse_csv(
    file: Path, chunk: bytes, first: int, names: list[str], is_readable: Callable[[bytes], bool], reason: str
) -> NoReturn:
    """Raises BadInput that names the first wrong line of `chunk`, whole lines of CSV. The other arguments are as in
    `refuse_lines`; `names` are the columns. `is_readable` reads one line in the way that refused them."""
    for number, line in enumerate(chunk.removesuffix(b"\n").split(b"\n"), first):
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            refuse(file, number, error.start + 1, "the text is not UTF-8")
        if not text.strip():
            refuse(file, number, 1, "the line is empty")
        values = next(csv.reader(io.StringIO(text)))
        if len(values) != len(names):
            refuse(file, number, 1, f"the line has {len(values)} fields; the first line names {len(names)}")
        fields = {name: value for name, value in zip(names, values, strict=True) if value}
        for name, message in _problems(fields):
            column = sum(len(value) + 1 for value in values[: names.index(name)]) + 1 if name in names else 1
            refuse(file, number, column, f"{name}: {message}")
        if not is_readable(line + b"\n"):
            column = line.find(b'"') + 1 or 1
            refuse(file, number, column, "the line cannot be read; allowed: quotes around whole values alone")
    raise BadInput(f"{file}, lines {first} and following, cannot be read: {reason}; {REMEDY}")


def _problems(fields: dict[str, str]) -> Iterator[tuple[str, str]]:
    try:
        msgspec.convert(fields, LedgerLine, strict=False)
    except msgspec.ValidationError as error:
        path = _PATH.search(str(error)) or _FIELD.search(str(error))
        name = path[1] if path else "outcome"
        yield name, f"{_PATH.sub('', str(error))}, got {shown(fields.get(name))}"
    for name, value in fields.items():
        texts = ("id", "producer", "error", "outcome", "value_sha256", "transaction_outcome")
        if name not in texts and not value.isdecimal():
            yield name, f"{shown(value)} is no whole number"
