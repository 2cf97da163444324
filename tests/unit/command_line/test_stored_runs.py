"""Tests of stored runs that are damaged or incomplete, and of folders that are no run. Each of them gives one line of
error, and never a verdict."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import report_material
from support.refusals import bare_host, refused

from delivery_verifier.command_line import main as cli
from delivery_verifier.model.data import dumps
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.steps import MANIFESTS
from delivery_verifier.run_directory import ledger
from delivery_verifier.run_directory.format import FORMAT, schema_digest
from delivery_verifier.run_directory.manifests import sealed
from delivery_verifier.run_directory.run_directory import IncompleteRun, RunDirectory
from spark_jobs.schemas import LOG, arrow, check_log


@pytest.fixture(autouse=True)
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return bare_host(tmp_path, monkeypatch)


def judged(folder: Path, run_id: str = "judged") -> RunDirectory:
    path, verdict = report_material.held(folder, run_id)
    run = RunDirectory(path)
    with run.writing("conclude") as output:
        output.write_json("verdict.json", verdict)
    return run


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _reseal_verdict(run: RunDirectory, change: Callable[[dict[str, Any]], object]) -> None:
    text = msgspec.json.decode((run.path / "verdict.json").read_bytes())
    change(text)
    with run.writing("conclude") as output:
        output.write_json("verdict.json", text)


def _unsealed(run: RunDirectory) -> None:
    manifest = msgspec.structs.replace(run.manifest("conclude"), files={})
    (run.path / "conclude.json").write_bytes(dumps(sealed(manifest)))


def _outside(run: RunDirectory) -> None:
    manifest = msgspec.structs.replace(run.manifest("conclude"), files={"../../secret": "0"})
    (run.path / "conclude.json").write_bytes(dumps(sealed(manifest)))


def _edit(run: RunDirectory, name: str, old: str, new: str) -> None:
    file = run.path / name
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new, 1))


DAMAGE: dict[str, tuple[Callable[[RunDirectory], object], tuple[str, ...]]] = {
    "no manifest": (
        lambda run: (run.path / "conclude.json").unlink(),
        ("step conclude did not finish", "conclude.json is missing"),
    ),
    "an altered verdict": (
        lambda run: _edit(run, "verdict.json", "HELD", "HELD "),
        ("verdict.json is not as step conclude wrote it", "SHA-256"),
    ),
    "no verdict": (lambda run: (run.path / "verdict.json").unlink(), ("verdict.json", "is missing")),
    "a verdict that was never sealed": (_unsealed, ("verdict.json is not among the files",)),
    "a manifest that names a file outside": (_outside, ("'../../secret' is outside the run directory",)),
    "a manifest that is cut": (lambda run: _cut(run.path / "conclude.json"), ("conclude.json is damaged",)),
    "a manifest that is a folder": (
        lambda run: ((run.path / "conclude.json").unlink(), (run.path / "conclude.json").mkdir()),
        ("conclude.json is missing",),
    ),
    "a verdict with an unknown field": (
        lambda run: _reseal_verdict(run, lambda text: text.update(extra=1)),
        ("verdict.json is damaged", "extra", "kdv reconcile"),
    ),
    "a verdict with an unknown word": (
        lambda run: _reseal_verdict(run, lambda text: text.update(verdict="FINE")),
        ("verdict.json is damaged", "FINE"),
    ),
    "a verdict without its arms": (
        lambda run: _reseal_verdict(run, lambda text: text.pop("arms")),
        ("verdict.json is damaged", "arms"),
    ),
    "a scenario that is cut": (
        lambda run: _cut(run.path / "scenario.json"),
        ("scenario.json is not as `plan` wrote it",),
    ),
    "a scenario with an unknown field": (
        lambda run: _edit(run, "scenario.json", '"seed"', '"sead"'),
        ("scenario.json", "sead"),
    ),
    "a scenario with a NaN": (
        lambda run: _edit(run, "scenario.json", '"recovery_s": 2.0', '"recovery_s": NaN'),
        ("scenario.json", "not as `plan` wrote it"),
    ),
    "a scenario with a huge number": (
        lambda run: _edit(run, "scenario.json", '"records": 40000', '"records": 1e999'),
        ("scenario.json",),
    ),
    "a scenario with an arm twice": (
        lambda run: _edit(run, "scenario.json", '"name": "control-acks_0"', '"name": "safe"'),
        ("names and ordinals must be unique",),
    ),
    "no scenario": (lambda run: (run.path / "scenario.json").unlink(), ("is no",)),
    "an empty scenario": (lambda run: (run.path / "scenario.json").write_text(""), ("scenario.json",)),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_run_gives_no_verdict_and_says_what_is_wrong(
    capsys: pytest.CaptureFixture[str], host: Path, damage: str
) -> None:
    run = judged(host)
    change, parts = DAMAGE[damage]
    change(run)
    parts = parts if parts != ("is no",) else ("run is ", "a run directory")
    refused(capsys, ["report", str(run.path)], *parts)
    refused(capsys, ["reconcile", str(run.path)])


def _file(folder: Path) -> Path:
    (folder / "plain").write_text("x")
    return folder / "plain"


def _loop(folder: Path) -> Path:
    (folder / "loop").symlink_to(folder / "loop")
    return folder / "loop"


def _empty(folder: Path) -> Path:
    (folder / "empty").mkdir()
    return folder / "empty"


@pytest.mark.parametrize(
    "make",
    [
        _file,
        _loop,
        _empty,
        lambda folder: "x" * 300,
        lambda folder: "",
        lambda folder: "../..",
        lambda folder: "no\x00name",
        lambda folder: "a\nb",
        lambda folder: "../judged",
        lambda folder: "/proc/self/mem",
    ],
    ids=[
        "a file",
        "a loop",
        "an empty folder",
        "300 characters",
        "nothing",
        "a parent",
        "a NUL",
        "two lines",
        "a path as a name",
        "a device",
    ],
)
def test_what_is_no_run_directory_is_refused(
    capsys: pytest.CaptureFixture[str], host: Path, make: Callable[[Path], object]
) -> None:
    judged(host / "home" / "runs")
    given = str(make(host))
    for command in ("report", "reconcile"):
        refused(capsys, [command, given], "run is ", "a run directory, or the name of a run in")


def test_a_name_that_is_nearly_one_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str], host: Path) -> None:
    judged(host / "home" / "runs", "nightly-7")
    refused(capsys, ["report", "nightly-8"], "run is 'nightly-8'", "did you mean nightly-7?")
    refused(capsys, ["report", str(host / "home/runs/nightly-7/verdict.json")], "give its folder")


@pytest.mark.parametrize("name", ["kdv-run 0", "kdv-run 2"])
def test_every_command_that_reads_a_stored_run_refuses_another_format_by_name(
    capsys: pytest.CaptureFixture[str], host: Path, name: str
) -> None:
    run = judged(host / "home" / "runs")
    for file in (run.path / f"{step}.json" for step in MANIFESTS):
        if file.is_file():
            manifest = msgspec.json.decode(file.read_bytes()) | {"format": name}
            file.write_bytes(msgspec.json.encode(manifest))
    parts = (
        f".json has format {name}; ",
        f"reads format {FORMAT}, schema {schema_digest()} only",
        "make the run again",
    )
    for command in (["report"], ["reconcile"], ["compare", str(run.path)], ["price", "--from"]):
        refused(capsys, [*command, str(run.path)], *parts)
    assert cli.main(["list", "runs"]) == 0
    assert all(part in capsys.readouterr().out for part in parts[:1])


def test_a_sound_run_is_reported_by_name_and_by_path(capsys: pytest.CaptureFixture[str], host: Path) -> None:
    run = judged(host / "home" / "runs")
    assert cli.main(["report", "judged"]) == cli.main(["report", str(run.path)]) == 0
    assert "HELD" in capsys.readouterr().out


def test_a_list_of_runs_survives_damaged_ones(capsys: pytest.CaptureFixture[str], host: Path) -> None:
    for damage, (change, _) in DAMAGE.items():
        change(judged(host / "home" / "runs", damage.replace(" ", "-")))
    assert cli.main(["list", "runs"]) == 0
    assert "no verdict" in capsys.readouterr().out


def test_a_file_that_no_step_wrote_is_not_read_along(host: Path) -> None:
    run = judged(host)
    shutil.copyfile(run.path / "counts/invariants.parquet", run.path / "counts/more.parquet")
    with pytest.raises(IncompleteRun, match=r"counts/more.parquet was written by no step"):
        run.require("reconcile")


LEDGER_ROW: dict[str, Any] = {"arm": "a", "producer": 0, "session": 0, "sequence": 0, "attempt": 0, "partition": 0}


def _parquet(file: Path, table: pa.Table) -> Path:
    pq.write_table(table, file)
    return file


def test_a_parquet_file_that_is_no_ledger_is_refused(tmp_path: Path) -> None:
    whole = _parquet(tmp_path / "whole.parquet", ledger.SCHEMA.empty_table())
    ledger.check_schema(whole)
    cases: list[tuple[Path, str]] = [
        (
            _parquet(tmp_path / "a", ledger.SCHEMA.empty_table().drop_columns(["outcome"])),
            "outcome: missing, expected string",
        ),
        (
            _parquet(tmp_path / "b", ledger.SCHEMA.empty_table().append_column("x", pa.array([], pa.int8()))),
            "x: unknown column",
        ),
        (_parquet(tmp_path / "c", pa.table({"arm": pa.array([], pa.int8())})), "arm: int8, expected string"),
        (tmp_path / "missing", "cannot be read as Parquet"),
    ]
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "text").write_text("arm,producer\n")
    (tmp_path / "cut").write_bytes(whole.read_bytes()[:-20])
    cases += [(tmp_path / name, "cannot be read as Parquet") for name in ("empty", "text", "cut")]
    for file, told in cases:
        with pytest.raises(BadInput, match=told):
            ledger.check_schema(file)


def test_a_parquet_file_that_is_no_log_is_refused_where_spark_would_read_nulls(tmp_path: Path) -> None:
    table = arrow(LOG).empty_table()
    check_log(_parquet(tmp_path / "whole", table))
    with pytest.raises(BadInput, match="crc_ok: missing, expected bool"):
        check_log(_parquet(tmp_path / "a", table.drop_columns(["crc_ok"])))
    with pytest.raises(BadInput, match="offset: string, expected int64"):
        check_log(_parquet(tmp_path / "b", table.set_column(2, "offset", pa.array([], pa.string()))))
    with pytest.raises(BadInput, match="mine: unknown column"):
        check_log(_parquet(tmp_path / "c", table.append_column("mine", pa.array([], pa.int8()))))


def test_a_run_directory_from_elsewhere_has_no_folder_removed_that_it_names(host: Path) -> None:
    from delivery_verifier.pipeline.steps.conclude import _clear_workspace

    victim = host / "victim"
    victim.mkdir()
    (victim / "agent.json").write_text("{}")
    run = judged(host)
    with run.writing("start_cluster") as output:
        output.notes["workspace"] = str(victim)
    _clear_workspace(run, run.read_scenario().run_token, keep=False)
    assert (victim / "agent.json").exists()
