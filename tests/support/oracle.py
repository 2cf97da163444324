"""The oracle: a second implementation of the anomalies' definitions, in plain Python.

Tests compare its results with those of Spark. It judges one arm of a history, record by record.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from support.run_directories import TOKEN, UNPLANNED_ARM

Row = dict[str, Any]
Key = tuple[int, int, int, int]
Case = tuple[Any, ...]
"""A case: its kind, the other kinds that apply as well, the key of its attempt (each part is None if no attempt is
known), and (offset, partition) of each copy."""


def key_of(row: Row) -> Key:
    """Returns the key of the attempt that a row of the ledger or of the log names."""
    return row["producer"], row["session"], row["sequence"], row["attempt"]


def _visible(ledger: list[Row], seen: list[Row]) -> set[Key]:
    """Returns the attempts that the committed view `seen` shows.

    A sound line names its attempt. A damaged line belongs to the attempt that was acknowledged at its offset.
    """
    found = {key_of(row) for row in seen if row["crc_ok"] and not row["foreign"]}
    damaged = {(row["offset"], row["partition"]) for row in seen if not row["crc_ok"]}
    for where in damaged:
        owners = [row for row in ledger if row["outcome"] == "ACKED" and (row["offset"], row["partition"]) == where]
        found |= {key_of(max(owners, key=lambda row: (row["settled_at"], key_of(row))))} if owners else set()
    return found


def _of_transactions(ledger: list[Row], visible: set[Key]) -> dict[Key, str]:
    """Returns the attempts that the committed view wrongly shows or wrongly lacks, given the end of their transaction.
    The value is the anomaly."""
    parts = [row for row in ledger if row["transaction"] is not None and row["outcome"] != "FAILED"]
    shown = {(row["producer"], row["session"], row["transaction"]) for row in parts if key_of(row) in visible}
    found = {}
    for row in parts:
        ended, here = row["transaction_outcome"], key_of(row) in visible
        whole = (row["producer"], row["session"], row["transaction"]) in shown
        if ended == "ABORTED" and here:
            found[key_of(row)] = "ABORTED_VISIBLE"
        elif not here and (ended == "COMMITTED" or (ended == "INDETERMINATE" and whole)):
            found[key_of(row)] = "TORN"
    return found


def judge(
    ledger: list[Row], log: list[Row], seen: list[Row], routed: bool = True
) -> tuple[Counter[str], Counter[Case]]:
    """Returns the totals of the arm's counts, and the arm's cases.

    `log` is the raw view, `seen` is the committed view. `routed`: whether the ledger says to which partition each
    attempt was sent. The ledger of an audit does not.
    """
    tally, cases = Counter[str](), Counter[Case]()
    claims = {key_of(row): row for row in ledger}
    copies: dict[Key, list[tuple[int, int]]] = defaultdict(list)  # (offset, partition), so that it sorts by offset
    damaged: set[Key] = set()

    def line_case(kind: str, key: Case, where: tuple[int, int]) -> None:
        tally["unattributed" if kind == "CORRUPTED" else "phantoms"] += 1
        tally[kind.lower()] += 1
        cases[kind, (), key, (where,)] += 1

    for row in log:
        where = row["offset"], row["partition"]
        if not row["crc_ok"]:
            owners = [
                claim
                for claim in ledger
                if claim["outcome"] == "ACKED" and (claim["offset"], claim["partition"]) == where
            ]
            if owners:
                owner = key_of(max(owners, key=lambda claim: (claim["settled_at"], key_of(claim))))
                copies[owner].append(where)
                damaged.add(owner)
            elif row["foreign"] and not row["parsed"]:
                tally["unattributed"] += 1  # a foreign writer's: in the log, and no case
            else:
                line_case("CORRUPTED", (None,) * 4, where)
        elif row["foreign"]:
            of_this_run = row["header_run"] == TOKEN and row["header_arm"] < UNPLANNED_ARM
            line_case("MISROUTED" if of_this_run else "PHANTOM", key_of(row), where)
        elif key_of(row) not in claims or claims[key_of(row)]["outcome"] == "FAILED":
            line_case("PHANTOM", key_of(row), where)
        else:
            copies[key_of(row)].append(where)

    strange = _of_transactions(ledger, _visible(ledger, seen))
    right = {  # the copies where the attempt was sent: only they have a place in its order
        key: [where for where in found if not routed or where[1] == claims[key]["partition"]]
        for key, found in copies.items()
    }
    first = {key: min(found) for key, found in right.items() if found}
    told = {key: claim["outcome"] in ("ACKED", "SENT") for key, claim in claims.items()}
    for key, claim in claims.items():
        found = sorted(copies.get(key, []))
        kinds = []
        if key in damaged:
            kinds.append("CORRUPTED")
        if len(right.get(key, [])) < len(found):
            kinds.append("MISROUTED")
        if told[key] and not found:
            kinds.append("LOST")
        if len(found) > 1:
            kinds.append("DUPLICATED")
        if found and any(other != key and other[:3] == key[:3] for other in copies):
            kinds.append("RESENT")
        placed = claim["outcome"] == "ACKED" and claim["offset"] is not None and bool(found)
        if placed and (claim["offset"], claim["partition"]) not in found:
            kinds.append("MISPLACED")
        behind = key in first and any(
            told[other]
            and other[:2] == key[:2]
            and first[other][1] == first[key][1]
            and first[other] < first[key]
            and claims[other]["partition_sequence"] > claim["partition_sequence"]
            for other in first
        )
        if told[key] and behind:
            kinds.append("REORDERED")
        if key in strange:
            kinds.append(strange[key])
        _count(tally, claim["outcome"], told[key], len(found), behind)
        if kinds:
            also = tuple(
                kind for kind in kinds[1:] if kind in ("RESENT", "MISPLACED", "REORDERED", "ABORTED_VISIBLE", "TORN")
            )
            if kinds[0] != "LOST":  # `_count` counts `lost`: reported, but not found
                tally[kinds[0].lower()] += 1
            tally.update(f"also_{kind.lower()}" for kind in also)
            cases[kinds[0], also, key, tuple(found)] += 1
    tally["log_records"] = len(log)
    return +tally, cases


def given_up(ledger: list[Row], log: list[Row]) -> int:
    """Returns how many attempts of the arm were neither reported nor found, in no attempt of their sequence."""
    there = {key_of(row) for row in log if row["crc_ok"] and not row["foreign"]}
    for where in {(row["offset"], row["partition"]) for row in log if not row["crc_ok"]}:
        owners = [row for row in ledger if row["outcome"] == "ACKED" and (row["offset"], row["partition"]) == where]
        there |= {key_of(max(owners, key=lambda row: (row["settled_at"], key_of(row))))} if owners else set()
    delivered = {key_of(row)[:3] for row in ledger if row["outcome"] != "FAILED" and key_of(row) in there}
    unanswered = [key_of(row) for row in ledger if row["outcome"] in ("INDETERMINATE", "FAILED")]
    return sum(key not in there and key[:3] not in delivered for key in unanswered)


def _count(tally: Counter[str], outcome: str, told: bool, copies: int, behind: bool) -> None:
    tally.update(["attempted", outcome.lower()] + ["reported"] * told)
    if told:
        tally["found" if copies else "lost"] += 1
    elif outcome == "INDETERMINATE":
        tally["resolved_absent"] += copies == 0
        tally["resolved_present"] += copies == 1
        tally["resolved_late"] += copies == 1 and behind
    if copies:
        tally["first_copies"] += 1
        tally["extra_copies"] += copies - 1
