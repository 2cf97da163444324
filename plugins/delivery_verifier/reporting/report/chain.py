"""The chain: the hops of one record on its way. The way begins with the sending. It ends in the log or, in an arm with
an application, with the commit of the record's offset.

Each hop says whether the record passed it, who passed the record on, and when.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from delivery_verifier.model.advice import Example
from delivery_verifier.model.anomalies import EFFECTS, Anomaly, subset
from delivery_verifier.model.application import TIMED
from delivery_verifier.reporting.leadership import Clock
from delivery_verifier.reporting.material import Material
from delivery_verifier.reporting.report.cases import offsets_text
from delivery_verifier.reporting.report.hops import (
    count_text,
    discipline_of,
    effect_rows,
    has_journal,
    journal_rows,
    member_name,
)
from delivery_verifier.reporting.words import number

Row = dict[str, Any]
HopState = Literal["done", "missing", "excess", "unknown"]
"""Whether a record has passed a hop. `excess`: the record has passed the hop more often than it should. `unknown`: the
run has no data about this hop."""
PASSINGS_SHOWN = 2
"""A record may pass a hop several times. At most this number of times is shown one by one, with time and member."""
INVISIBLE = subset("consumers see all other kinds in the log", (Anomaly.GHOST, Anomaly.TORN, Anomaly.LOST))
"""The anomalies of records that consumers do not see in the log."""


@dataclass(frozen=True)
class Hop:
    """One hop of a record on its way from the producer to its effect. `state`: whether the record passed the hop.
    `note`: more about the hop; it may be empty."""

    name: str
    state: HopState
    note: str = ""


def chain(material: Material, row: Row, clock: Clock, example: Example | None = None) -> list[Hop]:
    """Returns the hops of a record up to the log or, in an arm with an application, up to the commit of its offset.

    `row` is the row of the case in anomalies/, and `example` what the verdict says of it. The note of a hop says who
    passed the record on, and at which time on `clock`.
    """
    offsets = row["offsets"] or []
    visible = row["kind"] not in INVISIBLE
    where = f"{count_text(len(offsets))}, at offset{'s' if len(offsets) > 1 else ''} {offsets_text(row)}"
    most = None if row["kind"] in EFFECTS else 1
    time_text = clock.text if material.is_timed else lambda at_us: ""
    to_log = [
        Hop("sent", "done", ", ".join(filter(None, (time_text(row["sent_at"]), f"producer {row['producer']}"))))
        if row["sent_at"] is not None
        else Hop("sent", "missing", "by no one"),
        Hop("acknowledged", _ACKNOWLEDGED.get(row["outcome"], "unknown"), _answer(row, time_text)),
        Hop(
            "in the log",
            _state(len(offsets), most) if visible else "missing",
            (where if visible else "not visible") if offsets else "nowhere",
        ),
    ]
    is_applied = row["kind"] in EFFECTS or discipline_of(material, row)
    return [*to_log, *_to_commit(material, row, clock, example)] if is_applied else to_log


def _answer(row: Row, time_text: Callable[[int | None], str]) -> str:
    """Returns, as text, when the client learned the outcome of the record, and which outcome it was.
    `time_text`: returns a time as text, or nothing if the times are not known."""
    if row["settled_at"] is None or row["outcome"] is None:
        return str(row["outcome"] or "").lower()
    offset = f"offset {number(row['acked_offset'])}" if row["acked_offset"] is not None else ""
    outcome = "" if row["outcome"] == "ACKED" else str(row["outcome"]).lower()
    return ", ".join(filter(None, (time_text(row["settled_at"]), offset, outcome)))


def _to_commit(material: Material, row: Row, clock: Clock, example: Example | None) -> list[Hop]:
    """Returns the hops behind the log: handed over to a member, applied by this member, committed."""
    effects, journal = effect_rows(material, row), journal_rows(material, row)
    is_told = has_journal(material, row)
    handed = [entry for entry in journal if entry["what"] == "handed_over"]
    committed = [entry for entry in journal if entry["what"] == "committed" and not entry["answer"]]
    discipline = discipline_of(material, row)
    by_hand = discipline is not None and TIMED.get(discipline) == (False, False)
    state: HopState = "done" if committed else "missing" if by_hand and is_told else "unknown"
    copies = max(len(row["offsets"] or []), 1) if row["kind"] != Anomaly.GHOST else 0
    if discipline == "own":
        return _of_program(example, clock, Hop("applied", _state(len(effects), copies), _incarnations(effects)))
    return [
        Hop("handed over", _state(len(handed)) if is_told else "unknown", _passed(handed, "at", clock, is_told)),
        Hop("applied", _state(len(effects), copies), _passed(effects, "applied_at", clock)),
        Hop("committed", state, _passed(committed[:1], "at", clock) if committed else ""),
    ]


def _of_program(example: Example | None, clock: Clock, applied: Hop) -> list[Hop]:
    """Returns the hops behind the log if a program of the user's own applies the record. What it was handed is known
    only if it has applied it. What it has committed is known from the brokers."""
    handed = Hop("handed over", "unknown" if applied.state == "missing" else "done")
    if example is None or not example.is_group_known:
        return [handed, applied, Hop("committed", "unknown")]
    committed = example.committed
    note = f"{clock.text(committed.at_us)}{committed.by}" if committed else ""
    return [handed, applied, Hop("committed", "done" if committed else "missing", note)]


def _incarnations(effects: list[Row]) -> str:
    """Returns, as text, how often a program of the user's own applied a record, and which members did."""
    first = "; ".join(member_name(each).lower() for each in effects[:PASSINGS_SHOWN])
    return f"{count_text(len(effects))}: {first}" if first else count_text(0)


def _passed(passings: list[Row], column: str, clock: Clock, is_told: bool = True) -> str:
    """Returns, as text, how often a record passed a hop. For the first PASSINGS_SHOWN times, the text also says when
    this was, and which member passed the record on.

    `column` is the column of `passings` with the time. If `is_told` is false, the journal cannot be read, and the text
    is empty.
    """
    if not is_told:
        return ""
    first = "; ".join(f"{clock.text(each[column])}, {member_name(each).lower()}" for each in passings[:PASSINGS_SHOWN])
    return f"{count_text(len(passings))}: {first}" if first else count_text(0)


_ACKNOWLEDGED: dict[str, HopState] = {"ACKED": "done", "FAILED": "missing"}


def _state(count: int, most: int | None = None) -> HopState:
    """Returns the state of a hop that was passed `count` times. `most`: how often it may be passed; None if this is not
    limited."""
    if not count:
        return "missing"
    return "done" if most is None or count <= most else "excess"
