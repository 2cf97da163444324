"""What an audit of a foreign ledger may conclude: rulings, doubts and limits.

Nobody watched the cluster while the records were sent, and the ledger may lack columns, lines or its end. What is
missing takes away what it alone could have shown. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from delivery_verifier.contract.guarantees import FAULT_CLASSES
from delivery_verifier.contract.rulings import Ruling, effective
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import Anomaly, subset
from delivery_verifier.model.audit import Audit
from delivery_verifier.model.history import Disturbance
from delivery_verifier.model.scenario import Arm, Scenario
from delivery_verifier.verdict import unproven
from delivery_verifier.verdict.shared_offsets import DOUBT as TWO_ACKS

if TYPE_CHECKING:
    from delivery_verifier.verdict.evidence import ArmEvidence, Evidence

NamedDetail = tuple[str, str]
"""The name and the detail of a doubt."""
COUNT = "audit/"
"""The prefix of an audit's own counts in produce.json, e.g. `audit/expired`."""
PLANTED = "planted/"
"""The prefix of the counts in settle.json that the canary of an audit must show, by column of the counts."""
NOT_PLANTED = "not_planted/"
"""The prefix of notes in settle.json. Each says why a kind of anomaly could not be planted in the canary."""
DOUBTS = unproven.DOUBTS | frozenset(
    (
        *("ledger_partial", "ledger_cut", "settings_unknown", "cluster_not_observed", "no_markers", "others_write"),
        *("values_not_hashed", "expired_unknown", "not_planted"),
        *("ack_past_the_end", "not_quiet", "isr_not_full", "canary_too_small", "claims_missing"),
    )
)
"""The names of the doubts that only an audit has, up to the first colon."""
BEYOND_ASSUMED = frozenset({"power of one", "power of last", "power of all", "forced election"})
"""Classes of faults that an audit does not assume: it says among the limits that they would permit more."""


def assumed() -> list[Disturbance]:
    """Returns the disturbances that may have happened while nobody watched: those of every class of faults but
    BEYOND_ASSUMED."""
    kinds = dict.fromkeys(kind for each in FAULT_CLASSES if each.name not in BEYOND_ASSUMED for kind in each.kinds)
    return [Disturbance(kind=kind, at_us=0, planned=False) for kind in kinds]


ASSUMPTION = (
    "if no broker lost its power, nobody asked for an unclean election, and the topic was not created anew meanwhile"
)
"""What an audit assumes when it convicts of TAKEN."""
TAKEN = subset(
    "a record is taken from the log only if it is gone, or if the acknowledged copy is",
    (Anomaly.LOST, Anomaly.MISPLACED),
)


def rulings(scenario: Scenario, arm: Arm, audit: Audit) -> dict[Anomaly, Ruling]:
    """Returns the ruling on every anomaly.

    What the settings permit without any disturbance is permitted. What they permit only after a disturbance is neither
    permitted nor forbidden, because nobody knows whether there was one: `only_unplanned` is then true. If the settings
    are unknown, the weakest are assumed, so that the claim alone forbids.
    """
    ruled = effective(Settings.of_arm(scenario, arm), arm.claim, assumed())
    if not audit.settings_known:
        ruled = {anomaly: _without_settings(ruling, arm) for anomaly, ruling in ruled.items()}
    for anomaly in TAKEN:
        if ruled[anomaly].ruling == "FORBIDDEN":
            sentence = f"{ruled[anomaly].sentence} This holds {ASSUMPTION}: nobody watched the cluster."
            ruled[anomaly] = replace(ruled[anomaly], sentence=sentence)
    return ruled


def assumption(arm: ArmEvidence) -> str:
    """Returns the clause of a VIOLATED that names what it assumes; empty if it assumes nothing."""
    broken = any(arm.rulings[each].ruling == "FORBIDDEN" and sum(arm.cases(each)) for each in TAKEN)
    return f", {ASSUMPTION}" if broken else ""


