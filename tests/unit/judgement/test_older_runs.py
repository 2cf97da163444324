"""Tests that runs of an older version are read, and are judged as the older version judged them. Runs of a newer format
are refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from support.current_runs import agreeing_replicas, with_replicas
from support.evidence import RUN, SUBJECT, arm, both, evidence_of, judged, setting, with_arm
from support.older_runs import NAMES, RUNS, judgement, judgement_today, older_run, stored_judgement
from support.sealed_runs import relink

from delivery_verifier.judgement.evidence import Evidence
from delivery_verifier.judgement.judge import load_and_judge
from delivery_verifier.judgement.older_runs import UNRULED
from delivery_verifier.model.steps import MANIFESTS
from delivery_verifier.planning.own_settings.producer_names import ONLY_VALUE
from delivery_verifier.store.replicas import REPLICAS
from delivery_verifier.store.run_directory import IncompleteRun, RunDirectory
from delivery_verifier.store.tables import FORMAT_VERSION


@pytest.mark.parametrize("name", NAMES)
def test_a_stored_run_is_judged_as_it_was_by_the_version_that_wrote_it_but_for_rules_that_changed(name: str) -> None:
    assert judgement(load_and_judge(RUNS / name)) == judgement_today(name, validated_anew=False)


def test_the_stored_runs_show_what_they_are_named_for() -> None:
    verdicts = [stored_judgement(name)["verdict"] for name in NAMES]
    assert verdicts == ["HELD", "VIOLATED"]
    convicted = stored_judgement(NAMES[1])["arms"]["acks_1"]
    assert convicted["books"]["lost"]
    assert convicted["bites"]["LOST"]


@pytest.mark.parametrize("step", ["plan", "produce", "reconcile", "validate"])
def test_a_stored_run_of_which_one_manifest_is_newer_is_refused_by_name(tmp_path: Path, step: str) -> None:
    run = older_run(NAMES[0], tmp_path)
    file = run.path / f"{step}.json"
    file.write_text(json.dumps(json.loads(file.read_bytes()) | {"format_version": FORMAT_VERSION + 1}))
    with pytest.raises(IncompleteRun, match=rf"{step}\.json has format version {FORMAT_VERSION + 1}"):
        load_and_judge(run.path)


def _of_today(name: str, folder: Path) -> RunDirectory:
    """A stored run with manifests as this version writes them. Nothing but its content keeps it from being HELD."""
    run = older_run(name, folder)
    for file in (run.path / f"{step}.json" for step in MANIFESTS):
        if file.is_file():
            manifest = json.loads(file.read_bytes()) | {"format_version": FORMAT_VERSION}
            if file.stem == "reconcile":
                manifest["counts"] |= {f"strangers/{arm}": 0 for arm in run.read_scenario().arm_names}
            file.write_text(json.dumps(manifest))
    relink(run)
    assert load_and_judge(run.path).verdict == "INCONCLUSIVE", "it lacks what runs of this format have"
    return run


def _count_altered(run: RunDirectory, _: RunDirectory) -> None:
    file = run.path / "produce.json"
    file.write_text(file.read_text().replace('"transactions_committed/transactional/0/0": 12', '"x": 12'))


def _injections_of(run: RunDirectory, other: RunDirectory) -> None:
    for name in ("inject_fault.json", "injections.json"):
        shutil.copyfile(other.path / name, run.path / name)


def _ledger_of(run: RunDirectory, other: RunDirectory) -> None:
    shutil.rmtree(run.path / "ledger")
    shutil.copytree(other.path / "ledger", run.path / "ledger")
    shutil.copyfile(other.path / "produce.json", run.path / "produce.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_count_altered, r"produce\.json was altered"),
        (_injections_of, r"inject_fault\.json is of the run '.*'; scenario\.json is of the run"),
        (_ledger_of, r"produce\.json is of the run '.*'; scenario\.json is of the run"),
    ],
)
def test_output_of_another_run_and_altered_counts_are_refused_by_name_and_never_judged(
    tmp_path: Path, change: Callable[[RunDirectory, RunDirectory], None], message: str
) -> None:
    run, other = (_of_today(name, tmp_path) for name in NAMES)
    change(run, other)
    with pytest.raises(IncompleteRun, match=message):
        load_and_judge(run.path)


def test_a_run_of_this_format_that_does_not_say_how_many_strangers_wrote_is_refused(tmp_path: Path) -> None:
    run = _of_today(NAMES[0], tmp_path)
    file = run.path / "reconcile.json"
    manifest = json.loads(file.read_bytes())
    manifest["counts"] = {name: n for name, n in manifest["counts"].items() if not name.startswith("strangers/")}
    file.write_text(json.dumps(manifest))
    relink(run)
    with pytest.raises(IncompleteRun, match="does not say how many strangers"):
        load_and_judge(run.path)


def test_a_table_of_replicas_that_settle_did_not_write_is_refused(tmp_path: Path) -> None:
    run = older_run(NAMES[0], tmp_path)
    pq.write_table(agreeing_replicas(run), run.path / REPLICAS.file)
    with pytest.raises(IncompleteRun, match=r"replicas\.parquet is not as step settle wrote it"):
        load_and_judge(run.path)


def test_a_table_of_replicas_that_was_altered_is_refused(tmp_path: Path) -> None:
    run = _of_today(NAMES[0], tmp_path)
    with_replicas(run, agreeing_replicas(run))
    assert Evidence.load(run.path).replicas is not None
    pq.write_table(agreeing_replicas(run).slice(1), run.path / REPLICAS.file)
    with pytest.raises(IncompleteRun, match=r"replicas\.parquet is not as step settle wrote it"):
        load_and_judge(run.path)


@pytest.mark.parametrize(
    ("fails", "counts", "verdict", "kind"),
    [
        (1, {}, "HELD", None),
        (3, {}, "INCONCLUSIVE", "coverage"),
        ("0", {}, "INCONCLUSIVE", "coverage"),
        (1, {"reordered": 1}, "VIOLATED", None),
        (3, {"reordered": 1}, "INCONCLUSIVE", "checker"),
        (3, {"lost": 1, "reordered": 1}, "INCONCLUSIVE", "checker"),
        (3, {"lost": 1}, "VIOLATED", "coverage"),
    ],
)
def test_a_setting_that_is_refused_today_forbids_held_and_what_rests_on_the_order(
    fails: int | str, counts: dict[str, int], verdict: str, kind: str | None
) -> None:
    changed = RUN.arm(SUBJECT).profile
    changed = replace(changed, producer=changed.producer | {"socket.max.fails": fails})
    where = {"arm": SUBJECT, "producer": 0, "partition": 0}
    change = both(*(setting("books/producers.parquet", name, count, **where) for name, count in counts.items()))
    if "lost" in counts:
        change = both(change, setting("books/producers.parquet", "found", 399, **where))
    found = arm(judged(evidence_of(with_arm(RUN, SUBJECT, profile=changed), change)))
    assert found.verdict == verdict
    assert [doubt.kind for doubt in found.doubts if doubt.name == "setting_without_rule"] == ([kind] if kind else [])


def test_a_setting_that_is_refused_today_has_its_only_value_in_the_doubt() -> None:
    assert {name: only for name, (only, _) in UNRULED.items()} == {name: only for name, (only, _) in ONLY_VALUE.items()}
