"""Applications in the judgement: whether an application came to the end, and what it had in hand when a fault hit it.

All functions are pure. A record is in hand from the time when the client hands it to a member until the member has let
go of it for good: until its offset is committed or, if that happens before it is applied, until it is applied.
"""

from __future__ import annotations

from collections.abc import Iterator

from delivery_verifier.judgement.evidence import ArmEvidence
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.model.history import Injection

AT_STAKE = ("in hand of ", "rewound ")
"""The beginnings of keys in the proof of an injection into applications. An arm's name follows. The values are how many
records the arm's members had in hand when they were hit, and by how many records the arm's group was set back."""


def is_of_applications(injection: Injection) -> bool:
    """Returns whether the injection hit the members of applications, and not brokers or producers."""
    return injection.action in ACTS and ACTS[injection.action].whom == "application"


def at_stake(injection: Injection, arm: str) -> int:
    """Returns how many records of `arm` the injection into applications could hurt (see AT_STAKE); 0 if none is
    known."""
    for moment in ("process", "process_before_heal"):
        proof = injection.proof.get(moment)
        for beginning in AT_STAKE:
            count = proof.get(beginning + arm) if isinstance(proof, dict) else None
            if isinstance(count, int) and count > 0:
                return count
    return 0


def application_doubts(arm: ArmEvidence) -> Iterator[tuple[str, str]]:
    """Yields the name and the detail of each reason not to believe that the application applied all there was to
    apply."""
    if arm.name not in arm.run.scenario.applied or arm.is_canary:
        return
    rows = arm.run.books.rows("effects", arm=arm.name).to_pylist()
    drained = {row["partition"] for row in rows if row.get("drained")}
    if missing := sorted(set(range(arm.run.scenario.load.partitions)) - drained):
        pending = sum(row.get("pending") or 0 for row in rows)
        detail = f"{arm.name}: the application did not come to the end of partitions {missing}"
        yield "not_drained", f"{detail}, and {pending} records had not been applied yet"
    if not any(row.get("in_time") for row in rows):
        yield (
            "application_idle",
            f"{arm.name}: nothing was applied before the load had ended, hence nothing put to the test",
        )
    effects, unparsed = (sum(row.get(name) or 0 for row in rows) for name in ("effects", "unparsed"))
    damaged = sum(arm.totals.get(name, 0) for name in ("corrupted", "phantoms", "unattributed"))
    if unparsed > damaged:
        yield "effects_unparsed", f"{arm.name}: {unparsed} of {effects} effects name no record of the arm"
    yield from _more_than_in_hand(arm)


def _more_than_in_hand(arm: ArmEvidence) -> Iterator[tuple[str, str]]:
    """Yields doubts if more was skipped than was in hand in the crashes that alone permit it, or more was applied again
    than was set back by the rewinds that alone permit it."""
    again = arm.totals.get("effects_again", 0)
    for anomaly, kind, count, name in (
        (Anomaly.SKIPPED, "application_crash", sum(arm.cases(Anomaly.SKIPPED)), "records were in hand in crashes"),
        (Anomaly.REAPPLIED, "rewind", again, "records were set back by rewinds"),
    ):
        if anomaly not in arm.rulings or arm.rulings[anomaly].because != (kind,):
            continue
        causes = [
            cause for cause in arm.run.injections if cause.action in ACTS and kind in ACTS[cause.action].counts_as
        ]
        most = sum(at_stake(cause, arm.name) for cause in causes)
        if count > most:
            yield "unexplained", f"{arm.name}: {count} {anomaly}, but only {most} {name}"
