"""Tests of the part of a verdict's sentence that says what was done to the cluster. It must be right for every action
and every target."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from msgspec.structs import replace
from support.evidence import RUN, evidence_of, the_injections

from delivery_verifier.catalogue.scenarios import ENTRIES
from delivery_verifier.model.fault_actions import ACTS, OBSERVE
from delivery_verifier.model.fault_plan import TARGETS, FaultStep, Trigger
from delivery_verifier.verdict.sentences import _done

EFFECTIVE = [name for name, act in ACTS.items() if act.takes_effect]
OF_BROKERS = {target.in_a_sentence for target in TARGETS.values()}
SUBJECTS = {
    "broker": OF_BROKERS,
    "leader": OF_BROKERS - {"every broker"} | {"every leader"},
    "partition": {"every leaderless partition of the subjects"},
    "topic": {"every arm's topic"},
    "producer": {"every producer"},
    "application": {"every application"},
}
"""The grammatical subjects that a sentence on an action may have, by `Act.whom` (the kind of thing that the action is
done to)."""


def sentence(action: str, *targets: str) -> str:
    """Returns what the sentence of a run says was done, if the run has one injection of `action`."""
    steps = tuple(FaultStep(trigger=Trigger(kind="at_once"), action=action, target=target) for target in targets)
    evidence = evidence_of(replace(RUN, fault=replace(RUN.fault, steps=steps)))
    (kill,) = the_injections(RUN)
    return _done(dataclasses.replace(evidence, injections=[replace(kill, action=action)]))


def test_what_somebody_else_did_names_the_broker_whatever_the_target() -> None:
    assert sentence(OBSERVE, "none") == "broker 1 was taken out by somebody else once"


@pytest.mark.parametrize(
    ("action", "target"), list(itertools.product([name for name in EFFECTIVE if name != OBSERVE], (*TARGETS, "same")))
)
def test_every_action_on_every_target_has_a_right_sentence(action: str, target: str) -> None:
    text, act = sentence(action, target), ACTS[action]
    assert "hit by" not in text
    subject = text.removesuffix(f" {act.done} once")
    assert subject != text
    assert subject in SUBJECTS[act.whom]


@pytest.mark.parametrize(
    ("action", "targets", "text"),
    [
        ("kill", ("leader",), "the leader was killed once"),
        ("pause", ("leader",), "the leader was frozen once"),
        ("stop", ("follower",), "a broker was stopped once"),
        ("stop", ("next",), "a broker was stopped once"),
        ("kill", ("leader", "follower"), "a broker was killed once"),
        ("kill", ("transaction_coordinator",), "the transaction coordinator was killed once"),
        ("pause", ("followers",), "every follower was frozen once"),
        ("kill", ("leader_and_follower",), "the leader with a follower was killed once"),
        ("power_off", ("all",), "every broker lost its power once"),
        ("power_off", ("leader",), "the leader lost its power once"),
        ("elect_preferred", ("all",), "every leader was replaced in an election once"),
        ("isolate", ("leader",), "the leader was cut off once"),
        ("alter_topic", ("leader",), "every arm's topic was altered once"),
        ("add_partitions", ("none",), "every arm's topic was given more partitions once"),
        (
            "elect_unclean",
            ("other_follower",),
            "every leaderless partition of the subjects was given a leader from outside the ISR once",
        ),
        ("kill_producer", ("none",), "every producer was killed once"),
        ("terminate_producer", ("none",), "every producer was ended with SIGTERM once"),
        ("resend", ("none",), "every producer was made to resend every INDETERMINATE record once"),
        ("drop", ("leader",), "the leader was kept from receiving or answering requests once"),
    ],
)
def test_the_sentence_names_who_suffered_what(action: str, targets: tuple[str, ...], text: str) -> None:
    assert sentence(action, *targets) == text


def test_only_what_takes_effect_has_words_for_what_was_done() -> None:
    assert [name for name, act in ACTS.items() if act.done] == EFFECTIVE


def test_an_action_of_another_version_is_named_as_it_is() -> None:
    assert sentence("unplug", "leader") == "the leader was hit by unplug once"


@pytest.mark.parametrize("name", ENTRIES)
def test_no_scenario_of_the_catalogue_says_hit_by(name: str) -> None:
    steps = [step for step in ENTRIES[name].fault.steps if step.act.takes_effect]
    assert all("hit by" not in sentence(step.action, step.target) for step in steps)
