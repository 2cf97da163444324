"""Tests of the trigger form: its choices and its limits are exactly those of the library."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any, get_args

import gate
import pytest
from airflow.sdk.exceptions import ParamValidationError
from support.run_builder import judged

from delivery_verifier import catalogue
from delivery_verifier.host.java.jars import kafka_versions
from delivery_verifier.model.client import Client
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import Claim, OwnPacing
from delivery_verifier.model.steps import STEPS
from delivery_verifier.orchestration.tasks import catalogue_form, form
from delivery_verifier.planning.build import scenario_from_params
from delivery_verifier.planning.own_settings import clients
from delivery_verifier.planning.request import FIELDS

PARAMS = form.params()


def _schema(name: str) -> dict[str, Any]:
    return PARAMS[name].schema


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("profile", [*catalogue.PROFILES, "own"]),
        ("application", [None, *catalogue.APPLICATIONS]),
        ("fault", list(catalogue.FAULTS)),
        ("scenario", [None, *catalogue.SCENARIOS]),
        ("claim", list(get_args(Claim))),
        ("pacing", list(get_args(OwnPacing))),
        ("kafka_version", kafka_versions()),
        ("fail_step", [None, *STEPS]),
    ],
)
def test_a_choice_offers_exactly_what_the_library_knows_each_with_a_label(name: str, known: list[str | None]) -> None:
    assert _schema(name)["enum"] == known
    assert list(_schema(name)["values_display"]) == [str(value) for value in known]


def test_the_form_proposes_clients_that_the_library_knows_and_takes_other_versions() -> None:
    proposed = _schema("written_for")["examples"]
    assert proposed == list(clients.PROPOSED) and {clients.parse(each).client for each in proposed} == {
        *get_args(Client)
    }
    param = copy.deepcopy(PARAMS["written_for"])
    assert (param.resolve("java:3.2"), param.resolve(None)) == ("java:3.2", None)


def test_the_form_has_each_field_of_a_run_that_has_a_title_as_it_is_declared() -> None:
    """tests/unit/planning/test_request.py says what follows from a declaration."""
    for name, field in FIELDS.items():
        assert (name in PARAMS) == bool(field.title), name
    for name, param in PARAMS.items():
        declared = {**FIELDS[name].schema}
        assert (param.description or "").startswith(declared.pop("description")), name
        assert {**param.schema, **declared} == param.schema, name
        assert param.schema.keys() - declared.keys() == ({"section"} if FIELDS[name].words.section else set()), name
        assert param.value == form.DEFAULTS[name] == FIELDS[name].default, name


NUMBERS = [name for name in PARAMS if FIELDS[name].type is int]


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_refused_outside_its_limits_and_never_changed_in_silence(name: str) -> None:
    field, schema = FIELDS[name], _schema(name)
    assert not schema.keys() & {"minimum", "maximum"}, "the UI would clamp a value in silence"
    for value, is_allowed in (
        (field.least - 1, False),
        (field.least, True),
        (field.most + 1, "exclusiveMaximum" not in schema),
    ):
        param = copy.deepcopy(PARAMS[name])
        if is_allowed:
            assert param.resolve(value) == value
        else:
            with pytest.raises(ParamValidationError):
                param.resolve(value)


@pytest.mark.parametrize("name", ["producer_config", "producer_overrides", "topic_overrides"])
def test_settings_of_ones_own_have_a_field_of_several_lines(name: str) -> None:
    assert _schema(name)["format"] == "multiline" and _schema(name)["section"] == "Own settings (default: none)"
    text = "acks=all\n# a comment\nlinger.ms=5\n"
    assert form.params()[name].resolve(text) == text


def test_the_empty_form_is_a_run() -> None:
    assert scenario_from_params({name: param.value for name, param in form.params().items()}, "r").subjects


def test_every_field_of_the_form_is_a_capability_of_the_gate() -> None:
    """tests/unit/test_gate.py asks the same of the commands."""
    named = [offer for one in gate.read().capability for offer in one.offers if offer.startswith("form ")]
    assert sorted(named) == sorted(f"form {name}" for name in PARAMS), "each once"


def test_an_application_is_offered_as_soon_as_the_form_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow makes the form whenever it reads the file of the DAG."""
    monkeypatch.setenv("KDV_APPLICATIONS", str(tmp_path))
    assert "orders" not in form.params()["application"].schema["enum"]
    (tmp_path / "orders.toml").write_text('summary = "Writes orders."\ncommand = "true"\n')
    schema = form.params()["application"].schema
    assert "orders" in schema["enum"] and schema["values_display"]["orders"] == "orders: Writes orders."


