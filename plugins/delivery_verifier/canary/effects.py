"""The canary's effects: what an application did with the canary's records. This module plants the anomalies of effects,
and says which counts the counts of effects must then show.

The code that writes and reads the effects of real members also writes and reads the canary's effects. It does so for
every kind of place that the applications of the run use.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from delivery_verifier.canary.layout import NOWHERE, CanaryEffect, CanaryLayout, Planter
from delivery_verifier.model import record
from delivery_verifier.model.outcomes import Outcome
from delivery_verifier.model.scenario import Scenario

NEVER_SENT = 700_000
"""A sequence number plus this number is a sequence number that nobody sent."""
DRAINED = 0
"""The only partition of the canary in which a marker is applied."""

Key = tuple[int, int, int, int]


def skipped(planter: Planter, sequence: int) -> None:
    """Plants a healthy record that was never applied."""
    planter.acked(sequence)
    planter.layout.effects.pop()
    planter.expect(skipped=1)


def reapplied(planter: Planter, sequence: int) -> None:
    """Plants a healthy record that was applied more than once: twice if its sequence is odd, four times if it is
    even."""
    planter.acked(sequence)
    for _ in range(1 if sequence % 2 else 3):
        planter.apply(len(planter.layout.values) - 1, planter.value(sequence))
    planter.expect(reapplied=1)


def ghost(planter: Planter, sequence: int) -> None:
    """Plants two cases: a lost record that was applied, and an effect of a record that nobody sent."""
    planter.claim(sequence, Outcome.ACKED, NOWHERE + sequence)
    planter.apply(NOWHERE + sequence, planter.value(sequence))
    planter.apply(NOWHERE + NEVER_SENT + sequence, planter.value(NEVER_SENT + sequence))
    planter.expect(lost=1, ghost=2)


def overtaken(planter: Planter, sequence: int) -> None:
    """Plants two healthy records. The record that stands first in the log is applied after the other record."""
    planter.acked(sequence)
    planter.sequence += 1
    planter.acked(sequence + 1)
    effects = planter.layout.effects
    effects[-2:] = effects[:-3:-1]
    planter.expect(overtaken=1)


def combine(planter: Planter) -> None:
    """Plants cases that combine anomalies, and records that only look like cases. In this order:

    * Three records with two copies each in the log. The first record is applied twice, once for each copy. This is no
      case, because the application only passed on the duplicate. The second record is applied once, because an
      idempotent application would ignore the duplicate. This is no case of effects either. The third record is applied
      three times. This is a case.
    * Two records. The first of them is applied after the second, and is applied twice.
    * One healthy record that is never applied. In a partition in which no marker is applied, this record is pending,
      and no case.
    """
    effects = planter.layout.effects
    for applied in (2, 1, 3):
        planter.acked(planter.sequence)
        index = planter.write(planter.sequence)
        planter.expect(extra_copies=1, duplicated=1, reapplied=int(applied == 3))
        if applied == 1:
            effects.pop()
        if applied == 3:
            planter.apply(index, planter.value(planter.sequence))
        planter.sequence += 1
    overtaken(planter, planter.sequence)
    effects.append(effects[-1])
    planter.expect(overtaken=-1, reapplied=1, also_overtaken=1)
    planter.sequence += 1
    planter.acked(planter.sequence)
    effects.pop()
    planter.expect(skipped=int(planter.partition == DRAINED))
    planter.sequence += 1


def applied(scenario: Scenario, layout: CanaryLayout) -> list[CanaryEffect]:
    """Returns the canary's effects in the order in which they are applied.

    If an arm writes transactions, leaves out the effects of records that no read_committed consumer sees. Effects whose
    offset is not in the log come last, so that they overtake nothing.
    """
    visible = range(len(layout.values)) if not scenario.transactional else _committed(layout)
    shown = [effect for effect in layout.effects if effect.position in visible]
    nowhere = [effect for effect in layout.effects if effect.position >= NOWHERE]
    return [*shown, *sorted(nowhere, key=lambda effect: effect.position)]


def expected_effects(scenario: Scenario, layout: CanaryLayout) -> dict[str, int]:
    """Maps each column of counts/effects to the total that the canary must have there.

    The totals include one applied marker. Every effect is applied after the snapshot was taken, so the count `in_time`
    is 0.
    """
    copies: defaultdict[Key, list[int]] = defaultdict(list)
    last: dict[Key, int] = {}
    ordinal = scenario.canary.ordinal
    for index in range(len(layout.values)) if not scenario.transactional else sorted(_committed(layout)):
        partition, value = layout.values[index]
        if key := _key(value, ordinal):
            copies[key].append(partition)
            last[key] = index
    landed = applied(scenario, layout)
    lowest = min(effect.position for effect in landed if effect.partition == DRAINED and _key(effect.value, ordinal))
    effects = Counter(_key(effect.value, ordinal) for effect in landed)
    unparsed = effects.pop(None, 0)
    rows = effects.total() + unparsed + 1
    counts = Counter(markers=1, drained=1, in_time=0, unparsed=unparsed, effects=rows, visible=len(copies))
    for key, partitions in copies.items():
        times = effects.pop(key, 0)
        counts.update(
            applied=int(times > 0),
            pending=int(not times and partitions[0] != DRAINED),
            again=max(0, times - 1),
            extra=max(0, times - len(partitions)),
            skipped_behind=int(not times and partitions[0] == DRAINED and last[key] > lowest),
            carried=int(times == len(partitions) > 1),
            copies=len(partitions),
            lines=len(partitions),
        )
    counts["ghost_effects"] = effects.total()
    return dict(counts)


def _committed(layout: CanaryLayout) -> set[int]:
    """Returns the indexes of the values (in `CanaryLayout.values`) that a read_committed consumer sees."""
    begin = len(layout.values) - sum(count for count, _ in layout.transactions)
    visible = set(range(begin))
    for count, is_committed in layout.transactions:
        visible |= set(range(begin, begin + count)) if is_committed else set()
        begin += count
    return visible


def _key(value: bytes, ordinal: int) -> Key | None:
    """Returns the attempt that a record names; None if it names none of the arm with the number `ordinal`."""
    header = record.parse(value)
    if header is None or not header.crc_ok or header.arm != ordinal:
        return None
    return header.producer, header.session, header.sequence, header.attempt
