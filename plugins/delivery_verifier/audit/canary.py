"""The canary of an audit: records of the user's own topic, with known anomalies planted among them.

A foreign topic has no canary of ours. So up to PICKS sound records of the topic are laid out anew, as they were read,
and anomalies are planted before the identity is looked for. Identity, matching and counts must then find exactly these.
That shows that they work on the user's own format; that the topic was read completely, the offsets show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from delivery_verifier.audit.queries import is_whole
from delivery_verifier.model.anomalies import Anomaly, column
from delivery_verifier.model.audit import Audit
from delivery_verifier.model.history import now_us
from delivery_verifier.run_directory.tally import COUNTS

PICKS = 60
"""How many records of the topic the canary has at most."""
LEAST = 9
"""With fewer records, not one case of each kind can be planted."""
MANY = 40
"""From this number of records on, PER_KIND cases of each kind are planted, otherwise one."""
PER_KIND = 3
NOBODY = "kdv-canary-nobody"
"""The beginning of identities that no record has: their claims must be LOST, to the last one."""
NOWHERE = 1_000_000_000
"""An offset at which no record of the canary stands."""

Row = dict[str, Any]
Place = tuple[int, int]
"""Partition and offset of a record in the user's topic."""


@dataclass
class Canary:
    """The records (as read), the claims (rows of a ledger), the totals that the counts must show, and the kinds that
    could not be planted, with the reason."""

    records: list[Row] = field(default_factory=list)
    claims: list[Row] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    not_planted: dict[str, str] = field(default_factory=dict)
    shared: int = 0
    """How many offsets two claims must name."""

    @property
    def expected(self) -> dict[str, int]:
        """Maps every column of counts in the counts to the total that the canary must have."""
        return dict.fromkeys(COUNTS, 0) | dict(self.counts)


