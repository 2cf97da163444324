"""Planters: functions that add known anomalies to a history. Some planters combine several kinds on one record.

The name of a planter says what the planter adds.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from delivery_verifier.model.anomalies import Anomaly
from support.run_directories import ILLEGIBLE, OF_FOREIGN_WRITER, UNPLANNED_ARM, Row, attempt, line

NOWHERE = 10_000_000
"""The log holds no record at this offset, or at any greater offset."""
CANARY = 0
"""The ordinal of the canary, an arm of every run."""


@dataclass
class History:
    """The ledger and the log of one arm, while a test writes them. Partitions and producers are numbered from 0.

    `attempts`: the ledger. `lines`: the raw view of the log. `seen`: its committed view. `numbers`: for each numbering,
    the last number. `producer`, `partition` and `transaction` (name, outcome) are those of the next record. `visible`:
    whether the committed view gets the next record.
    """

    arm: str
    ordinal: int
    partitions: int = 2
    producers: int = 2
    attempts: list[Row] = field(default_factory=list)
    lines: list[Row] = field(default_factory=list)
    numbers: dict[object, int] = field(default_factory=dict)
    producer: int = 0
    partition: int = 0
    transaction: tuple[str, str] | None = None
    visible: bool = True
    seen: list[Row] = field(default_factory=list)

    def begin(self, outcome: str, visible: bool = True) -> None:
        """Begins a new transaction, which ends with `outcome`. All later claims belong to this transaction.

        All later lines are in the committed view if `visible`. An arm that has begun a transaction must make every
        claim in a transaction.
        """
        self.transaction, self.visible = (str(self.next(("transaction", self.producer))), outcome), visible

    def next(self, of: object) -> int:
        """Returns the next number of the numbering `of`, which counts from 0 without gaps."""
        self.numbers[of] = self.numbers.get(of, -1) + 1
        return self.numbers[of]

    def record(self) -> Row:
        """Returns the header of a new record of the current producer for the current partition."""
        return {
            "producer": self.producer,
            "sequence": self.next(("sequence", self.producer)),
            "partition_sequence": self.next(("partition", self.producer, self.partition)),
            "attempt": 0,
        }

    def write(self, header: Row, partition: int | None = None, **more: Any) -> int:
        """Appends a line to the log. Returns the offset of the line. `more` overrides columns of the line."""
        where = self.partition if partition is None else partition
        offset = self.next(("offset", where))
        self.lines.append(line(self.arm, self.ordinal, offset, 0) | header | {"partition": where} | more)
        if self.visible:
            self.seen.append(self.lines[-1] | {"view": "committed"})
        return offset

    def elsewhere(self, header: Row) -> int:
        """Appends a line to the log of the next partition. Returns the offset of the line."""
        return self.write(header, partition=(self.partition + 1) % self.partitions)

    def claim(self, header: Row, outcome: str, offset: int | None = None) -> None:
        """Appends a row to the ledger. `offset` is the offset that was acknowledged, if any."""
        settled = {} if outcome != "INDETERMINATE" else {"settled_at": None, "error": "_MSG_TIMED_OUT"}
        row = attempt(self.arm, header["sequence"], outcome) | header
        name, ended = self.transaction or (None, None)
        row |= {"transaction": name, "transaction_outcome": ended}
        self.attempts.append(row | {"partition": self.partition, "offset": offset} | settled)

    def ack(self, header: Row) -> int:
        """Writes a healthy, acknowledged record. Returns the offset of the record."""
        offset = self.write(header)
        self.claim(header, "ACKED", offset)
        return offset


Planter = Callable[[History], None]
"""A function that adds records and claims to a history."""


def healthy(h: History) -> None:
    h.ack(h.record())


def sent(h: History) -> None:
    header = h.record()
    h.write(header)
    h.claim(header, "SENT")


def failed_and_absent(h: History) -> None:
    h.claim(h.record(), "FAILED")


def indeterminate_absent(h: History) -> None:
    h.claim(h.record(), "INDETERMINATE")


def indeterminate_present(h: History) -> None:
    header = h.record()
    h.write(header)
    h.claim(header, "INDETERMINATE")


def indeterminate_late(h: History) -> None:
    late = h.record()
    h.ack(h.record())
    h.write(late)
    h.claim(late, "INDETERMINATE")


HEALTHY: tuple[Planter, ...] = (
    healthy,
    sent,
    failed_and_absent,
    indeterminate_absent,
    indeterminate_present,
    indeterminate_late,
)
"""The planters of records that no detector may report as an anomaly."""


def corrupted_and_attributed(h: History) -> None:
    header = h.record()
    h.claim(header, "ACKED", h.write(header, crc_ok=False, sequence=header["sequence"] + 70))


def corrupted_and_illegible(h: History) -> None:
    h.write(h.record() | ILLEGIBLE)


def corrupted_and_nothing_is_left(h: History) -> None:
    """No trace of the run is left at an acknowledged offset: this is no foreign writer."""
    header = h.record()
    h.claim(header, "ACKED", h.write(header | OF_FOREIGN_WRITER))


def a_foreign_writer(h: History) -> None:
    h.write(h.record() | OF_FOREIGN_WRITER)


def a_foreign_writer_beside_an_indeterminate(h: History) -> None:
    h.claim(h.record(), "INDETERMINATE")
    a_foreign_writer(h)


def corrupted_where_two_were_acked(h: History) -> None:
    first, second = h.record(), h.record()
    offset = h.write(second, crc_ok=False)
    h.claim(first, "ACKED", offset)
    h.claim(second, "ACKED", offset)


def corrupted_at_an_offset_of_an_indeterminate(h: History) -> None:
    header = h.record()
    h.write(header, crc_ok=False)
    h.claim(header, "INDETERMINATE")


def phantom_never_attempted(h: History) -> None:
    h.write(h.record() | {"sequence": 900_000 + h.next("phantom")})


def phantom_of_no_planned_producer(h: History) -> None:
    h.write(h.record() | {"producer": 77})


def phantom_of_another_run(h: History) -> None:
    header = h.record()
    h.write(header, foreign=True, header_run="otherrun")
    h.claim(header, "INDETERMINATE")


def phantom_of_no_planned_arm(h: History) -> None:
    h.write(h.record(), foreign=True, header_arm=UNPLANNED_ARM)


def misrouted_from_another_arm(h: History) -> None:
    h.write(h.record(), foreign=True, header_arm=CANARY)


def misrouted_from_an_arm_that_uses_the_same_numbers(h: History) -> None:
    """Plants two cases: the other arm's record is none of this arm's, whose attempt of the same name is lost."""
    header = h.record()
    h.claim(header, "SENT")
    h.write(header, foreign=True, header_arm=CANARY)


def misrouted_beside_the_right_copy(h: History) -> None:
    header = h.record()
    h.ack(header)
    h.elsewhere(header)


def misrouted_though_nobody_knows(h: History) -> None:
    header = h.record()
    h.elsewhere(header)
    h.claim(header, "INDETERMINATE")


def misrouted_twice_and_duplicated(h: History) -> None:
    header = h.record()
    h.ack(header)
    h.write(header)
    h.elsewhere(header)
    h.elsewhere(header)


def misrouted_before_records_of_lower_numbers(h: History) -> None:
    """Plants one case. The other partition has numbers of its own, so the record behind the case is not late."""
    header = h.record() | {"partition_sequence": 1_000 + h.next("far")}
    h.elsewhere(header)
    h.claim(header, "ACKED", NOWHERE)
    h.partition = (h.partition + 1) % h.partitions
    h.ack(h.record())


def misrouted_and_overtaken(h: History) -> None:
    """Plants a record that is also late where it was sent."""
    late = h.record()
    h.elsewhere(late)
    h.ack(h.record())
    h.ack(late)


def misrouted_and_resent(h: History) -> None:
    header = h.record()
    h.elsewhere(header)
    h.claim(header, "INDETERMINATE")
    h.ack(header | {"attempt": 1})


def misrouted_to_the_acknowledged_offset(h: History) -> None:
    header = h.record()
    h.claim(header, "ACKED", h.elsewhere(header))


def misrouted_and_torn(h: History) -> None:
    h.begin("COMMITTED", visible=False)
    header = h.record()
    h.elsewhere(header)
    h.claim(header, "ACKED", NOWHERE)


def corrupted_and_misrouted(h: History) -> None:
    header = h.record()
    h.claim(header, "ACKED", h.write(header, crc_ok=False))
    h.elsewhere(header)


def phantom_though_failed(h: History) -> None:
    header = h.record()
    h.write(header)
    h.claim(header, "FAILED")


def phantom_twice_though_failed(h: History) -> None:
    header = h.record()
    h.write(header)
    h.write(header, partition=(h.partition + 1) % h.partitions)
    h.claim(header, "FAILED")


def lost(h: History) -> None:
    h.claim(h.record(), "ACKED", NOWHERE)


def lost_without_an_offset(h: History) -> None:
    h.claim(h.record(), "SENT")


def duplicated(h: History) -> None:
    header = h.record()
    h.ack(header)
    h.write(header)


def duplicated_and_indeterminate(h: History) -> None:
    header = h.record()
    h.write(header)
    h.write(header)
    h.claim(header, "INDETERMINATE")


def duplicated_behind_later_records(h: History) -> None:
    """Writes the log 1 2 3 2: first copies in order, and a later copy behind a record that was sent later."""
    h.ack(h.record())
    early = h.record()
    h.ack(early)
    h.ack(h.record())
    h.write(early)


def duplicated_with_the_ack_in_the_middle(h: History) -> None:
    header = h.record()
    h.write(header)
    offset = h.write(header)
    h.write(header)
    h.write(header)
    h.claim(header, "ACKED", offset)


def resent(h: History) -> None:
    header = h.record()
    h.write(header)
    h.claim(header, "INDETERMINATE")
    h.ack(header | {"attempt": 1})


def resent_after_an_absent_attempt(h: History) -> None:
    """Plants no anomaly, because only one of the two attempts is in the log."""
    header = h.record()
    h.claim(header, "INDETERMINATE")
    h.ack(header | {"attempt": 1})


def misplaced(h: History) -> None:
    header = h.record()
    h.write(header)
    h.claim(header, "ACKED", NOWHERE)


def reordered(h: History) -> None:
    late = h.record()
    h.ack(h.record())
    h.ack(late)


def not_reordered_behind_what_was_not_reported(h: History) -> None:
    """Plants no anomaly. A record is overtaken, but the record that overtook it is INDETERMINATE."""
    late, early = h.record(), h.record()
    h.write(early)
    h.claim(early, "INDETERMINATE")
    h.ack(late)


def duplicated_misplaced_and_reordered(h: History) -> None:
    late = h.record()
    h.ack(h.record())
    h.write(late)
    h.write(late)
    h.claim(late, "ACKED", NOWHERE)


def corrupted_and_duplicated(h: History) -> None:
    header = h.record()
    h.claim(header, "ACKED", h.write(header, crc_ok=False))
    h.write(header)


def resent_and_reordered(h: History) -> None:
    late = h.record()
    h.ack(h.record())
    h.ack(late)
    h.ack(late | {"attempt": 1})


def resent_and_duplicated(h: History) -> None:
    header = h.record()
    h.write(header)
    h.write(header)
    h.claim(header, "INDETERMINATE")
    h.ack(header | {"attempt": 1})


def failed_then_resent(h: History) -> None:
    """Plants a phantom: the FAILED attempt. The sequence is not resent, because a phantom is no attempt in the log."""
    header = h.record()
    h.write(header)
    h.claim(header, "FAILED")
    h.ack(header | {"attempt": 1})


def reordered_by_a_corrupted_one(h: History) -> None:
    late = h.record()
    early = h.record()
    h.claim(early, "ACKED", h.write(early, crc_ok=False))
    h.ack(late)


def aborted_and_invisible(h: History) -> None:
    h.begin("ABORTED", visible=False)
    h.ack(h.record())


def committed(h: History) -> None:
    h.begin("COMMITTED")
    h.ack(h.record())
    h.claim(h.record(), "FAILED")  # refused before it was queued: no part of the transaction


def unknown_and_whole(h: History) -> None:
    h.begin("INDETERMINATE")
    h.ack(h.record())
    h.ack(h.record())


def unknown_and_invisible(h: History) -> None:
    h.begin("INDETERMINATE", visible=False)
    h.ack(h.record())
    h.claim(h.record(), "INDETERMINATE")


def corrupted_and_committed(h: History) -> None:
    """Plants a damaged record. Its transaction is not torn, because the damaged record is in the committed view at the
    acknowledged offset."""
    h.begin("COMMITTED")
    header = h.record()
    h.claim(header, "ACKED", h.write(header, crc_ok=False))


def aborted_and_visible(h: History) -> None:
    h.begin("ABORTED")
    h.ack(h.record())


def aborted_visible_and_duplicated(h: History) -> None:
    h.begin("ABORTED", visible=False)
    header = h.record()
    h.ack(header)
    h.visible = True
    h.write(header)
    h.ack(h.record())


def torn(h: History) -> None:
    h.begin("COMMITTED")
    h.ack(h.record())
    h.visible = False
    h.ack(h.record())


def torn_though_nobody_knows(h: History) -> None:
    h.begin("INDETERMINATE")
    h.ack(h.record())
    h.visible = False
    h.ack(h.record())
    h.claim(h.record(), "INDETERMINATE")


def torn_and_lost(h: History) -> None:
    torn(h)
    h.claim(h.record(), "ACKED", NOWHERE)


def torn_and_nowhere(h: History) -> None:
    h.begin("COMMITTED")
    h.claim(h.record(), "INDETERMINATE")


PLANTERS: dict[Anomaly, tuple[Planter, ...]] = {
    Anomaly.CORRUPTED: (
        corrupted_and_attributed,
        corrupted_and_illegible,
        corrupted_and_nothing_is_left,
        corrupted_and_duplicated,
        corrupted_and_misrouted,
        corrupted_at_an_offset_of_an_indeterminate,
        corrupted_where_two_were_acked,
        reordered_by_a_corrupted_one,
        corrupted_and_committed,
    ),
    Anomaly.MISROUTED: (
        misrouted_from_another_arm,
        misrouted_from_an_arm_that_uses_the_same_numbers,
        misrouted_beside_the_right_copy,
        misrouted_though_nobody_knows,
        misrouted_twice_and_duplicated,
        misrouted_before_records_of_lower_numbers,
        misrouted_and_overtaken,
        misrouted_and_resent,
        misrouted_to_the_acknowledged_offset,
        misrouted_and_torn,
    ),
    Anomaly.PHANTOM: (
        phantom_never_attempted,
        phantom_of_no_planned_producer,
        phantom_of_another_run,
        phantom_of_no_planned_arm,
        phantom_though_failed,
        phantom_twice_though_failed,
        failed_then_resent,
    ),
    Anomaly.LOST: (lost, lost_without_an_offset),
    Anomaly.DUPLICATED: (
        duplicated,
        duplicated_and_indeterminate,
        duplicated_behind_later_records,
        duplicated_with_the_ack_in_the_middle,
        duplicated_misplaced_and_reordered,
    ),
    Anomaly.RESENT: (resent, resent_and_reordered, resent_and_duplicated),
    Anomaly.MISPLACED: (misplaced,),
    Anomaly.REORDERED: (reordered,),
    Anomaly.ABORTED_VISIBLE: (aborted_and_visible, aborted_visible_and_duplicated),
    Anomaly.TORN: (torn, torn_though_nobody_knows, torn_and_lost, torn_and_nowhere),
}
"""The planters of each kind. After any of these planters, the arm has at least one case of the kind."""

BORDERLINE: tuple[Planter, ...] = (
    resent_after_an_absent_attempt,
    not_reordered_behind_what_was_not_reported,
    a_foreign_writer,
    a_foreign_writer_beside_an_indeterminate,
)
"""The planters of records that look like an anomaly but are none."""

IN_TRANSACTIONS: tuple[Planter, ...] = (aborted_and_invisible, committed, unknown_and_whole, unknown_and_invisible)
"""The planters of transactions without an anomaly."""

EVERY: tuple[Planter, ...] = (
    *HEALTHY,
    *BORDERLINE,
    *IN_TRANSACTIONS,
    *(one for ways in PLANTERS.values() for one in ways),
)
OF_TRANSACTIONS = {
    *IN_TRANSACTIONS,
    *PLANTERS[Anomaly.ABORTED_VISIBLE],
    *PLANTERS[Anomaly.TORN],
    corrupted_and_committed,
    misrouted_and_torn,
}
"""The planters that begin transactions themselves."""


def random_history(arm: str, ordinal: int, seed: int, planters: tuple[Planter, ...], steps: int) -> History:
    """Returns a history of at most `steps` steps, about half of them healthy, over all producers and partitions.

    If `planters` include planters of transactions, about one history in three writes transactions only: every step then
    begins a new transaction, with a random outcome.
    """
    chance = random.Random(seed)
    history = History(arm, ordinal)
    transactional = chance.random() < 0.34 and not OF_TRANSACTIONS.isdisjoint(planters)
    planters = tuple(one for one in planters if transactional or one not in OF_TRANSACTIONS)
    for _ in range(chance.randrange(steps + 1)):
        history.producer = chance.randrange(history.producers)
        history.partition = chance.randrange(history.partitions)
        if transactional:
            history.begin(chance.choice(("COMMITTED", "ABORTED", "INDETERMINATE")), chance.random() < 0.5)
        chance.choice(HEALTHY if chance.random() < 0.5 else planters)(history)
    return history
