"""The explanation: what settings promise under a fault and at worst, by which rule, with no run at all."""

from __future__ import annotations

from typing import get_args

from msgspec import Struct

from delivery_verifier.contract import Ruling, contract, effective, guarantees
from delivery_verifier.injection import Disturbance, DisturbanceKind
from delivery_verifier.planned import expected_disturbances
from delivery_verifier.scenario import Claim, FaultPlan, Profile, Setting
from delivery_verifier.settings import Settings

MEANINGS: dict[Claim, str] = {
    "at_most_once": "no record is written twice",
    "at_least_once": "no acknowledged record is lost",
    "exactly_once": "neither, as long as the application itself sends nothing again",
    "ordered": "per producer and partition, in the order sent",
}


class Guarantee(Struct, frozen=True, kw_only=True):
    """Whether settings give a guarantee under the fault, and under every kind of disturbance that there are rules for."""

    guarantee: Claim
    meaning: str
    under_fault: bool
    always: bool


class Explanation(Struct, frozen=True, kw_only=True):
    """What `kdv explain --json` prints. `expected`: the disturbances that the fault is expected to cause."""

    profile: str
    summary: str
    notes: tuple[str, ...]
    producer: dict[str, Setting]
    topic: dict[str, Setting]
    fault: str
    claim: Claim
    expected: list[str]
    guarantees: list[Guarantee]
    rulings: list[Ruling]


def explain(profile: Profile, fault: FaultPlan, claim: Claim = "contract") -> Explanation:
    """Raises ContradictorySettings where the settings promise nothing, because no producer can have them."""
    settings, expected = Settings.of(profile), expected_disturbances(fault, "")
    worst = [Disturbance(kind=kind, at_us=0, planned=True) for kind in get_args(DisturbanceKind)]
    given, always = guarantees(contract(settings, expected)), guarantees(contract(settings, worst))
    return Explanation(
        profile=profile.name, summary=profile.summary, notes=profile.notes, producer=profile.producer, topic=profile.topic,
        fault=fault.name, claim=claim, expected=list(dict.fromkeys(one.kind for one in expected)),
        guarantees=[
            Guarantee(guarantee=name, meaning=MEANINGS[name], under_fault=holds, always=always[name])
            for name, holds in given.items()
        ],
        rulings=list(effective(settings, claim, expected).values()),
    )  # fmt: skip


def told(it: Explanation) -> str:
    """The explanation as several lines for a person."""
    lines = [f"settings   {it.profile}: {it.summary}", *(f"           {note}" for note in it.notes)]
    lines += [f"           {name}={str(value).lower()}" for name, value in {**it.producer, **it.topic}.items()]
    lines.append(f"fault      {it.fault}, expected to cause: {', '.join(it.expected) or 'nothing'}")
    lines.append("guarantees of these settings: under this fault, and always, that is under every disturbance that the "
                 "verifier knows")  # fmt: skip
    lines += [f"  {one.guarantee:<14} {_word(one)} {one.meaning}" for one in it.guarantees]
    lines.append(f"per anomaly, under this fault and the claim {it.claim}")
    for ruling in it.rulings:
        lines += [f"  {ruling.anomaly:<12} {ruling.ruling:<10} {ruling.sentence}", f"{'':26}{ruling.rule}; {ruling.source}"]
    return "\n".join(lines) + "\n"


def _word(one: Guarantee) -> str:
    return f"{'yes' if one.under_fault else 'no':<3} {'always' if one.always else 'not always' if one.under_fault else '':<11}"
