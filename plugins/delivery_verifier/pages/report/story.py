"""The story: what happened to one record that is lost, and to one that is there twice, with times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from delivery_verifier.model.anomalies import KINDS, Anomaly, subset
from delivery_verifier.model.history import Injection, Observation
from delivery_verifier.pages.leadership import Clock, Leadership, during, name_of, topic_of
from delivery_verifier.pages.material import Material
from delivery_verifier.pages.report.cases import Case, CaseGroup, tell_offsets
from delivery_verifier.pages.report.lookup import copies, snapshot_of, stands
from delivery_verifier.pages.words import number, plain

TOLD_APART = subset(
    "each of these kinds has a story of its own; any other kind only where there is neither",
    (Anomaly.LOST, Anomaly.DUPLICATED),
)
_CHANGES_TOLD = 6
_Event = tuple[int, str, bool]


@dataclass(frozen=True)
class Moment:
    """One line of the story; `at` is a word for what holds at the end."""

    at: str
    what: str
    fault: bool = False


@dataclass(frozen=True)
class Story:
    """One record's story."""

    title: str
    moments: list[Moment]


def stories(material: Material, clock: Clock, groups: list[CaseGroup]) -> list[Story]:
    """At most one story per kind of TOLD_APART, the worst first. The canary's planted cases are no story."""
    told = sorted(
        (group for group in groups if group.role != "canary" and group.cases),
        key=lambda group: _rank(material, group),
    )
    worst = {group.kind: group for group in reversed(told) if group.kind in TOLD_APART}
    chosen = [group for group in told if worst.get(group.kind) is group] or told[:1]
    return [_story(material, clock, group) for group in chosen]


def _story(material: Material, clock: Clock, group: CaseGroup) -> Story:
    row = _telling(group.cases).row
    timed = sorted(_events(material, row), key=lambda event: event[0])
    moments = [Moment(clock.tell(at), what, fault) for at, what, fault in timed]
    title = f"{plain(group.kind)}: {_called(row)}, partition {row['partition']}, arm {group.arm}"
    title += " (permitted)" if _permitted(material, group) else ""
    return Story(title, [*moments, *_end(material, clock, row)])


def _telling(cases: list[Case]) -> Case:
    """The first case that was under way during a fault, else the first."""
    return next((case for case in cases if case.injection != "–"), cases[0])


def _called(row: dict[str, Any]) -> str:
    """The record's name; a line of the log that nobody made has none but its offset."""
    if row["sequence"] is None:
        return f"the line at offset {tell_offsets(row['offsets'])}"
    return f"record {number(row['sequence'])} of producer {row['producer']}"


def _permitted(material: Material, group: CaseGroup) -> bool:
    """Whether the verdict's finding on this kind has no tolerance to exceed."""
    return any(
        arm.arm == group.arm and finding.anomaly == group.kind and finding.tolerance is None
        for arm in (material.verdict.arms if material.verdict else [])
        for finding in arm.findings
    )


def _rank(material: Material, group: CaseGroup) -> tuple[int, int, int]:
    """Broken promises before permitted ones; subjects before controls; losses first among either."""
    broken = any(
        arm.arm == group.arm
        and finding.anomaly == group.kind
        and finding.tolerance is not None
        and finding.count + finding.also > finding.tolerance
        for arm in (material.verdict.arms if material.verdict else [])
        for finding in arm.findings
    )
    return (
        int(not broken),
        int(group.role != "subject"),
        KINDS[Anomaly(group.kind)].telling if group.kind in Anomaly.__members__ else len(KINDS) + 1,
    )


def _events(material: Material, row: dict[str, Any]) -> Iterator[_Event]:
    """What happened, as (µs since the epoch, sentence, is it the fault)."""
    if row["sent_at"] is None:
        return  # nobody sent it, so nothing is known of its time
    leadership, topic = Leadership(material.observations), topic_of(material, row["arm"])
    led = _led(leadership.at(topic, row["partition"], row["sent_at"]))
    yield row["sent_at"], f"The application hands it to the producer.{led}", False
    if row["settled_at"] is not None:
        both = [leadership.at(topic, row["partition"], row[name]) for name in ("sent_at", "settled_at")]
        leaders = {-1 if seen is None else seen.leader for seen in both}
        yield row["settled_at"], _told(row, leaders.pop() if len(leaders) == 1 else -1), False
    hit = during(material.injections, row["sent_at"], row["settled_at"])
    if hit is not None:
        yield from _fault(hit, leadership.at(topic, row["partition"], hit.bite_at_us))
    since = min([row["sent_at"], *([hit.bite_at_us] if hit else [])])
    until = hit.recovered_at_us if hit else None
    yield from list(_moved(leadership.of(topic, row["partition"]), since, until))[:_CHANGES_TOLD]


