"""The hops of a record: the stations on the record's way. These are: sent, acknowledged, in the log, handed over to an
application, applied, committed. The hops show where the record got lost or doubled.

The members of the application wrote the journals. The journals explain a case, but never decide whether an attempt is a
case.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from delivery_verifier.judgement.sentences import times
from delivery_verifier.model.anomalies import EFFECTS, Anomaly
from delivery_verifier.model.application import Discipline
from delivery_verifier.pages.material import Material
from delivery_verifier.pages.report import programs
from delivery_verifier.pages.words import number
from delivery_verifier.store.effect_tables import EFFECTS as EFFECTS_TABLE
from delivery_verifier.store.effect_tables import JOURNAL
from delivery_verifier.store.times import as_us

Row = dict[str, Any]
Event = tuple[int, str, bool]
"""The time of an event (µs since the epoch), its sentence, and whether the event is about a fault."""
EVENTS_SHOWN = 12
"""The greatest number of events that `events` yields for one record."""


def events(material: Material, row: Row) -> Iterator[Event]:
    """Yields the events of a record after it was written to the log: hand-overs, effects and commits.

    `row` is the row of the case in anomalies/. Yields nothing if the anomaly of the case is not one of effects.
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
    yield from sorted([*journal, *applied, *(_commit_of_program(material, row) if is_own else ())])[:EVENTS_SHOWN]


def last_us(material: Material, row: Row) -> int | None:
    """Returns until when a fault may have hurt the record behind the log (µs since the epoch); None if nothing is known
    of that. If a program of the user's own has skipped the record, this is its end after the record was committed."""
    last = max((at_us for at_us, _, _ in events(material, row)), default=None)
    group = programs.group_of(material, row["arm"]) if discipline_of(material, row) == "own" else None
    covered = programs.cover(group, row) if group else None
    if group is None or covered is None or row["kind"] != Anomaly.SKIPPED:
        return last
    end = group.end_after(covered.at_us)
    return end.at_us if end and end.is_kill else last


def _application(effect: Row, is_again: bool, is_own: bool) -> str:
    again = " again" if is_again else ""
    if is_own:  # the times of effects in files are unknown
        return f"{member_name(effect)} ends. It has applied this record{again}."
    return f"{member_name(effect)} applies it{again}."


def _commit_of_program(material: Material, row: Row) -> Iterator[Event]:
    group = programs.group_of(material, row["arm"])
    covered = programs.cover(group, row) if group else None
    if group and covered:
        committed = f"Offset {number(covered.offset)} is committed{group.by(covered)}"
        yield covered.at_us, f"{committed}: from here on the group is not given this record any more.", False


def explanation(material: Material, row: Row) -> str:
    """Returns a sentence that says at which hop a record got lost or doubled. If this is not known, the sentence says
    so, or is empty.

    `row` is the row of the case in anomalies/.
    """
    if row["kind"] not in EFFECTS:
        return ""
    effects, journal = effect_rows(material, row), journal_rows(material, row)
    if discipline_of(material, row) == "own":
        return _of_program(material, row)
    if not has_journal(material, row):
        return ""  # what nobody can read proves nothing
    if row["kind"] == Anomaly.SKIPPED:
        return _loss(journal, discipline_of(material, row))
    if row["kind"] == Anomaly.GHOST:
        return _GHOST
    return _doubling(effects, journal) if row["kind"] == Anomaly.REAPPLIED else ""


_GHOST = "It was applied, but consumers do not see it in the log: it was lost there, was aborted, or was never sent."


def _of_program(material: Material, row: Row) -> str:
    """Returns the explanation for a record that a program of the user's own applies."""
    group = programs.group_of(material, row["arm"])
    if group and (cause := programs.cause(material, group, row)):
        return " ".join([cause.what, *cause.evidence])
    if row["kind"] == Anomaly.GHOST:
        return _GHOST
    return "Neither the commits of its group nor the kills of the plan show at which hop it got lost or doubled."


def has_journal(material: Material, row: Row) -> bool:
    """Returns whether the journal of the arm's application can be read. `row` is the row of the case in anomalies/,
    which names the arm.

    The members of an own application (a program that the user brings) keep no journal.
    """
    if discipline_of(material, row) == "own":
        return False
    return (material.path / JOURNAL.name).is_dir() and all(part.name != JOURNAL.name for part in material.missing)


