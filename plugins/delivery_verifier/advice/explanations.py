"""Why a single record shows an anomaly: how the settings and the leadership of its partition lost or doubled it, or at
which hop behind the log it got lost or doubled.

The members of an application wrote the journals. The journals explain a case, but never decide whether an attempt is a
case.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from delivery_verifier.model.advice import CLAIMS_NAMED, Committed, Example
from delivery_verifier.model.anomalies import EFFECTS, Anomaly
from delivery_verifier.model.application import Discipline
from delivery_verifier.model.figures import enumeration
from delivery_verifier.model.history import Observation, injection_during
from delivery_verifier.run_directory.cases import CASES_LISTED, first_rows, record_name
from delivery_verifier.run_directory.effect_tables import JOURNAL
from delivery_verifier.run_directory.record_history import claims_of, effect_rows, journal_rows
from delivery_verifier.run_directory.times import as_us
from delivery_verifier.verdict.causes import cause_of_case, group_of
from delivery_verifier.verdict.causes.group import Group
from delivery_verifier.verdict.evidence import ArmEvidence

Row = dict[str, Any]


def examples_of(arm: ArmEvidence, run_dir: Path) -> list[Example]:
    """Returns one case of each anomaly of the arm, and why it came about. It is the first of the CASES_LISTED first
    cases whose record was under way during a fault or, if there is none, the first case.

    Raises OSError or pyarrow.ArrowException if the effects, journals or claims of the run cannot be read.
    """
    table = arm.run.cases
    if table is None or arm.is_canary:
        return []
    table = pa.table({name: as_us(table[name]) for name in table.column_names})
    listed = [first_rows(table, arm.name, kind, CASES_LISTED) for kind in Anomaly]
    return [_example(arm, run_dir, rows) for rows in listed if rows]


def _example_case(arm: ArmEvidence, rows: list[Row]) -> Row:
    injections = arm.run.injections
    return next((row for row in rows if injection_during(injections, row["sent_at"], row["settled_at"])), rows[0])


def _example(arm: ArmEvidence, run_dir: Path, rows: list[Row]) -> Example:
    row = _example_case(arm, rows)
    claims = claims_of(run_dir, arm.name, rows)
    group = group_of(arm) if row["kind"] in EFFECTS else None
    return Example(
        anomaly=row["kind"],
        record=record_name(row),
        why=explanation(arm, row, run_dir, group),
        claims=[claims[name] for name in map(record_name, rows) if name in claims][:CLAIMS_NAMED],
        is_group_known=group is not None,
        committed=committed_beyond(group, row) if group else None,
    )


def explanation(arm: ArmEvidence, row: Row, run_dir: Path, group: Group | None) -> str:
    """Explains in sentences how a case of the arm came about. Returns an empty text if that is not known.

    `row`: the row of the case in anomalies/, with times in µs since the epoch. `group`: the group of the arm's program,
    if it is the user's own. Raises OSError or pyarrow.ArrowException if effects or journals cannot be read.
    """
    return _by_settings(arm, row) or _by_hop(arm, run_dir, row, group)


def committed_beyond(group: Group, row: Row) -> Committed | None:
    """Returns the first commit of `group` after which no member is given the record of the case `row` any more."""
    if row["partition"] is None or not row["offsets"]:
        return None
    cover = group.first_beyond(row["partition"], max(row["offsets"]))
    if cover is None:
        return None
    end = group.end_after(cover.at_us)
    killed_at_us = end.at_us if end and end.is_kill else None
    return Committed(offset=cover.offset, at_us=cover.at_us, by=group.by(cover), killed_at_us=killed_at_us)


def _by_settings(arm: ArmEvidence, row: Row) -> str:
    """Explains in sentences how the settings caused a loss or a duplicate, or who can have caused a wrong place.

    Returns an empty text if nobody knows.
    """
    if row["sent_at"] is None:
        return ""
    settings = arm.spec.profile.producer
    if row["kind"] == "MISROUTED":
        known = (
            " Known of kafka-clients before 3.9.2, 4.0.2 and 4.1.2: a request may go out with the records of another "
            "one (CVE-2026-35554)."
        )
        did = "A Produce request names topic and partition, so its client or a broker did it."
        return did + (known if arm.spec.client == "java" else "")
    if row["kind"] == "DUPLICATED" and settings.get("enable.idempotence") is not True:
        return (
            "The sending program handed it over once. Without enable.idempotence a broker cannot recognise a retry "
            "of the client as one, so every try that arrives is appended."
        )
    if row["kind"] != "LOST":
        return ""
    return _loss_by_settings(arm, row, str(settings.get("acks")))


def _loss_by_settings(arm: ArmEvidence, row: Row, acks: str) -> str:
    """Explains in sentences how acks=0 caused a loss, or how acks=1 together with a change of leader caused a loss.

    `acks`: the producer's setting. Returns an empty text if the cause of the loss is not known.
    """
    if acks == "0":
        return "With acks=0 the client does not ask whether it arrived: sent is not written."
    sent_us, settled_us = row["sent_at"], row["settled_at"] or row["sent_at"]
    partition = arm.spec.topic_name, row["partition"]
    observed = [each for each in arm.run.observations if each.kind == "partition"]
    terms = _terms([each for each in observed if (each.topic, each.partition) == partition])
    before = [term for term in terms if term.at_us <= sent_us]
    under_way = [term for term in terms if sent_us < term.at_us <= settled_us]
    later = [term for term in terms if term.at_us > settled_us]
    if acks != "1" or not before:
        return ""
    alone, cut = (
        "With acks=1 the leader alone vouches for a record",
        "what a new leader does not have is cut off the logs",
    )
    if not under_way:
        leader = before[-1].leader
        after = next((term.leader for term in later if term.leader != leader), None)
        copied = f"Broker {after} then led without having it, and {cut} of the others."
        return "" if after is None else f"{alone}: broker {leader} did. {copied}"
    leader = under_way[-1].leader
    deposed = {term.leader for term in (before[-1], *under_way)} - {leader}
    if later or not deposed:
        return ""  # any of these leaders may have vouched for it
    brokers = enumeration([f"broker {broker}" for broker in sorted(deposed)])
    return (
        f"{alone}. The acknowledgement of the deposed leader, {brokers}, arrived after broker {leader} had taken over "
        f"without having the record, and {cut} of the others."
    )


def _terms(observations: list[Observation]) -> list[Observation]:
    """Returns the first observation of each term of a leader. A new term begins when the partition gets another leader
    or a new leader epoch. Observations without a leader are left out."""
    terms: list[Observation] = []
    for observation in observations:
        is_new = not terms or (terms[-1].leader, terms[-1].leader_epoch) != (
            observation.leader,
            observation.leader_epoch,
        )
        if observation.leader >= 0 and is_new:
            terms.append(observation)
    return terms


def _by_hop(arm: ArmEvidence, run_dir: Path, row: Row, group: Group | None) -> str:
    """Returns a sentence that says at which hop a record got lost or doubled. If this is not known, the sentence says
    so, or is empty."""
    application = arm.spec.application
    if row["kind"] not in EFFECTS or application is None:
        return ""
    if application.discipline == "own":
        return _of_program(arm, row, group)
    if not (run_dir / JOURNAL.name).is_dir():
        return ""  # what nobody can read proves nothing
    if row["kind"] == Anomaly.SKIPPED:
        return _loss(journal_rows(run_dir, row), application.discipline)
    if row["kind"] == Anomaly.REAPPLIED:
        return _doubling(effect_rows(run_dir, row), journal_rows(run_dir, row))
    return _GHOST if row["kind"] == Anomaly.GHOST else ""


def _of_program(arm: ArmEvidence, row: Row, group: Group | None) -> str:
    """Returns the explanation for a record that a program of the user's own applies."""
    if group and (cause := cause_of_case(arm, group, row)):
        return " ".join([cause.what, *cause.evidence])
    if row["kind"] == Anomaly.GHOST:
        return _GHOST
    return "Neither the commits of its group nor the kills of the plan show at which hop it got lost or doubled."


