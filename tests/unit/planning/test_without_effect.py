"""Tests of a setting without effect: who sets min.insync.replicas beside acks=1 or acks=0 is told, in the plan, in the
explanation and in what to change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.evidence import arm, evidence_of, judged

from delivery_verifier.advice.changes import advices
from delivery_verifier.catalogue import PROFILES
from delivery_verifier.command_line import main as cli
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.planning.build import scenario_from_params

SENTENCE = (
    "min.insync.replicas=2 has no effect with acks=1: only with acks=all does a broker wait for other replicas before "
    "it acknowledges."
)


def planned(**params: Any) -> Scenario:
    return scenario_from_params({"profile": "own" if "producer_config" in params else None, **params}, "planned")


def notes(**params: Any) -> tuple[str, ...]:
    return planned(**params).subjects[0].profile.notes


PASTED = {"producer_config": "acks=1\nretries=0\n", "written_for": "librdkafka"}


def test_who_sets_both_is_told_once() -> None:
    assert notes(**PASTED, topic_overrides="min.insync.replicas=2").count(SENTENCE) == 1
    assert notes(**PASTED, min_insync_replicas=2).count(SENTENCE) == 1
    assert notes(profile="acks_1", min_insync_replicas=2) == (SENTENCE,)
    of_acks_0 = notes(producer_config="acks=0\n", written_for="librdkafka", min_insync_replicas=3)
    assert SENTENCE.replace("acks=1", "acks=0").replace("replicas=2", "replicas=3") in of_acks_0


@pytest.mark.parametrize(
    "params",
    [
        PASTED,  # the topic has Kafka's default, 1
        {"profile": "acks_1"},  # nobody set its min.insync.replicas
        {"profile": "acks_all", "min_insync_replicas": 2},
        {"producer_config": "acks=all\n", "written_for": "librdkafka", "min_insync_replicas": 2},
    ],
)
def test_who_does_not_set_both_is_told_nothing(params: dict[str, Any]) -> None:
    assert not any("has no effect" in note for note in notes(**params))


def test_settings_that_contradict_each_other_are_refused_as_before() -> None:
    with pytest.raises(BadInput, match="`acks` must be set to `all`"):
        planned(profile="idempotent", producer_overrides="acks=1")


def test_it_is_a_property_of_the_settings_alone() -> None:
    told = {name: Settings.of_profile(profile).without_effect for name, profile in PROFILES.items()}
    assert [name for name, sentence in told.items() if sentence] == ["acks_0", "acks_1"]


def test_the_command_explain_says_it_for_the_files_of_a_user(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    producer, topic = tmp_path / "p.properties", tmp_path / "t.properties"
    producer.write_text("acks=1\nretries=0\n")
    topic.write_text("min.insync.replicas=2\n")
    files = ["--producer-config", str(producer), "--topic-config", str(topic), "--written-for", "librdkafka"]
    assert cli.main(["explain", *files, "--claim", "at_least_once"]) == 0
    assert SENTENCE in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("lost", [0, 3])
def test_it_stands_in_what_to_change_whether_or_not_a_record_was_lost(lost: int, tmp_path: Path) -> None:
    of = planned(**PASTED, min_insync_replicas=2, claim="at_least_once", records=1200)
    verdict = judged(evidence_of(of))
    subject = arm(verdict, "own")
    assert subject.verdict == "HELD"
    if lost:
        findings = [
            msgspec.structs.replace(each, ruling="FORBIDDEN", ruled_by="claim", tolerance=0, count=lost)
            if each.anomaly == "LOST"
            else each
            for each in subject.findings
        ]
        subject = msgspec.structs.replace(subject, verdict="VIOLATED", findings=findings)
    one = msgspec.structs.replace(verdict, arms=[subject])
    (advice,) = advices(of, [], [], one)
    assert SENTENCE in advice.text and "acks=all" in {option.change for option in advice.options}
