"""The entries of the catalogue that measure the price of a guarantee, that is, what the guarantee costs.

Each entry measures one profile under one condition. A condition is a pace of the load together with a fault or none
(see CONDITIONS). An entry has only one arm and a fresh cluster, because several arms on one cluster would slow each
other down.

Latency is measured only at a fixed rate. If the client sends as fast as it can, the records wait in the client's own
queue, and their latency means nothing.
"""

from __future__ import annotations

from typing import Literal, get_args

from delivery_verifier.catalogue.entry import ArmPlan, Entry
from delivery_verifier.catalogue.faults import FAULTS
from delivery_verifier.catalogue.profiles import PRICED, PROFILES
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.scenario import Expectation, Load

Condition = Literal["flat_out", "none", "kill_leader"]
CONDITIONS: dict[Condition, str] = {
    "flat_out": "as fast as the client can, no fault",
    "none": "at a fixed rate, no fault",
    "kill_leader": "at the same rate, a leader killed and restarted",
}
RATE, RATED_BLOCK, SECONDS = 5000, 25, 12.0
"""The load at a fixed rate. RATE: records per second. RATED_BLOCK: the number of consecutive records that go to one
partition. SECONDS: the duration."""
FLAT_OUT_RECORDS, FLAT_OUT_BLOCK = 500_000, 1000
"""The load that is sent as fast as the client can. FLAT_OUT_RECORDS: its number of records. FLAT_OUT_BLOCK: the number
of consecutive records that go to one partition."""


def _entry(condition: Condition, profile: str) -> Entry:
    flat_out = condition == "flat_out"
    load = (
        Load(pacing="flat_out", block=FLAT_OUT_BLOCK, duration_s=SECONDS)
        if flat_out
        else Load(rate=RATE, block=RATED_BLOCK, duration_s=SECONDS)
    )
    arm = ArmPlan(
        name=profile, role="subject", profile=PROFILES[profile], expectation=Expectation(verdicts=("HELD", "VIOLATED"))
    )
    return Entry(
        name=f"price.{condition}.{profile}",
        title=f"The price of {profile}: {CONDITIONS[condition]}",
        promise="What a guarantee costs, and what is got for it: throughput, latency, silence, losses and duplicates.",
        source="measured here",
        tags=(),
        arms=(arm,),
        fault=_fault(condition),
        load=load,
        deterministic=False,
        records=FLAT_OUT_RECORDS if flat_out else int(RATE * SECONDS),
        min_exposed=100,
    )


def _fault(condition: Condition) -> FaultPlan:
    return FAULTS["kill_leader" if condition == "kill_leader" else "none"]


_ENTRIES = [_entry(condition, profile) for profile in PRICED for condition in get_args(Condition)]
PRICES: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}
"""Maps the name of an entry to the entry, for all entries that measure prices. The entries of one profile stand
together. A catalogue run does not contain these entries, because they test no promise."""
