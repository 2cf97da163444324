"""The hops of a record behind the log: when it was handed to an application, applied and committed, and where it got
lost or doubled. What the members wrote in their journal explains a case, and never decides on one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from delivery_verifier.model.anomalies import EFFECTS, Anomaly
from delivery_verifier.pages.material import Material
from delivery_verifier.pages.words import number
from delivery_verifier.store.effect_tables import EFFECTS as EFFECTS_TABLE
from delivery_verifier.store.effect_tables import JOURNAL
from delivery_verifier.store.times import as_us

Row = dict[str, Any]
Event = tuple[int, str, bool]
"""The time of an event (µs since the epoch), its sentence, and whether the event is about a fault."""
EVENTS_SHOWN = 12
"""The greatest number of events behind the log in one story."""


def events(material: Material, row: Row) -> Iterator[Event]:
    """Yields what befell the record of a case behind the log. `row`: the row of the case in anomalies/.

    Yields nothing if the case is of no kind of effects.
    """
    if row["kind"] not in EFFECTS:
        return
    journal = [(entry["at"], sentence, False) for entry in _journal(material, row) if (sentence := _sentence(entry))]
    applied = [(effect["applied_at"], f"{_who(effect)} applies it.", False) for effect in _effects(material, row)]
    yield from sorted([*journal, *applied])[:EVENTS_SHOWN]


def explanation(material: Material, row: Row) -> str:
    """Returns at which hop a record got lost or doubled, as a sentence; empty if that is not known.

    `row`: the row of the case in anomalies/.
    """
    if row["kind"] not in EFFECTS:
        return ""
    effects, journal = _effects(material, row), _journal(material, row)
    if not (material.path / JOURNAL.name).is_dir() or any(part.name == JOURNAL.name for part in material.missing):
        return ""  # what nobody can read proves nothing
    if row["kind"] == Anomaly.SKIPPED:
        return _loss(journal, _discipline(material, row))
    if row["kind"] == Anomaly.GHOST:
        return "Hop log: it was applied, and consumers see it nowhere: it was lost, aborted or never sent."
    return _doubling(effects, journal) if row["kind"] == Anomaly.REAPPLIED else ""


def _doubling(effects: list[Row], journal: list[Row]) -> str:
    again = next((effect for effect in effects if not _is_of(effect, effects[0])), None)
    if again is None:
        return ""
    answers = [entry for entry in journal if _is_of(entry, effects[0]) and entry["what"] == "committed"]
    if refused := [entry["answer"] for entry in answers if entry["answer"]]:
        return f"Hop commit: it was applied, its commit was refused ({refused[0]}), and it was delivered again."
    if any(entry["at"] <= again["applied_at"] for entry in answers):
        return "Hop hand-over: it was applied and committed, and the group was set back behind it."
    return "Hop application: it was applied, its commit never came, and the next life was given it once more."


def _discipline(material: Material, row: Row) -> str:
    """Returns the discipline of the application of the case's arm; empty if it is not known."""
    arms = material.scenario.arms if material.scenario else ()
    return next((arm.application.discipline for arm in arms if arm.name == row["arm"] and arm.application), "")


def _loss(journal: list[Row], discipline: str) -> str:
    handed = [entry for entry in journal if entry["what"] == "handed_over"]
    if not handed:
        return "Hop hand-over: no member was ever given it: the group started, or was set, behind it."
    committed = [entry for entry in journal if entry["what"] == "committed" and not entry["answer"]]
    if discipline == "commit_first" and any(_is_of(entry, handed[0]) for entry in committed):
        return "Hop application: it was committed before it was applied, and the member never applied it."
    if discipline == "at_handover":
        return "Hop application: a member was given it and never applied it, and the client's timer committed it."
    return "Hop application: a member was given it and never applied it."


def _effects(material: Material, row: Row) -> list[Row]:
    """Returns the effects of the record in the order of time, with times in µs since the epoch."""
    names = ("arm", "producer", "session", "sequence", "attempt")
    table = _read(material, EFFECTS_TABLE.name, {name: row[name] for name in names})
    return sorted(table, key=lambda effect: int(effect["order"]))


def _journal(material: Material, row: Row) -> list[Row]:
    """Returns the events of members that concern an offset of the record: hand-overs, and commits of the same batch or
    the first beyond it in each life."""
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
    """Returns the rows of a folder of Parquet files whose columns have `values`; none if it cannot be read."""
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
        return f"{_who(entry)} is handed the offsets {number(entry['first'])} to {number(entry['until'] - 1)}."
    if entry["answer"]:
        return f"{_who(entry)} is refused the commit of offset {number(entry['until'])} ({entry['answer']})."
    return f"{_who(entry)} hears that offset {number(entry['until'])} is committed: the group goes on from there."


def _who(entry: Row) -> str:
    return f"Member {entry['member']} (life {entry['life']})"


def _is_of(entry: Row, other: Row) -> bool:
    return (entry["member"], entry["life"]) == (other["member"], other["life"])