def _doubling(effects: list[Row], journal: list[Row]) -> str:
    again = next((effect for effect in effects if not _is_of(effect, effects[0])), None)
    if again is None:
        return ""
    handed = [entry["at"] for entry in journal if _is_of(entry, again) and entry["what"] == "handed_over"]
    before = [at_us for at_us in handed if at_us <= again["applied_at"]]
    if before and max(before) < effects[0]["applied_at"]:
        return (
            "Doubled by a member that had it in hand all the time: another process was handed it, too, and applied it. "
            "Then the member applied it as well, as after it stood still."
        )
    answers = [entry for entry in journal if _is_of(entry, effects[0]) and entry["what"] == "committed"]
    if refused := [entry["answer"] for entry in answers if entry["answer"]]:
        return f"Doubled by a refused commit ({refused[0]}): it was applied, and then it was handed over again."
    if any(entry["at"] <= again["applied_at"] for entry in answers):
        return (
            "Doubled by the hand-over: it was applied, and its offset was committed. Then it was handed over again, as "
            "after a group was set back."
        )
    if answers:
        return (
            "Doubled before the commit: it was applied, and another process was handed it, too, and applied it. Only "
            "then was its offset committed, as by a member that stood still in between."
        )
    return (
        "Doubled between application and commit: it was applied, no commit of its offset is known, and it was handed "
        "over again."
    )


def discipline_of(material: Material, row: Row) -> Discipline | None:
    """Returns the discipline of the arm's application, or None if it is not known. `row` is the row of the case, which
    names the arm."""
    arms = material.scenario.arms if material.scenario else ()
    return next((arm.application.discipline for arm in arms if arm.name == row["arm"] and arm.application), None)


def _loss(journal: list[Row], discipline: Discipline | None) -> str:
    handed = [entry for entry in journal if entry["what"] == "handed_over"]
    if not handed:
        return "Lost before the hand-over: no member was ever handed it. The group began, or was set, behind it."
    committed = [entry for entry in journal if entry["what"] == "committed" and not entry["answer"]]
    if discipline in ("commit_first", "transform_first") and any(_is_of(entry, handed[0]) for entry in committed):
        return (
            "Lost between commit and application: its offset was committed first, and the member never applied it. "
            "No member was handed it again."
        )
    lost = "Lost between hand-over and application: a member was handed it and never applied it."
    if discipline == "at_handover":
        return f"{lost} The client commits by a timer what it has handed over, applied or not."
    return lost


def effect_rows(material: Material, row: Row) -> list[Row]:
    """Returns the effects of the record in `row`, a row of anomalies/, in the order of time. Times are in µs since the
    epoch."""
    names = ("arm", "producer", "session", "sequence", "attempt")
    table = _read(material, EFFECTS_TABLE.name, {name: row[name] for name in names})
    return sorted(table, key=lambda effect: int(effect["order"]))


def journal_rows(material: Material, row: Row) -> list[Row]:
    """Returns the events in the journals that concern the record of the case in `row`, in the order of time.

    These are all hand-overs of the offsets of the record's copies. For each life of a member, the result also has the
    first commit that covers the lowest of these offsets.
    """
    offsets = row["offsets"] or []
    entries = _read(material, JOURNAL.name, {"arm": row["arm"], "partition": row["partition"]}) if offsets else []
    entries.sort(key=lambda entry: int(entry["at"]))
    chosen, lives = [], set[tuple[int, int]]()
    for entry in entries:
        life = entry["member"], entry["life"]
        if entry["what"] == "handed_over" and any(entry["first"] <= offset < entry["until"] for offset in offsets):
            chosen.append(entry)
        if entry["what"] == "committed" and life not in lives and entry["until"] > min(offsets):
            lives.add(life)
            chosen.append(entry)
    return chosen


def _read(material: Material, folder: str, values: Row) -> list[Row]:
    """Returns the rows of the Parquet files in `folder` whose columns have the values of `values`. `values` maps the
    name of a column to its value.

    Returns no rows if a value is None, or if the folder cannot be read.
    """
    path = material.path / folder
    if not path.is_dir() or any(value is None for value in values.values()):
        return []
    condition = None
    for name, value in values.items():
        equal = ds.field(name) == value
        condition = equal if condition is None else condition & equal
    table = material.take(folder, lambda: ds.dataset(path, format="parquet").to_table(filter=condition))
    if table is None:
        return []
    columns = {column: as_us(table[column]) for column in table.column_names}
    rows: list[Row] = pa.table(columns).to_pylist()
    return rows


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
    return name + (f" (started again {count_text(entry['life'])})" if entry["life"] else "")


def _is_of(entry: Row, other: Row) -> bool:
    return (entry["member"], entry["life"]) == (other["member"], other["life"])


def count_text(count: int) -> str:
    """Returns in words how often something happened, e.g. `twice`; `never` for 0."""
    return times(count) if count else "never"
