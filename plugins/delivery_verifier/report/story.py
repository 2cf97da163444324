"""The story: what happened to one lost (or otherwise worst) record, step by step, with times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow.dataset as ds

from delivery_verifier.injection import Injection, Observation, PartitionSnapshot
from delivery_verifier.record import MARKER_PRODUCER
from delivery_verifier.report.cases import CaseGroup, tell_offsets
from delivery_verifier.report.history import Clock, Leadership, during, name_of, topic_of
from delivery_verifier.report.material import Material
from delivery_verifier.report.words import number, plain

_LEADER_CHANGES_TOLD = 4


@dataclass(frozen=True)
class Moment:
    """One line of the story; `at` is empty for what holds at the end."""

    at: str
    what: str
    fault: bool = False


@dataclass(frozen=True)
class Story:
    """One record's story."""

    title: str
    moments: list[Moment]


def story(material: Material, clock: Clock, groups: list[CaseGroup]) -> Story | None:
    """The worst case's story, or None if there is none to tell. The canary's planted cases are no story."""
    told = [group for group in groups if group.role != "canary" and group.cases]
    if not told:
        return None
    worst = min(told, key=lambda group: _rank(material, group))
    row = worst.cases[0].row
    timed = sorted(_events(material, row), key=lambda event: event[0])
    moments = [Moment(clock.tell(at), what, fault) for at, what, fault in timed]
    title = f"{plain(worst.kind)}: {_called(row)}, partition {row['partition']}, arm {worst.arm}"
    title += " (permitted)" if _permitted(material, worst) else ""
    return Story(title, moments + _end(material, row))


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


def _rank(material: Material, group: CaseGroup) -> tuple[int, int]:
    """Broken promises before permitted ones; losses first among either."""
    broken = any(
        arm.arm == group.arm
        and finding.anomaly == group.kind
        and finding.tolerance is not None
        and finding.count + finding.also > finding.tolerance
        for arm in (material.verdict.arms if material.verdict else [])
        for finding in arm.findings
    )
    kinds = ("LOST", "CORRUPTED", "DUPLICATED", "REORDERED", "PHANTOM", "MISPLACED", "RESENT")
    return int(not broken), kinds.index(group.kind) if group.kind in kinds else len(kinds)


def _events(material: Material, row: dict[str, Any]) -> list[tuple[int, str, bool]]:
    """What happened, as (µs since the epoch, sentence, is it the fault)."""
    leadership, topic = Leadership(material.observations), topic_of(material, row["arm"])
    found: list[tuple[int, str, bool]] = []
    if row["sent_at"] is None:
        return found  # nobody sent it, so nothing is known of its time
    led = _led(leadership, topic, row, row["sent_at"])
    found.append((row["sent_at"], f"The producer sends it.{led}", False))
    if row["settled_at"] is not None:
        found.append((row["settled_at"], _told(row), False))
    hit = during(material.injections, row["sent_at"], row["settled_at"])
    if hit is not None:
        found += _fault(hit, topic, row["partition"])
    since = min([row["sent_at"], *([hit.bite_at_us] if hit else [])])
    later = [one for one in leadership.of(topic, row["partition"]) if one.at_us > since]
    found += [(one.at_us, _leads(one), False) for one in later[:_LEADER_CHANGES_TOLD]]
    return found


def _leads(seen: Observation) -> str:
    replicas = ", ".join(str(broker) for broker in seen.isr) or "none"
    who = "Nobody" if seen.leader < 0 else f"Broker {seen.leader}"
    return f"{who} leads partition {seen.partition} (epoch {seen.leader_epoch}, in sync: {replicas})."


def _led(leadership: Leadership, topic: str, row: dict[str, Any], at_us: int) -> str:
    seen = leadership.at(topic, row["partition"], at_us)
    if seen is None:
        return ""
    if seen.leader < 0:
        return f" Partition {row['partition']} has no leader at this moment."
    return f" Broker {seen.leader} leads partition {row['partition']}."


def _told(row: dict[str, Any]) -> str:
    error = f" ({row['error']})" if row["error"] else ""
    if row["outcome"] == "ACKED":
        where = (
            f" at offset {number(row['acked_offset'])}"
            if row["acked_offset"] is not None
            else ", without an offset"
        )
        return f"The broker acknowledges it{where}: from here on the producer counts it as delivered."
    if row["outcome"] == "SENT":
        return (
            "The client hands it to the socket and reports it as sent; nobody asked for an acknowledgement."
        )
    if row["outcome"] == "FAILED":
        return f"The client reports that it certainly was not written{error}."
    return f"The client gives up: nobody can know whether it was written{error}."


def _fault(hit: Injection, topic: str, partition: int) -> list[tuple[int, str, bool]]:
    here = "; it led this partition" if partition in hit.hit.get(topic, []) else ""
    found = [(hit.bite_at_us, f"Fault {name_of(hit)} bites{here}.", True)]
    if hit.healed_at_us is not None:
        found.append((hit.healed_at_us, f"Fault {name_of(hit)} is healed.", True))
    if hit.recovered_at_us is not None:
        found.append((hit.recovered_at_us, "All replicas are in sync again.", True))
    return found


def _end(material: Material, row: dict[str, Any]) -> list[Moment]:
    snapshot = _snapshot(material, row)
    behind = (
        f" The log of partition {row['partition']} ends at offset {number(snapshot.end)}." if snapshot else ""
    )
    stands = f"at offset {tell_offsets(row['offsets'])}" if row["offsets"] else "nowhere in the log"
    found = [Moment("at the end", f"It stands {stands}.{behind}")]
    if row["acked_offset"] is not None:
        found.append(
            Moment(
                "at the end", f"At offset {number(row['acked_offset'])} {_stands(material, row, snapshot)}"
            )
        )
    if row["detail"]:
        found.append(Moment("finding", str(row["detail"])))
    return found


def _snapshot(material: Material, row: dict[str, Any]) -> PartitionSnapshot | None:
    of = material.offsets.partitions if material.offsets else []
    return next((one for one in of if one.arm == row["arm"] and one.partition == row["partition"]), None)


def _stands(material: Material, row: dict[str, Any], snapshot: PartitionSnapshot | None) -> str:
    """What the log holds at the acknowledged offset now."""
    offset = row["acked_offset"]
    if snapshot is not None and offset >= snapshot.end:
        return "there is nothing: the log ends before it."
    found = material.take("log", lambda: _look_up(material, row))
    if found is None:
        return "the report could not look: log/ cannot be read."
    if not found:
        return "the log that was read holds no record."
    now = found[0]
    if not now["parsed"]:
        return "stands something that is no record of this tool."
    if now["producer"] == MARKER_PRODUCER:
        return "stands a marker of the snapshot."
    mine = all(now[name] == row[name] for name in ("producer", "session", "sequence", "attempt"))
    other = f"another record: number {number(now['sequence'])} of producer {now['producer']}"
    return "stands this record." if mine else f"now stands {other}, session {now['session']}."


def _look_up(material: Material, row: dict[str, Any]) -> list[dict[str, Any]]:
    path = material.path / "log"
    if not path.is_dir():
        raise FileNotFoundError(path)
    wanted = (
        (ds.field("offset") == row["acked_offset"])
        & (ds.field("partition") == row["partition"])
        & (ds.field("arm") == row["arm"])
        & (ds.field("view") == "raw")
    )
    columns = ["parsed", "producer", "session", "sequence", "attempt"]
    rows: list[dict[str, Any]] = (
        ds.dataset(path, format="parquet").head(1, columns=columns, filter=wanted).to_pylist()
    )
    return rows
