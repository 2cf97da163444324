"""What a run would do, in words: arms, load, fault and contract, before anything is started."""

from __future__ import annotations

from delivery_verifier.contract import effective
from delivery_verifier.injection import Disturbance
from delivery_verifier.scenario import Arm, FaultPlan, Scenario
from delivery_verifier.settings import Settings

MANY = 3
"""In-sync replicas that a plan which takes the power of all of them is expected to take it of."""


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
        lines += [f"           {line}" for line in promises(arm, scenario.fault)]
    lines.append("arm      canary: planted anomalies of every kind, all of which must be found")
    return "\n".join(lines) + "\n"


def expected_disturbances(fault: FaultPlan, topic: str) -> list[Disturbance]:
    """What the fault plan is expected to do to a topic, if all its steps bite."""
    found = [
        Disturbance(
            kind=kind, at_us=0, planned=True, topic=topic, setting=str(step.options.get("setting", "")),
            value=str(step.options.get("value", "")).lower(),
        )
        for step in fault.steps for kind in (*step.act.itself, *step.act.causes)
    ]  # fmt: skip
    return [*found, *(Disturbance(kind=kind, at_us=0, planned=True, topic=topic, replicas=MANY) for kind in fault.causes)]


def promises(arm: Arm, fault: FaultPlan) -> list[str]:
    """One line per anomaly: what the arm's settings and claim say of it under `fault`."""
    rulings = effective(Settings.of(arm.profile), arm.claim, expected_disturbances(fault, arm.topic_name)).values()
    return [f"{ruling.anomaly:<12} {ruling.ruling:<10} {ruling.sentence}" for ruling in rulings]
