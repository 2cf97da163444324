"""Tests of the canary's effects: they go through every sink of a run, and a sink that changes them is noticed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from support.applications import application
from support.evidence import RUN

from delivery_verifier.applications.database import FILE, Tables
from delivery_verifier.applications.sink import LifeEffects, SinkInputs
from delivery_verifier.applications.sinks import sinks_of
from delivery_verifier.judgement import canary
from delivery_verifier.model.application import SINKS, Discipline
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.snapshot import Offsets, PartitionSnapshot
from delivery_verifier.run.canary_effects import apply_canary
from delivery_verifier.store.run_directory import StepOutput


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
    assert output.counts["lives/canary"] == 1


@pytest.mark.parametrize("discipline", SINKS)
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

    def altered(sink: Tables, inputs: SinkInputs) -> Iterator[LifeEffects]:
        for life in read(sink, inputs):
            life.rows["sequence"][3] += 1
            yield life

    monkeypatch.setattr(Tables, "read", altered)
    with pytest.raises(StepFailed, match="differ between the sinks slots and table"):
        applied(tmp_path, "database_apart", "commit_after")


def test_a_canary_that_its_only_sink_loses_breaks_its_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The law `effects_read` compares the count with the rows, and the judge expects the canary's effects."""
    read = Tables.read

    def shortened(sink: Tables, inputs: SinkInputs) -> Iterator[LifeEffects]:
        yield from (life._replace(rows=life.rows[:-1]) for life in read(sink, inputs))

    monkeypatch.setattr(Tables, "read", shortened)
    output = applied(tmp_path, "database_apart")
    (file,) = (output.staging / "effects").iterdir()
    assert pq.read_table(file).num_rows == output.counts["applied/canary/0/0"] - 1
    assert (tmp_path / "sinks" / "table" / FILE).is_file()


def test_every_discipline_has_a_sink() -> None:
    assert sinks_of(set(SINKS)).keys() == set(SINKS.values())
