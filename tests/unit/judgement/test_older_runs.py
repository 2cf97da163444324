"""Tests that runs of an older version are read, and are judged as the older version judged them. Runs of a newer format
are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.older_runs import NAMES, RUNS, judgement, judgement_today, older_run, stored_judgement

from delivery_verifier.judgement.judge import load_and_judge
from delivery_verifier.store.run_directory import IncompleteRun
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
