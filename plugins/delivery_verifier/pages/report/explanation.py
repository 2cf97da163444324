"""The explanation of a case: how the settings and the leadership of the partition caused the loss or the duplicate."""

from __future__ import annotations

from typing import Any

from delivery_verifier.model.history import Observation
from delivery_verifier.pages.leadership import Leadership, topic_of
from delivery_verifier.pages.material import Material
from delivery_verifier.pages.words import enumeration


def explanation(material: Material, row: dict[str, Any]) -> str:
    """Explains in sentences how the settings caused a loss or a duplicate. `row`: the row of the case in anomalies/.

    Returns an empty text if the cause is not known.
    """
    if material.scenario is None or row["arm"] not in material.scenario.arm_names or row["sent_at"] is None:
        return ""
    settings = material.scenario.arm(row["arm"]).profile.producer
    if row["kind"] == "DUPLICATED" and settings.get("enable.idempotence") is not True:
        return (
            "The sending program handed it over once. Without enable.idempotence a broker cannot recognise a retry "
            "of the client as one, so every try that arrives is appended."
        )
    if row["kind"] != "LOST":
        return ""
    return _loss_explanation(material, row, str(settings.get("acks")))


def _loss_explanation(material: Material, row: dict[str, Any], acks: str) -> str:
    """Explains in sentences how acks=0 caused a loss, or how acks=1 together with a change of leader caused a loss.

    `acks`: the producer's setting. Returns an empty text if the cause of the loss is not known.
    """
    if acks == "0":
        return "With acks=0 the client does not ask whether it arrived: sent is not written."
    topic, sent_us, settled_us = topic_of(material, row["arm"]), row["sent_at"], row["settled_at"] or row["sent_at"]
    terms = _terms(Leadership(material.observations).observations(topic, row["partition"]))
    before = [term for term in terms if term.at_us <= sent_us]
    under_way = [term for term in terms if sent_us < term.at_us <= settled_us]
    later = [term for term in terms if term.at_us > settled_us]
    if acks != "1" or not before:
        return ""
    alone, cut = (
        "With acks=1 the leader alone vouches for a record",
        "what a new leader does not have is cut off the logs",
    )
    if not under_way:
        leader = before[-1].leader
        after = next((term.leader for term in later if term.leader != leader), None)
        copied = f"Broker {after} then led without having it, and {cut} of the others."
        return "" if after is None else f"{alone}: broker {leader} did. {copied}"
    leader = under_way[-1].leader
    deposed = {term.leader for term in (before[-1], *under_way)} - {leader}
    if later or not deposed:
        return ""  # any of these leaders may have vouched for it
    brokers = enumeration([f"broker {broker}" for broker in sorted(deposed)])
    return (
        f"{alone}. The acknowledgement of the deposed leader, {brokers}, arrived after broker {leader} had taken over "
        f"without having the record, and {cut} of the others."
    )


def _terms(observations: list[Observation]) -> list[Observation]:
    """Returns the first observation of each term of a leader. A new term begins when the partition gets another leader
    or a new leader epoch. Observations without a leader are left out."""
    terms: list[Observation] = []
    for observation in observations:
        is_new = not terms or (terms[-1].leader, terms[-1].leader_epoch) != (
            observation.leader,
            observation.leader_epoch,
        )
        if observation.leader >= 0 and is_new:
            terms.append(observation)
    return terms
