"""Histories of effects: random ones, and an oracle that judges them by the definitions alone."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from delivery_verifier.model.record import MARKER_PRODUCER
from support.run_directories import START_US, attempt, line

Row = dict[str, Any]
Case = tuple[Any, ...]
"""A case: its kind, whether it is OVERTAKEN as well, sequence, attempt and producer."""
PARTITIONS = 2
END = 1000
"""The end of every partition's snapshot."""


def key_of(row: Row) -> tuple[int, int, int]:
    """Returns what names an attempt within its arm."""
    return row["producer"], row["sequence"], row["attempt"]


def effect(arm: str, of: Row, order: int, **more: Any) -> Row:
    """Returns the effect of the log's row `of`. `more` overrides columns."""
    names = ("producer", "session", "sequence", "attempt", "partition_sequence", "partition", "offset")
    row = {name: of[name] or 0 for name in names} | {name: of[name] for name in ("parsed", "crc_ok", "foreign")}
    started = {"member": 0, "incarnation": 0, "nth": 0, "batch": 0}
    return {"arm": arm, **row, **started, "order": order, "applied_at": START_US + order} | more


def marker(arm: str, ordinal: int, partition: int, offset: int = END) -> Row:
    """Returns the log's row of a marker of the verifier. Below END, records may stand behind it."""
    return line(arm, ordinal, offset, 0, partition=partition, producer=MARKER_PRODUCER, view="tail")


def judge(
    lines: list[Row], effects: list[Row], ends: Mapping[int, int] | None = None
) -> tuple[Counter[Case], Counter[str]]:
    """Returns the cases of one arm, and the counts of its counts. `lines` is the view that a consumer sees. `ends` maps
    a partition to the end of its snapshot, which is END without it."""
    copies, landed, late = Counter[Any](), defaultdict[Any, list[Any]](list), set()
    named = [row for row in lines if row["crc_ok"] and not row["foreign"]]
    where = {key_of(row): row["partition"] for row in sorted(named, key=lambda row: -row["offset"])}
    copies.update(map(key_of, named))
    tally, highest, drained = Counter[str](effects=len(effects), lines=len(named)), defaultdict[int, int](int), set()
    for row in sorted(effects, key=lambda row: row["order"]):
        mine = row["crc_ok"] and not row["foreign"]
        if not mine:
            tally["unparsed"] += 1
        elif row["producer"] == MARKER_PRODUCER:
            tally["markers"] += 1
            drained |= {row["partition"]} if row["offset"] >= (ends or {}).get(row["partition"], END) else set()
        else:
            if not landed[key_of(row)] and row["offset"] < highest[row["partition"]]:
                late.add(key_of(row))
            landed[key_of(row)].append((row["partition"], row["offset"]))
        highest[row["partition"]] = max(highest[row["partition"]], row["offset"])
    tally["drained"] = len(drained)
    lowest = {
        place: min(offset for spots in landed.values() for at, offset in spots if at == place)
        for place in {at for spots in landed.values() for at, _ in spots}
    }
    last = {key_of(row): row["offset"] for row in sorted(named, key=lambda row: row["offset"])}
    cases = Counter[Case]()
    for key in {*copies, *filter(landed.get, list(landed))}:
        c, a, places = copies[key], len(landed[key]), len(set(landed[key]))
        skipped, reapplied = c and not a and where[key] in drained, c and a > min(c, places)
        tally.update(
            visible=c > 0, applied=c and a > 0, again=(a - 1) * (c > 0 < a), ghost_effects=a * (not c), copies=c
        )
        tally.update(pending=bool(c and not a and not skipped), carried=a == c > 1 and not reapplied)
        tally["extra"] += max(a - min(c, places), 0) if c else 0
        tally["skipped_behind"] += bool(skipped and last[key] > lowest.get(where[key], END))
        kind = "SKIPPED" if skipped else "REAPPLIED" if reapplied else "GHOST" if not c else ""
        if kind or key in late:
            cases[kind or "OVERTAKEN", bool(kind) and key in late, *key] += 1
    return cases, +tally


