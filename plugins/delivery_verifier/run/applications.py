"""The end of applications: their members run once more, up to the verifier's markers, and their effects are sealed.

A marker is a record that the verifier writes to every partition behind the load. A partition is drained once the marker
at which the snapshot ends is applied. Late records may stand behind an earlier marker.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from delivery_verifier.applications.control import Control, Word
from delivery_verifier.applications.journal import read_journal
from delivery_verifier.applications.lives import folder_of, last_markers, lives_of, read_end
from delivery_verifier.applications.pool import MemberPool, applications_of
from delivery_verifier.applications.sealing import seal_effects
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.application import Application
from delivery_verifier.model.scenario import Arm, Scenario
from delivery_verifier.model.snapshot import Offsets
from delivery_verifier.store.effect_tables import JOURNAL
from delivery_verifier.store.run_directory import StepOutput
from delivery_verifier.store.table import arrow_schema

STALLED_S = 60.0
"""Seconds without another applied record after which the members are no longer waited for."""
_DEADLINE_S = 3600.0


def drain_applications(scenario: Scenario, cluster: Cluster, snapshot: Offsets, output: StepOutput) -> None:
    """Runs all applications until every partition is drained, stops them in order, and seals what they did.

    `snapshot` says where each partition ends. Partitions that are not drained when no record was applied for
    `STALLED_S` seconds are named in the notes. Writes nothing if no arm has an application. Raises MemberDied if a
    member does not end well, and DeadlinePassed if a member is given no partitions.
    """
    pool = MemberPool(scenario, cluster.load_connection.client_properties(), cluster.workspace, cluster.adopt)
    if not pool.members:
        return
    arms = {arm.name for arm, _ in applications_of(scenario)}
    ends = {(part.arm, part.partition): part.end for part in snapshot.partitions if part.arm in arms}
    with output.timed("applications"):
        try:
            pool.start()
            _wait_until_drained(pool, ends, output)
            pool.stop()
        finally:
            pool.close()
    for arm, application in applications_of(scenario):
        _seal(arm, application, cluster.workspace, output)


def _wait_until_drained(pool: MemberPool, ends: Mapping[tuple[str, int], int], output: StepOutput) -> None:
    """Waits until every partition in `ends` is drained, or no record was applied for `STALLED_S` seconds.

    `ends` maps the arm and the number of a partition to the offset of the marker that proves its end.
    """
    applied, end = -1, 0.0

    def has_ended() -> bool:
        nonlocal applied, end
        pool.check()
        count = sum(member.control[Word.APPLIED] for member in pool.members)
        if count != applied:
            applied, end = count, time.monotonic() + STALLED_S
        return not _undrained(pool, ends) or time.monotonic() >= end

    wait_until(has_ended, "the applications to come to the end", _DEADLINE_S)
    if undrained := _undrained(pool, ends):
        output.notes["not_drained"] = ", ".join(undrained)


def _undrained(pool: MemberPool, ends: Mapping[tuple[str, int], int]) -> list[str]:
    """Returns the partitions whose proving marker no member has applied in its latest life, as `<arm>/<partition>`.

    A marker at the offset in `ends`, or behind it, proves that nothing but markers follows.
    """
    applied = dict[tuple[str, int], int]()
    for member in pool.members:
        for partition, offset in last_markers(lives_of(member.folder)[member.control[Word.LIFE]]).items():
            key = member.arm.name, partition
            applied[key] = max(offset, applied.get(key, -1))
    return [f"{arm}/{partition}" for (arm, partition), end in ends.items() if applied.get((arm, partition), -1) < end]


def _seal(arm: Arm, application: Application, workspace: Path, output: StepOutput) -> None:
    """Adds the effects and journals of all lives of an arm's members to the output, and what was counted of them.

    Raises FileNotFoundError if nobody saw a life end.
    """
    rows, killed, lives, orders = list[dict[str, object]](), 0, 0, 0
    (output.staging / "effects").mkdir(exist_ok=True)
    for member in range(application.members):
        folder = folder_of(workspace, arm.name, member)
        control = Control(folder)
        orders += control[Word.KILLS]
        lives += control[Word.LIFE] + 1  # the supervisor's own count: a life whose folder is gone breaks a law
        for life, path in lives_of(folder).items():
            end = read_end(path)
            file = output.staging / "effects" / f"{arm.name}-{member}-{life}.parquet"
            effects = seal_effects(path, arm.name, member, life, file)
            # A kill may come between the effect and its count.
            counted = effects if end.killed and effects == end.applied + 1 else end.applied
            output.counts[f"applied/{arm.name}/{member}/{life}"] = counted
            killed += end.killed
            rows += _journal_rows(arm, member, life, path)
    output.write_table(f"journal/{arm.name}", pa.Table.from_pylist(rows, arrow_schema(JOURNAL)))
    output.counts |= {f"lives/{arm.name}": lives, f"killed/{arm.name}": killed, f"kill_orders/{arm.name}": orders}


def _journal_rows(arm: Arm, member: int, life: int, folder: Path) -> list[dict[str, object]]:
    """Returns the journal of one life as rows of the table `journal`. `folder` is the folder of the life."""
    events = read_journal(folder)
    return [{"arm": arm.name, "member": member, "life": life, "at": event.at_us, **event._asdict()} for event in events]
