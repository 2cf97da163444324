"""Shared offsets: judges that two acknowledged attempts of one topic and partition never carry the same offset.

At most one of the acknowledgements is right, so each shared offset is evidence against the client or the broker. There
is one innocent explanation: a leader acknowledged one attempt, the log of a later leader lacked it, and this leader, or
one after it, acknowledged the other. Then the shared offset is evidence of a truncation, and the record of
the attempt that is not there is LOST or MISPLACED, which the contract judges.

All functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

from delivery_verifier.contract.elections import Elections
from delivery_verifier.run_directory.shared_offsets import SharedOffsets

if TYPE_CHECKING:
    from delivery_verifier.verdict.evidence import ArmEvidence, Evidence

DOUBT = "two_acks_one_offset"
"""The name of the doubt that some shared offsets are not explained."""


class Origin(Enum):
    """What a shared offset is due to: a truncation of the log; certainly none; or what was seen does not decide it."""

    TRUNCATED = "a new leader whose log lacked one of the records"
    WRONG = "no change of leader"
    UNKNOWN = "not known"


def origin_of(acks: Sequence[Mapping[str, Any]], offset: int, history: Elections | None) -> Origin:
    """Returns what a shared offset is due to. `acks`: its acknowledgements, in the order in which they were reported.
    `history`: the elections of its partition; None if nobody saw them."""
    if history is None or any(ack["settled_at"] is None for ack in acks):
        return Origin.UNKNOWN
    origins = {_of_pair(first, second, offset, history) for first, second in combinations(acks, 2)}
    return next((origin for origin in (Origin.WRONG, Origin.UNKNOWN) if origin in origins), Origin.TRUNCATED)


def _of_pair(first: Mapping[str, Any], second: Mapping[str, Any], offset: int, history: Elections) -> Origin:
    times = [(ack["sent_at"], ack["settled_at"]) for ack in (first, second)]
    if not all(any(tenure.may_acknowledge(*time) for tenure in history.tenures) for time in times):
        return Origin.UNKNOWN  # nobody saw a leader at that time
    early, late = (history.epochs_of(offset, *time) for time in times)
    # A leader that was deposed while it stood still may acknowledge later than its successor.
    pairs = {(min(epoch, other), max(epoch, other)) for epoch, other in product(early, late) if epoch != other}
    origins = {_between(before, after, offset, history) for before, after in pairs}
    return next((origin for origin in (Origin.TRUNCATED, Origin.UNKNOWN) if origin in origins), Origin.WRONG)


def _between(before: int, after: int, offset: int, history: Elections) -> Origin:
    """Returns whether a leader that was elected after the epoch `before`, up to the epoch `after`, lacked the record
    that was acknowledged in `before` at `offset`. The leader of `after` did, if it answered: its epoch starts at or
    below the offset."""
    is_lacking = any(answer.lacks(offset, before) for answer in history.answers if before < answer.epoch <= after)
    return Origin.TRUNCATED if is_lacking else Origin.UNKNOWN


def origins(arm: ArmEvidence) -> dict[Origin, list[tuple[int, int]]]:
    """Returns the listed shared offsets of the arm, as (partition, offset), by what they are due to."""
    by_origin: dict[Origin, list[tuple[int, int]]] = {origin: [] for origin in Origin}
    for (partition, offset), acks in _shared(arm).listed.items():
        by_origin[origin_of(acks, offset, arm.elections.get(partition))].append((partition, offset))
    return by_origin


def _shared(arm: ArmEvidence) -> SharedOffsets:
    return arm.run.shared_offsets.get(arm.name, SharedOffsets(0, {}))


def doubts(arm: ArmEvidence) -> Iterator[tuple[str, str]]:
    """Yields a doubt, as (name, detail), if no truncation explains a shared offset of the arm."""
    shared, by_origin = _shared(arm), origins(arm)
    if wrong := by_origin[Origin.WRONG]:
        said = "no change of leader explains it: a finding against the client or the broker"
        yield DOUBT, f"{arm.name}: {_named(len(wrong), _first(arm, wrong[0]))}; {said}"
    if unknown := by_origin[Origin.UNKNOWN]:
        said = "what was seen of the leaders does not show whether the log was truncated in between"
        yield DOUBT, f"{arm.name}: {_named(len(unknown), _first(arm, unknown[0]))}; {said}"
    if cut := shared.total - len(shared.listed):
        yield DOUBT, f"{arm.name}: {cut:,} more acknowledged offsets were told to several attempts, and not examined"


def notes(evidence: Evidence) -> Iterator[str]:
    """Yields a sentence for each arm with load that has shared offsets."""
    for arm in evidence.loaded:
        by_origin = origins(arm)
        if truncated := by_origin[Origin.TRUNCATED]:
            partition, offset = truncated[0]
            yield (
                f"{arm.name}: {len(truncated):,} x, two acknowledgements name one offset (first {partition}/{offset}), "
                "because a new leader lacked a record."
            )
        for _, detail in doubts(arm):
            yield f"{detail}. At most one of the acknowledgements of an offset is right."


def _named(count: int, first: str) -> str:
    return f"two acknowledgements name one offset: {count:,} x, first {first}"


def _first(arm: ArmEvidence, location: tuple[int, int]) -> str:
    partition, offset = location
    acks = _shared(arm).listed[location]
    names = [f"{ack['producer']}/{ack['session']}/{ack['sequence']}/{ack['attempt']}" for ack in acks]
    more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    return f"partition {partition}, offset {offset}, to {' and '.join(names[:3])}{more}"
