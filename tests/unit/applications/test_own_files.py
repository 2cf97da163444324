"""Tests of the files of user applications: effects that the reader loses, or sees twice, are no anomalies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import user_applications
from support.own_members import ARM, SIZE, Member, value

from delivery_verifier.applications.control import Control
from delivery_verifier.applications.incarnations import IncarnationEnd, read_end, write_end
from delivery_verifier.applications.member_process import MemberProcess
from delivery_verifier.applications.own import files
from delivery_verifier.applications.own.described import location_of
from delivery_verifier.applications.own.files import sizes_of
from delivery_verifier.applications.own.process import Progress
from delivery_verifier.applications.own.scan import RecordPattern, Scan
from delivery_verifier.model import record
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.sink_location import SinkLocation


def lines(*sequences: int) -> bytes:
    return b"".join(b'{"value":"%s"}\n' % value(sequence) for sequence in sequences)


@pytest.fixture
def member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Member:
    monkeypatch.setenv("KDV_APPLICATIONS", str(tmp_path / "own"))
    user_applications.toml(tmp_path / "own", "true", "[effects]", 'where = "{folder}/*.jsonl"')
    return Member(tmp_path)


def test_files_that_only_grow_are_read(member: Member) -> None:
    file = member.work / "out.jsonl"
    file.write_bytes(lines(1, 2))
    member.end_incarnation()
    file.write_bytes(lines(1, 2, 3))
    (member.work / "more.jsonl").write_bytes(lines(4))
    member.end_incarnation()
    assert [incarnation.rows["sequence"].tolist() for incarnation in member.read()] == [[1, 2], [4, 3]]


def test_a_file_with_several_names_is_read_once(member: Member) -> None:
    (member.work / "app-1.jsonl").write_bytes(lines(1, 2))
    (member.work / "a-current.jsonl").symlink_to("app-1.jsonl")
    (member.work / "z.jsonl").hardlink_to(member.work / "app-1.jsonl")
    member.end_incarnation()
    (member.work / "app-2.jsonl").write_bytes(lines(3))
    (member.work / "a-current.jsonl").unlink()
    (member.work / "a-current.jsonl").symlink_to("app-2.jsonl")
    member.end_incarnation()
    assert member.sequences() == [1, 2, 3]


def test_lines_about_receiving_and_applying_are_no_reapplied_records(member: Member) -> None:
    """The lines "received" would also hide records that were not applied."""
    (member.work / "out.jsonl").write_bytes(b"".join(lines(number) * 2 for number in range(40)) + lines(40))
    member.end_incarnation()
    with pytest.raises(StepFailed, match=r"nearly every record 2 times in its incarnation 0.*effects\.containing"):
        member.read()


def test_records_that_are_really_applied_again_stay(member: Member) -> None:
    (member.work / "out.jsonl").write_bytes(lines(*range(40), *range(30)))
    member.end_incarnation()
    (member.work / "out.jsonl").write_bytes(lines(*range(40), *range(30), *range(40)))
    member.end_incarnation()
    assert len(member.sequences()) == 110


def test_a_file_of_the_application_that_changes_during_the_run_ends_the_run(member: Member, tmp_path: Path) -> None:
    (member.work / "out.jsonl").write_bytes(lines(1))
    member.end_incarnation()
    assert member.sequences() == [1]
    user_applications.toml(tmp_path / "own", "true", "[effects]", 'where = "{folder}/*.json"')
    with pytest.raises(StepFailed, match=r"sink\.toml has changed during the run"):
        member.read()


def test_several_members_of_a_scenario_do_not_share_a_path(member: Member, tmp_path: Path) -> None:
    """The file of the application says one member. A scenario that was written by hand may say two."""
    user_applications.toml(tmp_path / "own", "true", "[effects]", f'where = "{tmp_path}/out.jsonl"')
    (arm,) = user_applications.scenario(members=2).subjects
    with pytest.raises(BadInput, match=r"sink\.toml: effects\.where is one path for several members.*members = 1"):
        location_of(member.inputs._replace(arm=arm))


def test_a_file_that_vanishes_while_the_folder_is_read_is_left_out(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program removes a file, e.g. a temporary one, after the folder was listed."""
    for name in ("a", "b"):
        (member.work / f"{name}.jsonl").write_bytes(lines(1))
    glob = Path.glob

    def outdated(folder: Path, pattern: str) -> list[Path]:
        paths = list(glob(folder, pattern))
        (member.work / "a.jsonl").unlink(missing_ok=True)
        return paths

    is_file = Path.is_file
    monkeypatch.setattr(Path, "is_file", lambda path: path.name == "a.jsonl" or is_file(path))
    monkeypatch.setattr(Path, "glob", outdated)
    assert list(sizes_of(location_of(member.inputs), member.folder)) == [str(member.work / "b.jsonl")]


