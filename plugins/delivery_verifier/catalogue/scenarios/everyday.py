"""Everyday faults under load. Each run has one arm for each profile. The same fault hits all arms at the same moment.

The load flows at a fixed rate, so that chance decides which records are in flight when the fault comes. An arm with a
weak profile therefore breaks its promise in only some of the runs. Such an arm is a control and may be HELD or
VIOLATED. The other arms are subjects and must be HELD.
"""

from __future__ import annotations

from msgspec.structs import replace

from delivery_verifier.catalogue.entry import ArmPlan, Entry
from delivery_verifier.catalogue.faults import FAULTS
from delivery_verifier.catalogue.profiles import PROFILES, STRONG, WEAKNESSES
from delivery_verifier.model.scenario import Expectation, Load

RATE = 500
"""Records per second and arm. The rate is low, because one arm for each profile and a cluster share a small host. An
overloaded host would disturb the cluster in addition to the fault."""
LEAD_S, AFTER_S = 4.0, 4.0
"""The load lasts longer than the fault plan: by LEAD_S seconds before the plan, and by AFTER_S seconds after it."""
EITHER = Expectation(verdicts=("HELD", "VIOLATED"))

_ARMS = (
    *(ArmPlan(name=name, role="subject", profile=PROFILES[name], claim="exactly_once") for name in STRONG),
    *(
        ArmPlan(name=name, role="control", profile=PROFILES[name], claim=claim, expectation=EITHER)
        for name, claim in WEAKNESSES.items()
    ),
)


def _entry(name: str, fault: str, title: str, promise: str, rules: tuple[str, ...], cycles: int = 1) -> Entry:
    plan = replace(FAULTS[fault], cycles=cycles)
    duration_s = plan.duration_s * cycles + LEAD_S + AFTER_S
    return Entry(
        name=f"everyday.{name}",
        title=title,
        promise=promise,
        source=_MEASURED,
        tags=("everyday",),
        arms=_ARMS,
        fault=plan,
        load=Load(rate=RATE, duration_s=duration_s, deadline_s=300),
        records=int(RATE * duration_s),
        deterministic=False,
        min_exposed=100,
        rules=rules,
    )


_MEASURED = "Apache Kafka documentation, design: message delivery semantics; measured on Kafka 4.3.1"
_RETRIES = (
    "duplicated.retries",
    "reordered.one_in_flight",
    "lost.never",
    "duplicated.never",
    "aborted_visible.never",
    "torn.never",
)

ENTRIES: tuple[Entry, ...] = (
    _entry(
        "none",
        "none",
        "A quiet day: every profile, no fault",
        "On a quiet day every profile delivers each record once: without a fault they differ in speed alone.",
        ("lost.never", "duplicated.never", "reordered.never"),
    ),
    _entry(
        "kill_leader",
        "kill_leader",
        "A leader is killed",
        "When a leader dies, idempotence with acks=all loses nothing and writes nothing twice; acks=1 may lose, "
        "retries may duplicate.",
        ("lost.acks_0", "lost.acks_1", *_RETRIES),
        cycles=3,
    ),
    _entry(
        "rolling_restart",
        "rolling_restart",
        "All brokers are restarted, one after the other",
        "An orderly restart is harmless to idempotence with acks=all alone: acks=1 loses records in it too.",
        ("lost.acks_0", "lost.acks_1", *_RETRIES),
    ),
    _entry(
        "pause_leader",
        "pause_leader",
        "A leader stands still for longer than its session",
        "A leader that wakes up after a new one was elected still acknowledges with acks=1, and then throws the "
        "records away. With acks=all it lacks the replicas that must confirm them.",
        ("lost.acks_0", "lost.acks_1", *_RETRIES),
        cycles=2,
    ),
    _entry(
        "preferred_election",
        "elect_preferred",
        "Leadership moves, and no broker is harmed",
        "A preferred leader election, which operators run without a thought, is enough for acks=1 to lose and for "
        "retries to duplicate; idempotence with acks=all keeps its promise.",
        ("lost.acks_0", "lost.acks_1", *_RETRIES),
        cycles=3,
    ),
)
