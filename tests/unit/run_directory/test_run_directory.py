"""Tests of the run directory: what may be read from it after a step was repeated, or was started twice."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from support.evidence import RUN

from delivery_verifier.load.pool import AlreadySent, ProducerPool
from delivery_verifier.model.client import CLIENTS
from delivery_verifier.run_directory import digests, format
from delivery_verifier.run_directory.format import FORMAT, schema_digest
from delivery_verifier.run_directory.run_directory import IncompleteRun, RunDirectory

LOAD = ("produce", "inject_fault", "settle")
JUDGING = ("read_topic", "reconcile", "validate", "conclude")


def finished(folder: Path) -> RunDirectory:
    run = RunDirectory(folder)
    for step in ("plan", *LOAD, *JUDGING):
        publish(run, step)
    return run


def publish(run: RunDirectory, step: str) -> None:
    with run.writing(step) as output:
        output.write_json(
            *(("scenario.json", {"run_id": run.path.name}) if step == "plan" else (f"of_{step}.json", {}))
        )
        output.counts["records"] = 7
        output.notes["error"] = "none"


@pytest.mark.parametrize("step", JUDGING)
def test_a_step_that_is_repeated_voids_what_was_read_off_it_before(tmp_path: Path, step: str) -> None:
    run = finished(tmp_path)
    publish(run, step)
    at = JUDGING.index(step) + 1
    run.require("settle", *JUDGING[:at])
    for later in JUDGING[at:]:
        with pytest.raises(IncompleteRun, match=f"step {later} did not finish"):
            run.manifest(later)


def test_a_repetition_that_fails_leaves_everything_as_it_was(tmp_path: Path) -> None:
    run = finished(tmp_path)
    with pytest.raises(ZeroDivisionError), run.writing("reconcile"):
        raise ZeroDivisionError
    run.require("settle", *JUDGING)


@pytest.mark.parametrize("name", ["effects/a-0-1.parquet", "journal/a.parquet"])
@pytest.mark.parametrize("is_damaged", [False, True], ids=["missing", "damaged"])
def test_effects_or_a_journal_that_are_not_as_settle_wrote_them_are_no_basis_of_a_verdict(
    name: str, is_damaged: bool, tmp_path: Path
) -> None:
    run = finished(tmp_path)
    with run.writing("settle") as output:
        (output.staging / name).parent.mkdir()
        (output.staging / name).write_bytes(b"rows")
    run.require("settle")
    if is_damaged:
        (tmp_path / name).write_bytes(b"row")
    else:
        (tmp_path / name).unlink()
    with pytest.raises(IncompleteRun, match=name):
        run.require("settle")


def test_a_load_is_not_sent_a_second_time_under_the_same_numbers(tmp_path: Path) -> None:
    (tmp_path / "live").mkdir()
    with pytest.raises(AlreadySent, match="start another run"):
        ProducerPool(RUN, {client: {"bootstrap.servers": "127.0.0.1:1"} for client in CLIENTS}, tmp_path)


def altered(run: RunDirectory, step: str, **changes: object) -> None:
    """Writes other fields into a manifest by hand; None: the manifest lacks the field."""
    file = run.path / f"{step}.json"
    fields = json.loads(file.read_bytes()) | changes
    file.write_text(json.dumps({name: value for name, value in fields.items() if value is not None}))


def test_a_manifest_names_its_run_the_format_and_the_manifests_it_rests_on(tmp_path: Path) -> None:
    run = finished(tmp_path / "mine")
    manifest = run.manifest("settle")
    assert (manifest.run_id, manifest.format, manifest.schema) == ("mine", FORMAT, schema_digest())
    assert manifest.required == {name: digests.sha256(run.path / f"{name}.json") for name in ("plan", *LOAD[:2])}
    assert list(run.manifest("plan").required) == []
    assert set(run.manifest("conclude").required) == {"plan", *LOAD, *JUDGING[:-1]}


@pytest.mark.parametrize("change", [{"counts": {"records": 8}}, {"notes": {}}, {"started_at_us": 1}, {"required": {}}])
def test_a_manifest_that_was_altered_by_hand_is_refused_by_name(tmp_path: Path, change: dict[str, object]) -> None:
    run = finished(tmp_path)
    altered(run, "produce", **change)
    with pytest.raises(IncompleteRun, match=r"produce\.json was altered: its seal"):
        run.require("produce")


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("run_id", "is damaged: .* `run_id`"),
        ("required", "is damaged: .* `required`"),
        ("seal", "was altered: its seal differs"),
    ],
)
def test_a_manifest_without_one_of_its_fields_is_refused(tmp_path: Path, field: str, message: str) -> None:
    run = finished(tmp_path)
    altered(run, "produce", **{field: None})
    with pytest.raises(IncompleteRun, match=rf"produce\.json {message}"):
        run.require("produce")


@pytest.mark.parametrize("step", LOAD)
def test_output_of_another_run_is_refused_by_the_name_of_that_run(tmp_path: Path, step: str) -> None:
    mine, other = finished(tmp_path / "mine"), finished(tmp_path / "other")
    for name in (f"{step}.json", f"of_{step}.json"):
        shutil.copyfile(other.path / name, mine.path / name)
    with pytest.raises(IncompleteRun, match=rf"{step}\.json is of the run 'other'; .* of the run 'mine'"):
        mine.require(step)


@pytest.mark.parametrize("step", ("plan", *LOAD))
def test_output_of_another_run_of_the_same_name_is_refused_by_what_rested_on_the_former(
    tmp_path: Path, step: str
) -> None:
    mine, other = finished(tmp_path / "mine"), finished(tmp_path / "elsewhere" / "mine")
    shutil.copyfile(other.path / f"{step}.json", mine.path / f"{step}.json")
    mine.manifest(step)
    with pytest.raises(IncompleteRun, match=rf"rests on another (plan|{step})\.json than the one that is there"):
        mine.require("reconcile")


def test_a_manifest_that_is_gone_although_another_rests_on_it_is_missed(tmp_path: Path) -> None:
    run = finished(tmp_path)
    (tmp_path / "inject_fault.json").unlink()
    with pytest.raises(IncompleteRun, match=r"rests on another inject_fault\.json"):
        run.require("settle")


def test_a_manifest_is_not_that_of_another_step(tmp_path: Path) -> None:
    run = finished(tmp_path)
    shutil.copyfile(tmp_path / "inject_fault.json", tmp_path / "produce.json")
    with pytest.raises(IncompleteRun, match=r"produce\.json is the manifest of the step 'inject_fault'"):
        run.manifest("produce")


OTHER_FORMATS: dict[str, tuple[dict[str, object], str]] = {
    "a newer version": ({"format": "kdv-run 2"}, "format kdv-run 2"),
    "another program's": ({"format": "other 1"}, "format other 1"),
    "another schema": ({"schema": "0" * 16}, "format kdv-run 1, schema 0000000000000000"),
    "no schema": ({"schema": None}, "format kdv-run 1, schema None"),
    "none": ({"format": None, "schema": None}, "no format"),
    "an old version 1": ({"format": None, "schema": None, "format_version": 1}, "format version 1"),
    "an old version 10": ({"format": None, "schema": None, "format_version": 10}, "format version 10"),
}


@pytest.mark.parametrize("changes, has", OTHER_FORMATS.values(), ids=OTHER_FORMATS)
def test_a_manifest_of_another_format_is_refused_by_name_in_one_line_with_a_remedy(
    tmp_path: Path, changes: dict[str, object], has: str
) -> None:
    run = finished(tmp_path)
    altered(run, "settle", **changes)
    message = rf"settle\.json has {has}; .* reads format {FORMAT}, schema \w{{16}} only\. Use .*, or make the run again"
    with pytest.raises(IncompleteRun, match=message) as refusal:
        run.require("settle")
    assert "\n" not in str(refusal.value)


def test_a_newer_manifest_is_refused_for_its_format_also_where_it_cannot_be_decoded(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps({"format": "kdv-run 2", "sealed_by": "hand"}))
    (tmp_path / "scenario.json").write_text(json.dumps({"form": "new"}))
    run = RunDirectory(tmp_path)
    for read in (run.read_scenario, lambda: run.manifest("plan")):
        with pytest.raises(IncompleteRun, match=r"plan\.json has format kdv-run 2"):
            read()


@pytest.mark.parametrize("name", [1, 1.5, []])
def test_a_format_that_is_no_text_is_damage(tmp_path: Path, name: object) -> None:
    run = finished(tmp_path)
    altered(run, "settle", format=name)
    with pytest.raises(IncompleteRun, match=r"settle\.json is damaged"):
        run.manifest("settle")


def test_the_digest_changes_with_a_column_a_field_or_a_meaning_and_with_no_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def digest(**changes: object) -> str:
        with monkeypatch.context() as patched:
            for name, value in changes.items():
                patched.setattr(format, name, value)
            return format.schema_digest.__wrapped__()

    first, *others = format.TABLES
    *columns, last = first.columns
    renamed, worded = replace(last, name="another"), replace(last, meaning="another")
    assert digest() == schema_digest() and len(schema_digest()) == 16
    assert digest(TABLES=(replace(first, columns=(*columns, worded)), *others)) == schema_digest()
    other_digests = {
        digest(TABLES=(replace(first, columns=(*columns, renamed)), *others)),
        digest(TABLES=(replace(first, columns=tuple(columns)), *others)),
        digest(_FILES=dict(list(format._FILES.items())[1:])),
        digest(MEANINGS=format.MEANINGS + 1),
    }
    assert len(other_digests - {schema_digest()}) == 4


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The list of the files' names that are hashed from now on, in this order, without manifests."""
    names: list[str] = []
    plain = digests._read

    def read(file: Path) -> str:
        if file.name.startswith("of_"):
            names.append(file.name)
        return plain(file)

    monkeypatch.setattr(digests, "_read", read)
    return names


