"""What an audit could not decide: its doubts by name, and the anomalies whose cases then convict nobody.

Each count stands for cases that the ledger and the log show, and that have another explanation than the anomaly, or for
cases that neither of them shows. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from delivery_verifier.contract.rulings import Ruling, claim_tolerances
from delivery_verifier.model.anomalies import Anomaly, subset
from delivery_verifier.model.audit import Audit

if TYPE_CHECKING:
    from delivery_verifier.verdict.evidence import ArmEvidence

NamedDetail = tuple[str, str]
"""The name and the detail of a doubt."""
DOUBTS = frozenset(
    (
        *(
            "transaction_unknown",
            "transaction_open",
            "order_unknown",
            "expired",
            "attempts_guessed",
            "copies_not_examined",
        ),
        *("late_unknown", "complete_contradicted", "identity_missing", "topic_younger", "unproven"),
    )
)
"""The names of these doubts, up to the first colon."""
OF_OTHERS = subset(
    "only these can a second application show that uses the same ids",
    (Anomaly.DUPLICATED, Anomaly.REORDERED, Anomaly.CORRUPTED, Anomaly.PHANTOM),
)
"""What a second application shows that uses the same ids. PHANTOM: in place of an attempt that FAILED."""
BEHIND = subset(
    "only these can show that a transaction ended otherwise than the ledger says",
    {
        Anomaly.LOST: ("committed_hidden", Anomaly.TORN),
        Anomaly.MISPLACED: ("committed_hidden_there", Anomaly.TORN),
        Anomaly.PHANTOM: ("aborted_found", Anomaly.ABORTED_VISIBLE),
    },
)
"""The count of the cases of these anomalies in which a transaction ended otherwise than the ledger says, and the
anomaly of transactions that this is: only where the claim forbids it, such a case convicts."""
UNPROVEN = "audit.unproven"
"""The id of the rule for anomalies whose cases convict nobody."""


def is_transactional(counts: Mapping[str, int]) -> bool:
    """Returns whether the topic has, or had, transactions: control records, or a last stable offset below its end."""
    return bool(counts.get("control_records") or counts.get("open_transactions"))


def convicts_copies(audit: Audit, counts: Mapping[str, int]) -> bool:
    """Returns whether copies in two partitions are certainly of one attempt: every attempt is known, and nobody else
    writes."""
    is_certain = has_every_attempt(audit, counts) and audit.settings_known and not audit.others_write
    return is_certain and not counts.get("guessed") and not is_transactional(counts)


def has_every_attempt(audit: Audit, counts: Mapping[str, int]) -> bool:
    """Returns whether the ledger has every attempt: it says so, and nothing contradicts it."""
    return audit.complete and not audit.cut and not audit.empty and not counts.get("gaps")


def withheld(rulings: dict[Anomaly, Ruling], arm: ArmEvidence, audit: Audit) -> dict[Anomaly, Ruling]:
    """Returns the rulings. An anomaly is no longer forbidden if all its cases may have another explanation: it is then
    neither permitted nor forbidden (`only_unplanned`), and has the rule UNPROVEN."""
    return {
        anomaly: replace(
            ruling,
            ruling="PERMITTED",
            rule=UNPROVEN,
            sentence=f"Nothing proves these cases: {reason}.",
            source="the ledger of this audit",
            because=(),
            only_unplanned=True,
        )
        if ruling.ruling == "FORBIDDEN" and (reason := _explained(anomaly, arm, audit))
        else ruling
        for anomaly, ruling in rulings.items()
    }


def _explained(anomaly: Anomaly, arm: ArmEvidence, audit: Audit) -> str:
    """Returns what else may explain all cases of an anomaly; empty if there are none, or if one is proven."""
    counts, cases = arm.run.audit_counts, sum(arm.cases(anomaly))
    explanations = (
        (audit.others_write and anomaly in OF_OTHERS, "others write to the topic, and may use the same ids"),
        (
            is_transactional(counts) and anomaly is Anomaly.REORDERED and _may_be_sent_again(arm),
            "what an aborted transaction held may have been sent again, behind later records",
        ),
        (
            _unpromised(anomaly, arm) >= cases,
            "a transaction ended otherwise than the ledger says, and only a claim forbids that",
        ),
        (
            anomaly is Anomaly.PHANTOM and _unproven(anomaly, arm) >= cases,
            "they may be of attempts that the ledger lacks: what had failed may have been sent again",
        ),
        (
            not has_every_attempt(audit, counts) and anomaly is Anomaly.DUPLICATED,
            "they may be of attempts that the ledger lacks: the application may have sent them again",
        ),
        (
            not has_every_attempt(audit, counts) and anomaly is Anomaly.REORDERED and not audit.attempts,
            "they may have been sent before, by attempts that the ledger lacks, and again behind later records",
        ),
        (
            anomaly is Anomaly.DUPLICATED and _unproven(anomaly, arm) >= cases,
            "they may be of attempts whose transactions the ledger calls aborted",
        ),
        (
            anomaly is Anomaly.LOST and _unproven(anomaly, arm) >= cases,
            "they may be damaged, or missed by the identity, or acknowledged before the topic was created anew",
        ),
        (
            anomaly is Anomaly.MISPLACED and _unproven(anomaly, arm) >= cases,
            "at each acknowledged offset there may be a record whose identity was not recognized",
        ),
    )
    return next((text for is_given, text in explanations if cases and is_given), "")


def _unproven(anomaly: Anomaly, arm: ArmEvidence) -> int:
    """Returns how many cases of `anomaly` are not proven, at most."""
    counts, audit = arm.run.audit_counts, arm.run.scenario.audit
    lacking = 0
    if anomaly is Anomaly.PHANTOM and audit is not None and not has_every_attempt(audit, counts):
        is_called_whole = audit.complete and not audit.cut  # only then is what nobody claims a PHANTOM
        lacking = counts.get("failed_elsewhere", 0) + (counts.get("unclaimed", 0) if is_called_whole else 0)
    return counts.get(f"unproven_{anomaly.value.lower()}", 0) + lacking + _unpromised(anomaly, arm)


def _may_be_sent_again(arm: ArmEvidence) -> bool:
    """Returns whether records may have been sent again without a number of their own: the ledger does not say of each
    attempt how its transaction ended, or the log shows it, or has lost what would."""
    counts = arm.run.audit_counts
    has_lost = any(part.start for part in arm.run.offsets.partitions if part.arm == arm.name)
    return bool(counts.get("end_unknown") or counts.get("sent_again") or has_lost)


def _unpromised(anomaly: Anomaly, arm: ArmEvidence) -> int:
    """Returns how many cases of `anomaly` are of a transaction that ended otherwise than the ledger says, if the claim
    does not forbid that. The claim `contract` does not: a request to end a transaction may come late, and end the next
    one (KAFKA-17754)."""
    name, kind = BEHIND.get(anomaly, ("", anomaly))
    return 0 if not name or kind in claim_tolerances(arm.spec.claim) else arm.run.audit_counts.get(name, 0)


def doubts(arm: ArmEvidence, audit: Audit) -> Iterator[NamedDetail]:
    """Yields each reason not to say HELD that ledger and log give. None of them forbids VIOLATED."""
    counts = arm.run.audit_counts
    for anomaly, ruling in arm.rulings.items():
        if ruling.rule == UNPROVEN:
            yield f"unproven:{anomaly}", f"{sum(arm.cases(anomaly)):,} {anomaly}: {ruling.sentence}"
    for anomaly in arm.rulings:
        unproven, cases = _unproven(anomaly, arm), sum(arm.cases(anomaly))
        if 0 < unproven < cases and _forbids(arm, anomaly):
            yield f"unproven:{anomaly}", f"up to {unproven:,} of {cases:,} {anomaly} are not proven; the others are"
    yield from _transactions(counts)
    yield from _order(arm, audit, counts)
    yield from _beginning(arm, counts)
    yield from _copies(arm, counts)
    yield from _contradictions(audit, counts)


def _transactions(counts: Mapping[str, int]) -> Iterator[NamedDetail]:
    if unknown := counts.get("transaction_unknown", 0):
        detail = "in transactions that were aborted or have not ended, and the ledger does not call them aborted"
        yield "transaction_unknown", f"{unknown:,} claims have a record {detail}"
    if counts.get("open_transactions") or counts.get("open_records"):
        yield (
            "transaction_open",
            f"transactions are open in {counts.get('open_transactions', 0):,} partitions, with "
            f"{counts.get('open_records', 0):,} records: no read_committed consumer gets past them yet",
        )


def _forbids(arm: ArmEvidence, *anomalies: Anomaly) -> bool:
    return any(arm.rulings[anomaly].ruling == "FORBIDDEN" for anomaly in anomalies if anomaly in arm.rulings)


def _order(arm: ArmEvidence, audit: Audit, counts: Mapping[str, int]) -> Iterator[NamedDetail]:
    if not _forbids(arm, Anomaly.REORDERED):
        return
    if not audit.ordered:
        yield "order_unknown", "REORDERED is forbidden, and the ledger has no producer and sequence that would show it"
    elif unordered := counts.get("unordered", 0):
        yield "order_unknown", f"REORDERED is forbidden, and {unordered:,} claims have no place in the order of sending"
    if late := arm.totals.get("resolved_late", 0):
        yield (
            "late_unknown",
            f"{late:,} INDETERMINATE attempts stand behind records that were sent after them, and nobody knows whether "
            "the producer was started again in between",
        )


def _beginning(arm: ArmEvidence, counts: Mapping[str, int]) -> Iterator[NamedDetail]:
    """Yields doubts about the records that the log has lost at its beginning."""
    if expired := counts.get("expired", 0):
        yield "expired", f"{expired:,} claims stand before the beginning of the log, and were not judged"
    if contradicted := counts.get("expired_present", 0):
        yield "expired", f"{contradicted:,} of the expired claims have a record elsewhere in the log all the same"
    starts = [part for part in arm.run.offsets.partitions if part.arm == arm.name and part.start > 0]
    if starts and not expired and _forbids(arm, Anomaly.DUPLICATED, Anomaly.REORDERED):
        detail = "of the log has lost its beginning, where copies and overtaking records may have stood"
        yield "expired", f"partition {starts[0].partition} {detail}"
    if younger := counts.get("younger", 0):
        detail = "are older than every record of the topic; was the topic created anew?"
        yield "topic_younger", f"{younger:,} claims that were not found {detail}"


def _copies(arm: ArmEvidence, counts: Mapping[str, int]) -> Iterator[NamedDetail]:
    guessed = counts.get("guessed", 0)
    if guessed and _forbids(arm, Anomaly.DUPLICATED, Anomaly.REORDERED, Anomaly.MISPLACED):
        yield "attempts_guessed", f"of {guessed:,} records, nothing shows which attempt of their id wrote them"


def _contradictions(audit: Audit, counts: Mapping[str, int]) -> Iterator[NamedDetail]:
    gaps = counts.get("gaps", 0)
    if gaps and audit.complete:
        yield (
            "complete_contradicted",
            f"the ledger says that it is complete, and lacks {gaps:,} numbers between a producer's first and last",
        )
    if audit.empty:
        more = f" and {len(audit.empty) - 1} more" if len(audit.empty) > 1 else ""
        yield "complete_contradicted", f"{audit.empty[0]}{more} has no claim; did its writer send anything?"
    foreign_writers = counts.get("foreign_writers", 0)
    if foreign_writers and not audit.others_write:
        yield (
            "identity_missing",
            f"{foreign_writers:,} records have no identity, though nobody else writes to the topic: they may be of "
            "claims",
        )
    if tombstones := counts.get("tombstones", 0):
        yield (
            "values_not_hashed",
            f"{tombstones:,} records have a null value, claimed with the checksum of an empty one",
        )
