"""Audits made by hand: a ledger in which nothing is missing, and what is told of it if something is."""

from __future__ import annotations

from dataclasses import replace as replaced
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from delivery_verifier.model.audit import Audit, Identity
from delivery_verifier.model.scenario import Claim
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.run_directory.tally import START_ZERO
from delivery_verifier.verdict.evidence import Evidence
from support.evidence import Change, Rows, a_scenario, evidence_of, judged

WHOLE = Audit(
    files=("acks.jsonl",),
    claims=1200,
    format="jsonl",
    identity=Identity(kind="header", expression="id"),
    complete=True,
    settings_known=True,
    hash="crc32",
    ordered=True,
    attempts=True,
    timed=True,
)


def evidence_of_audit(
    change: Change = lambda rows: None,
    claim: Claim = "contract",
    profile: str = "idempotent",
    counts: dict[str, int] | None = None,
    cases: pa.Table | None = None,
    **of_audit: Any,
) -> Evidence:
    """Returns the evidence of a ledger in which nothing is missing, but for `of_audit`. `counts`: the audit's own."""
    plain = a_scenario(profile, "none")
    arms = (replace(plain.arms[0], name="idempotent", claim=claim), plain.canary)
    of = replace(plain, arms=arms, audit=replace(WHOLE, **of_audit))

    def changed(rows: Rows) -> None:
        invariants = rows["counts/invariants.parquet"]
        rows["counts/invariants.parquet"] = [row for row in invariants if row["invariant"] != START_ZERO]
        change(rows)

    own = {"observations": [], "injections": [], "audit_counts": counts or {}, "cases": cases}
    return replaced(evidence_of(of, changed), **own)  # type: ignore[arg-type]


def audited(change: Change = lambda rows: None, **more: Any) -> RunVerdict:
    """Returns the verdict on the evidence of an audit (see `evidence_of_audit`)."""
    return judged(evidence_of_audit(change, **more))
