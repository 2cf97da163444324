"""The audit: judges the ledger of an application that this project did not write.

A *claim* is what the application's ledger says of one attempt. The *identity* of a record is the part of it that says
which claim it is.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from msgspec import Meta

from delivery_verifier.model.data import Data
from delivery_verifier.model.inputs import bad_input

IDENTITIES = "header:NAME, key, value, value:json:$.PATH, value:regex:EXPRESSION"
"""The ways in which a record can name its claim, as they are written."""
LedgerFormat = Literal["jsonl", "csv", "parquet", "verifiable-producer"]
"""The formats of a ledger. `verifiable-producer`: the lines that Kafka's VerifiableProducer prints."""
IdentityKind = Literal["header", "key", "value", "json", "regex", "sql"]
"""Where the identity of a record stands.

* `header`: in the Kafka header with the name `Identity.expression`. `key`, `value`: the whole key or value, as text.
* `json`: in the JSON value, at the path `Identity.expression`.
* `regex`: in the groups `id`, or `producer` and `sequence`, of a regular expression that matches the whole value.
* `sql`: a Spark SQL expression over `key`, `value` (both binary), `headers`, `partition`, `offset` and `timestamp`. It
  gives the id, or a struct of `producer` and `sequence`.
"""
HashKind = Literal["", "crc32", "sha256"]
"""The checksum of values that the ledger has; empty: none."""


class Identity(Data, frozen=True):
    """How a record of the topic says which claim it is. `in_parts`: it gives `producer` and `sequence` instead of an
    id."""

    kind: IdentityKind
    expression: str = ""
    in_parts: bool = False

    @property
    def text(self) -> str:
        """The identity as on the command line, e.g. `header:order-id`."""
        prefix = {"json": "value:json", "regex": "value:regex"}.get(self.kind, self.kind)
        return f"{prefix}:{self.expression}" if self.expression else prefix


def groups_of(pattern: str) -> dict[str, int]:
    """Maps the named groups of a regular expression, in Java's syntax, to their numbers. Raises BadInput if it is
    none."""
    try:
        return dict(re.compile(re.sub(r"\(\?<(?![=!])", "(?P<", pattern)).groupindex)
    except re.error as error:
        raise bad_input("--identity", pattern, "a regular expression", str(error)) from None


class Audit(Data, frozen=True):
    """What is known of an audited ledger: part of scenario.json.

    * `files`: the names of the files. `claims`: how many claims they hold.
    * `complete`: whether the ledger has every attempt, also those without an answer. `cut`: why it may lack its end;
      empty: it does not.
    * `others_write`: whether others write to the topic, too. `settings_known`: whether the user gave the producer's
      settings.
    * `ordered`: whether each claim has `producer` and `sequence`. `attempts`, `timed`: whether claims have an attempt
      number, or times. `without_offset`: how many acknowledged claims have no offset. `without_hash`: how many
      claims lack the checksum `hash`, if any claim has it.
    * `failed_because`: why the application is sure that a failed attempt was not written; empty: it is not sure, and
      failed attempts count as INDETERMINATE.
    * `empty`: the names of files without any claim.
    """

    files: tuple[str, ...]
    claims: Annotated[int, Meta(ge=0)]
    format: LedgerFormat
    identity: Identity
    complete: bool = False
    cut: str = ""
    others_write: bool = False
    settings_known: bool = False
    hash: HashKind = ""
    without_hash: Annotated[int, Meta(ge=0)] = 0
    ordered: bool = False
    attempts: bool = False
    timed: bool = False
    without_offset: Annotated[int, Meta(ge=0)] = 0
    failed_because: str = ""
    empty: tuple[str, ...] = ()

    @property
    def in_words(self) -> str:
        """The claims in words, e.g. `of the claims in acks.jsonl`."""
        more = f" and {len(self.files) - 1} more" if len(self.files) > 1 else ""
        return f"of the claims in {self.files[0]}{more}"
