"""Tests of members that apply records to a database: what is in it after a crash at each point, where a member starts,
and how the effects are read back."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from confluent_kafka import Consumer, KafkaError
from support.consumers import ARM, RUN, Client, message, spec_of
from support.evidence import RUN as SCENARIO
from support.patience import PATIENCE_S

from delivery_verifier.applications import database, process
from delivery_verifier.applications.control import Word
from delivery_verifier.applications.database import FILE, DamagedDatabase, Database, OffsetMoved, Tables
from delivery_verifier.applications.database_member import DatabaseMember
from delivery_verifier.applications.incarnations import IncarnationEnd, last_markers, write_end
from delivery_verifier.applications.journal import read_journal
from delivery_verifier.applications.parking import POINTS
from delivery_verifier.applications.sink import IncarnationEffects, PlannedEffect, SinkInputs
from delivery_verifier.applications.slots import Slots
from delivery_verifier.applications.spec import incarnation_folder
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model import record
from delivery_verifier.model.application import STORED, CrashPoint, Discipline

BOTH, NEITHER = ([0, 1, 2, 3], 4), ([0, 1], 2)
STATES: dict[CrashPoint, dict[str, tuple[list[int], int]]] = {
    "polled": {},
    "committed_first": {},
    "applied": {},
    "rows_committed": {"database_apart": (BOTH[0], NEITHER[1])},
    "offset_written": {"database_apart": (BOTH[0], NEITHER[1])},
    "committed": dict.fromkeys(STORED, BOTH),
}
"""For each crash point in the second batch of two records: what is in the database after a crash, if it is not what the
batch before has left behind. The state is the rows, by offset, and the offset."""
CASES = [(point, discipline) for point in STATES for discipline in STORED]


def member_of(
    folder: Path, discipline: Discipline, messages: list[Any], incarnation: int = 0
) -> tuple[DatabaseMember, Client]:
    """Returns a member that applies `messages` and then ends, and its client."""
    spec = spec_of(folder / "0", discipline, incarnation=incarnation)
    client = Client(messages, lambda: member.stop())
    member = DatabaseMember(spec, cast(Consumer, client))
    return member, client


def state_of(folder: Path) -> tuple[list[int], int]:
    """Returns the offsets of the rows in the database, in order, and the offset to start from."""
    with closing(sqlite3.connect(folder / FILE)) as connection:
        rows = [offset for (offset,) in connection.execute('SELECT "offset" FROM effects ORDER BY "order"')]
        return rows, dict(connection.execute('SELECT "partition", "next" FROM offsets')).get(0, 0)


def inputs_of(folder: Path, batch: int = 2) -> SinkInputs:
    return SinkInputs(SCENARIO.canary, folder, batch, RUN, {})


def ended(folder: Path, applied: int, killed: bool = False, incarnation: int = 0) -> None:
    """Notes that an incarnation of member 0 ended, in which it counted `applied` effects."""
    path = folder / "0" / str(incarnation)
    path.mkdir(parents=True, exist_ok=True)
    write_end(path, IncarnationEnd(applied=applied, exit_code=-9 if killed else 0, killed=killed))


def read(folder: Path) -> list[IncarnationEffects]:
    return list(Tables().read(inputs_of(folder)))


@pytest.mark.parametrize(("point", "discipline"), CASES)
def test_a_crash_leaves_of_rows_and_offset_what_the_discipline_promises(
    point: CrashPoint, discipline: Discipline, tmp_path: Path
) -> None:
    """The files of the database, copied while the member is parked, are what a SIGKILL leaves behind."""
    member, _ = member_of(tmp_path / "app", discipline, [message(offset) for offset in range(4)])
    control = member.control
    control[Word.PARK_AT], control[Word.PARK_BATCH], control[Word.PARK_RECORD] = POINTS.index(point) + 1, 2, 1
    control[Word.PARKS] += 1
    crash = tmp_path / "crash"
    member.database.close()  # a connection belongs to its thread

    def run() -> None:
        member.database = member.effects = Database(tmp_path / "app", 0, 0)
        member.run()
        member.database.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        wait_until(lambda: control[Word.PARKED] == 1, "the member to park", PATIENCE_S)
        crash.mkdir()
        for file in (tmp_path / "app").glob(f"{FILE}*"):
            shutil.copy(file, crash / file.name)
        in_progress = control[Word.HANDED_OVER] - control[Word.COMMITTED]
    finally:
        member.stop()
        thread.join(PATIENCE_S)
    assert state_of(crash) == STATES[point].get(discipline, NEITHER)
    assert in_progress == (0 if point == "committed" else 2)
    assert state_of(tmp_path / "app") == BOTH
    assert [control[word] for word in (Word.HANDED_OVER, Word.APPLIED, Word.COMMITTED)] == [4, 4, 4]


@pytest.mark.parametrize("discipline", STORED)
def test_a_member_starts_from_the_offset_in_the_database_whatever_its_group_says(
    discipline: Discipline, tmp_path: Path
) -> None:
    first, client = member_of(tmp_path, discipline, [message(0), message(1)])
    first.run()
    assert ("assign", -2) in client.did, "nothing is committed: it starts at the beginning, as auto.offset.reset says"
    assert ("commit", 2) in client.did, "the group is told, for those who watch it"
    first.database.close()
    again, client = member_of(tmp_path, discipline, [message(2)], incarnation=1)
    again.run()
    assert ("assign", 2) in client.did and ("report", 2) in client.did, "a group that was set back learns it again"
    again.database.close()
    assert state_of(tmp_path) == ([0, 1, 2], 3)
    events = [(event.what, event.until) for event in read_journal(incarnation_folder(again.spec))]
    assert events[2:5] == [("handed_over", 3), ("committed", 3), ("reported", 3)]


def test_a_group_that_refuses_a_commit_takes_nothing_from_the_database(tmp_path: Path) -> None:
    member, client = member_of(tmp_path, "database_compared", [message(0), message(1)])
    client.answers = [KafkaError.ILLEGAL_GENERATION]
    member.run()
    assert state_of(tmp_path) == ([0, 1], 2) and member.control[Word.COMMITTED] == 2


def moved(folder: Path, offset: int) -> None:
    """Moves the offset in the database, as another member does."""
    with closing(Database(folder, 1, 0)) as other:
        other.set_offsets({0: offset})


@pytest.mark.parametrize(("committed", "message_of_error"), [(0, "the offset is not 0"), (2, "the offset is not 2")])
def test_a_zombie_that_compares_ends_and_one_that_does_not_writes_its_rows_again(
    committed: int, message_of_error: str, tmp_path: Path
) -> None:
    for discipline in ("database_compared", "database_together"):
        folder = tmp_path / discipline
        folder.mkdir()
        if committed:
            moved(folder, committed)
        zombie, client = member_of(folder, cast(Discipline, discipline), [message(committed), message(committed + 1)])
        client.when_handed = partial(moved, folder, 60)
        if discipline == "database_together":
            zombie.run()
            assert state_of(folder) == ([committed, committed + 1], committed + 2), "the offset is set back, too"
            continue
        with pytest.raises(OffsetMoved, match=f"partition 0: {message_of_error} any more"):
            zombie.run()
        zombie.database.close()
        assert state_of(folder) == ([], 60) and zombie.control[Word.APPLIED] == 0


def test_the_process_of_a_zombie_that_compares_ends_with_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = spec_of(tmp_path / "0", "database_compared")
    client = Client([message(0)], lambda: None)
    client.when_handed = partial(moved, tmp_path, 7)
    monkeypatch.setattr(process, "consumer_of", lambda spec: client)
    monkeypatch.setattr(process.signal, "signal", lambda *_: None)
    (tmp_path / "spec.json").write_bytes(msgspec.json.encode(spec))
    monkeypatch.setattr(process.sys, "argv", ["member", str(tmp_path / "spec.json")])
    assert process.main() == 5
    assert "the offset is not 0 any more" in capsys.readouterr().err


def test_a_marker_is_noted_once_its_row_is_committed(tmp_path: Path) -> None:
    member, _ = member_of(tmp_path, "database_together", [message(7, producer=record.MARKER_PRODUCER)])
    member.run()
    assert last_markers(incarnation_folder(member.spec)) == {0: 7} and member.control[Word.MARKERS] == 1


EFFECTS = [
    PlannedEffect(0, offset, record.encode(run, ARM, 1, 2, offset, 3, offset + 4, 100))
    for offset, run in ((5, RUN), (6, RUN), (5, "otherrun"))
] + [PlannedEffect(1, 9, b"nothing of ours")]


def test_effects_of_a_table_are_those_of_slots(tmp_path: Path) -> None:
    inputs = {name: inputs_of(tmp_path / name)._replace(batch=4) for name in ("table", "slots")}
    for name, sink in (("table", Tables()), ("slots", Slots())):
        cast(Any, sink).plant(inputs[name], EFFECTS)
    (table,), (slots,) = Tables().read(inputs["table"]), Slots().read(inputs["slots"])
    names = [name for name in slots.rows.dtype.names or () if name not in ("order", "applied_at")]
    assert table.rows[names].tolist() == slots.rows[names].tolist()
    assert table[:2] == slots[:2] == (0, 0) and table.counted == slots.counted == 4
    assert table.rows["order"].tolist() == [1, 2, 3, 4] and table.rows["applied_at"].min() > 0
    assert table.rows["sequence"].tolist() == [5, 6, 5, 0]


def damaged(change: Callable[[sqlite3.Connection], object]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as connection:
            change(connection)

    return damage


@pytest.mark.parametrize(
    ("killed", "applied", "present", "counted"),
    [
        (False, 4, 4, 4),
        (False, 4, 3, 4),
        (True, 2, 4, 4),
        (True, 1, 4, 1),
        (True, 4, 3, 4),
    ],
    ids=["whole", "shortened", "killed before it counted", "more than a batch", "killed and shortened"],
)
def test_a_table_that_was_shortened_differs_from_the_count_of_its_writer(
    killed: bool, applied: int, present: int, counted: int, tmp_path: Path
) -> None:
    """The invariant `effects_read` compares this count with the rows."""
    Tables().plant(inputs_of(tmp_path), EFFECTS)
    ended(tmp_path, applied, killed)
    damaged(lambda it: it.execute('DELETE FROM effects WHERE "order" > ?', (present,)))(tmp_path)
    (effects,) = read(tmp_path)
    assert (len(effects.rows), effects.counted) == (present, counted)


def test_rows_that_the_reader_loses_differ_from_a_count_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Tables().plant(inputs_of(tmp_path), EFFECTS)
    columns = database._COLUMNS
    monkeypatch.setattr(database, "_COLUMNS", f"{columns} FROM (SELECT * FROM effects LIMIT 3) AS effects --")
    (effects,) = read(tmp_path)
    assert (len(effects.rows), effects.counted) == (3, 4)


def test_rows_of_an_incarnation_that_nobody_started_break_the_invariants(tmp_path: Path) -> None:
    Tables().plant(inputs_of(tmp_path), EFFECTS)
    damaged(lambda it: it.execute('UPDATE effects SET incarnation = 7 WHERE "order" = 1'))(tmp_path)
    assert [(effects.incarnation, len(effects.rows), effects.counted) for effects in read(tmp_path)] == [
        (0, 3, 4),
        (7, 1, -1),
    ]


def test_an_incarnation_that_wrote_nothing_has_no_rows_and_a_database_that_is_gone_is_no_basis_of_a_verdict(
    tmp_path: Path,
) -> None:
    Database(tmp_path, 0, 0).close()
    ended(tmp_path, 0)
    assert [(effects.counted, len(effects.rows)) for effects in read(tmp_path)] == [(0, 0)]
    for file in tmp_path.glob(f"{FILE}*"):
        file.unlink()
    with pytest.raises(sqlite3.OperationalError):
        read(tmp_path)


def test_a_damaged_database_is_no_basis_of_a_verdict(tmp_path: Path) -> None:
    """Two rows change places in their page. SQLite still reads all rows, in the wrong order."""
    Tables().plant(inputs_of(tmp_path), EFFECTS)
    content = bytearray((tmp_path / FILE).read_bytes())
    (page,) = (
        page for page in range(4096, len(content), 4096) if content[page] == 0x0D and content[page + 4] == len(EFFECTS)
    )
    first, second = slice(page + 8, page + 10), slice(page + 10, page + 12)  # where the rows lie in the page
    content[first], content[second] = content[second], content[first]
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(DamagedDatabase, match="is damaged"):
        read(tmp_path)