def random_history(arm: str, ordinal: int, seed: int, size: int = 12) -> tuple[list[Row], list[Row], list[Row]]:
    """Returns the ledger, the log and the effects of an arm, with random copies, effects and order of each attempt."""
    dice = random.Random(seed)
    ends = [0] * PARTITIONS
    ledger, lines, effects = [], [], []
    for number in range(size):
        kind, partition, producer = dice.random(), dice.randrange(PARTITIONS), dice.randrange(3)
        again = {"producer": producer, "attempt": dice.choice((0, 0, 1)), "partition": partition}
        damage = dice.choice([{}] * 12 + [{"crc_ok": False}, {"foreign": True, "header_run": "otherrun"}])
        record = line(arm, ordinal, ends[partition], number, **again, **damage)
        if producer < 2 and kind < 0.9:
            ledger.append(attempt(arm, number, dice.choice(("ACKED", "SENT", "INDETERMINATE")), **again))
        copies = dice.choice((0, 1, 1, 1, 1, 1, 2, 2, 3))
        for _ in range(copies):
            lines.append(record | {"offset": ends[partition]})
            ends[partition] += 1
        places = [row["offset"] for row in lines[len(lines) - copies :]] or [ends[partition] + 50]
        applied = dice.choice((copies, copies, copies, 0, 1, 2, 3))
        effects += [effect(arm, record, 0, offset=places[min(at, len(places) - 1)]) for at in range(applied)]
    if dice.random() < 0.5:
        dice.shuffle(effects)
    for partition in range(PARTITIONS):
        if dice.random() < 0.8:
            effects.append(effect(arm, marker(arm, ordinal, partition, dice.choice((END, END + 1, END - 1))), 0))
    is_zombie = dice.random() < 0.2  # an earlier incarnation applies records while the next one does
    incarnations = [dice.randrange(2) if is_zombie else at * 2 // len(effects) for at in range(len(effects))]
    return ledger, lines, numbered(effects, incarnations)


def numbered(effects: list[Row], incarnations: list[int]) -> list[Row]:
    """Sets the order of the effects to that of the list, and the incarnation of each effect as in `incarnations`."""
    before = Counter[tuple[int, ...]]()
    for order, (row, incarnation) in enumerate(zip(effects, incarnations, strict=True)):
        of_incarnation = row["member"], incarnation, row["partition"]
        row |= {
            "order": order,
            "applied_at": START_US + order,
            "incarnation": incarnation,
            "nth": before[of_incarnation],
        }
        before[of_incarnation] += 1
    return effects


def calm_history(arm: str, ordinal: int, seed: int, size: int = 48) -> tuple[list[Row], list[Row], list[Row]]:
    """Returns an arm in which ledger and log agree, and nearly every record is applied once. Up to three disturbances
    hit the effects, and in most histories a second incarnation applies some records again or leaves some out."""
    dice = random.Random(seed)
    ledger, lines = [], []
    counted = Counter[tuple[int, ...]]()
    block = dice.choice((size, size, size // 3))  # the producers take turns, a block of records each
    hole = dice.randrange(3 * size)  # where offsets are missing, as control records of transactions make them
    for number in range(size):
        if number == hole:
            counted.update({(-1, partition): 2 for partition in range(PARTITIONS)})
        producer, partition = number // block % 2, dice.randrange(PARTITIONS)
        sequence, sent, offset = counted[(producer,)], counted[producer, partition], counted[-1, partition]
        counted.update(((producer,), (producer, partition), (-1, partition)))
        named = {"producer": producer, "partition": partition, "partition_sequence": sent}
        ledger.append(attempt(arm, sequence, offset=offset, **named))
        lines.append(line(arm, ordinal, offset, sequence, **named))
    crash = dice.randrange(size)
    again = max(crash + dice.choice((0, 0, -3, -12, 2)), 0)
    applied = [(row, 0) for row in lines[:crash]] + [(row, 1) for row in lines[again:]]
    incarnations = dice.choice(("zombie", "rewound", "restarted", "restarted", "restarted"))
    if incarnations == "zombie":
        applied = [(row, dice.randrange(2)) for row, _ in applied]
    elif incarnations == "rewound":
        applied = [(row, 0) for row, _ in applied]
    members = dice.choice((1, 1, 2))
    effects = [(effect(arm, row, 0, member=row["partition"] % members), incarnation) for row, incarnation in applied]
    for disturb in dice.choices(DISTURBANCES, k=dice.randrange(4)):
        disturb(effects, dice)
    effects += [(effect(arm, marker(arm, ordinal, partition), 0), 1) for partition in range(PARTITIONS)]
    return ledger, lines, numbered([row for row, _ in effects], [incarnation for _, incarnation in effects])


Applied = list[tuple[Row, int]]
"""Effects in the order of time, each with its incarnation."""


def _swap(effects: Applied, dice: random.Random) -> None:
    one, other = (dice.randrange(len(effects)) for _ in range(2))
    effects[one], effects[other] = effects[other], effects[one]


def _drop(effects: Applied, dice: random.Random) -> None:
    del effects[dice.randrange(len(effects))]


def _repeat(effects: Applied, dice: random.Random) -> None:
    row, incarnation = dice.choice(effects)
    effects.insert(dice.randrange(len(effects)), (dict(row), incarnation))


def _misplace(effects: Applied, dice: random.Random) -> None:
    row, _ = dice.choice(effects)
    row["offset"] = max(row["offset"] + dice.choice((-1, 1, 60)), 0)  # -1 stands for an offset that nobody kept


def _elsewhere(effects: Applied, dice: random.Random) -> None:
    row, incarnation = dice.choice(effects)
    effects.insert(dice.randrange(len(effects)), (row | {"partition": PARTITIONS - 1 - row["partition"]}, incarnation))


def _ghost(effects: Applied, dice: random.Random) -> None:
    row, incarnation = dice.choice(effects)
    unsent = dice.choice(({"attempt": 1}, {"sequence": row["sequence"] + 1000}))
    effects.insert(dice.randrange(len(effects)), (row | unsent | {"offset": row["offset"] + 7}, incarnation))


def _unreadable(effects: Applied, dice: random.Random) -> None:
    row, incarnation = dice.choice(effects)
    illegible = dict.fromkeys(("producer", "session", "sequence", "attempt", "partition_sequence"), 0)
    row = row | illegible | {"parsed": False, "crc_ok": False, "offset": row["offset"] + dice.choice((0, 5))}
    effects.insert(dice.randrange(len(effects)), (row, incarnation))


def _early_marker(effects: Applied, dice: random.Random) -> None:
    row, incarnation = dice.choice(effects)
    effects.insert(
        dice.randrange(len(effects)), (row | {"producer": MARKER_PRODUCER, "offset": row["offset"] + 2}, incarnation)
    )


DISTURBANCES = (_swap, _drop, _repeat, _misplace, _elsewhere, _ghost, _unreadable, _early_marker)
