"""Judges applications: finds out whether an application applied all records, and how many records it had in progress
when a fault hit it.

All functions are pure. A record comes *in progress* when the client hands it to a member. With the discipline
`commit_after`, or with a database, the record is in progress until its offset is committed. With any other discipline,
it is in progress until it is applied. Of a program of the user's own, a record is in progress if it is either applied
or committed, and not both.
"""

from __future__ import annotations

from collections.abc import Iterator

from delivery_verifier.contract.rules.applications import EARLY
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.model.history import Injection
from delivery_verifier.verdict.evidence import ArmEvidence, Evidence

EXPOSED_RECORDS = ("in progress of ", "rewound ", "waiting of ")
"""The beginnings of three kinds of keys in the proof of an injection into applications. A key ends with an arm's name.
The value of `in progress of <arm>` is how many records the arm's members had in progress when they were hit. The value
of `rewound <arm>` is by how many records the arm's group was set back. The value of `waiting of <arm>` is how many
records were behind the offsets that the arm's group had committed, just before stopped members were started again."""

UNPARSED_SHARE = 100
"""Among this many effects of a user application, one may name no record, e.g. a line that a kill cut short."""


def is_of_applications(injection: Injection) -> bool:
    """Returns whether the injection hit members of applications. Other injections hit brokers or producers."""
    return injection.action in ACTS and ACTS[injection.action].whom == "application"


def exposed_records(injection: Injection, arm: str) -> int:
    """Returns how many records of `arm` the injection could hurt. The number stands in the injection's proof, under a
    key that begins with a text in EXPOSED_RECORDS. Returns 0 if the proof has no such number."""
    return next(filter(None, (_proven(injection, beginning + arm) for beginning in EXPOSED_RECORDS)), 0)


def _proven(injection: Injection, key: str) -> int:
    """Returns the count under `key` in the proof that was taken right after the injection's action.

    If this count is missing or 0, returns the count in the proof that was taken just before healing. If the second
    count is missing, too, returns 0.
    """
    for moment in ("process", "process_before_heal"):
        proof = injection.proof.get(moment)
        count = proof.get(key) if isinstance(proof, dict) else None
        if isinstance(count, int) and count > 0:
            return count
    return 0


def has_never_committed(injection: Injection, arm: str) -> bool:
    """Returns whether the proof of the injection says that the group of `arm` had never committed an offset. Then
    nobody sees what the program had in progress."""
    proofs = (injection.proof.get(moment) for moment in ("process", "process_before_heal"))
    return any(isinstance(proof, dict) and f"group of {arm}" in proof for proof in proofs)


def in_progress(run: Evidence, arm: str) -> int:
    """Returns how many records the members of `arm` had in progress when injections hit the members. Adds up the counts
    of all injections except thaws (see `is_thaw`)."""
    return sum(_proven(injection, EXPOSED_RECORDS[0] + arm) for injection in run.injections if not is_thaw(injection))


def is_thaw(injection: Injection) -> bool:
    """Returns whether the injection let frozen members go on. The records in the hands of these members are counted at
    the freeze, and not again at the thaw."""
    return injection.action in ACTS and "freeze_application" in ACTS[injection.action].heals


def set_back(run: Evidence, arm: str) -> int:
    """Returns the number of records by which injections set back the offsets of the consumer group of `arm`. Adds up
    the counts of all injections."""
    return sum(_proven(injection, EXPOSED_RECORDS[1] + arm) for injection in run.injections)


def skipped_too_early(run: Evidence) -> Iterator[tuple[str, str, str]]:
    """Yields a doubt as (arm, name, detail) for each partition that has cases of SKIPPED, but was not drained. As long
    as an application has not come to the end of a partition, it has skipped nothing there. So the checker must be
    wrong."""
    for arm in run.scenario.applied:
        drained = {row["partition"] for row in run.tally.rows("effects", arm=arm).to_pylist() if row.get("drained")}
        for partition in sorted(set(range(run.scenario.load.partitions)) - drained):
            if count := run.tally.cases_at(arm, Anomaly.SKIPPED, partition):
                detail = f"{arm}/{partition}: {count} SKIPPED, but the application did not come to the end"
                yield arm, "skipped_too_early", detail


