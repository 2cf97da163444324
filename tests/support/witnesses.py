"""The witness of a consumer group that agrees with the journal of its member, and its rows."""

from __future__ import annotations

from typing import Any

from delivery_verifier.model.application import Discipline
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.store.witness import Witness
from support.applications import application
from support.evidence import SUBJECT, a_scenario, with_arm

TOPIC = a_scenario().arm(SUBJECT).topic_name
Row = dict[str, Any]


def applied_by(discipline: Discipline) -> Scenario:
    return with_arm(a_scenario(fault="none"), SUBJECT, application=application(discipline))


def commit(partition: int, offset: int | None, log_offset: int, **more: Any) -> Row:
    row = {"arm": SUBJECT, "topic": TOPIC, "partition": partition, "offset": offset, "leader_epoch": 0, "metadata": ""}
    place = {"at": log_offset * 1000, "log_partition": 1, "log_offset": log_offset}
    return row | place | {"transactional": False, "committed": True} | more


def event(what: str, partition: int = -1, first: int = -1, until: int = -1, **more: Any) -> Row:
    row = {"arm": SUBJECT, "member": 0, "life": 0, "at": 1000, "what": what, "batch": 0, "partition": partition}
    return row | {"first": first, "until": until, "answer": None} | more


def client(client_id: str | None) -> Row:
    row = {"arm": SUBJECT, "generation": 1, "member_id": client_id, "client_id": client_id, "at": 1000}
    return row | {"log_partition": 1, "log_offset": 0}


def of_batches(what: str) -> Witness:
    """Returns the witness of a member with three partitions, which were handed over in two batches. `what` is what the
    journal calls the commit of a batch; none if it is empty."""
    rows = Witness([], [client(None), client(f"{SUBJECT}-member-0")], [], [event("assigned", at) for at in range(3)])
    for partition in range(3):
        for first, until in ((0, 390), (390, 402)):
            rows.journal.append(event("handed_over", partition, first, until))
            rows.journal.extend([event(what, partition, until=until)] if what else [])
            rows.commits.append(commit(partition, until, len(rows.commits)))
        rows.positions.append({"arm": SUBJECT, "partition": partition, "position": 402, "removed": 0})
    rows.journal.append(event("closed"))
    return rows