def _moved(seen: list[Observation], since: int, until: int | None) -> Iterator[_Event]:
    """Every new leader and every change of the ISR between two moments; the second None: without an end."""
    for before, now in pairwise(seen):
        if now.at_us <= since or (until is not None and now.at_us > until):
            continue
        in_sync = ", ".join(str(broker) for broker in now.isr) or "none"
        if now.leader == before.leader:
            yield now.at_us, f"In sync are now: {in_sync} (broker {now.leader} still leads).", False
        else:
            who = "Nobody leads" if now.leader < 0 else f"Broker {now.leader} now leads"
            yield (
                now.at_us,
                f"{who} partition {now.partition} (epoch {now.leader_epoch}, in sync: {in_sync}).",
                False,
            )


def _led(seen: Observation | None) -> str:
    if seen is None:
        return ""
    if seen.leader < 0:
        return f" Partition {seen.partition} has no leader at this moment."
    in_sync = ", ".join(str(broker) for broker in seen.isr) or "none"
    return f" Broker {seen.leader} leads partition {seen.partition} (in sync: {in_sync})."


def _told(row: dict[str, Any], leader: int) -> str:
    """What the client was told; `leader` -1: it changed meanwhile, or is not known."""
    error = f" ({row['error']})" if row["error"] else ""
    if row["outcome"] == "ACKED":
        at = row["acked_offset"]
        where = f" at offset {number(at)}" if at is not None else ", without an offset"
        who = "a broker" if leader < 0 else f"broker {leader}, the leader,"
        return f"The producer hears that {who} has it{where}: from here on it counts as delivered."
    if row["outcome"] == "SENT":
        return "The client hands it to the socket and reports it as sent; nobody asked for an acknowledgement."
    if row["outcome"] == "FAILED":
        return f"The client refuses it: it certainly was not written{error}."
    return f"The client gives up: nobody can know whether it was written{error}."


def _fault(hit: Injection, seen: Observation | None) -> Iterator[_Event]:
    here = "; it led this partition" if seen is not None and seen.leader in hit.brokers else ""
    yield hit.bite_at_us, f"Fault {name_of(hit)} bites{here}.", True
    if hit.healed_at_us is not None:
        yield hit.healed_at_us, f"Fault {name_of(hit)} is healed.", True
    if hit.recovered_at_us is not None:
        yield hit.recovered_at_us, "All replicas are in sync again.", True


def _end(material: Material, clock: Clock, row: dict[str, Any]) -> Iterator[Moment]:
    """What was read back from the topic after the load, and how that can come about."""
    snapshot = snapshot_of(material, row)
    if snapshot is not None:
        ends = f"The log of partition {row['partition']} ends at offset {number(snapshot.end)}; broker "
        yield Moment("at the end", f"{ends}{snapshot.leader} leads it (epoch {snapshot.leader_epoch}).")
    offsets = row["offsets"] or []
    how_often = {0: "It stands nowhere", 1: "It stands once", 2: "It stands twice"}
    where = f": at offset {tell_offsets(offsets)}" if offsets else " in the log: absent"
    yield Moment("read back", f"{how_often.get(len(offsets), f'It stands {len(offsets)} times')}{where}.")
    for offset in copies(row):
        yield Moment("read back", f"At offset {number(offset)} {stands(material, clock, row, offset, snapshot)}")
    if row["detail"]:
        yield Moment("finding", str(row["detail"]))
    why = _explanation(material, row)
    if why:
        yield Moment("explanation", why)


def _explanation(material: Material, row: dict[str, Any]) -> str:
    """How the settings let this happen; empty where neither they nor what was observed explain it."""
    if material.scenario is None or row["arm"] not in material.scenario.arm_names or row["sent_at"] is None:
        return ""
    settings = material.scenario.arm(row["arm"]).profile.producer
    if row["kind"] == "DUPLICATED" and settings.get("enable.idempotence") is not True:
        return (
            "The application handed it over once. Without enable.idempotence a broker cannot recognise a retry "
            "of the client as one, so every try that arrives is appended."
        )
    if row["kind"] != "LOST":
        return ""
    return _explained_loss(material, row, str(settings.get("acks")))


def _explained_loss(material: Material, row: dict[str, Any], acks: str) -> str:
    if acks == "0":
        return "With acks=0 the client asks nobody whether it arrived: sent is not written."
    topic = topic_of(material, row["arm"])
    leadership, told_at = Leadership(material.observations), row["settled_at"] or row["sent_at"]
    then = leadership.at(topic, row["partition"], told_at)
    later = [seen for seen in leadership.of(topic, row["partition"]) if seen.at_us > told_at and seen.leader >= 0]
    new = next((seen for seen in later if then is not None and seen.leader != then.leader), None)
    if acks != "1" or then is None or new is None:
        return ""
    return (
        f"With acks=1 the leader alone vouches for a record: broker {then.leader} did. Broker {new.leader} then led "
        "without having copied it, and what a new leader does not have is cut off the logs of the others."
    )
