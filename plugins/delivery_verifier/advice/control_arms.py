"""Compares a violated arm with other arms that held under the same fault, and says why these arms held."""

from __future__ import annotations

from collections.abc import Sequence

from delivery_verifier.catalogue.applications import MEMBERS_CLIENT, application_properties
from delivery_verifier.model.anomalies import KINDS, Anomaly
from delivery_verifier.model.data import Setting, setting_text
from delivery_verifier.model.figures import enumeration
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.verdict import ArmVerdict, Finding

RULED = (
    "client",
    MEMBERS_CLIENT,
    "acks",
    "enable.idempotence",
    "retries",
    "max.in.flight.requests.per.connection",
    "transactional.id",
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "flush.messages",
    "discipline",
    "auto.offset.reset",
    "isolation.level",
)
"""The client, and the settings that rules of the contract look at. Nothing else explains why an arm held."""


def arms_that_held(
    scenario: Scenario, arms: Sequence[ArmVerdict], judged: ArmVerdict, broken: Sequence[Finding]
) -> list[str]:
    """Returns sentences about those of `arms` that HELD, and that have no case of the anomalies of which `judged` is
    convicted. `broken`: the findings that convict `judged`.

    There is one sentence for each such arm whose own settings or claim forbid these anomalies. The sentence names the
    settings in which the arm differs from `judged`.
    """
    kinds = [finding.anomaly for finding in broken]
    words = enumeration([KINDS[Anomaly(kind)].participle if kind in Anomaly.__members__ else kind for kind in kinds])
    sentences = []
    for other in arms:
        if other.arm == judged.arm or other.role == "canary" or other.verdict != "HELD":
            continue
        own = [finding for finding in other.findings if finding.anomaly in kinds]
        if {finding.anomaly for finding in own} != set(kinds) or any(
            finding.tolerance is None or finding.cases for finding in own
        ):
            continue
        reason = _settings(scenario, other.arm, judged.arm)
        sentences.append(
            f"{other.arm} held under the same fault at the same moment: none of its "
            f"{other.tally.get('reported', 0):,} records {'was' if len(kinds) == 1 else 'were'} {words}. "
            f"{reason} {own[0].sentence}".replace("  ", " ")
        )
    return sentences


def _settings(scenario: Scenario, arm: str, other: str) -> str:
    """Returns a sentence on the settings that differ between `arm` and `other`, with the values in both arms. The
    sentence is empty if the settings are equal."""
    own, others = _properties(scenario, arm), _properties(scenario, other)
    names = [name for name in RULED if name in own and own.get(name) != others.get(name)]
    if not names:
        return ""
    has = enumeration([f"{name}={setting_text(own[name])}" for name in names], "and")
    has_not = enumeration([f"{name}={setting_text(others[name])}" for name in names if name in others], "and")
    return f"It has {has}, where {other} has {has_not}." if has_not else f"It has {has}."


def _properties(scenario: Scenario, name: str) -> dict[str, Setting]:
    arm = scenario.arm(name)
    application = application_properties(arm.application)
    return {"client": arm.versioned_client.text, **arm.profile.producer, **arm.profile.topic, **application}