def _without_settings(ruling: Ruling, arm: Arm) -> Ruling:
    if ruling.ruling == "PERMITTED":
        sentence = "The producer's settings are not known, so nothing says that they forbid this."
        return replace(
            ruling, rule="audit.settings_unknown", sentence=sentence, source="no --producer-config was given"
        )
    if ruling.ruled_by == "claim":
        sentence = f"The claim {arm.claim} forbids it. The producer's settings are not known."
        return replace(ruling, sentence=sentence, source="the claim of this audit")
    return ruling


def coverage(arm: ArmEvidence, audit: Audit) -> Iterator[NamedDetail]:
    """Yields each reason not to say HELD. None of them forbids VIOLATED."""
    counts = arm.run.audit_counts
    if not arm.totals.get("reported"):
        yield "nothing_reported", f"{arm.name}: no claim says that a record was acknowledged or sent"
    if audit.cut:
        yield "ledger_cut", f"{audit.cut}, so attempts may be missing"
    if not audit.complete:
        yield "ledger_partial", "nothing says that the ledger has every attempt; what it lacks was not looked for"
    if not audit.settings_known:
        yield "settings_unknown", f"without --producer-config, only the claim {arm.spec.claim} was judged"
    yield from _unwatched(arm)
    if audit.others_write:
        yield "others_write", "others write to the topic, so nothing shows whether a record is of this application"
    if audit.without_offset:
        yield (
            "no_markers",
            f"{audit.without_offset:,} acknowledgements have no offset, and no marker was written, so nothing proves "
            "that the end of the log was past them",
        )
    if not audit.hash and audit.identity.kind != "value":
        yield "values_not_hashed", "the ledger has no checksums, so nothing shows whether the values are the ones sent"
    if audit.without_hash:
        yield "values_not_hashed", f"{audit.without_hash:,} claims have no checksum of their value"
    if shared := counts.get("shared", 0):
        detail = "nobody watched, so nothing shows whether the log was truncated between them"
        yield TWO_ACKS, f"two acknowledgements name one offset, {shared:,} x; {detail}"
    if unknowable := counts.get("unknowable", 0):
        detail = "were not found, and may have expired: the log has lost its beginning, and the claims have no offset"
        yield "expired_unknown", f"{unknowable:,} claims {detail}"
    yield from unproven.doubts(arm, audit)
    yield from ((f"not_planted:{kind}", reason) for kind, reason in arm.run.not_planted.items())


def _unwatched(arm: ArmEvidence) -> Iterator[NamedDetail]:
    """Yields a doubt if there are cases that a disturbance would permit."""
    for anomaly, ruling in arm.rulings.items():
        count = sum(arm.cases(anomaly))
        if count and ruling.only_unplanned and ruling.rule != unproven.UNPROVEN:
            causes = " or ".join(kind.replace("_", " ") for kind in ruling.because)
            yield (
                "cluster_not_observed",
                f"{count:,} {anomaly}: the settings permit it after {causes}, and nobody watched the cluster",
            )


def checker(evidence: Evidence, audit: Audit) -> Iterator[tuple[str, str, str]]:
    """Yields each reason to say neither HELD nor VIOLATED, as (arm, name, detail)."""
    counts, notes = evidence.audit_counts, evidence.audit_notes
    subject = evidence.scenario.subjects[0].name
    if past := counts.get("past_the_end", 0):
        where = notes.get("past_the_end", "")
        detail = f"{past:,} acknowledged offsets stand at or behind the end of the log, first {where}"
        yield subject, "ack_past_the_end", f"{detail}; is it the ledger of this topic, and was the topic created anew?"
    for name in ("not_quiet", "isr_not_full"):
        if detail := notes.get(name, ""):
            yield subject, name, detail
    for name in ("canary_too_small", "canary_wrong"):
        if name in notes:
            yield subject, name, notes[name]
    recorded = sum(arm.totals.get("attempted", 0) for arm in evidence.loaded)
    expected = audit.claims + counts.get("inferred", 0) - counts.get("left_out", 0)
    if recorded != expected:
        detail = f"the counts have {recorded:,} attempts; claims and inferred attempts are {expected:,}"
        yield subject, "claims_missing", detail


