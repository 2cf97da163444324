"""Tests of the declaration of a run: what follows from a field, for made-up fields and for the real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta, Struct
from support.commands import plan, without_git

from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import Arm, ClusterSpec, Load, Scenario
from delivery_verifier.planning import request
from delivery_verifier.planning.build import scenario_from_params
from delivery_verifier.planning.consistency import as_conf, require_nothing_settled
from delivery_verifier.planning.field import Field, Words, fields_of, like
from delivery_verifier.planning.request import FIELDS, SECTIONS, Request
from docs.generate import request as request_docs


class Trial(Struct):
    count: Annotated[
        int, Meta(ge=2, le=9, title="Count", description="How many, {least} or more. And more."), Words(group="g")
    ] = 4
    share: Annotated[float, Meta(gt=0, le=1, title="Share"), Words(group="g", help="10% by default")] = 0.1
    limit: Annotated[int | None, like(Load, "partitions", ge=3), Words(group="g", example=7)] = None
    wait_s: Annotated[float | None, Meta(ge=1), Words(group="g")] = None
    codec: Annotated[Literal["none", "lz4"], Meta(title="Codec", description="Which codec."), Words(group="g")] = "none"
    step: Annotated[Literal["a", "b"] | None, Meta(title="Step"), Words(group="g", empty="no step")] = None
    settings: Annotated[str | None, Meta(title="Settings"), Words(group="g", option="setting")] = None
    inner: Annotated[Any, Words()] = None


TRIAL = fields_of(Trial)


def refusal(field: Field, value: object) -> str:
    with pytest.raises(BadInput) as error:
        field.check(value)
    return str(error.value)


def test_a_value_is_checked_by_type_and_limits_and_an_error_has_field_value_allowed_and_remedy() -> None:
    assert TRIAL["count"].check("9") == 9 and TRIAL["wait_s"].check(1) == 1.0
    assert refusal(TRIAL["count"], 1) == "count is 1; allowed: a whole number from 2 to 9; e.g. 4"
    assert refusal(TRIAL["limit"], 2) == "limit is 2; allowed: a whole number from 3 to 1000; e.g. 7"
    assert refusal(TRIAL["share"], 0) == "share is 0; allowed: a number above 0 and up to 1; e.g. 1"
    assert refusal(TRIAL["wait_s"], "x") == "wait_s is 'x'; allowed: a number from 1 to 1e+11; e.g. 10"
    assert refusal(TRIAL["codec"], "lz5") == "codec is 'lz5'; allowed: none, lz4; did you mean lz4?"
    assert TRIAL["settings"].check("a=1") == "a=1"
    assert refusal(TRIAL["settings"], ["a"]) == "settings is ['a']; allowed: a text"


def test_an_option_has_its_help_and_what_stands_for_its_value() -> None:
    shown = {name: field.argument for name, field in TRIAL.items() if field.option}
    assert {name: argument["metavar"] for name, argument in shown.items()} == {
        **{"count": "N", "share": "N", "limit": "N", "wait_s": "S"},
        **{"codec": "{none,lz4}", "step": "{a,b}", "settings": "NAME=VALUE"},
    }
    assert shown["count"]["help"] == "how many, 2 or more (default 4)"
    assert shown["share"]["help"] == "10%% by default"
    assert shown["codec"]["help"] == "which codec (default none)"
    assert [name for name, argument in shown.items() if argument.get("action") == "append"] == ["settings"]
    assert TRIAL["settings"].option == "setting" and TRIAL["inner"].option == ""


def test_a_field_of_the_form_has_a_schema() -> None:
    schemas = {name: field.schema for name, field in TRIAL.items() if field.title}
    assert schemas["count"] == {
        **{"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 10},
        **{"title": "Count", "description": "How many, 2 or more. And more."},
    }
    assert schemas["share"] == {
        **{"type": "number", "exclusiveMinimum": 0, "maximum": 1, "title": "Share", "description": ""}
    }
    assert (schemas["codec"]["type"], schemas["codec"]["enum"]) == ("string", ["none", "lz4"])
    assert (schemas["step"]["type"], schemas["step"]["enum"]) == (["string", "null"], [None, "a", "b"])
    assert schemas["step"]["values_display"] == {"None": "no step", "a": "a", "b": "b"}
    assert (schemas["settings"]["type"], schemas["settings"]["format"]) == (["string", "null"], "multiline")
    assert TRIAL["limit"].schema["type"] == ["integer", "null"]


def test_a_field_without_words_is_an_error_of_the_project() -> None:
    class Wrong(Struct):
        count: Annotated[int, Meta(ge=2)] = 4

    with pytest.raises(TypeError, match=r"count: .* lacks Words"):
        fields_of(Wrong)


def test_a_type_whose_values_nothing_checks_is_an_error_of_the_project() -> None:
    class Wrong(Struct):
        is_quick: Annotated[bool, Words()] = False

    with pytest.raises(TypeError, match=r"is_quick: .* none of the types"):
        fields_of(Wrong)


def test_a_form_never_replaces_a_setting_of_the_profile_by_a_default() -> None:
    class Wrong(Struct):
        codec: Annotated[Literal["none", "lz4"], Words(sets=("producer", "compression.type"))] = "none"

    with pytest.raises(TypeError, match=r"codec: .* is None by default, not 'none'"):
        fields_of(Wrong)


@pytest.mark.parametrize("name", FIELDS)
def test_the_default_of_a_field_is_allowed(name: str) -> None:
    field = FIELDS[name]
    assert field.default == getattr(Request(), name)
    if field.default is None:
        assert field.is_optional or field.type is Any
    else:
        assert field.check(field.default) == field.default


@pytest.mark.parametrize("name", [name for name, field in FIELDS.items() if field.type is int])
def test_the_form_and_the_check_have_the_same_limits(name: str) -> None:
    field = FIELDS[name]
    assert field.check(field.least) == field.least and field.check(field.most) == field.most
    assert "a whole number from" in refusal(field, field.least - 1)
    assert "a whole number from" in refusal(field, field.most + 1)
    assert field.schema["exclusiveMinimum"] == field.least - 1
    assert field.schema.get("exclusiveMaximum", field.most + 1) == field.most + 1


@pytest.mark.parametrize("owner", [Arm, Load, Scenario])
def test_no_field_allows_what_the_scenario_refuses_and_defaults_are_the_same(owner: type[Struct]) -> None:
    for declared in msgspec.structs.fields(owner):
        field = FIELDS.get(declared.name)
        if field is None or field.type not in (int, float) or declared.name == "records":
            continue
        limits = like(owner, declared.name)
        lows = [field.meta.ge, field.meta.gt, limits.ge, limits.gt]
        assert max(low for low in lows[:2] if low is not None) >= max(low for low in lows[2:] if low is not None)
        assert field.most <= (limits.le or 2**63)
        if field.default is not None:
            assert field.default == declared.default, declared.name


def test_a_field_of_the_form_has_a_section_that_there_is_and_the_title_names_the_defaults() -> None:
    used = {field.words.section for field in FIELDS.values() if field.title}
    assert used == SECTIONS.keys()
    titles = request.sections()
    assert list(titles) == list(SECTIONS)
    assert titles["load"] == "Load (default: spread, 1 producer per arm, 100 bytes)"
    assert not any("{" in title for title in titles.values())


def test_a_text_or_help_has_every_placeholder_filled() -> None:
    for field in FIELDS.values():
        assert not any("{default" in text or "{least" in text for text in (field.help, field.description))
    assert "1,000 or more" in FIELDS["records"].description and "1000 or more (default 20000)" in FIELDS["records"].help


SAMPLES: dict[str, Any] = {
    **{"application": "commit_after", "fault": "pause_leader", "fault_s": 12, "min_exposed": 20},
    **{"duration_s": 30.0, "deadline_s": 900.0, "min_insync_replicas": 1, "replication_factor": 2, "rate": 300},
    "kafka_version": FIELDS["kafka_version"].default,
    "fail_step": "settle",
    "clients": "librdkafka,java:4.1.2",
}
"""A value for each field that has no next one: beside its default, or without a default."""


def sample(field: Field) -> Any:
    """A value that is allowed, and, but for the version of Kafka, not the default."""
    if field.name in SAMPLES:
        return SAMPLES[field.name]
    if field.type in (int, float):
        return field.default + 1
    return list(field.choices)[-1]


def is_another(made: Scenario, other: Scenario) -> bool:
    """Whether two scenarios differ in more than the command and the time."""
    return (
        len({msgspec.json.encode(msgspec.structs.replace(each, created_at="", command="")) for each in (made, other)})
        == 2
    )


@pytest.mark.parametrize(
    "name", [n for n, field in FIELDS.items() if field.option and not field.words.is_of_profile and n != "scenario"]
)
def test_the_command_that_repeats_a_run_has_every_field_and_plans_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_git(monkeypatch)
    value = sample(FIELDS[name])
    planned = scenario_from_params({"profile": "transactional", name: value}, "proposed")
    assert f"--{name.replace('_', '-')} {value}" in planned.command
    again = plan(planned.command)
    assert isinstance(again, Scenario)
    assert msgspec.structs.replace(again, created_at="") == msgspec.structs.replace(planned, created_at="")
    default = scenario_from_params({"profile": "transactional"}, "proposed")
    assert name == "kafka_version" or is_another(planned, default), "the field does nothing"


def test_the_command_has_the_options_in_one_order_whoever_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    without_git(monkeypatch)
    values = {"seed": 3, "records": 2000, "cycles": 2, "fault": "pause_leader"}
    command = scenario_from_params(values, "r").command
    assert "--fault pause_leader --cycles 2 --records 2000 --seed 3" in command
    assert scenario_from_params(dict(reversed(values.items())), "r").command == command


def test_a_scenario_of_the_catalogue_takes_the_seed_and_ignores_what_it_settles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without_git(monkeypatch)
    values = {"scenario": "everyday.none", "seed": 5, "records": 1234, "fault": "none", "fault_s": 9}
    made = scenario_from_params(values, "r")
    assert made.seed == 5 and made.command.endswith("kdv run --scenario everyday.none --seed 5")


def test_numbers_go_to_airflow_as_numbers_and_all_else_as_it_was_given() -> None:
    """The command line gets texts, but Airflow's form wants numbers and refuses '2000'."""
    given = {
        "records": "2000",
        "duration_s": "6",
        "seed": "0",
        "profile": "safe",
        "fault": "kill_leader",
        "kafka_version": "4.3.1",
    }
    assert as_conf(given) == {**given, "records": 2000, "duration_s": 6.0, "seed": 0}
    assert {type(value) for name, value in as_conf(given).items() if name in ("records", "seed")} == {int}


