"""Tests of the doubts about transactions that stay open. They forbid HELD, and leave VIOLATED, because the raw view is
judged as ever."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from support.evidence import CANARY_ARM, RUN, SUBJECT, arm, doubts, evidence_of, judged, lost

from delivery_verifier.advice.doubts import ADVICE
from delivery_verifier.judgement.evidence import Evidence
from delivery_verifier.model.held_back import HeldBack, OpenTransaction
from delivery_verifier.model.verdict import RunVerdict

AT_MS = 1_700_000_000_000
"""22:13:20 UTC on 14 November 2023."""


def transaction(**more: object) -> OpenTransaction:
    known: dict[str, object] = {"producer_id": 7, "producer_epoch": 2, "first_offset": 390, "last_at_ms": AT_MS}
    return msgspec.convert(known | more, OpenTransaction)


ONGOING = transaction(transactional_id="pay", state="Ongoing", began_at_ms=AT_MS, timeout_ms=900_000)
LOST_MARKER = transaction(transactional_id="pay", state="CompleteCommit", timeout_ms=60_000)
FORGOTTEN = transaction()


def held(of_arm: str, *open_ones: OpenTransaction, unknown: str = "", evidence: Evidence | None = None) -> RunVerdict:
    """Judges the run with the last stable offset of the arm's partition 1 at 390 of 400."""
    evidence = evidence or evidence_of(RUN)
    back = HeldBack(last_stable_offset=390, transactions=open_ones, unknown=unknown)
    offsets = msgspec.structs.replace(
        evidence.offsets,
        partitions=[
            msgspec.structs.replace(part, held_back=back) if (part.arm, part.partition) == (of_arm, 1) else part
            for part in evidence.offsets.partitions
        ],
    )
    return judged(dataclasses.replace(evidence, offsets=offsets))


@pytest.mark.parametrize(
    ("open_one", "said"),
    [
        (
            ONGOING,
            "transactional.id 'pay' (producer id 7, epoch 2), open from offset 390 on, since 2023-11-14 22:13:20 UTC; "
            "its coordinator says Ongoing, transaction.timeout.ms=900000",
        ),
        (
            LOST_MARKER,
            "transactional.id 'pay' (producer id 7, epoch 2), open from offset 390 on, last record at 2023-11-14 "
            "22:13:20 UTC; its coordinator says CompleteCommit, so that nobody will end it (a hanging transaction, "
            "KIP-664)",
        ),
        (
            FORGOTTEN,
            "producer id 7, epoch 2, open from offset 390 on, last record at 2023-11-14 22:13:20 UTC; no coordinator "
            "knows it, so that nobody will end it (a hanging transaction, KIP-664)",
        ),
    ],
)
def test_a_doubt_says_whose_transaction_it_is_where_and_since_when(open_one: OpenTransaction, said: str) -> None:
    verdict = held(SUBJECT, open_one)
    assert (arm(verdict).verdict, verdict.green) == ("INCONCLUSIVE", False)
    assert doubts(verdict) == {("coverage", "open_transaction")}
    (doubt,) = arm(verdict).doubts
    assert doubt.detail == (
        f"{SUBJECT}/1: a transaction stays open: {said}. The last stable offset stands at 390. A consumer with "
        "read_committed gets none of the 10 offsets from there to the end of the snapshot. What it would see of them "
        "was not judged"
    )
    assert "a transaction stays open" in arm(verdict).sentence and "open_transaction" in ADVICE


def test_several_transactions_are_all_named_and_an_unknown_one_says_why() -> None:
    (doubt,) = arm(held(SUBJECT, ONGOING, FORGOTTEN)).doubts
    assert "transaction.timeout.ms=900000 and producer id 7, epoch 2, open" in doubt.detail
    (doubt,) = arm(held(SUBJECT, unknown="timed out")).doubts
    assert "a transaction stays open: it is not known whose (timed out)" in doubt.detail


def test_a_record_that_is_lost_behind_an_open_transaction_still_breaks_the_promise() -> None:
    verdict = held(SUBJECT, ONGOING, evidence=evidence_of(RUN, change=lost(1, SUBJECT)))
    assert arm(verdict).verdict == "VIOLATED" and ("coverage", "open_transaction") in doubts(verdict)


def test_an_open_transaction_comes_before_the_doubts_that_it_may_have_caused() -> None:
    evidence = evidence_of(RUN)
    evidence.injections.clear()
    names = [doubt.name for doubt in arm(held(SUBJECT, ONGOING, evidence=evidence)).doubts if doubt.kind == "coverage"]
    assert names[0] == "open_transaction" and len(names) > 1


def test_an_open_transaction_concerns_its_own_arm_and_the_canarys_the_run() -> None:
    assert ("coverage", "open_transaction") not in doubts(held("control-acks_0", ONGOING))
    verdict = held(CANARY_ARM, ONGOING)
    assert ("coverage", "open_transaction") in doubts(verdict, CANARY_ARM) and not verdict.green
