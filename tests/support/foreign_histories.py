"""Random ledgers and topics of somebody else's, and an oracle of what can be known of them.

The oracle works on the rows as they are, one identity at a time. It shares no code with the matching, and knows neither
sequences nor locations.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
Place = tuple[int, int]
PARTITIONS = 3


@dataclass
class History:
    """Claims (rows of a ledger, in their order), records found, the start of each partition, and what is known."""

    claims: list[Row] = field(default_factory=list)
    found: list[Row] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)
    complete: bool = False
    others_write: bool = False
    failed_because: str = ""
    in_parts: bool = False

    @property
    def ends(self) -> dict[int, int]:
        ends = dict(self.starts)
        for row in self.found:
            ends[row["partition"]] = max(ends[row["partition"]], row["offset"] + 1)
        return ends


def random_history(seed: int) -> History:
    """Returns a history with anomalies of all kinds, from which columns are missing at random."""
    rng = random.Random(seed)
    history = History(complete=rng.random() < 0.5, others_write=rng.random() < 0.3, in_parts=rng.random() < 0.3)
    history.failed_because = rng.choice(["", "refused before it was queued"])
    history.starts = {number: rng.choice([0, 0, 0, 5]) if rng.random() < 0.5 else 0 for number in range(PARTITIONS)}
    log: dict[int, list[Row]] = {number: [] for number in range(PARTITIONS)}
    attempts = rng.random() < 0.5
    for number in range(rng.randrange(10, 60)):
        _send(rng, history, log, number, attempts)
    for number in range(rng.randrange(4)):
        _append(
            history,
            log,
            rng.randrange(PARTITIONS),
            f"unclaimed-{rng.randrange(3)}",
            f"q{rng.randrange(2)}",
            number,
            "0",
        )
    for _ in range(rng.randrange(4)):
        _append(history, log, rng.randrange(PARTITIONS), None, None, None, "0")
    for lines in log.values():
        for _ in range(rng.randrange(3)):
            if len(lines) > 1:
                at = rng.randrange(len(lines) - 1)
                lines[at], lines[at + 1] = lines[at + 1], lines[at]
    _place(history, log)
    rng.shuffle(history.found)
    _forget(rng, history, attempts)
    _in_transactions(random.Random(f"transactions {seed}"), history)
    return history


def _in_transactions(rng: random.Random, history: History) -> None:
    """Hides the records of transactions that were aborted or are open. The ledger says how they ended, or says nothing,
    or sometimes what is not true."""
    if rng.random() < 0.4:
        return
    is_said = rng.random() < 0.7
    for row in history.found:
        row["hidden"] = rng.choice([None] * 7 + ["aborted"] * 2 + ["open"])
    at = {(row["partition"], row["offset"]): row["hidden"] for row in history.found}
    for claim in history.claims if is_said else ():
        of_name = [row["hidden"] for row in history.found if _identity(history, row) == _identity(history, claim)]
        hidden = at.get((claim["partition"], claim["offset"]), of_name[0] if of_name else None)
        ended = {None: "committed", "aborted": "aborted", "open": "unknown"}[hidden]
        claim["transaction_outcome"] = rng.choice([ended] * 9 + ["committed", "aborted", "unknown", None])


def _append(
    history: History,
    log: dict[int, list[Row]],
    partition: int,
    name: str | None,
    producer: str | None,
    sequence: Any,
    hashed: str,
) -> Row:
    row = {"partition": partition, "id": name, "producer": producer, "sequence": sequence, "hash": hashed}
    if history.in_parts:
        row["id"] = None
    else:
        row["producer"] = row["sequence"] = None
    log[partition].append(row)
    return row


def _send(rng: random.Random, history: History, log: dict[int, list[Row]], number: int, attempts: bool) -> None:
    """Sends one record, in one attempt or more, each of which may go wrong."""
    name, producer, partition = f"order-{number}", f"p{rng.randrange(3)}", rng.randrange(PARTITIONS)
    sequence, hashed = number, str(rng.randrange(1 << 32))
    for attempt in range(rng.choice([1, 1, 1, 2, 3]) if attempts else 1):
        outcome = rng.choice(["acked"] * 6 + ["unknown", "failed", "sent"])
        copies = rng.choice([0, 1, 1, 1, 1, 1, 1, 1, 2]) if outcome != "failed" else rng.choice([0, 0, 1])
        written = [
            _append(
                history,
                log,
                rng.choice([partition] * 9 + [0]),
                name,
                producer,
                sequence,
                rng.choice([hashed] * 15 + ["1"]),
            )
            for _ in range(copies)
        ]
        sender = producer if rng.random() < 0.95 or history.in_parts else "p9"
        history.claims.append(
            {
                "outcome": outcome,
                "id": name,
                "producer": sender,
                "sequence": sequence,
                "attempt": attempt if attempts else None,
                "partition": None,
                "offset": None,
                "value_crc32": int(hashed),
                "copy": written[0] if written and outcome == "acked" else None,
                "wrong": rng.random() < 0.1,
                "line": len(history.claims) + 1,
            }
        )


def _place(history: History, log: dict[int, list[Row]]) -> None:
    """Gives the records their offsets, with gaps as control records leave them, and acks the offsets."""
    rng = random.Random(len(history.claims))
    for partition, lines in log.items():
        offset = history.starts[partition]
        for row in lines:
            row["offset"] = offset
            offset += rng.choice([1, 1, 1, 2])
            history.found.append(row)
    for claim in history.claims:
        copy = claim.pop("copy")
        wrong = claim.pop("wrong")
        if claim["outcome"] != "acked":
            continue
        if copy is not None:
            claim["partition"], claim["offset"] = copy["partition"], copy["offset"] + (1 if wrong else 0)
        elif rng.random() < 0.7:
            claim["partition"], claim["offset"] = rng.randrange(PARTITIONS), rng.randrange(30)


def _forget(rng: random.Random, history: History, attempts: bool) -> None:
    """Takes columns away."""
    gone = {name for name in ("value_crc32", "order", "some offsets", "all offsets") if rng.random() < 0.4}
    seen: set[Any] = set()
    for claim in list(history.claims):
        if "value_crc32" in gone:
            claim["value_crc32"] = None
        if "order" in gone and not history.in_parts:
            claim["producer"] = claim["sequence"] = None
        if history.in_parts:
            claim["id"] = None
        if "all offsets" in gone or ("some offsets" in gone and rng.random() < 0.5):
            claim["partition"] = claim["offset"] = None
        key = claim["id"], claim["producer"], claim["sequence"], claim["attempt"]
        if rng.random() < 0.1 or key in seen:  # the ledger lost a line
            history.claims.remove(claim)
        seen.add(key)


def known(history: History) -> Counter[str]:
    """Returns what can be known of a history: how many attempts or records show each kind, and some other counts.

    A kind counts wherever it shows, also beside another one, except DUPLICATED and LOST, which exclude each other.
    """
    counts = Counter[str]()
    copies: defaultdict[Any, list[Row]] = defaultdict(list)
    offsets = Counter((c["partition"], c["offset"]) for c in history.claims if _has_offset(c))
    counts["past_the_end"] = sum(_has_offset(c) and c["offset"] >= history.ends[c["partition"]] for c in history.claims)
    hidden = [row for row in history.found if row.get("hidden")]
    counts["aborted_records"] = sum(row["hidden"] == "aborted" for row in hidden)
    counts["open_records"] = len(hidden) - counts["aborted_records"]
    visible = [row for row in history.found if not row.get("hidden")]
    for row in sorted(visible, key=lambda row: (row["offset"], row["partition"])):
        copies[_identity(history, row)].append(row)
    claims: defaultdict[Any, list[Row]] = defaultdict(list)
    for claim in history.claims:
        claims[_identity(history, claim)].append(claim)
    counts["foreign_writers"] = len(copies.pop(None, []))
    for row in hidden:
        of_id = claims.get(_identity(history, row), [])
        row["is_told"] = any(c["outcome"] == "acked" and _place_of(c) == _place_of(row) for c in of_id)
    lost_beginning = any(history.starts.values())
    placed: list[tuple[Row, list[Row]]] = []
    for name, of_name in claims.items():
        for claim, rows in _given(of_name, copies.get(name, []), history):
            kept = _judge(claim, rows, history, lost_beginning, counts) and _unveiled(claim, rows, history, counts)
            if kept:
                placed.append((claim, rows))
    _judge_unclaimed(history, copies, claims, counts)
    _judge_order(history, placed, counts)
    counts["shared"] = sum(count > 1 for count in offsets.values())
    return +counts


def _identity(history: History, row: Row) -> Any:
    if history.in_parts:
        return None if row["producer"] is None else (row["producer"], row["sequence"])
    return row["id"]


def _ended(claim: Row) -> str:
    return claim.get("transaction_outcome") or "unknown"


def _told(claim: Row) -> bool:
    return claim["outcome"] in ("acked", "sent") and _ended(claim) != "aborted"


def _has_offset(claim: Row) -> bool:
    return claim["outcome"] == "acked" and _told(claim) and claim["offset"] is not None


def _is_failed(claim: Row, history: History) -> bool:
    return _ended(claim) == "aborted" or (claim["outcome"] == "failed" and bool(history.failed_because))


def _given(claims: list[Row], rows: list[Row], history: History) -> list[tuple[Row, list[Row]]]:
    """Gives the records of one identity to its claims: first where they were acknowledged, then reported ones first."""
    given: dict[int, list[Row]] = {claim["line"]: [] for claim in claims}
    if len(claims) == 1:
        return [(claims[0], rows)]
    left, able = [], [c for c in claims if not _is_failed(c, history)] or claims
    for row in rows:
        owners = [c for c in claims if c["outcome"] == "acked" and _place_of(c) == _place_of(row)]
        if owners:
            given[min(owners, key=lambda c: (c not in able, c["attempt"] or 0))["line"]].append(row)
        else:
            left.append(row)
    by_rank = sorted(able, key=lambda c: (not _told(c), c["attempt"] or 0))
    free = [c for c in by_rank if not given[c["line"]]]
    for number, row in enumerate(left):
        given[(free[number] if number < len(free) else by_rank[0])["line"]].append(row)
    return [(claim, given[claim["line"]]) for claim in claims]


def _sound(claim: Row, rows: list[Row]) -> list[Row]:
    return [row for row in rows if claim["value_crc32"] is None or str(claim["value_crc32"]) == row["hash"]]


def _judge(claim: Row, rows: list[Row], history: History, lost_beginning: bool, counts: Counter[str]) -> bool:
    """Counts what a claim shows. Returns whether it is judged at all."""
    has_offset = _has_offset(claim)
    if has_offset and claim["offset"] < history.starts[claim["partition"]]:
        counts["expired"] += 1
        if not rows:
            return False
        claim["outcome"], claim["offset"], has_offset = "unknown", None, False
    elif _told(claim) and not has_offset and not rows and lost_beginning:
        counts["unknowable"] += 1
        return False
    return True


def _unveiled(claim: Row, rows: list[Row], history: History, counts: Counter[str]) -> bool:
    """Counts what the records show that no read_committed consumer gets. Returns whether the claim is judged at all."""
    hidden = [row for row in history.found if row.get("hidden")]
    here = [row for row in hidden if _has_offset(claim) and _place_of(row) == _place_of(claim)]
    loose = [row for row in hidden if _identity(history, row) == _identity(history, claim) and not row["is_told"]]
    claim["failed"], ended = _is_failed(claim, history), _ended(claim)
    if _told(claim) and (here or loose):
        is_undecided = ended == "unknown" or any(row["hidden"] == "open" for row in here + loose)
        if not rows and is_undecided:
            counts["transaction_unknown"] += 1
            return False
        counts["sent_again"] += bool(rows)
        counts["committed_hidden"] += not rows
        counts["committed_hidden_there"] += bool(rows and here) and not is_undecided
        if rows and here and is_undecided:
            counts["transaction_unknown"] += 1
            claim["offset"] = None
    elif loose and not rows and not claim["failed"]:
        counts["transaction_unknown"] += ended == "committed"
    stated = (claim["partition"], claim["offset"])
    counts["failed_elsewhere"] += sum(claim["failed"] and _place_of(row) != stated for row in rows)
    counts["aborted_found"] += len(rows) if _ended(claim) == "aborted" else 0
    claim["holds"] = [] if claim["failed"] else _sound(claim, rows)
    claim["damaged"] = [row for row in rows if row not in _sound(claim, rows)]
    counts["attempted"] += 1
    if claim["failed"]:
        counts["PHANTOM"] += len(_sound(claim, rows))
    return True


def _place_of(row: Row) -> Place:
    return row["partition"], row["offset"]


def _judge_unclaimed(history: History, copies: Any, claims: Any, counts: Counter[str]) -> None:
    for name, rows in copies.items():
        if name in claims:
            continue
        counts["unclaimed"] += len(rows)
        if history.others_write:
            continue
        if history.complete:
            counts["PHANTOM"] += len(rows)
        else:
            counts["attempted"] += 1
            counts["DUPLICATED"] += len(rows) > 1


def _judge_order(history: History, placed: list[tuple[Row, list[Row]]], counts: Counter[str]) -> None:
    """Counts what needs all attempts: damaged records belong to whoever was acknowledged there, and order."""
    acked: defaultdict[Place, list[Row]] = defaultdict(list)
    for claim, _ in placed:
        if _has_offset(claim):
            acked[claim["partition"], claim["offset"]].append(claim)
    corrupted: set[int] = set()
    for claim, _ in placed:
        for row in claim["damaged"]:
            owners = acked[row["partition"], row["offset"]]
            counts["CORRUPTED"] += 0 if owners else 1
            if owners:
                owner = max(owners, key=lambda c: c["numbers"]) if "numbers" in owners[0] else None
                if owner is None and len(owners) > 1:
                    counts["ambiguous"] += 1
                owner = owner or owners[0]
                owner["holds"].append(row)
                corrupted.add(owner["line"])
    counts["CORRUPTED"] += len(corrupted)
    for claim, _ in placed:
        holds = claim["holds"]
        if claim["failed"]:
            continue
        counts["LOST"] += _told(claim) and not holds
        counts["DUPLICATED"] += len(holds) > 1 and claim["line"] not in corrupted  # CORRUPTED comes first
        has_offset = _has_offset(claim)
        places = {(row["partition"], row["offset"]) for row in holds}
        counts["MISPLACED"] += has_offset and bool(holds) and (claim["partition"], claim["offset"]) not in places
        present = [
            c
            for c, _ in placed
            if c["holds"] and not c["failed"] and _identity(history, c) == _identity(history, claim)
        ]
        counts["RESENT"] += bool(holds) and len(present) > 1
        counts["REORDERED"] += _told(claim) and bool(holds) and _is_late(claim, placed, history)


def _first(claim: Row) -> Row:
    return min(claim["holds"], key=lambda row: (row["offset"], row["partition"]))


def _is_late(claim: Row, placed: list[tuple[Row, list[Row]]], history: History) -> bool:
    if claim["sequence"] is None or claim["attempt"] or not _has_one_sender(claim, history):
        return False
    mine = _first(claim)
    return any(
        other["producer"] == claim["producer"]
        and _has_one_sender(other, history)
        and not other["failed"]
        and not other["attempt"]
        and _told(other)
        and other["holds"]
        and _first(other)["partition"] == mine["partition"]
        and _first(other)["offset"] < mine["offset"]
        and (other["sequence"], other["line"]) > (claim["sequence"], claim["line"])
        for other, _ in placed
    )


def _has_one_sender(claim: Row, history: History) -> bool:
    return len({c["producer"] for c in history.claims if _identity(history, c) == _identity(history, claim)}) == 1