def test_the_question_itself_is_never_folded_away() -> None:
    unfolded = [name for name in PARAMS if "section" not in _schema(name)]
    assert unfolded == ["profile", "application", "fault", "claim", "clients", "records"]


def test_a_section_says_its_defaults_before_it_is_opened() -> None:
    sections = list(dict.fromkeys(_schema(name)["section"] for name in PARAMS if "section" in _schema(name)))
    version = PARAMS["kafka_version"].value
    assert sections == [
        "Catalogue (default: no scenario)",
        "Own settings (default: none)",
        "Load (default: spread, 1 producer per arm, 100 bytes)",
        f"Topic and cluster (default: 3 partitions, 3 replicas, Kafka {version})",
        "Length and repetition of the fault (default: as the fault says, 1 cycle, seed 0)",
        "Testing the verifier",
    ]


def test_the_form_says_how_long_a_run_takes_on_this_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDV_RUNS", str(tmp_path))
    told = [form.params()["records"].description or ""]
    for name in ("slow-1", "slow-2", "slow-3"):
        times = {"step": "reconcile", "started_at_us": 0, "finished_at_us": 120_000_000}
        (judged(tmp_path, name).path / "reconcile.json").write_text(json.dumps(times))
        told.append(form.params()["records"].description or "")
    *few, enough = told
    assert all("a run takes about 1.5 minutes on two cores" in each for each in few), "one slow run says nothing"
    assert "a run takes about 3 minutes on this host" in enough


def test_the_self_test_has_a_section_of_its_own() -> None:
    assert [n for n in PARAMS if _schema(n).get("section") == "Testing the verifier"] == ["fail_step"]


@pytest.mark.parametrize("name", list(PARAMS))
def test_every_field_has_a_title_a_description_and_a_valid_default(name: str) -> None:
    assert _schema(name)["title"]
    assert PARAMS[name].description
    PARAMS[name].resolve()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("profile", "acks_2"),
        ("application", "./consumer.py"),
        ("producers", 0),
        ("rate", 0),
        ("seed", 2**31),
        ("records", -5),
        ("records", 999),
    ],
)
def test_a_value_outside_is_refused(name: str, value: object) -> None:
    with pytest.raises(ParamValidationError):
        PARAMS[name].resolve(value)


def test_what_a_catalogue_run_expects_to_be_unavailable_is_checked_by_the_form(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = catalogue_form.params()["expect_unavailable"]
    for value in ("", "power", "power, network,proxy", "acks_1.frozen_followers"):
        assert expected.resolve(value) == value
    for value in ("powr", "power network", "smoke", "acks_1-frozen_followers"):
        with pytest.raises(ParamValidationError):
            expected.resolve(value)
    monkeypatch.setenv("KDV_EXPECT_UNAVAILABLE", "powr")
    with pytest.raises(BadInput, match="did you mean power"):
        catalogue_form.params()


def test_clusters_of_the_operator_are_proposed_and_a_schedule_has_the_one_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KDV_CONNECTIONS", str(tmp_path))
    (tmp_path / "staging.properties").touch()
    (tmp_path / "mounted").mkdir()
    assert form.params()["cluster"].schema["examples"] == ["mounted", "staging"]
    assert catalogue_form.params()["cluster"].value == ""
    monkeypatch.setenv("KDV_NIGHTLY_CLUSTER", "airflow:kafka_default")
    named = catalogue_form.params()["cluster"]
    assert named.value == named.resolve() == "airflow:kafka_default"
    with pytest.raises(ParamValidationError):
        named.resolve("../staging")
    monkeypatch.setenv("KDV_NIGHTLY_CLUSTER", "../staging")
    with pytest.raises(BadInput, match=r"KDV_NIGHTLY_CLUSTER is '../staging'"):
        catalogue_form.params()
