"""Compares a violated arm with other arms that held under the same fault, and says why these arms held."""

from __future__ import annotations

from delivery_verifier.model.anomalies import KINDS, Anomaly
from delivery_verifier.model.data import Setting, setting_text
from delivery_verifier.model.verdict import ArmVerdict, Finding
from delivery_verifier.pages.material import Material
from delivery_verifier.pages.words import application_properties, enumeration, number

RULED = (
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
"""The settings that rules of the contract look at. Other settings do not explain why an arm held."""


def beside(material: Material, judged: ArmVerdict, broken: list[Finding]) -> list[str]:
    """Returns sentences about other arms that HELD, and that have no case of the anomalies of which `judged` is
    convicted. `broken`: the findings that convict `judged`.

    There is one sentence for each such arm whose own settings or claim forbid these anomalies. The sentence names the
    settings in which the arm differs from `judged`.
    """
    kinds = [finding.anomaly for finding in broken]
    sentences = []
    for other in material.verdict.arms if material.verdict else []:
        if other.arm == judged.arm or other.role == "canary" or other.verdict != "HELD":
            continue
        own = [finding for finding in other.findings if finding.anomaly in kinds]
        if {finding.anomaly for finding in own} != set(kinds) or any(
            finding.tolerance is None or finding.cases for finding in own
        ):
            continue
        words = enumeration(
            [KINDS[Anomaly(kind)].participle if kind in Anomaly.__members__ else kind for kind in kinds]
        )
        records = number(other.books.get("reported", 0))
        reason = _settings(material, other.arm, judged.arm)
        sentences.append(
            f"{other.arm} held under the same fault at the same moment: none of its {records} records "
            f"{'was' if len(kinds) == 1 else 'were'} {words}. {reason} {own[0].sentence}".replace("  ", " ")
        )
    return sentences


def _settings(material: Material, arm: str, other: str) -> str:
    """Returns a sentence on the settings that differ between `arm` and `other`, with the values in both arms. The
    sentence is empty if the settings are not known, or are equal."""
    scenario = material.scenario
    if scenario is None or not {arm, other} <= set(scenario.arm_names):
        return ""
    own, others = _properties(material, arm), _properties(material, other)
    names = [name for name in RULED if name in own and own.get(name) != others.get(name)]
    if not names:
        return ""
    has = enumeration([f"{name}={setting_text(own[name])}" for name in names], "and")
    has_not = enumeration([f"{name}={setting_text(others[name])}" for name in names if name in others], "and")
    return f"It has {has}, where {other} has {has_not}." if has_not else f"It has {has}."


def _properties(material: Material, name: str) -> dict[str, Setting]:
    if material.scenario is None:
        return {}
    arm = material.scenario.arm(name)
    return {**arm.profile.producer, **arm.profile.topic, **application_properties(arm.application)}
