"""The explanation: what settings promise under one fault and under every class of faults, and which rules say so.

No run is needed for an explanation.
"""

from __future__ import annotations

import dataclasses

from msgspec import Struct

from delivery_verifier.catalogue.applications import application_lines
from delivery_verifier.catalogue.entry import Entry
from delivery_verifier.cluster.backends import backend_of
from delivery_verifier.contract import alternatives, clients, forecast
from delivery_verifier.contract.alternatives import Alternative
from delivery_verifier.contract.clients import JavaContract
from delivery_verifier.contract.guarantees import FAULT_CLASSES, GuaranteeRow, lines, matrix
from delivery_verifier.contract.rulings import Ruling, contract, effective, guarantees
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import EFFECTS, TRANSACTIONAL
from delivery_verifier.model.application import Application
from delivery_verifier.model.claims import CLAIMS
from delivery_verifier.model.data import Setting
from delivery_verifier.model.history import Disturbance
from delivery_verifier.model.scenario import Arm, Claim, Profile, Scenario
from delivery_verifier.model.verdict import expected_text
from delivery_verifier.planning import arm_clients, beforehand, client_versions, consumers, own_consumers
from delivery_verifier.planning.client_versions import VersionPromise
from delivery_verifier.planning.consumers import ConsumerExplanation, ruling_lines
from delivery_verifier.planning.own_settings import clients as own_clients


class Guarantee(Struct, frozen=True, kw_only=True):
    """A guarantee, and whether the settings of an arm give it.

    `under_fault`: whether the settings give the guarantee under the fault of the scenario. `always`: whether the
    settings give the guarantee under every class of faults (see FaultClass).
    """

    guarantee: Claim
    meaning: str
    under_fault: bool
    always: bool


class Explanation(Struct, frozen=True, kw_only=True):
    """The explanation of one arm, as `kdv explain --json` prints it.

    * `application`: the arm's consumer under test, or None.
    * `client`: which client gets the settings, and by whose names.
    * `notes`: sentences on how the user's own settings were translated, and on what the arm cannot show.
    * `expects`: the verdict and the counts that the arm is expected to have, in words.
    * `expected`: the kinds of disturbances that the fault is expected to cause.
    * `rulings`: for each anomaly, whether it is forbidden or permitted under the fault and the claim.
    * `matrix`: the guarantees that the settings give, for each class of faults (see FaultClass).
    * `alternatives`: what other values of one or two settings would change.
    * `java`: what the contract says of the Java client, in the version that the user named, or in its newest. None: the
      settings were not written for that client.
    * `versions`: what the settings promise with the other versions that the user may mean. Empty: nobody wrote these
      settings for a client.
    * `consumers`: explanations of consumers. There is one for the arm's application. If the user gave a file of
      consumer settings, there is also one for each discipline that the user's code may have.

    All fields but `java`, `versions` and `consumers` are about the client of the arm.
    """

    arm: str
    role: str
    profile: str
    summary: str
    client: str
    notes: tuple[str, ...]
    producer: dict[str, Setting]
    topic: dict[str, Setting]
    application: Application | None
    fault: str
    claim: Claim
    expects: str
    expected: list[str]
    guarantees: list[Guarantee]
    rulings: list[Ruling]
    matrix: list[GuaranteeRow]
    alternatives: list[Alternative]
    java: JavaContract | None
    versions: list[VersionPromise]
    consumers: list[ConsumerExplanation]


class ScenarioExplanation(Struct, frozen=True, kw_only=True):
    """The explanation of a scenario of the catalogue, as `kdv explain --scenario NAME --json` prints it."""

    scenario: str
    title: str
    promise: str
    source: str
    fault: str
    rules: tuple[str, ...]
    arms: list[Explanation]