def test_the_command_of_a_run_leaves_out_what_is_the_default_and_plans_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Airflow's form sends all of its fields."""
    without_git(monkeypatch)
    form: dict[str, object] = {
        "profile": "idempotent",
        "fault": "elect_preferred",
        "claim": "contract",
        "records": 2000,
        "seed": 0,
    }
    form |= {"pacing": "spread", "producers": 1, "payload_bytes": 100, "transaction_records": 500, "abort_every": 10}
    form |= {"partitions": 3, "replication_factor": 3, "kafka_version": ClusterSpec().kafka_version, "cycles": 1}
    planned = scenario_from_params(form, "proposed")
    version = f"--kafka-version {ClusterSpec().kafka_version}"  # is kept: the default changes with time
    assert planned.command == f"kdv run --profile idempotent --fault elect_preferred --records 2000 {version}"
    again = plan(planned.command)
    assert isinstance(again, Scenario)
    assert msgspec.structs.replace(again, created_at="") == msgspec.structs.replace(planned, created_at="")
    changed = scenario_from_params(form | {"payload_bytes": 200, "cycles": 2}, "proposed")
    assert changed.command.endswith(f"--cycles 2 --records 2000 --payload-bytes 200 {version}")


def test_a_command_line_gives_beside_a_scenario_only_what_counts() -> None:
    counting = [name for name, field in FIELDS.items() if field.words.beside_a_scenario == "counts"]
    assert counting == [
        "scenario",
        "clients",
        "kafka_version",
        "cluster",
        "commands",
        "beside",
        "seed",
        "fail_step",
        "owner",
    ]
    require_nothing_settled(counting, "s")
    for name in FIELDS.keys() - counting:
        with pytest.raises(
            BadInput, match=rf"settles {name.replace('_', '-')} itself; allowed beside it: clients, kafka_version"
        ):
            require_nothing_settled([*counting, name], "s")


def test_the_page_of_the_fields_is_what_the_declaration_generates(tmp_path: Path) -> None:
    request_docs.main([str(tmp_path / "request.md")])
    written = (Path(__file__).parents[3] / "docs/reference/request.md").read_text()
    assert written == (tmp_path / "request.md").read_text(), "run `python -m docs.generate.request`"