def test_the_scan_does_not_count_itself(member: Member, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scan that takes records of the run for foreign ones breaks the invariant `effects_read`, in Parquet files,
    too."""
    user_applications.toml(
        tmp_path / "own", "true", "[effects]", 'kind = "files"', 'where = "{folder}/*.parquet"', 'identity = "header"'
    )
    other = record.encode("ffffffff", ARM.ordinal, 0, 0, 9, 0, 9, SIZE)
    rows = [value(1).decode(), other.decode(), None, value(2).decode(), f"{other.decode()} {value(3).decode()}"]
    pq.write_table(pa.table({"value": rows}), member.work / "part.parquet")
    member.end_incarnation()
    assert member.sequences() == [1, 0, 2, 3]
    assert read_end(member.folder / "0").applied == 4
    read = files.scans_of

    def blind(location: SinkLocation, file: Path, pattern: RecordPattern) -> Iterator[Scan]:
        for part in read(location, file, pattern):
            yield Scan(part.rows[1:], part.positions[1:], part.foreign + 1)

    monkeypatch.setattr(files, "scans_of", blind)
    (incarnation,) = member.read()
    assert (incarnation.counted, len(incarnation.rows)) == (4, 3)


@pytest.mark.parametrize("rotation", ["rename", "truncate", "fewer and larger"])
def test_a_rotated_file_is_no_loss_of_the_program(member: Member, rotation: str) -> None:
    file = member.work / "out.jsonl"
    file.write_bytes(lines(1, 2, 3))
    member.end_incarnation()
    if rotation == "rename":
        file.rename(member.work / "out.jsonl.1")
    elif rotation == "truncate":
        file.write_bytes(lines(4))
    else:
        file.write_bytes(b"x" * 1000 + lines(4))
    member.incarnation += 1
    (member.folder / "1").mkdir()
    write_end(member.folder / "1", IncarnationEnd(applied=0, exit_code=0, killed=False))
    with pytest.raises(StepFailed, match="let the program only append"):
        member.read()


@pytest.mark.parametrize("is_new_incarnation", [False, True])
def test_a_file_that_is_written_anew_and_larger_at_once_ends_the_run(member: Member, is_new_incarnation: bool) -> None:
    file, reader = member.work / "out.jsonl", member.reader
    file.write_bytes(lines(1, 2))
    reader.sizes()
    member.end_incarnation()
    file.write_bytes(lines(1, 2, 3))
    (member.reader if is_new_incarnation else reader).sizes()
    file.write_bytes(lines(4, 5, 6, 7))
    with pytest.raises(StepFailed, match=r"was written anew: .* must not truncate or replace"):
        (member.reader if is_new_incarnation else reader).sizes()


def test_a_file_that_shrinks_while_the_program_runs_ends_the_run(member: Member) -> None:
    file, control = member.work / "out.jsonl", Control(member.folder)
    progress = Progress.begin(member.inputs, 0, control)
    process = MemberProcess(ARM, ARM.application, 0, member.folder, control, progress=progress)  # type: ignore[arg-type]
    file.write_bytes(lines(1, 2))
    member.end_incarnation()
    (member.folder / "1").mkdir()
    for name in ("stdout", "stderr"):
        (member.folder / "0" / name).touch()
    process.update()
    file.write_bytes(lines(1, 2, 3))
    process.update()
    file.write_bytes(lines(4, 5))
    with pytest.raises(StepFailed, match=r"has shrunk from .* it must not rotate, truncate"):
        process.update()
    process.sizes.clear()  # as in the next step of the run, which knows the ends of earlier incarnations
    file.write_bytes(lines(4))
    with pytest.raises(StepFailed, match="has shrunk"):
        process.update()
    file.unlink()
    with pytest.raises(StepFailed, match="is gone"):
        process.update()


def test_the_end_of_an_incarnation_is_there_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = list[bool]()

    def replace(self: Path, target: Path) -> Path:
        moved.append(target.exists())
        os.replace(self, target)
        return target

    monkeypatch.setattr(Path, "replace", replace)
    write_end(tmp_path, IncarnationEnd(applied=3, exit_code=0, killed=False))
    assert moved == [False] and read_end(tmp_path).applied == 3
