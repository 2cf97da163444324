"""Tests of the slots: what a member applied survives its SIGKILL, whole and in order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from delivery_verifier.applications import sealing, slots
from delivery_verifier.applications.sealing import seal_effects
from delivery_verifier.applications.sink import IncarnationEffects
from delivery_verifier.applications.slots import DamagedSlots, SlotWriter, is_marker, read_slots
from delivery_verifier.model import record
from delivery_verifier.run_directory.effect_tables import EFFECTS
from delivery_verifier.run_directory.table import arrow_schema

RUN = "run00001"


def value(sequence: int, arm: int = 1, run: str = RUN, producer: int = 0) -> bytes:
    return record.encode(run, arm, producer, 0, sequence, 0, sequence, 100)


def test_a_slot_divides_the_page_and_its_time_comes_last() -> None:
    assert slots.SLOT.itemsize == 64
    assert list(slots.SLOT.names or ())[-1] == "applied_at"
    assert slots.SLOT.fields is not None
    assert slots.SLOT.fields["applied_at"][1] == 56


def test_what_was_applied_is_read_back_as_effects(tmp_path: Path) -> None:
    writer = SlotWriter(tmp_path / "incarnation")
    values = [value(7), value(8, arm=2), value(9, run="otherrun"), b"nothing of ours", None, value(10)[:-1] + b"x"]
    for offset, applied in enumerate(values):
        writer.append(offset % 2, offset, 3, applied, RUN, 1)
    rows = read_slots(tmp_path / "incarnation")
    assert len(rows) == writer.count == 6
    seal_effects(IncarnationEffects(1, 2, rows, 6), "a", tmp_path / "effects.parquet")
    table = pq.read_table(tmp_path / "effects.parquet")
    assert table.schema.equals(arrow_schema(EFFECTS))
    effects = table.to_pylist()
    assert [row["offset"] for row in effects] == list(range(6))
    assert [row["nth"] for row in effects] == [0, 0, 1, 1, 2, 2], "counted per partition"
    assert {(row["arm"], row["member"], row["incarnation"], row["batch"]) for row in effects} == {("a", 1, 2, 3)}
    flags = [(row["parsed"], row["crc_ok"], row["foreign"]) for row in effects]
    broken = (False, False, False)  # its checksum is no number
    assert flags == [(True, True, False), (True, True, True), (True, True, True), broken, broken, broken]
    orders = [row["order"] for row in effects]
    assert orders == sorted(orders)
    assert effects[0]["sequence"] == 7


def test_effects_are_sealed_in_blocks_and_numbered_in_the_order_of_their_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "BLOCK", 3)
    rows = np.zeros(8, slots.SLOT)
    rows["partition"] = [0, 1, 0, 1, 0, 0, 1, 0]
    rows["order"] = [5, 1, 3, 3, 4, 4, 2, 9]
    seal_effects(IncarnationEffects(0, 0, rows, 8), "a", tmp_path / "effects.parquet")
    effects = pq.read_table(tmp_path / "effects.parquet").to_pylist()
    assert [row["order"] for row in effects] == rows["order"].tolist(), "the rows keep their places"
    assert [row["nth"] for row in effects] == [3, 0, 0, 2, 1, 2, 1, 4], "equal orders: the earlier row comes first"


def test_effects_go_on_in_further_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "SLOTS", 4)
    writer = SlotWriter(tmp_path)
    for sequence in range(9):
        writer.append(0, sequence, 0, value(sequence), RUN, 1)
    assert len(list(tmp_path.iterdir())) == 3
    assert read_slots(tmp_path)["sequence"].tolist() == list(range(9))


def test_an_incarnation_without_effects_has_no_rows(tmp_path: Path) -> None:
    assert len(read_slots(tmp_path)) == 0
    seal_effects(IncarnationEffects(0, 0, read_slots(tmp_path), 0), "a", tmp_path / "none.parquet")
    assert pq.read_table(tmp_path / "none.parquet").num_rows == 0


def test_a_gap_in_the_slots_is_damage_and_no_end(tmp_path: Path) -> None:
    writer = SlotWriter(tmp_path)
    for sequence in range(3):
        writer.append(0, sequence, 0, value(sequence), RUN, 1)
    file = tmp_path / "slots-000000"
    content = np.fromfile(file, slots.SLOT)
    content["applied_at"][1] = 0
    content.tofile(file)
    with pytest.raises(DamagedSlots, match="behind one that is not"):
        read_slots(tmp_path)


def test_an_incarnation_never_writes_into_the_slots_of_another(tmp_path: Path) -> None:
    SlotWriter(tmp_path).append(0, 0, 0, value(0), RUN, 1)
    with pytest.raises(FileExistsError):
        SlotWriter(tmp_path).append(0, 0, 0, value(0), RUN, 1)


def test_only_the_verifiers_own_producer_writes_markers() -> None:
    assert is_marker(value(0, producer=record.MARKER_PRODUCER))
    assert not is_marker(value(0))
    assert not is_marker(None)


def test_an_effect_survives_the_sigkill_of_its_writer(tmp_path: Path) -> None:
    """The writer says after each effect that it is there. All that it has said is found, and at most one more."""
    script = (
        "import sys; from pathlib import Path\n"
        "from delivery_verifier.applications.slots import SlotWriter\n"
        "from delivery_verifier.model import record\n"
        f"writer = SlotWriter(Path({str(tmp_path)!r}))\n"
        "for number in range(10**9):\n"
        f"    writer.append(0, number, 0, record.encode({RUN!r}, 1, 0, 0, number, 0, number, 100), {RUN!r}, 1)\n"
        "    sys.stdout.write(f'{number}\\n'); sys.stdout.flush()\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(2000):
            said = process.stdout.readline()
        process.kill()
        rest = process.stdout.read().split(b"\n")
    claimed = int(rest[-2]) if len(rest) > 1 else int(said)
    sequences = read_slots(tmp_path)["sequence"].tolist()
    assert sequences == list(range(len(sequences)))
    assert claimed + 1 <= len(sequences) <= claimed + 3
