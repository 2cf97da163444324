"""The explanation: what settings promise under a fault and under every class of faults, by which rule, with no run at
all."""

from __future__ import annotations

from msgspec import Struct

from delivery_verifier.catalogue.entry import Entry
from delivery_verifier.contract import alternatives, forecast
from delivery_verifier.contract.alternatives import Alternative
from delivery_verifier.contract.guarantees import FAULT_CLASSES, GUARANTEES, GuaranteeRow, lines, matrix
from delivery_verifier.contract.rulings import Ruling, contract, effective, guarantees
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import TRANSACTIONAL
from delivery_verifier.model.data import Setting
from delivery_verifier.model.history import Disturbance
from delivery_verifier.model.scenario import Arm, Claim, Scenario, expected_text


class Guarantee(Struct, frozen=True, kw_only=True):
    """Whether settings give a guarantee under the fault, and under every kind of disturbance that there are rules
    for."""

    guarantee: Claim
    meaning: str
    under_fault: bool
    always: bool


class Explanation(Struct, frozen=True, kw_only=True):
    """What `kdv explain --json` prints of one arm. `expected`: the disturbances that the fault is expected to cause.
    `matrix`: which guarantees the settings give under which class of faults. `alternatives`: what single settings
    change."""

    arm: str
    role: str
    profile: str
    summary: str
    notes: tuple[str, ...]
    producer: dict[str, Setting]
    topic: dict[str, Setting]
    fault: str
    claim: Claim
    expects: str
    expected: list[str]
    guarantees: list[Guarantee]
    rulings: list[Ruling]
    matrix: list[GuaranteeRow]
    alternatives: list[Alternative]


class OfScenario(Struct, frozen=True, kw_only=True):
    """What `kdv explain --scenario NAME --json` prints."""

    scenario: str
    title: str
    promise: str
    source: str
    fault: str
    rules: tuple[str, ...]
    arms: list[Explanation]


def explain(scenario: Scenario, arm: Arm) -> Explanation:
    """Raises ContradictorySettings where the settings promise nothing, because no producer can have them."""
    profile, settings = arm.profile, Settings.of_arm(scenario, arm)
    expected = _possible(settings, forecast.expected_disturbances(scenario.fault, arm))
    worst = [found for one in FAULT_CLASSES for found in one.disturbances]
    given, always = guarantees(contract(settings, expected)), guarantees(contract(settings, worst))
    return Explanation(
        arm=arm.name,
        role=arm.role,
        profile=profile.name,
        summary=profile.summary,
        notes=profile.notes,
        producer=profile.producer,
        topic=profile.topic,
        fault=scenario.fault.name,
        claim=arm.claim,
        expects=expected_text(arm.expectation),
        expected=list(dict.fromkeys(one.kind for one in expected)),
        guarantees=[
            Guarantee(guarantee=name, meaning=GUARANTEES[name], under_fault=holds, always=always[name])
            for name, holds in given.items()
        ],
        rulings=list(effective(settings, arm.claim, expected).values()),
        matrix=matrix(settings),
        alternatives=alternatives.alternatives(settings),
    )


def _possible(settings: Settings, expected: list[Disturbance]) -> list[Disturbance]:
    """Without unclean elections where the topic forbids them and nobody asks: there, nothing is elected."""
    allowed = settings.unclean_leader_election or any(one.kind == "unclean_request" for one in expected)
    return [one for one in expected if allowed or one.kind != "unclean_election"]


def explain_scenario(entry: Entry, scenario: Scenario) -> OfScenario:
    """Every arm of a scenario of the catalogue."""
    return OfScenario(
        scenario=entry.name,
        title=entry.title,
        promise=entry.promise,
        source=entry.source,
        fault=scenario.fault.summary,
        rules=entry.rules,
        arms=[explain(scenario, arm) for arm in scenario.loaded],
    )


def told(it: Explanation) -> str:
    """The explanation of one arm as several lines for a person."""
    text = [f"settings   {it.profile}: {it.summary}", *(f"           {note}" for note in it.notes)]
    text += [f"           {name}={str(value).lower()}" for name, value in {**it.producer, **it.topic}.items()]
    text.append(f"fault      {it.fault}, expected to cause: {', '.join(it.expected) or 'nothing'}")
    text.append("guarantees of these settings: under this fault, and always, that is under every class of faults below")
    text += [f"  {one.guarantee:<14} {_word(one)} {one.meaning}" for one in it.guarantees]
    text += ["under each class of faults (docs/promises.md says what each is)", *lines(it.matrix)]
    text += ["why these settings: what another value of a single one changes", *alternatives.lines(it.alternatives)]
    text.append(f"per anomaly, under this fault and the claim {it.claim}")
    return "\n".join([*text, *_rulings(it)]) + "\n"


def told_scenario(it: OfScenario) -> str:
    """A scenario as several lines for a person: what is promised, and what every arm claims, may do, and is to end
    with."""
    text = [f"scenario   {it.scenario}: {it.title}", f"promise    {it.promise}", f"source     {it.source}"]
    text += [f"fault      {it.fault}", f"rules      {', '.join(it.rules)}"]
    for arm in it.arms:
        text += ["", f"{arm.role} {arm.arm}: {arm.summary}"]
        text.append(
            f"  claim {arm.claim}, expected: {arm.expects}; the fault is expected to cause: "
            f"{', '.join(arm.expected) or 'nothing'}"
        )
        text += _rulings(arm)
    return "\n".join(text) + "\n"


def _rulings(it: Explanation) -> list[str]:
    found = []
    for ruling in it.rulings:
        found += [
            f"  {ruling.anomaly:<12} {ruling.ruling:<10} {ruling.sentence}",
            f"{'':26}{ruling.rule}; {ruling.source}",
        ]
    return found


def _word(one: Guarantee) -> str:
    always = "always" if one.always else "not always" if one.under_fault else ""
    return f"{'yes' if one.under_fault else 'no':<3} {always:<11}"


def describe(scenario: Scenario) -> str:
    """Several lines for a person."""
    load, cluster, fault = scenario.load, scenario.cluster, scenario.fault
    lines = [
        f"cluster  a fresh embedded Apache Kafka {cluster.kafka_version} on this host: 1 controller, "
        f"{cluster.brokers} brokers, on loopback; nothing else is touched",
        f"topics   {load.partitions} partitions, {load.replication_factor} replicas each, one topic per arm",
        f"load     {load.payload_bytes}-byte records, {load.pacing} over {load.duration_s:g} s, and until the fault "
        "has healed",
        f"fault    {fault.name}, {fault.cycles} time(s): {fault.summary}",
    ]
    for arm in scenario.loaded:
        lines.append(f"arm      {arm.name} ({arm.role}): at least {arm.records:,} records, claim {arm.claim}")
        lines += [f"           {note}" for note in arm.profile.notes]
        lines += [f"           {line}" for line in promises(scenario, arm)]
    lines.append("arm      canary: planted anomalies of every kind, all of which must be found")
    return "\n".join(lines) + "\n"


def promises(scenario: Scenario, arm: Arm) -> list[str]:
    """One line per anomaly that the arm can have: what its settings and claim say of it under the scenario's fault."""
    seen = forecast.expected_disturbances(scenario.fault, arm)
    rulings = effective(Settings.of_arm(scenario, arm), arm.claim, seen).values()
    told = [one for one in rulings if arm.transactional_id or one.anomaly not in TRANSACTIONAL]
    return [f"{ruling.anomaly:<15} {ruling.ruling:<10} {ruling.sentence}" for ruling in told]
