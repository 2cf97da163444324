"""The end of a ledger as JSON lines: whether it is torn, and what its last line says."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from delivery_verifier.audit.misread import refuse_line
from delivery_verifier.model.ledger_line import LedgerEnd

END = re.compile(rb'"kdv_ledger_end"\s*:')
"""What only the last line of a ledger has."""


def without_end(file: Path, data: bytes, first: int) -> tuple[bytes, LedgerEnd | None]:
    """Returns `data`, whole lines, without the line that ends a ledger, and what this line says; None without it.

    `first`: the number of the first line. Raises BadInput if this line says anything else.
    """
    before, _, line = data.removesuffix(b"\n").rpartition(b"\n")
    if not END.search(line):
        return data, None
    number = first + data.count(b"\n") - 1
    refuse_line(file, number, line, LedgerEnd)
    return before + b"\n" if before else b"", msgspec.json.decode(line, type=LedgerEnd)


def is_torn(line: bytes) -> bool:
    """Returns whether `line` is no whole JSON value."""
    try:
        msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return True
    return False
