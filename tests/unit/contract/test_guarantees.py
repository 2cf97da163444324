"""Tests of the table of guarantees by class of fault, and of the page that says what published configurations
promise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from delivery_verifier.catalogue import PROFILES
from delivery_verifier.contract.alternatives import ALTERNATIVES, alternatives
from delivery_verifier.contract.guarantees import FAULT_CLASSES, GUARANTEES, GuaranteeRow, lines, matrix
from delivery_verifier.contract.rules import RULES
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.history import Disturbance
from delivery_verifier.planning.choices import OWN
from docs.generate import promises as promises_docs

DOCS = Path(__file__).parents[3] / "docs"
EXAMPLES = promises_docs.examples(DOCS / "examples")


def row(name: str, fault_class: str, elr: bool = True) -> GuaranteeRow:
    rows = matrix(Settings.of_profile(PROFILES[name], elr=elr))
    return next(one for one in rows if one.fault_class == fault_class)


def held(name: str, fault_class: str, elr: bool = True) -> set[str]:
    return {claim for claim, holds in row(name, fault_class, elr).guarantees.items() if holds}


ALL = set(GUARANTEES)


@pytest.mark.parametrize(
    ("name", "fault_class", "expected"),
    [
        ("safe", "none", ALL),
        ("safe", "crash", ALL),
        ("safe", "partition", ALL),
        ("safe", "power of one", ALL),
        ("safe", "power of last", ALL),
        ("safe", "power of all", {"at_most_once", "ordered"}),
        ("safe", "no clean leader", ALL),
        ("safe", "forced election", {"at_most_once", "ordered"}),
        ("safe", "client crash", ALL),
        ("safe", "resend", {"at_least_once", "ordered"}),
        ("acks_all", "connections", {"at_least_once"}),
        ("acks_1", "none", {"at_least_once"}),
        ("acks_1", "leadership change", set()),
        ("acks_0", "none", {"at_most_once"}),
    ],
)
def test_settings_give_exactly_these_guarantees(name: str, fault_class: str, expected: set[str]) -> None:
    assert held(name, fault_class) == expected


def test_eligible_leaders_save_the_last_replica_standing() -> None:
    assert held("safe", "power of last", elr=False) == {"at_most_once", "ordered"}
    assert row("safe", "power of last", elr=False).broken_by == ["lost.power_of_last"]


def test_what_is_broken_says_by_which_rule_and_what_holds_says_none() -> None:
    ids = {rule.id for rule in RULES}
    for profile in PROFILES.values():
        for one in matrix(Settings.of_profile(profile)):
            assert set(one.broken_by) <= ids
            assert bool(one.broken_by) == (not all(one.guarantees.values()))


def test_the_text_has_a_line_per_class_and_says_what_breaks_it() -> None:
    text = lines(matrix(Settings.of_profile(PROFILES["acks_1"])))
    assert len(text) == len(FAULT_CLASSES) + 1
    crash = next(line for line in text if line.startswith("  crash"))
    assert crash.split()[1:5] == ["no"] * 4 and "lost.acks_1" in crash


def test_the_page_of_published_configurations_is_what_the_contract_generates() -> None:
    wanted = promises_docs.document(DOCS / "examples")
    assert (DOCS / "promises.md").read_text() == wanted, "run `python -m docs.generate.promises`"


def test_the_page_changes_with_a_promise(tmp_path: Path) -> None:
    for file in (DOCS / "examples").glob("kafka-3*"):
        (tmp_path / file.name).write_text(f"{file.read_text()}acks=1\n")
    weaker, page = promises_docs.document(tmp_path), (DOCS / "promises.md").read_text()
    line = next(line for line in weaker.splitlines() if line.startswith("| kafka-3-defaults | yes | **no**"))
    assert line not in page


def test_there_are_ten_published_configurations_each_with_its_address() -> None:
    assert len(EXAMPLES) >= 10
    assert all(one.source.startswith("https://") and one.summary for one in EXAMPLES)
    assert len({one.source for one in EXAMPLES}) == len(EXAMPLES)


@pytest.mark.parametrize("file", sorted((DOCS / "examples").glob("*.properties")), ids=lambda file: file.name)
def test_every_example_file_names_its_source(file: Path) -> None:
    assert "# source: https://" in file.read_text()


def test_an_example_without_its_source_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.properties"
    file.write_text("# client: java\nacks=all\n")
    with pytest.raises(KeyError):
        promises_docs.read(file)


def test_an_example_has_its_own_topic_settings() -> None:
    found = {one.name: one.profile.topic["min.insync.replicas"] for one in EXAMPLES}
    assert (found["aws-msk"], found["kafka-3-defaults"]) == (2, 1)
    assert EXAMPLES[0].profile.name == OWN


def changed(name: str, setting: str, direction: str) -> dict[str, list[str]]:
    found = {one.setting: one for one in alternatives(Settings.of_profile(PROFILES[name]))}
    return dict(getattr(found[setting], direction)) if setting in found else {}


def test_every_setting_of_the_safe_profile_is_there_for_a_reason() -> None:
    assert changed("safe", "min.insync.replicas=1", "lost") == {
        claim: ["power of last"] for claim in ("at_least_once", "exactly_once")
    }
    assert changed("safe", "unclean.leader.election.enable=true", "lost")["at_least_once"] == ["no clean leader"]
    assert "crash" in changed("safe", "acks=1", "lost")["at_least_once"]
    assert "connections" in changed("safe", "enable.idempotence=false", "lost")["at_most_once"]
    assert not any(
        one.won for one in alternatives(Settings.of_profile(PROFILES["safe"])) if one.setting != "flush.messages=1"
    )


def test_only_flushing_every_record_wins_what_the_safe_profile_lacks() -> None:
    assert changed("safe", "flush.messages=1", "won")["at_least_once"] == ["power of all"]


def test_the_safe_profile_promises_what_the_published_settings_for_durability_do() -> None:
    published = next(one for one in EXAMPLES if one.name == "confluent-durability")
    assert matrix(Settings.of_profile(PROFILES["safe"])) == published.rows


def test_no_alternative_is_what_the_settings_are_already() -> None:
    for name in PROFILES:
        assert all(one.lost or one.won for one in alternatives(Settings.of_profile(PROFILES[name])))
    assert {"acks=all", "acks=1"} <= set(ALTERNATIVES)


PLAIN = Settings.of_profile(PROFILES["acks_all"])
SAFE = Settings.of_profile(PROFILES["safe"])
CLASSES = {fault_class.name: fault_class for fault_class in FAULT_CLASSES}


def test_each_class_of_faults_has_its_kinds_as_planned_disturbances() -> None:
    for name, replicas in {"crash": 0, "none": 0, "power of one": 0, "power of last": 1, "power of all": 3}.items():
        assert CLASSES[name].disturbances == [
            Disturbance(kind=kind, at_us=0, planned=True, replicas=replicas) for kind in CLASSES[name].kinds
        ]
    assert CLASSES["power of all"].replicas == PLAIN.replication_factor


def test_the_power_of_all_three_is_lost_even_with_three_in_sync() -> None:
    rows = {row.fault_class: row for row in matrix(replace(SAFE, min_insync_replicas=3))}
    assert rows["power of all"].broken_by[0] == "lost.power_of_all" and not rows["power of last"].broken_by
