"""Notes: sentences of a verdict that help people to read its evidence. They change no verdict.

The module only writes sentences. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from delivery_verifier.judgement import audits, shared_offsets
from delivery_verifier.judgement.evidence import Evidence


def notes(evidence: Evidence) -> list[str]:
    """Returns notes about cases that anomalies/ does not list, about attempts without a delivery report, and about
    acknowledged offsets that several attempts were told."""
    if evidence.scenario.audit:
        return [*_cut(evidence), *audits.notes(evidence)]
    return [*_cut(evidence), *_unreported(evidence), *shared_offsets.notes(evidence)]


def _cut(evidence: Evidence) -> Iterator[str]:
    """Yields a note for each anomaly of an arm if not all of its cases were written to anomalies/."""
    rows = evidence.books.rows("cases")
    if not {"arm", "kind", "cases", "written", "cut"} <= set(rows.column_names):
        return
    for row in rows.to_pylist():
        if row["cut"]:
            yield (
                f"{row['arm']}: {row['written']:,} of {row['cases']:,} cases of {row['kind']} were written down with "
                "their evidence; all were counted"
            )


def _unreported(evidence: Evidence) -> Iterator[str]:
    """Yields a note for each arm with attempts for which the client gave no delivery report.

    Such an attempt is INDETERMINATE: its producer was killed, or ended while the client still waited for the broker.
    """
    for arm in evidence.loaded:
        total, reported = arm.totals.get("indeterminate"), evidence.indeterminate.get(arm.name)
        if total is not None and reported is not None and total > reported:
            yield (
                f"{arm.name}: for {total - reported:,} of {total:,} INDETERMINATE attempts no delivery report ever "
                "came, not even one of an error"
            )