def torn_effects(run: Evidence) -> Iterator[tuple[str, str, str]]:
    """Yields a doubt as (arm, name, detail) for each arm with a user application (a program of the user's own) that
    has too many effects without a record.

    If two processes write to one file, each may tear the other's lines. A torn line names no record, so a record that
    was applied looks SKIPPED. There is a doubt in two cases: torn lines could explain all cases of SKIPPED, or more
    than one in UNPARSED_SHARE effects names no record. No count of the arm can then be trusted.
    """
    for arm in run.scenario.loaded:
        if arm.application is None or arm.application.discipline != "own":
            continue
        rows = run.tally.rows("effects", arm=arm.name).to_pylist()
        effects, unparsed = (sum(row.get(name) or 0 for row in rows) for name in ("effects", "unparsed"))
        partitions = range(run.scenario.load.partitions)
        skipped = sum(run.tally.cases_at(arm.name, Anomaly.SKIPPED, partition) for partition in partitions)
        if 0 < skipped <= unparsed or unparsed > effects // UNPARSED_SHARE:
            detail = (
                f"{arm.name}: {unparsed} of {effects} effects name no record, and {skipped} records count as SKIPPED"
            )
            yield arm.name, "effects_torn", detail


def nothing_in_progress(arm: ArmEvidence) -> Iterator[tuple[str, str]]:
    """Yields the name and the detail of a doubt for each injection into applications that put no record of the arm
    exposed, or of which nobody knows whether it did."""
    for injection in filter(is_of_applications, arm.run.injections):
        if has_never_committed(injection, arm.name):
            blind = (
                f"{arm.name}: the group of this program has never committed, so it is not known what it had in progress"
            )
            yield "group_never_committed", f"{blind} when injection {injection.id} hit"
        elif not exposed_records(injection, arm.name):
            yield "too_little_exposed", f"{arm.name}: nothing was exposed when injection {injection.id} hit"


def application_doubts(arm: ArmEvidence) -> Iterator[tuple[str, str]]:
    """Yields the name and the detail of each reason to doubt one of three things: that the application was tested, that
    it applied all records, and that its anomalies are explained."""
    if arm.name not in arm.run.scenario.applied or arm.is_canary:
        return
    rows = arm.run.tally.rows("effects", arm=arm.name).to_pylist()
    drained = {row["partition"] for row in rows if row.get("drained")}
    if missing := sorted(set(range(arm.run.scenario.load.partitions)) - drained):
        pending = sum(row.get("pending") or 0 for row in rows)
        detail = f"{arm.name}: the application did not come to the end of partitions {missing}"
        yield "not_drained", f"{detail}, and {pending} records had not been applied yet"
    if not any(row.get("in_time") for row in rows):
        yield (
            "application_idle",
            f"{arm.name}: nothing was applied before the load had ended, so nothing was put to the test",
        )
    effects, unparsed = (sum(row.get(name) or 0 for row in rows) for name in ("effects", "unparsed"))
    damaged = sum(arm.totals.get(name, 0) for name in ("corrupted", "phantoms", "unattributed"))
    if arm.spec.application is not None and arm.spec.application.discipline == "own":
        damaged += effects // UNPARSED_SHARE
    if unparsed > damaged:
        yield "effects_unparsed", f"{arm.name}: {unparsed} of {effects} effects name no record of the arm"
    yield from _more_than_in_progress(arm)


def _more_than_in_progress(arm: ArmEvidence) -> Iterator[tuple[str, str]]:
    """Yields a doubt if an anomaly is permitted for one reason only, and has more cases than this reason explains.

    * A crash explains one case of SKIPPED for each record in progress.
    * A rewind explains one surplus effect for each record by which the group was set back.
    * auto.offset.reset lets a new group jump over the records that are in the log already. All these records stand
      before the first applied record. So auto.offset.reset does not explain a skipped record behind an applied record.
      Only a crash explains such a record, and only if the application may commit an offset before it applies the
      record.
    """
    hand, totals = in_progress(arm.run, arm.name), arm.totals
    is_early = arm.spec.application is not None and arm.spec.application.discipline in EARLY
    skipped, behind = sum(arm.cases(Anomaly.SKIPPED)), totals.get("effects_skipped_behind", 0)
    crash, again = "records were in progress in crashes", totals.get("effects_extra", 0)
    for anomaly, because, count, what, most, cause in (
        (Anomaly.SKIPPED, ("application_crash",), skipped, "SKIPPED", hand, crash),
        (Anomaly.SKIPPED, (), behind, "SKIPPED behind applied records", hand if is_early else 0, crash),
        (
            Anomaly.REAPPLIED,
            ("rewind",),
            again,
            "effects too many",
            set_back(arm.run, arm.name),
            "records were set back",
        ),
    ):
        ruling = arm.rulings.get(anomaly)
        if ruling and ruling.tolerance is None and ruling.because == because and count > most:
            yield "unexplained", f"{arm.name}: {count} {what}, but only {most} {cause}"