def explain(scenario: Scenario, arm: Arm, consumer_config: str | None = None, client: str | None = None) -> Explanation:
    """Returns the explanation of one arm. Raises ContradictorySettings for settings that no producer can have.

    `consumer_config`: None, or the path of a file of consumer settings, which the explanation then covers, too.
    `client`: the client for which this file was written, e.g. `java:3.1`, or None. Raises BadInput if the file or a
    setting in it is refused.
    """
    profile, settings = arm.profile, Settings.of_arm(scenario, arm)
    expected = _possible(
        settings, forecast.expected_disturbances(scenario.fault, arm, scenario.load.replication_factor)
    )
    all_disturbances = [disturbance for faults in FAULT_CLASSES for disturbance in faults.disturbances]
    under_fault = guarantees(contract(settings, expected))
    always = guarantees(contract(settings, all_disturbances))
    return Explanation(
        arm=arm.name,
        role=arm.role,
        profile=profile.name,
        summary=profile.summary,
        client=arm_clients.gets(arm),
        notes=(*profile.notes, *([beforehand.ONE_REPLICA] if scenario.load.replication_factor == 1 else [])),
        producer=arm.producer,
        topic=profile.topic,
        application=arm.application,
        fault=scenario.fault.name,
        claim=arm.claim,
        expects=expected_text(arm.expectation),
        expected=list(dict.fromkeys(disturbance.kind for disturbance in expected)),
        guarantees=[
            Guarantee(guarantee=name, meaning=CLAIMS[name].meaning, under_fault=holds, always=always[name])
            for name, holds in under_fault.items()
        ],
        rulings=list(effective(settings, arm.claim, expected).values()),
        matrix=matrix(settings),
        alternatives=alternatives.alternatives(settings),
        java=_java(settings, profile),
        versions=client_versions.promises(profile),
        consumers=own_consumers.consumers(settings, arm.application, consumer_config, client),
    )


def _java(settings: Settings, profile: Profile) -> JavaContract | None:
    """Returns the contract for the Java client of `profile`, or None if the profile was not written for one."""
    if profile.written_for != "java":
        return None
    of_version = dataclasses.replace(settings, client_version=profile.written_for_version)
    return clients.java_contract(of_version, own_clients.of_profile(profile).name)


def _possible(settings: Settings, expected: list[Disturbance]) -> list[Disturbance]:
    """Returns those of the expected disturbances that are possible with these settings.

    An unclean election is possible only if the topic allows unclean elections, or if an operator requests one.
    """
    asked_for = any(disturbance.kind == "unclean_request" for disturbance in expected)
    if settings.unclean_leader_election or asked_for:
        return expected
    return [disturbance for disturbance in expected if disturbance.kind != "unclean_election"]


def explain_scenario(entry: Entry, scenario: Scenario) -> ScenarioExplanation:
    """Returns the explanation of every arm of `scenario`, which was built from `entry` of the catalogue."""
    return ScenarioExplanation(
        scenario=entry.name,
        title=entry.title,
        promise=entry.promise,
        source=entry.source,
        fault=scenario.fault.summary,
        rules=entry.rules,
        arms=[explain(scenario, arm) for arm in scenario.loaded],
    )


def explanation_text(explanation: Explanation) -> str:
    """Returns the explanation of one arm as several lines for a person."""
    text = [
        f"settings   {explanation.profile}: {explanation.summary}",
        f"           {explanation.client}",
        *(f"           {note}" for note in explanation.notes),
    ]
    text += [
        f"           {name}={str(value).lower()}"
        for name, value in {**explanation.producer, **explanation.topic}.items()
    ]
    text += client_versions.lines(explanation.versions)
    text += [line for consumer in explanation.consumers for line in consumers.text_lines(consumer)]
    text.append(f"fault      {explanation.fault}, expected to cause: {', '.join(explanation.expected) or 'nothing'}")
    text.append(
        f"guarantees of these settings{client_versions.holds_for(explanation.versions)}: under this fault, and always, "
        "that is under every class of faults below"
    )
    text += [f"  {row.guarantee:<14} {_yes_or_no(row)} {row.meaning}" for row in explanation.guarantees]
    text += ["under each class of faults (docs/promises.md says what each is)", *lines(explanation.matrix)]
    text += clients.lines(explanation.java) if explanation.java else []
    text += [
        "why these settings: what another value of a single one changes",
        *alternatives.lines(explanation.alternatives),
    ]
    text.append(f"per anomaly, under this fault and the claim {explanation.claim}")
    return "\n".join([*text, *_rulings(explanation)]) + "\n"


