"""What a program dropped when it ended on SIGTERM, where the proof or the counts lack a number, and where damage is."""

from __future__ import annotations

import msgspec
import pytest
from support.evidence import RUN, SUBJECT, Change, Rows, evidence_of, setting, the_injections, with_arm

from delivery_verifier.model.history import Injection, left_key
from delivery_verifier.model.unreadable import Unreadable
from delivery_verifier.run_directory.given_up import GivenUpCount
from delivery_verifier.verdict.evidence import Evidence
from delivery_verifier.verdict.given_up import given_up_of

ONE_LEFT: Change = setting("counts/producers.parquet", "indeterminate", 1, arm=SUBJECT, producer=0)


def ended(**left: int) -> Injection:
    """A SIGTERM. `left`: what its proof says that producers had in their queues, by arm."""
    proof = {"process": {left_key(arm): count for arm, count in left.items()}}
    (kill,) = the_injections(RUN)
    return msgspec.structs.replace(kill, action="terminate_producer", brokers=[], proof=proof)


def sentence(evidence: Evidence) -> str:
    given_up = given_up_of(next(arm for arm in evidence.arms if arm.name == SUBJECT))
    assert given_up is not None
    return given_up.sentence


def told(*injections: Injection, change: Change = ONE_LEFT) -> str:
    """Returns how one record was given up that never got a report."""
    run = with_arm(RUN, SUBJECT, on_sigterm="exit")
    left_open = {SUBJECT: [GivenUpCount(0, "", 1)]}
    return sentence(evidence_of(run, change, injections=[*injections], given_up=left_open, indeterminate={}))


DROPPED = "dropped by the program, which ended on SIGTERM without flush() and had 1 in its client's queue"
LEFT_OPEN = "left open by a producer that ended"


def test_one_record_that_the_program_had_in_its_queue_was_dropped() -> None:
    assert DROPPED in told(ended(**{SUBJECT: 1}))


@pytest.mark.parametrize("injections", [[ended()], [ended(**{SUBJECT: 2}), ended()]])
def test_a_proof_without_a_number_is_no_proof_of_what_was_dropped(injections: list[Injection]) -> None:
    assert LEFT_OPEN in told(*injections)


def test_counts_without_open_records_do_not_show_that_any_was_dropped() -> None:
    def without(rows: Rows) -> None:
        for row in rows["counts/producers.parquet"]:
            del row["indeterminate"]

    assert LEFT_OPEN in told(ended(**{SUBJECT: 1}), change=without)


def test_one_partition_with_unreadable_offsets_is_enough_to_know_only_a_part_of_the_log() -> None:
    plain = evidence_of(RUN, given_up={SUBJECT: [GivenUpCount(0, "_MSG_TIMED_OUT", 1)]})
    assert "is not in the log:" in sentence(plain)
    torn = (Unreadable(first=7, end=9, shown_until=7, detail="torn"),)
    parts = [
        msgspec.structs.replace(part, unreadable=torn) if (part.arm, part.partition) == (SUBJECT, 2) else part
        for part in plain.offsets.partitions
    ]
    offsets = msgspec.structs.replace(plain.offsets, partitions=parts)
    assert "is not in the readable part of the log:" in sentence(
        evidence_of(RUN, offsets=offsets, given_up=plain.given_up)
    )
