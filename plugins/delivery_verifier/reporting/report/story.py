"""The stories: each story tells the events of one case, in the order of time.

The report tells the story of one lost record and of one duplicated record. If there is neither, it tells the story of
one other case.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from delivery_verifier.model.advice import Example
from delivery_verifier.model.anomalies import KINDS, Anomaly, subset
from delivery_verifier.model.history import Injection, Observation, injection_during
from delivery_verifier.reporting.leadership import Clock, Leadership, injection_name, topic_of
from delivery_verifier.reporting.material import Material
from delivery_verifier.reporting.report import hops
from delivery_verifier.reporting.report.cases import Case, CaseGroup, offsets_text, verdict_of
from delivery_verifier.reporting.report.chain import Hop, chain
from delivery_verifier.reporting.report.lookup import offset_content, offsets_to_look_up, snapshot_of
from delivery_verifier.reporting.words import number, plain_name
from delivery_verifier.run_directory.cases import record_name

KINDS_WITH_A_STORY = subset(
    "each of these kinds has a story of its own; any other kind only where there is neither",
    (Anomaly.LOST, Anomaly.DUPLICATED, Anomaly.SKIPPED, Anomaly.REAPPLIED),
)
_CHANGES_SHOWN = 6
"""The greatest number of changes of the leader or the ISR in a story."""
_Event = tuple[int, str, bool]
"""The time of an event (µs since the epoch), its sentence, and whether the event is about a fault."""


@dataclass(frozen=True)
class Moment:
    """One line of a story. `time`: the time as text. The last lines have a word such as `finding` instead.

    `fault`: whether the line is about an injection of a fault.
    """

    time: str
    text: str
    fault: bool = False


@dataclass(frozen=True)
class Story:
    """The story of one record. `title`: the anomaly, the record, its partition and its arm. `moments`: the lines.

    `hops`: the hops of the record, up to the log or, in an arm with an application, up to the commit of its offset.
    `why`: the explanation in plain words, or an empty text.
    """

    title: str
    moments: list[Moment]
    hops: list[Hop]
    why: str = ""


def stories(material: Material, clock: Clock, groups: list[CaseGroup]) -> list[Story]:
    """Returns the stories of a run: at most one story for each anomaly in KINDS_WITH_A_STORY.

    `groups`: the case groups of the run, one per arm and anomaly (see `cases.groups`). Groups with more cases than
    tolerated come first, and groups of subjects come before groups of other arms. The story of an anomaly is about a
    case of the first group with this anomaly. If no case shows an anomaly in KINDS_WITH_A_STORY, one case of another
    anomaly gets a story. The canary gets no story, because its cases are planted.
    """
    ranked = sorted(
        (group for group in groups if group.role != "canary" and group.cases),
        key=lambda group: _rank(material, group),
    )
    worst = {group.kind: group for group in reversed(ranked) if group.kind in KINDS_WITH_A_STORY}
    chosen = [group for group in ranked if worst.get(group.kind) is group] or ranked[:1]
    return [_story(material, clock, group) for group in chosen]


def _story(material: Material, clock: Clock, group: CaseGroup) -> Story:
    case, example = _example(material, group)
    row = case.row
    timed = sorted(_events(material, row, example), key=lambda event: event[0]) if material.is_timed else []
    moments = [Moment(clock.text(at_us), text, fault) for at_us, text, fault in timed]
    record = case.claim or _record_name(row)
    title = f"{plain_name(group.kind)}: {record}, partition {row['partition']}, arm {group.arm}"
    title += " (permitted)" if _is_permitted(material, group) else ""
    why = example.why if example else ""
    closing = _closing_moments(material, clock, row, why)
    return Story(title, [*moments, *closing], chain(material, row, clock, example), why)


def _example(material: Material, group: CaseGroup) -> tuple[Case, Example | None]:
    """Returns the case of a group that the verdict explains, and what the verdict says of it. If it says nothing,
    returns the first case."""
    arm = verdict_of(material, group.arm)
    for example in arm.examples if arm else ():
        for case in group.cases:
            if (example.anomaly, example.record) == (group.kind, record_name(case.row)):
                return case, example
    return group.cases[0], None


def _record_name(row: dict[str, Any]) -> str:
    """Returns the name of a record: its sequence number and its producer. If nobody sent the record, returns its offset
    instead."""
    if row["sequence"] is None:
        return f"the line at offset {offsets_text(row)}"
    return f"record {number(row['sequence'])} of producer {row['producer']}"


def _is_permitted(material: Material, group: CaseGroup) -> bool:
    """Returns whether the verdict permits any number of cases of the anomaly `group.kind` in the arm `group.arm`.

    An anomaly can have two findings. The result is false if one of these findings sets a limit.
    """
    tolerances = [
        finding.tolerance
        for arm in (material.verdict.arms if material.verdict else [])
        for finding in arm.findings
        if arm.arm == group.arm and finding.anomaly == group.kind
    ]
    return bool(tolerances) and all(tolerance is None for tolerance in tolerances)


def _rank(material: Material, group: CaseGroup) -> tuple[int, int, int]:
    """Returns the sort key of a group. The group with the lowest key comes first.

    The key compares, in this order: whether the group has more cases than tolerated, whether the group's arm is a
    subject, and `AnomalyKind.telling` of the group's anomaly (lower values first).
    """
    broken = any(
        arm.arm == group.arm and finding.anomaly == group.kind and finding.broken
        for arm in (material.verdict.arms if material.verdict else [])
        for finding in arm.findings
    )
    return (
        int(not broken),
        int(group.role != "subject"),
        KINDS[Anomaly(group.kind)].telling if group.kind in Anomaly.__members__ else len(KINDS) + 1,
    )


def _events(material: Material, row: dict[str, Any], example: Example | None) -> Iterator[_Event]:
    """Yields the events of the record of a case, in any order. `row`: the row of the case in anomalies/."""
    if row["sent_at"] is None:
        return  # nobody sent this record, so its times are not known
    leadership, topic = Leadership(material.observations), topic_of(material, row["arm"])
    leader = _leader_at_sending(leadership.last_observation(topic, row["partition"], row["sent_at"]))
    yield row["sent_at"], f"The sending program hands it to the producer.{leader}", False
    if row["settled_at"] is not None:
        observations = [
            leadership.last_observation(topic, row["partition"], row[name]) for name in ("sent_at", "settled_at")
        ]
        leaders = {-1 if observation is None else observation.leader for observation in observations}
        yield row["settled_at"], _outcome_sentence(row, leaders.pop() if len(leaders) == 1 else -1), False
    yield from hops.events(material, row, example)
    ended_us = hops.last_us(material, row, example) or row["settled_at"]
    injection = injection_during(material.injections, row["sent_at"], ended_us)
    if injection is not None:
        yield from _fault_events(
            injection, leadership.last_observation(topic, row["partition"], injection.effect_at_us)
        )
    since_us = min([row["sent_at"], *([injection.effect_at_us] if injection else [])])
    until_us = injection.recovered_at_us if injection else None
    yield from list(_leadership_changes(leadership.observations(topic, row["partition"]), since_us, until_us))[
        :_CHANGES_SHOWN
    ]


def _leadership_changes(observations: list[Observation], since_us: int, until_us: int | None) -> Iterator[_Event]:
    """Yields the changes of the leader or the ISR after `since_us` and until `until_us`. If `until_us` is None, there
    is no end."""
    for before, now in pairwise(observations):
        if now.at_us <= since_us or (until_us is not None and now.at_us > until_us):
            continue
        in_sync = ", ".join(str(broker) for broker in now.isr) or "none"
        if now.leader == before.leader:
            yield now.at_us, f"In sync are now: {in_sync} (broker {now.leader} still leads).", False
        else:
            who = "No broker leads" if now.leader < 0 else f"Broker {now.leader} now leads"
            yield (
                now.at_us,
                f"{who} partition {now.partition} (epoch {now.leader_epoch}, in sync: {in_sync}).",
                False,
            )


def _leader_at_sending(observation: Observation | None) -> str:
    """Returns a sentence that says which broker led the partition when the record was sent. The sentence begins with a
    space.

    `observation`: the last observation of the partition before the sending. The text is empty if `observation` is None.
    """
    if observation is None:
        return ""
    if observation.leader < 0:
        return f" Partition {observation.partition} has no leader at this moment."
    in_sync = ", ".join(str(broker) for broker in observation.isr) or "none"
    return f" Broker {observation.leader} leads partition {observation.partition} (in sync: {in_sync})."


def _outcome_sentence(row: dict[str, Any], leader: int) -> str:
    """Returns the sentence on the outcome that the client reported for the record.

    `leader`: the broker that led the partition both when the record was sent and when its outcome became known.
    `leader` is -1 if the leader changed in between, or if one of the two leaders is not known.
    """
    error = f" ({row['error']})" if row["error"] else ""
    if row["outcome"] == "ACKED":
        offset = row["acked_offset"]
        where = f" at offset {number(offset)}" if offset is not None else ", without an offset"
        who = "a broker" if leader < 0 else f"broker {leader}, the leader,"
        return f"The producer hears that {who} has it{where}: from here on it counts as delivered."
    if row["outcome"] == "SENT":
        return "The client hands it to the socket and reports it as sent; it asks for no acknowledgement."
    if row["outcome"] == "FAILED":
        return f"The client refuses it: it certainly was not written{error}."
    return f"The client gives up: it cannot be known whether it was written{error}."


def _fault_events(injection: Injection, observation: Observation | None) -> Iterator[_Event]:
    """Yields the effect (start of the effect), the healing and the recovery of `injection`.

    `observation`: the last observation, before the effect, of the partition that holds the record of the story. It is
    None if this partition had not been observed before the effect.
    """
    was_leader = observation is not None and observation.leader in injection.brokers
    role = "; it led this partition" if was_leader else ""
    yield injection.effect_at_us, f"Fault {injection_name(injection)} takes effect{role}.", True
    if injection.healed_at_us is not None:
        yield injection.healed_at_us, f"Fault {injection_name(injection)} is healed.", True
    if injection.recovered_at_us is not None:
        yield injection.recovered_at_us, "All replicas are in sync again.", True


def _closing_moments(material: Material, clock: Clock, row: dict[str, Any], why: str) -> Iterator[Moment]:
    """Yields the last lines of a story: the end of the log, the copies of the record, the finding, the explanation."""
    snapshot = snapshot_of(material, row)
    if snapshot is not None:
        ends = f"The log of partition {row['partition']} ends at offset {number(snapshot.end)}; broker "
        yield Moment("at the end", f"{ends}{snapshot.leader} leads it (epoch {snapshot.leader_epoch}).")
    offsets = row["offsets"] or []
    how_often = {0: "It stands nowhere", 1: "It stands once", 2: "It stands twice"}
    where = f": at offset {offsets_text(row)}" if offsets else " in the log: absent"
    yield Moment("read back", f"{how_often.get(len(offsets), f'It stands {len(offsets)} times')}{where}.")
    for offset in offsets_to_look_up(row):
        yield Moment(
            "read back", f"At offset {number(offset)} {offset_content(material, clock, row, offset, snapshot)}"
        )
    if row["detail"]:
        yield Moment("finding", str(row["detail"]))
    if why:
        yield Moment("explanation", why)
