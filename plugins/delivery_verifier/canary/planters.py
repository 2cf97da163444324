"""The canary's planters: functions that plant cases of anomalies in the canary.

A planter writes the records of a case, and claims outcomes for these records in the ledger. It also adds to the counts
that the canary's counts must then show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from delivery_verifier.canary import effects
from delivery_verifier.canary.layout import NOWHERE, CanaryLayout, Planter
from delivery_verifier.model.anomalies import Anomaly, searched_for, subset
from delivery_verifier.model.outcomes import Outcome, TransactionOutcome
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.run_directory.tally import COUNTS

PER_KIND = 3
"""How many times `lay_out` calls each planter of single cases."""
HEALTHY = 20
"""How many healthy records, i.e. records without any anomaly, `lay_out` adds first."""
HEADER_TRACE = 13
"""A damaged record of the canary keeps this many of its first bytes: the magic and the token of the run. Without these
bytes, the record would count as a record of another client."""
COMBINED = 9
"""How many sequence numbers are used for records with two anomalies, and for cases that are easily missed."""

FORGOTTEN = 10
"""The number of records that the canary's real producer process sends to a fake broker (see `load.lossy_mock`). The
fake broker acknowledges these records and forgets them. It gives them the offsets from 0 on. At the same offsets of the
canary's real topic, there are healthy records."""

Plant = Callable[[Planter, int], None]
"""A planter. Its second argument is the sequence number of the case's record."""


def lay_out(scenario: Scenario) -> CanaryLayout:
    """Returns the canary's records and ledger rows, and the counts that the canary's counts must then show.

    The canary has cases only of the anomalies for which the run is searched (see `searched_for`). If an arm writes
    transactions, the canary has cases in transactions, too. If the topics have more than one partition, two groups of
    cases are in partition 1: the cases in transactions, and the records with several anomalies. All other records are
    in partition 0.

    If you change a planter, raise `run_directory.format.MEANINGS`: the canaries of stored runs hold what the old one
    planted.
    """
    planter = Planter(scenario)
    kinds = [PLANTERS[anomaly] for anomaly in searched_for(bool(scenario.applied)) if anomaly in PLANTERS]
    for plant in (*[Planter.acked] * HEALTHY, *(plant for plant in (*kinds, _absent) for _ in range(PER_KIND))):
        plant(planter, planter.sequence)
        planter.sequence += 1
    _misrouted_alone(planter, planter.sequence + COMBINED)
    planter.partition = 1 % scenario.load.partitions
    _combined(planter, planter.sequence)
    planter.sequence += COMBINED + 1
    if scenario.applied:
        effects.combine(planter)
    if scenario.transactional:
        _in_transactions(planter)
    return planter.layout


def expected_counts(scenario: Scenario) -> dict[str, int]:
    """Maps each column of counts in the counts to the total that the canary must have there, in a run of `scenario`."""
    layout = lay_out(scenario)
    counts = Counter(layout.counts)
    if scenario.applied:
        counts.update({f"effects_{name}": count for name, count in effects.expected_effects(scenario, layout).items()})
    counts.update(dict.fromkeys(("attempted", "acked", "reported", "lost"), FORGOTTEN))
    return dict.fromkeys(COUNTS, 0) | counts


def _lost(planter: Planter, sequence: int) -> None:
    """Plants an acknowledged record that is not in the log."""
    planter.claim(sequence, Outcome.ACKED, NOWHERE + sequence)
    planter.expect(lost=1)


def _duplicated(planter: Planter, sequence: int) -> None:
    """Plants an acknowledged record with a second copy in the log."""
    planter.acked(sequence)
    planter.write(sequence)
    planter.expect(extra_copies=1, duplicated=1)


def _misrouted(planter: Planter, sequence: int) -> None:
    """Plants two cases: an acknowledged record that also stands in another partition, and a record of another arm.
    Without another partition, only the latter."""
    planter.acked(sequence)
    if planter.has_partitions:
        planter.elsewhere(planter.value(sequence))
        planter.expect(extra_copies=1, misrouted=1)
    planter.write_bytes(planter.value(sequence, arm=planter.other))
    planter.layout.effects.pop()  # to the application of the canary, it is no record of its topic
    planter.expect(phantoms=1, misrouted=1)


def _phantom(planter: Planter, sequence: int) -> None:
    """Plants two cases: a record that was never attempted, and a record whose attempt FAILED."""
    planter.write(500_000 + sequence)
    planter.claim(sequence, Outcome.FAILED)
    planter.write(sequence)
    planter.expect(phantoms=2, phantom=2)


def _corrupted(planter: Planter, sequence: int) -> None:
    """Plants two cases: a damaged record at an acknowledged offset, and a damaged record that belongs to no attempt."""
    _damaged(planter, sequence)
    value = planter.value(sequence)
    planter.write_bytes(value[:HEADER_TRACE] + b"?" * (len(value) - HEADER_TRACE))
    planter.expect(unattributed=1, corrupted=1)


def _misplaced(planter: Planter, sequence: int) -> None:
    """Plants a record that stands at another offset than the acknowledged offset."""
    planter.write(sequence)
    planter.claim(sequence, Outcome.ACKED, NOWHERE + sequence)
    planter.expect(found=1, first_copies=1, misplaced=1)


def _resent(planter: Planter, sequence: int) -> None:
    """Plants two attempts of one record. Both attempts are in the log, so each of them is a case of RESENT."""
    planter.claim(sequence, Outcome.INDETERMINATE)
    planter.write(sequence)
    planter.claim(sequence, Outcome.ACKED, planter.write(sequence, attempt=1), attempt=1)
    planter.expect(found=1, resolved_present=1, first_copies=2, resent=2)


