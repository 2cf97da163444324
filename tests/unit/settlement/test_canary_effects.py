"""Tests of the canary's effects: they go through every sink of a run, and a sink that changes them is noticed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from support import user_applications
from support.applications import application
from support.evidence import RUN

from delivery_verifier import canary
from delivery_verifier.applications.database import FILE, Tables
from delivery_verifier.applications.own import files, sink
from delivery_verifier.applications.own.scan import RecordPattern, Scan
from delivery_verifier.applications.own.table import Table
from delivery_verifier.applications.sink import IncarnationEffects, SinkInputs
from delivery_verifier.applications.sinks import sinks_of
from delivery_verifier.model.application import SINKS, Discipline
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.sink_location import SinkLocation
from delivery_verifier.model.snapshot import Offsets, PartitionSnapshot
from delivery_verifier.run_directory.run_directory import StepOutput
from delivery_verifier.settlement.canary_effects import apply_canary


class Output(StepOutput):
    """The output of a step that is never published."""

    def __init__(self, folder: Path) -> None:
        self.staging, self.counts, self.notes = folder, {}, {}
        folder.mkdir()


def scenario_of(*disciplines: Discipline) -> Scenario:
    """Returns a scenario with an arm for each of `disciplines`, and the canary."""
    plain = RUN.subjects[0]
    arms = [replace(plain, name=name, application=application(name)) for name in disciplines]
    return replace(RUN, arms=(*arms, RUN.canary))


def applied(folder: Path, *disciplines: Discipline) -> Output:
    """Applies the canary of a scenario with `disciplines`. Returns the output of the step."""
    scenario, output = scenario_of(*disciplines), Output(folder / "output")
    layout, ends = canary.lay_out(scenario), Counter[int]()
    offsets = []
    for partition, _ in layout.values:
        offsets.append(ends[partition])
        ends[partition] += 1
    part = PartitionSnapshot(
        arm=RUN.canary.name,
        topic=RUN.canary.topic_name,
        partition=0,
        start=0,
        end=ends[0],
        live_end=ends[0] + 1,
        leader=1,
        leader_epoch=0,
    )
    snapshot = Offsets(bootstrap_servers="", taken_at_us=0, partitions=[part])
    apply_canary(scenario, layout, offsets, snapshot, folder / "sinks", {}, output)
    return output


def test_the_canary_goes_through_every_sink_that_the_run_uses(tmp_path: Path) -> None:
    output = applied(tmp_path, "database_apart", "commit_after")
    assert {folder.name for folder in (tmp_path / "sinks").iterdir()} == {"slots", "table"}
    (file,) = (output.staging / "effects").iterdir()
    assert pq.read_table(file).num_rows == output.counts["applied/canary/0/0"] > 10
    assert output.counts["incarnations/canary"] == 1


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user applications, with the application `sink`."""
    folder = tmp_path / "applications"
    monkeypatch.setenv("KDV_APPLICATIONS", str(folder))
    user_applications.toml(folder, "true")
    return folder


@pytest.mark.parametrize("discipline", [name for name, kind in SINKS.items() if kind != "topic"])
def test_a_run_with_one_kind_of_sink_has_the_same_canary_as_any_other(discipline: Discipline, tmp_path: Path) -> None:
    names = ["partition", "offset", "sequence", "attempt", "parsed", "crc_ok", "foreign", "nth"]
    rows = []
    for number, name in enumerate(("commit_after", discipline)):
        (tmp_path / str(number)).mkdir()
        (file,) = (applied(tmp_path / str(number), name).staging / "effects").iterdir()  # type: ignore[arg-type]
        rows.append(pq.read_table(file, columns=names).to_pylist())
    assert rows[0] == rows[1]


def test_a_sink_that_changes_the_canary_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Tables.read

    def altered(sink: Tables, inputs: SinkInputs) -> Iterator[IncarnationEffects]:
        for incarnation in read(sink, inputs):
            incarnation.rows["sequence"][3] += 1
            yield incarnation

    monkeypatch.setattr(Tables, "read", altered)
    with pytest.raises(StepFailed, match="differ between the sinks slots and table"):
        applied(tmp_path, "database_apart", "commit_after")