def scenario_text(scenario: ScenarioExplanation) -> str:
    """Returns the explanation of a scenario as several lines for a person.

    The lines hold the scenario's promise and, for each arm, the claim, the expected verdict, and the rulings.
    """
    text = [
        f"scenario   {scenario.scenario}: {scenario.title}",
        f"promise    {scenario.promise}",
        f"source     {scenario.source}",
    ]
    text += [f"fault      {scenario.fault}", f"rules      {', '.join(scenario.rules)}"]
    for arm in scenario.arms:
        text += ["", f"{arm.role} {arm.arm}: {arm.summary}"]
        text += [f"  {line}" for line in (arm.client, *application_lines(arm.application))]
        text.append(
            f"  claim {arm.claim}, expected: {arm.expects}; the fault is expected to cause: "
            f"{', '.join(arm.expected) or 'nothing'}"
        )
        text += _rulings(arm)
    return "\n".join(text) + "\n"


def _rulings(explanation: Explanation) -> list[str]:
    """Returns the lines about the rulings. Leaves out the rulings on effects if the arm has no application."""
    absent = () if explanation.application else EFFECTS
    return ruling_lines([ruling for ruling in explanation.rulings if ruling.anomaly not in absent])


def _yes_or_no(guarantee: Guarantee) -> str:
    """Returns two columns of text. The first column says whether the settings give the guarantee under the scenario's
    fault.

    The second column says whether the settings give the guarantee under every class of faults. If the first column says
    no, the second column is empty.
    """
    always = ""
    if guarantee.always:
        always = "always"
    elif guarantee.under_fault:
        always = "not always"
    return f"{'yes' if guarantee.under_fault else 'no':<3} {always:<11}"


def describe(scenario: Scenario) -> str:
    """Returns the plan of a run as several lines for a person: cluster, topics, load, fault and arms."""
    load, cluster, fault = scenario.load, scenario.cluster, scenario.fault
    lines = [
        f"cluster  {backend_of(cluster).describe(cluster)}",
        f"topics   {_counted(load.partitions, 'partition')}, {_counted(load.replication_factor, 'replica')} each, "
        "one topic per arm",
        f"load     {load.payload_bytes}-byte records, {load.pacing} over {load.duration_s:g} s, and until the fault "
        "has healed",
        f"fault    {fault.name}, {_counted(fault.cycles, 'time')}: {fault.summary}",
    ]
    for arm in scenario.loaded:
        who = f"{arm.role}, {arm.versioned_client.words}"
        lines.append(f"arm      {arm.name} ({who}): at least {arm.records:,} records, claim {arm.claim}")
        notes = (
            arm_clients.gets(arm),
            *arm.profile.notes,
            *application_lines(arm.application),
            *beforehand.lines(scenario, arm),
        )
        lines += [f"           {line}" for line in (*notes, *promises(scenario, arm))]
    lines.append("arm      canary: planted anomalies of every kind, all of which must be found")
    return "\n".join(lines) + "\n"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s'[: count != 1]}"


def promises(scenario: Scenario, arm: Arm) -> list[str]:
    """Returns one line for each anomaly that `arm` can have.

    A line says whether the arm's settings and claim forbid or permit the anomaly under the scenario's fault. The line
    also gives the reason.
    """
    expected = forecast.expected_disturbances(scenario.fault, arm, scenario.load.replication_factor)
    rulings = effective(Settings.of_arm(scenario, arm), arm.claim, expected).values()
    absent = (() if arm.transactional_id else TRANSACTIONAL) + (() if arm.application else EFFECTS)
    possible = [ruling for ruling in rulings if ruling.anomaly not in absent]
    return [f"{ruling.anomaly:<15} {ruling.ruling:<10} {ruling.sentence}" for ruling in possible]
