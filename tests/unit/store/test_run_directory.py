"""Tests of the run directory: what may be read from it after a step was repeated, or was started twice."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.evidence import RUN

from delivery_verifier.load.pool import AlreadySent, ProducerPool
from delivery_verifier.store import digests
from delivery_verifier.store.run_directory import IncompleteRun, RunDirectory
from delivery_verifier.store.tables import FORMAT_VERSION

JUDGING = ("read_topic", "reconcile", "validate", "conclude")


def finished(folder: Path) -> RunDirectory:
    run = RunDirectory(folder)
    for step in ("settle", *JUDGING):
        publish(run, step)
    return run


def publish(run: RunDirectory, step: str) -> None:
    with run.writing(step) as output:
        output.write_json(f"of_{step}.json", {})


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


def test_a_load_is_not_sent_a_second_time_under_the_same_numbers(tmp_path: Path) -> None:
    (tmp_path / "live").mkdir()
    with pytest.raises(AlreadySent, match="start another run"):
        ProducerPool(RUN, {"bootstrap.servers": "127.0.0.1:1"}, tmp_path)


def of_version(run: RunDirectory, step: str, version: object) -> None:
    """Writes the format version `version` into a manifest. With None, removes the version, as in manifests of the first
    format."""
    file = run.path / f"{step}.json"
    manifest = json.loads(file.read_bytes())
    del manifest["format_version"]
    file.write_text(json.dumps(manifest if version is None else manifest | {"format_version": version}))


def test_a_manifest_names_the_version_of_the_format_and_one_without_is_of_version_1(tmp_path: Path) -> None:
    run = finished(tmp_path)
    assert json.loads((tmp_path / "settle.json").read_bytes())["format_version"] == FORMAT_VERSION
    of_version(run, "settle", None)
    run.require("settle")
    assert run.manifest("settle").format_version == 1


@pytest.mark.parametrize("version", [FORMAT_VERSION + 1, 0])
def test_a_manifest_of_an_unknown_version_is_refused_by_name_and_says_what_reads_it(
    tmp_path: Path, version: int
) -> None:
    run = finished(tmp_path)
    of_version(run, "settle", version)
    message = rf"settle\.json has format version {version}; .* reads versions up to {FORMAT_VERSION}\. Use one "
    with pytest.raises(IncompleteRun, match=message):
        run.require("settle")


def test_a_newer_manifest_is_refused_for_its_version_also_where_it_cannot_be_decoded(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps({"format_version": FORMAT_VERSION + 1, "sealed_by": "hand"}))
    (tmp_path / "scenario.json").write_text(json.dumps({"form": "new"}))
    run = RunDirectory(tmp_path)
    for read in (run.read_scenario, lambda: run.manifest("plan")):
        with pytest.raises(IncompleteRun, match=f"plan.json has format version {FORMAT_VERSION + 1}"):
            read()


@pytest.mark.parametrize("version", ["1", None, 1.5, []])
def test_a_version_that_is_no_number_is_damage(tmp_path: Path, version: object) -> None:
    run = finished(tmp_path)
    of_version(run, "settle", 1)
    file = tmp_path / "settle.json"
    file.write_text(json.dumps(json.loads(file.read_bytes()) | {"format_version": version}))
    with pytest.raises(IncompleteRun, match=r"settle\.json is damaged"):
        run.manifest("settle")


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The list of the files' names that are hashed from now on, in this order."""
    names: list[str] = []
    plain = digests._read

    def read(file: Path) -> str:
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
