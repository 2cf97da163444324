"""What a run would do, in words: arms, load, fault and contract, before anything is started."""

from __future__ import annotations

from delivery_verifier.contract import forecast
from delivery_verifier.contract.rulings import effective
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import TRANSACTIONAL
from delivery_verifier.model.scenario import Arm, Scenario


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
    seen = forecast.expected(scenario.fault, arm)
    rulings = effective(Settings.of_arm(scenario, arm), arm.claim, seen).values()
    told = [one for one in rulings if arm.transactional_id or one.anomaly not in TRANSACTIONAL]
    return [f"{ruling.anomaly:<15} {ruling.ruling:<10} {ruling.sentence}" for ruling in told]
