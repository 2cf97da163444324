"""The end of applications: their members run once more, up to the verifier's markers, and their effects are sealed.

A marker is a record that the verifier writes to every partition behind the load. A partition is drained once a marker
of it is applied: nothing stands before the marker that the application had not been given.
"""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa

from delivery_verifier.applications.control import Control, Word
from delivery_verifier.applications.journal import read_journal
from delivery_verifier.applications.lives import drained_partitions, folder_of, lives_of, read_end
from delivery_verifier.applications.pool import MemberPool, applications_of
from delivery_verifier.applications.sealing import seal_effects
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.application import Application
from delivery_verifier.model.scenario import Arm, Scenario
from delivery_verifier.store.effect_tables import JOURNAL
from delivery_verifier.store.run_directory import StepOutput
from delivery_verifier.store.table import arrow_schema

STALLED_S = 60.0
"""Seconds without another applied record after which the members are no longer waited for."""
_DEADLINE_S = 3600.0


def drain_applications(scenario: Scenario, cluster: Cluster, output: StepOutput) -> None:
    """Runs all applications until every partition is drained, stops them in order, and seals what they did.

    Partitions that are not drained when no record was applied for `STALLED_S` seconds are named in the notes. Writes
    nothing if no arm has an application. Raises MemberDied if a member does not end well, and DeadlinePassed if a
    member is given no partitions.
    """
    pool = MemberPool(scenario, cluster.load_connection.client_properties(), cluster.workspace, cluster.adopt)
    if not pool.members:
        return
    with output.timed("applications"):
        try:
            pool.start()
            _wait_until_drained(scenario, pool, output)
            pool.stop()
        finally:
            pool.close()
    for arm, application in applications_of(scenario):
        _seal(arm, application, cluster.workspace, output)


def _wait_until_drained(scenario: Scenario, pool: MemberPool, output: StepOutput) -> None:
    """Waits until every partition of every application is drained, or no record was applied for `STALLED_S` seconds."""
    applied, end = -1, 0.0

    def has_ended() -> bool:
        nonlocal applied, end
        pool.check()
        count = sum(member.control[Word.APPLIED] for member in pool.members)
        if count != applied:
            applied, end = count, time.monotonic() + STALLED_S
        return not _undrained(scenario, pool) or time.monotonic() >= end

    wait_until(has_ended, "the applications to come to the end", _DEADLINE_S)
    if undrained := _undrained(scenario, pool):
        output.notes["not_drained"] = ", ".join(undrained)


def _undrained(scenario: Scenario, pool: MemberPool) -> list[str]:
    """Returns the partitions of which no member has applied a marker in its latest life, as `<arm>/<partition>`."""
    drained = {
        (member.arm.name, partition)
        for member in pool.members
        for partition in drained_partitions(lives_of(member.folder)[member.control[Word.LIFE]])
    }
    return [
        f"{arm.name}/{partition}"
        for arm, _ in applications_of(scenario)
        for partition in range(scenario.load.partitions)
        if (arm.name, partition) not in drained
    ]


def _seal(arm: Arm, application: Application, workspace: Path, output: StepOutput) -> None:
    """Adds the effects and journals of all lives of an arm's members to the output, and what was counted of them.

    Raises FileNotFoundError if nobody saw a life end.
    """
    rows, killed, lives, orders = list[dict[str, object]](), 0, 0, 0
    (output.staging / "effects").mkdir(exist_ok=True)
    for member in range(application.members):
        folder = folder_of(workspace, arm.name, member)
        orders += Control(folder)[Word.KILLS]
        for life, path in lives_of(folder).items():
            end = read_end(path)
            file = output.staging / "effects" / f"{arm.name}-{member}-{life}.parquet"
            effects = seal_effects(path, arm.name, member, life, file)
            # A kill may come between the effect and its count.
            counted = effects if end.killed and effects == end.applied + 1 else end.applied
            output.counts[f"applied/{arm.name}/{member}/{life}"] = counted
            lives, killed = lives + 1, killed + end.killed
            rows += _journal_rows(arm, member, life, path)
    output.write_table(f"journal/{arm.name}", pa.Table.from_pylist(rows, arrow_schema(JOURNAL)))
    output.counts |= {f"lives/{arm.name}": lives, f"killed/{arm.name}": killed, f"kill_orders/{arm.name}": orders}


def _journal_rows(arm: Arm, member: int, life: int, folder: Path) -> list[dict[str, object]]:
    """Returns the journal of one life as rows of the table `journal`. `folder` is the folder of the life."""
    events = read_journal(folder)
    return [{"arm": arm.name, "member": member, "life": life, "at": event.at_us, **event._asdict()} for event in events]
