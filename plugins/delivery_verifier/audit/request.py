"""The request for an audit: what the user asks, joined with what the ledger says of itself."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from delivery_verifier.audit.readers import Claims
from delivery_verifier.model.audit import IDENTITIES, Audit, Identity, LedgerFormat, groups_of
from delivery_verifier.model.external_cluster import ClusterAccess
from delivery_verifier.model.inputs import BadInput, bad_input
from delivery_verifier.model.scenario import Claim, Profile

SUFFIXES: dict[str, LedgerFormat] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
}
"""The format that the name of a file shows."""


class AuditRequest(Struct, frozen=True, kw_only=True):
    """What a user asks of an audit.

    `access`: how to reach the cluster, without a secret. `identity`: as on the command line; None: as the head of the
    ledger says. `identity_sql`: an SQL expression in its place. `profile`: the producer's settings; None if they are
    not known. `command`: the command that repeats it.
    """

    run_id: str
    files: tuple[Path, ...]
    format: LedgerFormat
    topic: str
    access: ClusterAccess
    identity: str | None = None
    identity_sql: str | None = None
    complete: bool = False
    others_write: bool = False
    profile: Profile | None = None
    claim: Claim = "at_least_once"
    command: str = ""

    def joined(self, claims: Claims) -> AuditRequest:
        """Returns this request with what the head of the ledger says. Raises BadInput if the two contradict."""
        notes = claims.told
        if notes.topic and notes.topic != self.topic:
            raise bad_input("--topic", self.topic, repr(notes.topic), f"the ledger {self.files[0]} is of this topic")
        if notes.identity and self.identity and notes.identity != self.identity:
            raise bad_input(
                "--identity", self.identity, repr(notes.identity), f"{self.files[0]} says so in its first line"
            )
        identity = self.identity or notes.identity or ("value" if self.format == "verifiable-producer" else None)
        return replace(self, identity=identity, complete=self.complete or notes.complete)

    def audit(self, claims: Claims) -> Audit:
        """Returns what is known of the ledger. Raises BadInput if the identity does not fit its columns."""
        return Audit(
            files=claims.names,
            claims=claims.count,
            format=self.format,
            identity=self._identity(claims),
            complete=self.complete,
            cut=claims.told.cut,
            others_write=self.others_write,
            settings_known=self.profile is not None,
            hash=claims.hash,
            without_hash=claims.count - claims.hashed if claims.hash else 0,
            ordered=claims.ordered,
            attempts=claims.filled["attempt"] > 0,
            timed=claims.filled["sent_at"] + claims.filled["settled_at"] > 0,
            without_offset=claims.without_offset,
            failed_because=claims.told.failed_because,
            empty=claims.told.empty,
        )

    def _identity(self, claims: Claims) -> Identity:
        has_id = claims.filled["id"] > 0
        if self.identity_sql is not None:
            return Identity(kind="sql", expression=self.identity_sql, in_parts=not has_id)
        if self.identity is None:
            raise BadInput(
                f"--identity is missing; allowed: {IDENTITIES}, or --identity-sql; it says how a record names its claim"
            )
        identity = parse(self.identity)
        if identity.in_parts and not claims.ordered:
            raise bad_input(
                "--identity", self.identity, "one that gives `id`", "the ledger has no producer and sequence"
            )
        if not identity.in_parts and not has_id:
            remedy = "the ledger has producer and sequence, and no id"
            raise bad_input("--identity", self.identity, "value:regex with groups producer and sequence", remedy)
        return identity


def parse(text: str) -> Identity:
    """Returns the identity that `text` describes. Raises BadInput if it describes none."""
    kind, _, rest = text.partition(":")
    if text in ("key", "value"):
        return Identity(kind=text)  # type: ignore[arg-type]
    if kind == "header" and rest:
        return Identity(kind="header", expression=rest)
    if kind == "value" and rest.startswith("json:$"):
        return Identity(kind="json", expression=rest.removeprefix("json:"))
    if kind == "value" and rest.startswith("regex:"):
        expression = rest.removeprefix("regex:")
        groups = {*groups_of(expression)}
        if groups == {"id"}:
            return Identity(kind="regex", expression=expression)
        if groups and groups <= {"producer", "sequence"} and "sequence" in groups:
            return Identity(kind="regex", expression=expression, in_parts=True)
        raise bad_input(
            "--identity",
            text,
            "a regular expression with the group (?<id>...), or (?<producer>...) and (?<sequence>...)",
        )
    raise bad_input("--identity", text, IDENTITIES)


def format_of(file: Path) -> LedgerFormat:
    """Returns the format that the name of `file` shows. Raises BadInput if it shows none."""
    form = SUFFIXES.get(file.suffix.lower())
    if form is None:
        raise BadInput(
            f"--format is missing, and the name of {file} shows none; allowed: jsonl, csv, parquet, verifiable-producer"
        )
    return form
