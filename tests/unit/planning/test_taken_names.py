"""Tests of a saved profile whose name a later catalogue has taken: it is offered under another name, and never replaced
without a word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.commands import plan

from delivery_verifier import catalogue
from delivery_verifier.model.data import dumps
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.planning.build import scenario_from_params
from delivery_verifier.planning.own_settings import profiles


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KDV_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile `fast` that the user has saved (acks=1), and one that a later catalogue has (acks=0)."""
    profiles.save(catalogue.PROFILES["acks_1"], "fast")
    monkeypatch.setitem(catalogue.PROFILES, "fast", replace(catalogue.PROFILES["acks_0"], name="fast"))


@pytest.mark.usefixtures("fast")
def test_the_saved_one_is_offered_under_another_name_and_runs_with_its_settings() -> None:
    assert profiles.known()["saved-fast"].producer["acks"] == "1" and not profiles.unreadable()
    run = scenario_from_params({"profile": "saved-fast"}, "run")
    assert run.subjects[0].profile.producer["acks"] == "1"
    again = plan(run.command)
    assert isinstance(again, Scenario) and again.subjects[0].profile.producer == run.subjects[0].profile.producer


@pytest.mark.usefixtures("fast")
def test_the_name_alone_is_refused_with_both_remedies(home: Path) -> None:
    remedies = rf"allowed: saved-fast for yours; .*rename or remove {re.escape(str(home))}/profiles/fast\.json"
    with pytest.raises(BadInput, match=remedies):
        scenario_from_params({"profile": "fast"}, "run")
    for more in ("", " --topic-override min.insync.replicas=1", " --save-profile other"):
        with pytest.raises(BadInput, match=remedies):
            plan(f"kdv run --profile fast{more}")
    (home / "profiles" / "fast.json").unlink()
    assert scenario_from_params({"profile": "fast"}, "run").subjects[0].profile.producer["acks"] == "0"


@pytest.mark.parametrize(
    ("name", "stem", "said"),
    [
        ("orders", "others", "its field name is 'orders'; allowed: the name of the file, 'others'"),
        ("own", "own", "its name is 'own', which is reserved"),
        ("canary", "canary", "its name is 'canary', which is reserved"),
    ],
)
def test_each_rule_of_the_name_of_a_file_is_said_for_itself(home: Path, name: str, stem: str, said: str) -> None:
    file = home / f"{stem}.json"
    file.write_bytes(dumps(replace(catalogue.PROFILES["safe"], name=name)))
    assert said in str(profiles.read(file))


def test_nobody_saves_under_a_name_that_stands_for_a_taken_one() -> None:
    with pytest.raises(BadInput, match="save_profile is 'saved-fast': a name of the catalogue, or reserved"):
        profiles.save(catalogue.PROFILES["safe"], "saved-fast")