def old(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the clock that the digests read one hour ahead of the file's last change, so that the file counts as
    unchanged for a long time."""
    an_hour_on_ns = file.stat().st_ctime_ns + 3_600_000_000_000
    monkeypatch.setattr(digests.time, "time_ns", lambda: an_hour_on_ns)


def test_a_process_hashes_a_file_once_and_again_as_soon_as_anything_about_it_changes(
    tmp_path: Path, hashed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunDirectory(tmp_path)
    publish(run, "plan")
    publish(run, "settle")
    file = tmp_path / "of_settle.json"
    old(file, monkeypatch)
    hashed.clear()
    for _ in range(3):
        run.require("settle")
    assert hashed == ["of_settle.json"]
    before = file.stat()
    file.write_text("[]" + file.read_text()[2:])  # as long as before, at the same moment as far as its mtime tells
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size
    with pytest.raises(IncompleteRun, match="SHA-256 differs"):
        run.require("settle")
    assert hashed == ["of_settle.json"] * 2


def test_a_file_that_was_only_just_written_is_hashed_every_time(tmp_path: Path, hashed: list[str]) -> None:
    run = RunDirectory(tmp_path)
    publish(run, "plan")
    publish(run, "settle")
    hashed.clear()
    run.require("settle")
    run.require("settle")
    assert hashed == ["of_settle.json"] * 2


def test_a_verdict_that_conclude_did_not_seal_is_none(tmp_path: Path) -> None:
    run = finished(tmp_path)
    (tmp_path / "verdict.json").write_text("{}")
    with pytest.raises(IncompleteRun, match=r"verdict\.json is not among the files that step conclude wrote"):
        run.verdict()
    with run.writing("conclude") as output:
        output.write_json("verdict.json", {"green": True})
    with pytest.raises(IncompleteRun, match=r"verdict\.json is damaged.*`kdv reconcile` judges the run anew"):
        run.verdict()
    (tmp_path / "verdict.json").write_text("{}")
    with pytest.raises(IncompleteRun, match="SHA-256 differs"):
        run.verdict()
    with pytest.raises(IncompleteRun, match=r"verdict\.json is not as step conclude wrote it"):
        run.sealed_alone("conclude", "verdict.json")


def test_a_run_whose_scenario_is_damaged_still_says_what_its_steps_wrote_but_does_not_pass(tmp_path: Path) -> None:
    run = finished(tmp_path)
    (tmp_path / "scenario.json").write_text("{")
    assert "scenario.json" in run.manifest("plan").files
    with pytest.raises(IncompleteRun, match=r"scenario\.json is not as step plan wrote it"):
        run.require("plan")
    with pytest.raises(IncompleteRun, match=r"no scenario\.json that names the run"):
        publish(run, "validate")
