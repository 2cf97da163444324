"""The published form of an application's own ledger: the head and the lines, as data.

`kdv schema ledger` prints both as JSON Schema. A ledger as JSON lines has the head in its first line, and then one
object per attempt. CSV and Parquet have the same columns; the head is then given by options of `kdv audit`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

LedgerOutcome = Literal["acked", "sent", "failed", "unknown"]
"""What the client told the application. `acked`: a broker acknowledged the record. `sent`: acks=0, nothing more is
told. `failed`: an error was told. `unknown`: no answer came, or none that decides."""
LedgerTransactionOutcome = Literal["committed", "aborted", "unknown"]
"""How the transaction of an attempt ended, as the client told the application. `committed`, `aborted`: the call that
asked for it returned without an error. `unknown`: it did not, or nobody asked."""
MOST = 2**63 - 1
Number = Annotated[int, Meta(ge=0, le=MOST)]
LAST_MS = 253402300799999
"""The end of the year 9999, in ms since the epoch."""
Time = Annotated[int, Meta(ge=0, le=LAST_MS)]
Text = Annotated[str, Meta(min_length=1)]


class LedgerHead(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The first line of a ledger as JSON lines. It may be left out; options of `kdv audit` say the same."""

    kdv_ledger: Annotated[Literal[1], Meta(description="The version of this form.")]
    topic: Annotated[Text | None, Meta(description="The topic; refused if --topic names another one.")] = None
    identity: Annotated[Text | None, Meta(description="As --identity, e.g. header:order-id.")] = None
    complete: Annotated[
        bool,
        Meta(
            description="Whether every attempt is in the ledger, also those without an answer. In JSON lines, it "
            "counts only if the last line says how many attempts there are."
        ),
    ] = False
    failed_because: Annotated[
        str,
        Meta(description="Why a failed attempt was certainly not written. Empty: it may have been written."),
    ] = ""


class LedgerEnd(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The last line of a ledger as JSON lines. Without it, a ledger that says `complete` may lack lines at its end."""

    kdv_ledger_end: Annotated[Literal[1], Meta(description="The version of this form.")]
    attempts: Annotated[Number, Meta(description="How many attempts the file holds.")]


class LedgerLine(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One attempt. `id`, or `producer` and `sequence`, say which record it is: in all lines, or in none."""

    outcome: Annotated[LedgerOutcome, Meta(description="What the client told the application.")]
    id: Annotated[Text | None, Meta(description="What the identity finds in the record.")] = None
    producer: Annotated[Text | None, Meta(description="Who sent it; each producer numbers on its own.")] = None
    sequence: Annotated[Number | None, Meta(description="The number of the record, in the order of sending.")] = None
    attempt: Annotated[
        Annotated[int, Meta(ge=0, le=2**31 - 1)] | None,
        Meta(description="0, then 1, 2, ... for what the application sent again."),
    ] = None
    partition: Annotated[
        Annotated[int, Meta(ge=0, le=2**31 - 1)] | None, Meta(description="The acknowledged partition.")
    ] = None
    offset: Annotated[Number | None, Meta(description="The acknowledged offset.")] = None
    value_crc32: Annotated[
        Annotated[int, Meta(ge=0, le=2**32 - 1)] | None, Meta(description="CRC-32 of the value's bytes.")
    ] = None
    value_sha256: Annotated[
        Annotated[str, Meta(pattern="^[0-9a-f]{64}$")] | None,
        Meta(description="SHA-256 of the value's bytes, in lower-case hexadecimal digits."),
    ] = None
    sent_at: Annotated[Time | None, Meta(description="When it was sent, in ms since the epoch.")] = None
    settled_at: Annotated[Time | None, Meta(description="When the answer came, in ms since the epoch.")] = None
    error: Annotated[str | None, Meta(description="The error that the client told.")] = None
    transaction_outcome: Annotated[
        LedgerTransactionOutcome | None,
        Meta(description="How its transaction ended: what commitTransaction or abortTransaction told."),
    ] = None


def schema() -> dict[str, Any]:
    """Returns the JSON Schema of one line of a ledger: the head, an attempt, or the end."""
    refs, definitions = msgspec.json.schema_components(
        [LedgerHead, LedgerLine, LedgerEnd], ref_template="#/$defs/{name}"
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "One line of a ledger that kdv audit reads",
        "anyOf": list(refs),
        "$defs": definitions,
    }
