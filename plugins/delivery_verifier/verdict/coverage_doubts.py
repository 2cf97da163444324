"""Coverage doubts: reasons not to say HELD, because the run did not test the arm as planned.

All functions are pure. A coverage doubt does not forbid VIOLATED, because an anomaly that was found remains proven.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.client_errors import explained
from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.model.history import Injection
from delivery_verifier.model.verdict import Doubt
from delivery_verifier.verdict import audits, shared_offsets
from delivery_verifier.verdict.applications import application_doubts, is_of_applications, nothing_in_progress
from delivery_verifier.verdict.attribution import OUTSIDE
from delivery_verifier.verdict.damage import damage_doubts
from delivery_verifier.verdict.evidence import ArmEvidence, Evidence
from delivery_verifier.verdict.explained_by import COPIED, unexplained_doubts
from delivery_verifier.verdict.exposure_doubts import exposure_doubts
from delivery_verifier.verdict.held_back import open_transaction_doubts
from delivery_verifier.verdict.replicas import replica_doubts
from delivery_verifier.verdict.sentences import deed

NamedDetail = tuple[str, str]
"""The name and the detail of a doubt."""


def coverage_doubts(arm: ArmEvidence) -> list[Doubt]:
    """Returns every reason why the arm must not be called HELD.

    The canary has no load that a fault could hurt. So the canary can have only doubts about its topic: about replicas,
    about offsets that cannot be read, and about open transactions.
    """
    audit = arm.run.scenario.audit
    doubts = [*damage_doubts(arm), *(() if audit else replica_doubts(arm))]
    if audit is not None:
        doubts += () if arm.is_canary else (*audits.coverage(arm, audit), *unexplained_doubts(arm))
    elif not arm.is_canary:
        doubts = [
            *_faults(arm.run),
            *_load(arm),
            *_transactions(arm),
            *_exposed(arm),
            *exposure_doubts(arm),
            *_foreign_writers(arm),
            *shared_offsets.doubts(arm),
            *application_doubts(arm),
            *_unplanned(arm),
            *_elsewhere(arm),
            *_at_another_time(arm),
            *unexplained_doubts(arm),
            *doubts,
        ]
    doubts = [*open_transaction_doubts(arm), *doubts]  # first, because it may be the cause of others
    return [Doubt(kind="coverage", name=name, detail=detail) for name, detail in doubts]


def _faults(evidence: Evidence) -> Iterator[NamedDetail]:
    """Yields a doubt for each action whose injections are fewer than planned.

    Also yields a doubt for each injection without proof that it took effect. Also yields a doubt for each injection
    that was not healed, or after which the cluster did not recover.
    """
    fault = evidence.scenario.fault
    planned = Counter(step.action for step in fault.steps if step.act.takes_effect)
    recorded = Counter(injection.action for injection in evidence.injections)
    for action, per_cycle in planned.items():
        count = per_cycle * fault.cycles
        if recorded[action] < count and ACTS[action].by_others:
            yield (
                "nothing_broken",
                "no broker with a replica of this run was seen to be taken out while the load flowed",
            )
        elif recorded[action] < count:
            yield (
                "fault_took_no_effect",
                f"the plan asks for {count} x {action.replace('_', ' ')}, {recorded[action]} were recorded",
            )
    for injection in evidence.injections:
        name = injection.in_words
        if not injection.took_effect:
            reason = injection.proof.get("failed") or f"nothing shows that {deed(evidence, injection.action)}"
            yield "fault_took_no_effect", f"{name} has no proof that it took effect: {reason}"
        if injection.healed_at_us is None or injection.recovered_at_us is None:
            yield "fault_not_healed", f"{name} was never healed and recovered"


def _transactions(arm: ArmEvidence) -> Iterator[NamedDetail]:
    """Yields a doubt if the arm writes transactions, but no transaction was committed, or none was aborted.

    Only a committed transaction can be torn. Only the records of an aborted transaction can be visible by mistake.
    """
    if not arm.spec.transactional_id:
        return
    counts = arm.transactions
    if counts is None or not counts.committed:
        begun = counts.begun if counts else "an unknown number of"
        yield "nothing_committed", f"{arm.name}: of {begun} transactions none was committed"
    elif not counts.aborted:
        detail = f"{arm.name}: of {counts.begun} transactions none was aborted, so none could be visible"
        yield "nothing_aborted", detail


def _load(arm: ArmEvidence) -> Iterator[NamedDetail]:
    """Yields doubts if the arm has too few attempts or too few reported attempts, or if its load ended too early.

    The load ended too early if a fatal client error ended it, or if it ended before every injection was over.
    """
    attempted, reported = arm.totals.get("attempted", 0), arm.totals.get("reported", 0)
    planned = arm.spec.records
    needed = max(1, min(arm.run.scenario.min_exposed, planned // 100))
    if not reported:
        yield "nothing_reported", f"{arm.name}: not one record was reported, there is nothing to hold"
    elif reported < needed:
        detail = f"{arm.name}: {reported} of {attempted} records were reported, at least {needed} are needed"
        yield "too_little_reported", detail
    if attempted < planned:
        yield "load_incomplete", f"{arm.name}: {attempted} records were attempted, {planned} were planned"
    for producer, error in arm.run.ended_early.items():
        if producer.split("/")[0] == arm.name:
            yield "load_ended_early", f"{producer}: {explained(error)}"
    last_us = _last_reported_us(arm)
    for injection in arm.run.injections:
        if last_us is None or last_us <= _end_us(injection):
            detail = f"{arm.name}: no record was reported after injection {injection.id} was over"
            yield "load_over_too_early", detail


def _end_us(injection: Injection) -> int:
    """Returns when the injection was over (µs since the epoch): the time of its recovery.

    If this time is unknown, returns the time of its healing. If the time of its healing is unknown, too, returns the
    time of its effect.
    """
    return injection.recovered_at_us or injection.healed_at_us or injection.effect_at_us


def _last_reported_us(arm: ArmEvidence) -> int | None:
    """Returns until when (µs since the epoch) the arm's load flowed: the time of the arm's last send or of its last
    report, whichever is earlier.

    The table timeline/load counts sends and reports per interval of time. So the result is the beginning of an
    interval. The result is None if the table lacks the columns, or if it counts no send or no report of the arm.
    """
    rows = arm.run.tally.rows("load", arm=arm.name)
    if not {"at_us", "sent", "reported"} <= set(rows.column_names):
        return None
    intervals = rows.to_pylist()
    last_sent_us = max((row["at_us"] for row in intervals if row["sent"]), default=0)
    last_reported_us = max((row["at_us"] for row in intervals if row["reported"]), default=0)
    return min(last_sent_us, last_reported_us) or None


def _exposed(arm: ArmEvidence) -> Iterator[NamedDetail]:
    """Yields a doubt for every injection that exposed too little of the arm.

    An injection into members of applications must have exposed at least one record (see `exposed_records`). Any other
    injection must have exposed at least `min_exposed` reported attempts. (`min_exposed` is a field of the scenario. 0
    counts as 1.)
    """
    needed = max(1, arm.run.scenario.min_exposed)  # with 0, an arm that no fault could hurt could be HELD
    yield from nothing_in_progress(arm)
    others = {injection.id for injection in arm.run.injections if not is_of_applications(injection)}
    for row in arm.run.tally.rows("exposure", arm=arm.name).to_pylist():
        if row.get("injection") in others and (row.get("reported") or 0) < needed:
            detail = (
                f"{arm.name}: {row.get('reported')} reported records were exposed to injection "
                f"{row.get('injection')}, at least {needed} are needed ({row.get('outstanding')} attempts were "
                "outstanding when it took effect)"
            )
            yield "too_little_exposed", detail


def _foreign_writers(arm: ArmEvidence) -> Iterator[NamedDetail]:
    """Yields a doubt if the arm's topic holds records that bear no trace of this run.

    Either another client wrote such a record, or the record is of this run and is damaged beyond recognition.
    """
    if count := arm.run.foreign_writers.get(arm.name, 0):
        yield (
            "foreign_writer_in_topic",
            f"{arm.name}: {count} records in its topic have no trace of a record of this run, and stand at no "
            "acknowledged offset (in log/: `foreign`, and not `parsed`)",
        )


def _unplanned(arm: ArmEvidence) -> Iterator[NamedDetail]:
    """Yields a doubt if a disturbance of the arm was not planned.

    Ignores an alteration of the topic by an injection: if it is not proven, `_faults` doubts it. Ignores
    an unplanned unclean election if the topic's settings forbid it, nobody requested one, and nobody altered the topic.
    The election was then really clean, and the observer saw it late. It is also listed as a change of leader, and an
    unplanned change of leader is not ignored.
    """
    observed = {disturbance.kind for disturbance in arm.disturbances}
    injected_us = {injection.effect_at_us for injection in arm.run.injections}
    settings = Settings.of_arm(arm.run.scenario, arm.spec)
    possible = settings.unclean_leader_election or observed & {"unclean_request", "topic_altered"}
    unplanned = [
        disturbance
        for disturbance in arm.disturbances
        if not disturbance.planned
        and (disturbance.kind != "topic_altered" or disturbance.at_us not in injected_us)
        and (disturbance.kind != "unclean_election" or possible)
    ]
    if unplanned:
        counts = Counter(disturbance.kind for disturbance in unplanned)
        kinds = ", ".join(f"{count} x {kind.replace('_', ' ')}" for kind, count in counts.items())
        yield "unplanned_disturbance", f"{arm.name}: {kinds}, first: {unplanned[0].detail}"


def _elsewhere(arm: ArmEvidence) -> Iterator[NamedDetail]:
    """Yields a doubt for each anomaly that disturbances permit, if records on untouched partitions show the anomaly.

    A partition is untouched if no disturbance that permits the anomaly touched the partition. There are no untouched
    partitions if one of these disturbances names no topic, because it may have touched every partition.
    """
    partitions = range(arm.run.scenario.load.partitions)
    for anomaly, ruling in arm.rulings.items():
        causes = [disturbance for disturbance in arm.disturbances if disturbance.kind in ruling.because]
        if not causes or any(not cause.topic for cause in causes):  # a disturbance without a topic may touch any
            continue
        touched = {partition for cause in causes for partition in cause.partitions}
        quiet = [partition for partition in partitions if partition not in touched]
        cases = sum(arm.run.tally.cases_at(arm.name, anomaly, partition) for partition in quiet)
        if cases:
            where = f"on partitions {quiet}, where no {ruling.because[0]} was seen"
            yield "unexplained", f"{arm.name}: {cases} {anomaly} {where}"


def _at_another_time(arm: ArmEvidence) -> Iterator[NamedDetail]:
    """Yields a doubt for each anomaly that disturbances permit, if some cases of the anomaly are unexplained.

    * A case is unexplained if its record was not under way during any injection.
    * If losses of power permit the anomaly, a case is unexplained only if its record was sent after all of these
      losses. Reason: a loss of power can hurt records that were acknowledged long before.
    * A run lists only a bounded number of cases. If it does not list all cases of the anomaly, there is a doubt, too,
      because the times of the other cases are unknown. This also holds for an anomaly in COPIED that needs no
      disturbance.
    """
    rows = arm.run.tally.rows("cases", arm=arm.name).to_pylist()
    cut = {row["kind"] for row in rows if row.get("cut")}
    outside = {kind for kind, ids in (arm.cases_by_injection or {}).items() if OUTSIDE in ids}
    for anomaly, ruling in arm.rulings.items():
        if not ruling.because and (ruling.tolerance is not None or anomaly not in COPIED):
            continue
        unexplained = arm.kinds_sent_afterwards if "isr_power_loss" in ruling.because else outside
        if ruling.because and anomaly.value in unexplained:
            detail = f"{arm.name}: {anomaly} of records that were under way in no injection that took effect"
            yield "unexplained", detail
        _, hidden = arm.cases(anomaly)  # a hidden case is written down under the kind that hides it
        if anomaly.value in cut or (cut and hidden):
            detail = f"{arm.name}: not all cases of {anomaly} were written down; when the others were sent is unknown"
            yield "unexplained", detail