class Planter:
    """Lays out the picked records: `picks` are their claims, `raws` the records by their place in the topic."""

    def __init__(self, picks: Sequence[Row], raws: Mapping[Place, Row], audit: Audit) -> None:
        self.canary, self.audit = Canary(), audit
        self._left = sorted(picks, key=lambda row: (row["producer"] or "", row["sequence"] or 0, row["line"]))
        self._raws = raws

    def lay_out(self) -> Canary:
        """Returns the canary. It has at least LEAST records."""
        size = PER_KIND if len(self._left) >= MANY else 1
        self._plan(Anomaly.REORDERED, size, self._swap, self.audit.ordered, "the ledger has no order of sending")
        later = [
            raw for _ in range(size) if (raw := self._plan(Anomaly.DUPLICATED, 1, self._acked, True, "")) is not None
        ]
        self._plan(Anomaly.LOST, size, self._drop, True, "")
        has_offset = self.audit.without_offset == 0
        why = "claims without an offset"
        self._plan(Anomaly.MISPLACED, size, self._misplace, has_offset, why)
        self._plan(
            Anomaly.RESENT, size, self._resend, self.audit.attempts and has_offset, "no attempt numbers or offsets"
        )
        hashed = bool(self.audit.hash) and has_offset
        self._plan(Anomaly.CORRUPTED, size, self._corrupt, hashed, "the ledger has no checksums or offsets")
        self._plan(None, size, self._unclaimed, True, "")
        self._plan(None, size, self._unanswered, True, "")
        while len(self._left) > 0:
            self._acked()
        for raw in later:
            self._write(raw)
            self._expect(extra_copies=1, duplicated=1)
        self._foreign_writer()
        self._nobody(size)
        return self.canary

    def _plan(self, kind: Anomaly | None, count: int, plant: Any, possible: bool, why: str) -> Any:
        """Plants `count` cases, if they are possible and records are left. Returns what the last one returned.

        A kind that the ledger could show, but that could not be planted, is named.
        """
        last = None
        if not possible:
            return None
        for _ in range(count):
            try:
                last = plant()
            except LookupError:
                if kind is not None:
                    reason = f"{kind} could not be planted in the canary: too few records"
                    self.canary.not_planted.setdefault(kind.value, reason)
                break
        return last

    def _expect(self, **counts: int) -> None:
        self.canary.counts.update(counts)

    def _take(self, placed: bool = False) -> Row:
        """Returns the next claim. `placed`: it must have an offset, which a claim of acks=0 has not."""
        for index, pick in enumerate(self._left):
            if not placed or pick["offset"] is not None:
                return self._left.pop(index)
        raise LookupError("no claim has an offset")

    def _raw(self, pick: Row) -> Row:
        return self._raws[pick["found_partition"], pick["found_offset"]]

    def _write(self, raw: Row) -> int:
        """Writes a record behind the others. Returns its offset."""
        offset = len(self.canary.records)
        self.canary.records.append({**raw, "partition": 0, "offset": offset})
        self._expect(log_records=1)
        return offset

    def _claim(self, pick: Row, offset: int | None, **more: object) -> None:
        """Adds the claim of `pick`. It names `offset` if the user's claim has one."""
        has_offset = pick["offset"] is not None
        row = {name: value for name, value in pick.items() if not name.startswith("found_")}
        row |= {"offset": offset if has_offset else None, "partition": 0 if has_offset else None, **more}
        if row["outcome"] != "acked":
            row |= {"offset": None, "partition": None}
        row |= {"line": len(self.canary.claims) + 1, "file": 0}
        self.canary.claims.append(row)
        tally = {"acked": "acked", "sent": "sent"}.get(row["outcome"], "indeterminate")
        self._expect(attempted=1, reported=int(tally != "indeterminate"), **{tally: 1})

    def _acked(self, pick: Row | None = None) -> Row:
        pick = pick or self._take()
        self._claim(pick, self._write(self._raw(pick)))
        self._expect(found=1, first_copies=1)
        return self._raw(pick)

    def _swap(self) -> None:
        """Plants a record that stands behind the next one of its producer."""
        pairs = zip(self._left, self._left[1:], strict=False)
        first = next((i for i, (early, late) in enumerate(pairs) if early["producer"] == late["producer"]), None)
        if first is None:
            reason = "REORDERED could not be planted in the canary: no producer has two of its records"
            self.canary.not_planted[Anomaly.REORDERED.value] = reason
            return
        early, late = self._left.pop(first), self._left.pop(first)
        self._acked(late)
        self._acked(early)
        self._expect(reordered=1)

    def _drop(self) -> None:
        pick = self._take()
        self._claim(pick, NOWHERE + len(self.canary.claims))
        self._expect(lost=1)

    def _misplace(self) -> None:
        pick = self._take(placed=True)
        self._write(self._raw(pick))
        self._claim(pick, NOWHERE + len(self.canary.claims))
        self._expect(found=1, first_copies=1, misplaced=1)

    def _resend(self) -> None:
        pick = self._take(placed=True)
        self._write(self._raw(pick))
        self._claim(pick, None, outcome="unknown", attempt=0)
        self._claim(pick, self._write(self._raw(pick)), attempt=1)
        self._expect(found=1, resolved_present=1, first_copies=2, resent=2)

    def _corrupt(self) -> None:
        """Plants a record whose value is not the one that was claimed."""
        pick = self._take(placed=True)
        other = (
            {"value_crc32": (pick["value_crc32"] or 0) ^ 1}
            if self.audit.hash == "crc32"
            else {"value_sha256": "f" * 64}
        )
        self._claim(pick, self._write(self._raw(pick)), **other)
        self._expect(found=1, first_copies=1, corrupted=1)

    def _unclaimed(self) -> None:
        """Writes a record that no claim names."""
        self._write(self._raw(self._take()))
        if self.audit.others_write:
            self._expect(unattributed=1)
        elif is_whole(self.audit):
            self._expect(phantoms=1, **{column(Anomaly.PHANTOM): 1})
        else:
            self._expect(attempted=1, indeterminate=1, resolved_present=1, first_copies=1)

    def _unanswered(self) -> None:
        pick = self._take()
        self._write(self._raw(pick))
        self._claim(pick, None, outcome="unknown")
        self._expect(resolved_present=1, first_copies=1)

    def _foreign_writer(self) -> None:
        """Writes a record without any identity. What an SQL expression makes of it is not known."""
        if self.audit.identity.kind != "sql":
            now = now_us()
            self._write({"timestamp": now, "key": None, "value": None, "headers": None})
            self._expect(unattributed=1)

    def _nobody(self, count: int) -> None:
        """Claims records that are not in the topic at all, at offsets of sound ones. An identity that matches anything
        would find them."""
        sound = [row for row in self.canary.claims if row["outcome"] == "acked" and (row["offset"] or 0) < NOWHERE][
            -count:
        ]
        for number, row in enumerate(sound):
            name = f"{NOBODY}-{number}"
            identity = {"producer": name} if self.audit.identity.in_parts else {"id": name}
            if self.audit.ordered:
                identity["producer"] = name
            self._claim({**row, **identity, "value_crc32": None, "value_sha256": None}, row["offset"])
            self._expect(lost=1)
            self.canary.shared += row["offset"] is not None