def limits(evidence: Evidence, audit: Audit) -> Iterator[str]:
    """Yields sentences about what the audit did not show."""
    counts = evidence.audit_counts
    yield (
        f"Judged {audit.in_words}: {audit.claims:,} claims, identified by {audit.identity.text}. What the application "
        "did not write down was not judged."
    )
    yield (
        "Nobody watched the cluster while the records were sent. A loss of power, or an unclean election that an "
        "operator asked for, would permit more than the contract does here."
    )
    yield "Only the logs of the leaders were read."
    yield "A ledger has the acknowledged partition, and not the one that was asked for: MISROUTED was not judged."
    if unproven.is_transactional(counts):
        yield (
            "Judged as a read_committed consumer sees the topic, which gets none of the "
            f"{counts['aborted_records']:,} records of aborted transactions and "
            f"{counts.get('open_records', 0):,} of open ones."
        )
    if expired := counts.get("expired", 0):
        yield f"EXPIRED, and left out: {expired:,}. The offsets of these claims stand before the beginning of the log."
    if foreign_writers := counts.get("foreign_writers", 0):
        yield f"Records of the topic without an identity: {foreign_writers:,}. They were counted, and not judged."
    if unclaimed := counts.get("unclaimed", 0):
        yield f"Records whose identity stands in no line of the ledger: {unclaimed:,}."
    if gaps := counts.get("gaps", 0):
        yield f"Numbers between a producer's first and last that neither ledger nor log have: {gaps:,}."
    if resent := counts.get("resent", 0):
        yield f"Not judged: the order of {resent:,} attempts that the application sent again."
    if adopted := counts.get("adopted", 0):
        yield f"Records without an identity, found by acknowledged offset and checksum: {adopted:,}."
    missing = [
        text
        for lacks, text in (
            (audit.without_offset, "offsets: whether a record stands where it was acknowledged (MISPLACED)"),
            (not audit.ordered, "producer and sequence: the order (REORDERED)"),
            (not audit.hash, "checksums: whether values are the ones sent (CORRUPTED)"),
            (not audit.attempts, "attempt numbers: what the application sent again is DUPLICATED, not RESENT"),
            (not audit.timed, "times: rates and latencies. Times of attempts in ledger/ are that of the audit"),
            (
                not audit.complete or audit.cut or audit.others_write,
                "a complete ledger and a topic to which nobody else writes: PHANTOM (both are needed)",
            ),
        )
        if lacks
    ]
    yield from (f"Not judged, for lack of {text}." for text in missing)


def notes(evidence: Evidence) -> Iterator[str]:
    """Yields findings that are about no single record."""
    if shared := evidence.audit_counts.get("shared", 0):
        acks, first = evidence.audit_counts.get("shared_acks", 0), evidence.audit_notes.get("shared", "")
        yield (
            f"Two acknowledgements name one offset: {shared:,} x, to {acks:,} attempts in all, first {first}. At most "
            "one of them can be right: a finding against the client or the broker, unless the log was truncated in "
            "between."
        )

    for name, text in (
        ("committed_hidden", "claims of committed transactions stand in aborted ones, and count as LOST"),
        ("committed_hidden_there", "claims of committed transactions stand in aborted ones at their offset: MISPLACED"),
        (
            "aborted_found",
            "records are visible to read_committed consumers though the ledger says that their "
            "transaction was aborted, and count as PHANTOM",
        ),
    ):
        if count := evidence.audit_counts.get(name, 0):
            yield f"{count:,} {text}."


def held(audit: Audit) -> str:
    """Returns what HELD means of this ledger. No ledger with an acknowledgement without an offset is HELD (see
    `coverage`)."""
    order = ", in the order of sending" if audit.ordered else ""
    return f"in the log exactly once, where they were acknowledged{order}"