_GHOST = "It was applied, but consumers do not see it in the log: it was lost there, was aborted, or was never sent."


def _doubling(effects: list[Row], journal: list[Row]) -> str:
    again = next((effect for effect in effects if not _is_of(effect, effects[0])), None)
    if again is None:
        return ""
    handed = [entry["at"] for entry in journal if _is_of(entry, again) and entry["what"] == "handed_over"]
    before = [at_us for at_us in handed if at_us <= again["applied_at"]]
    if before and max(before) < effects[0]["applied_at"]:
        return (
            "Doubled by a member that had it in progress all the time: another process was handed it, too, and "
            "applied it. "
            "Then the member applied it as well, as after it stood still."
        )
    answers = [entry for entry in journal if _is_of(entry, effects[0]) and entry["what"] == "committed"]
    if refused := [entry["answer"] for entry in answers if entry["answer"]]:
        return f"Doubled by a refused commit ({refused[0]}): it was applied, and then it was handed over again."
    if any(entry["at"] <= again["applied_at"] for entry in answers):
        return (
            "Doubled by the hand-over: it was applied, and its offset was committed. Then it was handed over again, as "
            "after a group was set back."
        )
    if answers:
        return (
            "Doubled before the commit: it was applied, and another process was handed it, too, and applied it. Only "
            "then was its offset committed, as by a member that stood still in between."
        )
    return (
        "Doubled between application and commit: it was applied, no commit of its offset is known, and it was handed "
        "over again."
    )


def _loss(journal: list[Row], discipline: Discipline) -> str:
    handed = [entry for entry in journal if entry["what"] == "handed_over"]
    if not handed:
        return "Skipped before the hand-over: no member was ever handed it. The group began, or was set, behind it."
    committed = [entry for entry in journal if entry["what"] == "committed" and not entry["answer"]]
    if discipline in ("commit_first", "transform_first") and any(_is_of(entry, handed[0]) for entry in committed):
        return (
            "Skipped between commit and application: its offset was committed first, and the member never applied it. "
            "No member was handed it again."
        )
    lost = "Skipped between hand-over and application: a member was handed it and never applied it."
    if discipline == "at_handover":
        return f"{lost} The client commits by a timer what it has handed over, applied or not."
    return lost


def _is_of(entry: Row, other: Row) -> bool:
    return (entry["member"], entry["incarnation"]) == (other["member"], other["incarnation"])