def test_a_partition_below_zero_does_not_switch_off_the_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Tables.read

    def altered(sink: Tables, inputs: SinkInputs) -> Iterator[IncarnationEffects]:
        for incarnation in read(sink, inputs):
            incarnation.rows["partition"][3] = -1
            yield incarnation

    monkeypatch.setattr(Tables, "read", altered)
    with pytest.raises(StepFailed, match="differ between the sinks slots and table"):
        applied(tmp_path, "database_apart", "commit_after")


def test_a_canary_that_its_only_sink_loses_breaks_its_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The invariant `effects_read` compares the count with the rows, and the judge expects the canary's effects."""
    read = Tables.read

    def shortened(sink: Tables, inputs: SinkInputs) -> Iterator[IncarnationEffects]:
        yield from (incarnation._replace(rows=incarnation.rows[:-1]) for incarnation in read(sink, inputs))

    monkeypatch.setattr(Tables, "read", shortened)
    output = applied(tmp_path, "database_apart")
    (file,) = (output.staging / "effects").iterdir()
    assert pq.read_table(file).num_rows == output.counts["applied/canary/0/0"] - 1
    assert (tmp_path / "sinks" / "table" / FILE).is_file()


LOCATIONS = (
    "",
    'where = "{folder}/*.jsonl"',
    'where = "/never/written/**/out-*.jsonl"\ncontaining = "APPLIED"',
    'identity = "header"\ncontaining = "value"',
    'kind = "files"\nwhere = "{folder}/out/*.parquet"\ncolumn = "payload"',
    'kind = "files"\nwhere = "/never/*.parquet"\nidentity = "header"',
    'kind = "files"\nwhere = "{folder}/*.parquet"\nidentity = "columns"',
    'kind = "table"\nwhere = "DSN"\ntable = "sales.orders"\ncolumn = "payload"',
    'kind = "table"\nwhere = "DSN"\ntable = "orders"\nidentity = "header"',
    'kind = "table"\nwhere = "DSN"\ntable = "orders"\nidentity = "columns"',
)
DSN = '[environment]\nDSN = "postgresql://nobody:never-reached@invalid/d"'


@pytest.mark.parametrize("location", LOCATIONS)
def test_the_canary_goes_to_the_place_of_each_user_application(own: Path, tmp_path: Path, location: str) -> None:
    (own / "sink.toml").write_text(f'command = "true"\n[effects]\n{location}\n{DSN}\n')
    output = applied(tmp_path, "own")
    assert {folder.name for folder in (tmp_path / "sinks").iterdir()} == {"slots", "own sink"}
    assert output.counts["applied/canary/0/0"] > 10
    work = tmp_path / "sinks" / "own sink" / "0" / "work"
    assert [file.suffix for file in work.rglob("*.*")] == [
        suffix for suffix in (".jsonl", ".parquet") if f'{suffix}"' in location
    ]


@pytest.mark.parametrize("location", LOCATIONS)
def test_a_reader_that_is_blind_for_a_place_ends_the_run(
    own: Path, tmp_path: Path, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own / "sink.toml").write_text(f'command = "true"\n[effects]\n{location}\n{DSN}\n')
    read = files.scans_of

    def blind(place: SinkLocation, file: Path, pattern: RecordPattern) -> Iterator[Scan]:
        for part in read(place, file, pattern):
            part.rows["sequence"][part.rows["sequence"] == 3] = 4
            yield part

    monkeypatch.setattr(files, "scans_of", blind)
    scan = Table._scan

    def blind_in_tables(*given: Any) -> Scan:
        part = scan(*given)
        part.rows["sequence"][part.rows["sequence"] == 3] = 4
        return part

    monkeypatch.setattr(Table, "_scan", blind_in_tables)
    with pytest.raises(StepFailed, match="differ between the sinks slots and own sink"):
        applied(tmp_path, "own")


def test_a_reader_that_takes_all_lines_ends_the_run(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own / "sink.toml").write_text('command = "true"\n[effects]\ncontaining = "APPLIED"\n')
    of_arm = sink.pattern_of
    monkeypatch.setattr(sink, "pattern_of", lambda *given: of_arm(*given)._replace(containing=b""))
    with pytest.raises(StepFailed, match="differ between the sinks slots and own sink"):
        applied(tmp_path, "own")


def test_every_discipline_has_a_sink() -> None:
    assert sinks_of(set(SINKS)).keys() == set(SINKS.values())