def _reordered(planter: Planter, sequence: int) -> None:
    """Plants a case of REORDERED: two records, of which the record with the lower sequence number is written last."""
    planter.sequence += 1
    planter.acked(sequence + 1)
    planter.acked(sequence)
    planter.expect(reordered=1)


def _absent(planter: Planter, sequence: int) -> None:
    """Plants an INDETERMINATE attempt that is not in the log. This is no anomaly."""
    planter.claim(sequence, Outcome.INDETERMINATE)
    planter.expect(resolved_absent=1)


def _damaged(planter: Planter, sequence: int) -> None:
    """Plants an acknowledged record whose last byte was changed."""
    value = planter.value(sequence)
    last_byte = b"1" if value.endswith(b"0") else b"0"
    planter.claim(sequence, Outcome.ACKED, planter.write_bytes(value[:-1] + last_byte))
    planter.expect(found=1, first_copies=1, corrupted=1)


def _misrouted_alone(planter: Planter, sequence: int) -> None:
    """Plants an acknowledged record that stands in the next partition alone. If its `sequence` is higher than those of
    the records behind it, a careless detector calls them REORDERED. Without another partition, the attempt is
    INDETERMINATE and absent.
    """
    if not planter.has_partitions:
        _absent(planter, sequence)
        return
    planter.elsewhere(planter.value(sequence))
    planter.claim(sequence, Outcome.ACKED, NOWHERE + sequence)
    planter.expect(found=1, first_copies=1, misrouted=1, also_misplaced=1)


def _combined(planter: Planter, first: int) -> None:
    """Plants records that show two anomalies at once, and other cases that a careless detector overlooks.

    Uses the sequence numbers from `first` to `first + COMBINED - 1`.
    """
    # `first + 1` directly follows a lower sequence, but is late all the same: `first + 2` was written before.
    for sequence in (first + 2, first, first + 1):
        planter.acked(sequence)
    planter.expect(reordered=2)
    planter.acked(first + 4)
    _duplicated(planter, first + 3)  # late and duplicated: the counts must show both kinds
    planter.expect(also_reordered=1)
    planter.claim(first + 5, Outcome.INDETERMINATE)
    planter.write(first + 5)
    planter.write(first + 5, attempt=1)  # resent, and not at the offset that the next line claims
    planter.claim(first + 5, Outcome.ACKED, NOWHERE + first, attempt=1)
    planter.expect(found=1, resolved_present=1, first_copies=2, resent=2, also_misplaced=1)
    planter.acked(first + 7)
    planter.claim(first + 6, Outcome.INDETERMINATE)
    planter.write(first + 6)  # late, but no case: the client got no acknowledgement
    planter.expect(resolved_present=1, resolved_late=1, first_copies=1)
    planter.claim(first + 8, Outcome.SENT)
    planter.expect(lost=1)


def _in_transactions(planter: Planter) -> None:
    """Plants two real transactions, one committed and one aborted. The ledger assigns the records of these two to eight
    invented transactions instead.

    So the ledger contradicts the log. A read_committed consumer sees records that were aborted according to the ledger,
    and does not see records that were committed according to the ledger.
    """
    committed, aborted, unknown = TransactionOutcome
    values, before = planter.layout.values, len(planter.layout.values)
    _in_transaction(planter, "visible", aborted, *[Planter.acked] * PER_KIND)
    planter.expect(aborted_visible=PER_KIND)
    _in_transaction(planter, "healthy", committed, *[Planter.acked] * PER_KIND, _damaged)
    _in_transaction(planter, "split", unknown, Planter.acked)
    _in_transaction(planter, "twice", aborted, _duplicated)
    planter.expect(also_aborted_visible=1)
    written = len(values)
    _in_transaction(planter, "torn", committed, *[Planter.acked] * PER_KIND)
    planter.expect(torn=PER_KIND)
    _in_transaction(planter, "given up", aborted, *[Planter.acked] * PER_KIND)
    _in_transaction(planter, "split", unknown, Planter.acked)
    planter.expect(torn=1)
    _in_transaction(planter, "unknown end", unknown, Planter.acked, Planter.acked)
    planter.layout.transactions = [(written - before, True), (len(values) - written, False)]
    _in_transaction(planter, "split", unknown, _absent)
    planter.expect(torn=1)
    _in_transaction(planter, "lost", committed, _lost)
    planter.expect(also_torn=1)


def _in_transaction(planter: Planter, name: str, outcome: TransactionOutcome, *plants: Plant) -> None:
    """Calls `plants` to plant cases. According to the ledger, these cases belong to the transaction `name`, which ended
    with `outcome`."""
    planter.transaction = name, outcome
    for plant in plants:
        plant(planter, planter.sequence)
        planter.sequence += 1


PLANTERS: dict[Anomaly, Plant] = subset(
    "cases in transactions are planted by `_in_transactions`, together",
    {
        Anomaly.CORRUPTED: _corrupted,
        Anomaly.MISROUTED: _misrouted,
        Anomaly.PHANTOM: _phantom,
        Anomaly.LOST: _lost,
        Anomaly.DUPLICATED: _duplicated,
        Anomaly.RESENT: _resent,
        Anomaly.MISPLACED: _misplaced,
        Anomaly.REORDERED: _reordered,
        Anomaly.SKIPPED: effects.skipped,
        Anomaly.REAPPLIED: effects.reapplied,
        Anomaly.GHOST: effects.ghost,
        Anomaly.OVERTAKEN: effects.overtaken,
    },
)
"""Maps an anomaly to the function that plants cases of it. `lay_out` calls the function of each anomaly PER_KIND times,
in the order of the members of `Anomaly`."""
