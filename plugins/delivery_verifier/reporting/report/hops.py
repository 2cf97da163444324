"""The hops of a record: the stations on the record's way. These are: sent, acknowledged, in the log, handed over to an
application, applied, committed. The hops show where the record got lost or doubled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from delivery_verifier.model.advice import Example
from delivery_verifier.model.anomalies import EFFECTS, Anomaly
from delivery_verifier.model.application import Discipline
from delivery_verifier.model.figures import times
from delivery_verifier.reporting.material import Material
from delivery_verifier.reporting.words import number
from delivery_verifier.run_directory import record_history
from delivery_verifier.run_directory.effect_tables import EFFECTS as EFFECTS_TABLE
from delivery_verifier.run_directory.effect_tables import JOURNAL

Row = dict[str, Any]
Event = tuple[int, str, bool]
"""The time of an event (µs since the epoch), its sentence, and whether the event is about a fault."""
EVENTS_SHOWN = 12
"""The greatest number of events that `events` yields for one record."""


def events(material: Material, row: Row, example: Example | None = None) -> Iterator[Event]:
    """Yields the events of a record after it was written to the log: hand-overs, effects and commits.

    `row` is the row of the case in anomalies/, and `example` what the verdict says of it. Yields nothing if the anomaly
    of the case is not one of effects.
    """
    if row["kind"] not in EFFECTS:
        return
    is_own = discipline_of(material, row) == "own"
    journal = [
        (entry["at"], sentence, False) for entry in journal_rows(material, row) if (sentence := _sentence(entry))
    ]
    applied = [
        (effect["applied_at"], _application(effect, bool(number_of_effect), is_own), False)
        for number_of_effect, effect in enumerate(effect_rows(material, row))
    ]
    yield from sorted([*journal, *applied, *(_commit_of_program(example) if is_own else ())])[:EVENTS_SHOWN]


def last_us(material: Material, row: Row, example: Example | None) -> int | None:
    """Returns until when a fault may have hurt the record behind the log (µs since the epoch); None if nothing is known
    of that. If a program of the user's own has skipped the record, this is its end after the record was committed."""
    last = max((at_us for at_us, _, _ in events(material, row, example)), default=None)
    committed = example.committed if example else None
    if row["kind"] != Anomaly.SKIPPED or committed is None or committed.killed_at_us is None:
        return last
    return committed.killed_at_us


def _application(effect: Row, is_again: bool, is_own: bool) -> str:
    again = " again" if is_again else ""
    if is_own:  # the times of effects in files are unknown
        return f"{member_name(effect)} ends. It has applied this record{again}."
    return f"{member_name(effect)} applies it{again}."


def _commit_of_program(example: Example | None) -> Iterator[Event]:
    if example and (committed := example.committed):
        what = f"Offset {number(committed.offset)} is committed{committed.by}"
        yield committed.at_us, f"{what}: from here on the group is not given this record any more.", False


def has_journal(material: Material, row: Row) -> bool:
    """Returns whether the journal of the arm's application can be read. `row` is the row of the case in anomalies/,
    which names the arm.

    The members of a user application (a program that the user brings) keep no journal.
    """
    if discipline_of(material, row) == "own":
        return False
    return (material.path / JOURNAL.name).is_dir() and all(part.name != JOURNAL.name for part in material.missing)


def discipline_of(material: Material, row: Row) -> Discipline | None:
    """Returns the discipline of the arm's application, or None if it is not known. `row` is the row of the case, which
    names the arm."""
    arms = material.scenario.arms if material.scenario else ()
    return next((arm.application.discipline for arm in arms if arm.name == row["arm"] and arm.application), None)


def effect_rows(material: Material, row: Row) -> list[Row]:
    """Returns the effects of the record of the case in `row` (see `record_history.effect_rows`); none if they cannot be
    read."""
    return material.take(EFFECTS_TABLE.name, lambda: record_history.effect_rows(material.path, row)) or []


def journal_rows(material: Material, row: Row) -> list[Row]:
    """Returns the events in the journals that concern the record of the case in `row` (see
    `record_history.journal_rows`); none if the journals cannot be read."""
    return material.take(JOURNAL.name, lambda: record_history.journal_rows(material.path, row)) or []


def _sentence(entry: Row) -> str:
    if entry["what"] == "handed_over":
        first, last = entry["first"], entry["until"] - 1
        offsets = f"offset {number(first)}: this record" if first == last else f"offsets {number(first)} to "
        rest = "" if first == last else f"{number(last)}, this record among them"
        return f"{member_name(entry)} is handed {offsets}{rest}."
    if entry["answer"]:
        return f"{member_name(entry)} is refused the commit of offset {number(entry['until'])} ({entry['answer']})."
    committed = f"{member_name(entry)} has committed offset {number(entry['until'])}"
    return f"{committed}: the member that takes over begins there."


def member_name(entry: Row) -> str:
    """The name of the member that an effect or an event of a journal is about. `A member` if nobody knows which."""
    name = f"Member {entry['member']}" if entry["member"] >= 0 else "A member"
    return name + (f" (started again {count_text(entry['incarnation'])})" if entry["incarnation"] else "")


def count_text(count: int) -> str:
    """Returns in words how often something happened, e.g. `twice`; `never` for 0."""
    return times(count) if count else "never"
