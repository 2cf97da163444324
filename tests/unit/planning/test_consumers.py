"""Tests of consumers under test: what is told of them before a run, and the run that a user asks for with
--application."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.commands import plan, without_git

from delivery_verifier import catalogue
from delivery_verifier.command_line import main as cli
from delivery_verifier.contract.rules.applications import APPLICATIONS as RULES
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.application import DISCIPLINES, Application
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.planning import consumers
from delivery_verifier.planning.build import scenario_from_params

SAFE, TRANSACTIONAL = (Settings.of_profile(catalogue.PROFILES[name]) for name in ("safe", "transactional"))
GIVES = {
    "at_handover": "none",
    "commit_first": "at_most_once",
    "commit_after": "at_least_once",
    "store_after": "at_least_once",
    "transform_first": "at_most_once",
    "transform": "at_least_once",
    "transform_transactional": "exactly_once",
    "transform_assigned": "at_least_once",
    "transform_fenced": "exactly_once",
    "database_apart": "at_least_once",
    "database_together": "at_least_once",
    "database_compared": "exactly_once",
}


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDV_HOME", str(tmp_path / "home"))
    without_git(monkeypatch)


def test_every_discipline_has_the_guarantee_that_the_rules_of_the_contract_leave() -> None:
    explained = {name: consumers.explain(SAFE, it) for name, it in catalogue.APPLICATIONS.items()}
    assert {name: it.gives for name, it in explained.items()} == GIVES
    assert {it.discipline for it in explained.values()} == set(DISCIPLINES) - {"own"}
    sources = {rule.id: rule.source for rule in RULES}
    for it in explained.values():
        ruled = {ruling.rule: ruling.source for ruling in it.rulings if ruling.ruling == "PERMITTED"}
        assert ruled.items() <= sources.items()
        for row in it.situations:
            assert set(row.broken_by) <= sources.keys()
    killed = next(row for row in explained["commit_first"].situations if row.fault_class == "member killed")
    assert (killed.guarantees["at_least_once"], killed.broken_by) == (False, ["skipped.commit_first"])
    set_back = next(row for row in explained["commit_first"].situations if row.fault_class == "group set back")
    assert not set_back.guarantees["at_most_once"], "an operator can break it, and that is distinguished"


def test_ghosts_are_reported_only_where_a_consumer_is_shown_what_is_aborted() -> None:
    application = catalogue.APPLICATIONS["commit_after"]
    for settings, isolation, permitted in (
        (SAFE, "read_uncommitted", False),
        (TRANSACTIONAL, "read_committed", False),
        (TRANSACTIONAL, "read_uncommitted", True),
    ):
        it = isolated(application, isolation)
        (ghost,) = [ruling for ruling in consumers.explain(settings, it).rulings if ruling.anomaly == "GHOST"]
        assert (ghost.ruling == "PERMITTED") is permitted


def isolated(application: Application, isolation: str) -> Application:
    return replace(application, consumer={**application.consumer, "isolation.level": isolation})


def own(capsys: pytest.CaptureFixture[str], folder: Path, text: str, *more: str) -> list[dict[str, Any]]:
    (folder / "consumer.properties").write_text(text)
    line = ["explain", "--consumer-config", str(folder / "consumer.properties"), *more]
    assert cli.main([*line, "--json"]) == 0
    told: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["consumers"]
    assert cli.main(line) == 0
    text = capsys.readouterr().out
    for it in told:
        assert f"own ({it['discipline']}): " in text and it["condition"] in text
    return told


EARLIEST = "auto.offset.reset=earliest\n"


@pytest.mark.parametrize(
    ("text", "client", "expected"),
    [
        (EARLIEST, "librdkafka", [("at_handover", "none")]),
        (
            f"{EARLIEST}enable.auto.offset.store=false",
            None,
            [("store_after", "at_least_once"), ("at_handover", "none")],
        ),
        (
            f"{EARLIEST}enable.auto.commit=false",
            "librdkafka",
            [
                ("commit_after", "at_least_once"),
                ("commit_first", "at_most_once"),
                ("database_together", "at_least_once"),
                ("database_compared", "exactly_once"),
            ],
        ),
        (f"{EARLIEST}max.poll.records=10", None, [("store_after", "at_least_once"), ("at_handover", "none")]),
        (
            f"{EARLIEST}enable.auto.commit=false\nmax.poll.records=10",
            None,
            [("commit_after", "at_least_once"), ("commit_first", "at_most_once")],
        ),
        ("enable.auto.commit=false", "java", [("commit_after", "none"), ("commit_first", "at_most_once")]),
        ("auto.offset.reset=none\nenable.auto.commit=false", "java", [("commit_after", "at_least_once")]),
    ],
)
def test_which_guarantee_does_my_consumer_give(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    text: str,
    client: str | None,
    expected: list[tuple[str, str]],
) -> None:
    told = own(capsys, tmp_path, text, *(["--written-for", client] if client else []))
    assert [(it["discipline"], it["gives"]) for it in told][: len(expected)] == expected
    assert all(ruling["source"] for it in told for ruling in it["rulings"])


def test_what_latest_takes_from_a_consumer_and_whose_default_it_is_are_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    after, *_ = own(capsys, tmp_path, "enable.auto.commit=false", "--written-for", "java")
    assert (after["gives"], after["from_the_start"]) == ("none", "at_least_once")
    assert after["defaults"] == ["auto.offset.reset", "isolation.level"]
    assert (
        cli.main(["explain", "--consumer-config", str(tmp_path / "consumer.properties"), "--written-for", "java"]) == 0
    )
    text = capsys.readouterr().out
    assert "with auto.offset.reset=earliest it promises at_least_once" in text
    assert "auto.offset.reset=latest (the default)" in text and "skipped.reset; Apache Kafka documentation" in text


def test_a_file_that_may_be_of_either_client_is_explained_for_both(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    told = own(capsys, tmp_path, "enable.auto.commit=true")
    assert ["librdkafka" in it["condition"] for it in told] == [True, False, False]
    assert [it["discipline"] for it in told] == ["at_handover", "store_after", "at_handover"]


def test_the_explanation_of_an_application_names_its_settings_its_guarantee_and_its_rules(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["explain", "--application", "commit_first"]) == 0
    text = capsys.readouterr().out
    assert "consumer   commit_first: commits the offsets of a batch" in text
    assert "promises at_most_once" in text and "enable.auto.commit=false" in text
    assert "skipped.commit_first; Apache Kafka documentation" in text and "  SKIPPED         PERMITTED" in text
    assert cli.main(["explain", "--profile", "safe"]) == 0
    plain = capsys.readouterr().out
    assert "SKIPPED" not in plain and "consumer   " not in plain, "nobody applies anything"


def test_a_scenario_says_of_each_arm_who_applies_its_records(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "--scenario", "consumer.commit_first"]) == 0
    subject, control = capsys.readouterr().out.split("\n\n")[1:]
    assert "applied by commit_first: commits" in subject and "applied by commit_after: applies" in control
    assert "consumer settings: auto.offset.reset=earliest" in subject and "at most 10 records at a time" in subject


def test_every_application_is_listed_with_its_discipline_its_promise_and_its_settings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["list", "applications"]) == 0
    text = capsys.readouterr().out
    for name, guarantee in GIVES.items():
        part = text[text.index(f"  {name} ") :].split("partition.assignment.strategy")[0]
        assert f"promises {guarantee}:" in part or (guarantee == "none" and "promises neither" in part)
        assert DISCIPLINES[catalogue.APPLICATIONS[name].discipline][:40] in part and "session.timeout.ms=6000" in part


@pytest.mark.parametrize("name", catalogue.APPLICATIONS)
def test_a_run_with_an_application_has_it_behind_the_subject_and_can_be_repeated(name: str) -> None:
    made = scenario_from_params({"application": name, "profile": "acks_1"}, "r")
    assert {arm.name: arm.application and arm.application.name for arm in made.arms} == {
        "acks_1": name,
        "control-acks_0": None,
        "control-safe": None,
        "canary": None,
    }
    assert made.name == f"acks_1.{name}.kill_leader"
    assert f" --application {name}" in made.command
    again = plan(made.command)
    assert isinstance(again, Scenario) and again.arms[0].application == made.arms[0].application
    assert scenario_from_params({}, "r").name == "safe.kill_leader"


def test_the_plan_names_the_application(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "--application", "store_after"]) == 0
    text = capsys.readouterr().out
    assert "applied by store_after: applies a record" in text and "SKIPPED         FORBIDDEN" in text
