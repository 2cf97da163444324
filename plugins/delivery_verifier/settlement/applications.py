"""Lets applications finish: runs the members of each application once more, until they reach the verifier's markers.
Then writes the effects of the applications to the output of the step.

A marker is a record that the verifier writes to every partition after the load. The snapshot of a partition ends at a
marker. The partition is drained once this marker or a later one is applied. An earlier marker proves nothing, because
late records may stand behind it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from delivery_verifier.applications.control import Control, Word
from delivery_verifier.applications.incarnations import (
    application_folder,
    incarnations_of,
    last_markers,
    members_of,
    read_end,
)
from delivery_verifier.applications.journal import read_journal
from delivery_verifier.applications.own.process import printed, redact_effects
from delivery_verifier.applications.pool import MemberPool, applications_of, clients_of, group_of
from delivery_verifier.applications.sealing import effects_key, seal_effects
from delivery_verifier.applications.sink import IncarnationEffects, SinkInputs
from delivery_verifier.applications.sinks import sink_of
from delivery_verifier.cluster import groups, topics
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.application import Application
from delivery_verifier.model.fault_plan import replacements_of
from delivery_verifier.model.scenario import Arm, Scenario
from delivery_verifier.model.snapshot import Offsets
from delivery_verifier.run_directory.effect_tables import JOURNAL
from delivery_verifier.run_directory.run_directory import StepOutput
from delivery_verifier.run_directory.table import arrow_schema
from delivery_verifier.settlement.outputs import VisibleRecords

QUIET_S = 2.0
"""Seconds without any output from a user application. After this time, it has also finished the records before the
markers."""
BUSY_S = 10.0
"""Seconds for which the run waits until a user application is quiet. From then on, the application counts as finished
once its group has committed all records before the markers."""
STALLED_S = 60.0
"""Seconds that the run waits for members that apply no record. After this time, the run stops the members."""
_DEADLINE_S = 3600.0


def drain_applications(scenario: Scenario, cluster: Cluster, snapshot: Offsets, output: StepOutput) -> None:
    """Runs all applications until every partition is drained. Then stops them in an orderly way, and writes their
    effects and journals to `output`. Writes nothing if no arm has an application.

    `snapshot` says where each partition ends. If no record is applied for `STALLED_S` seconds, the function stops the
    applications earlier, and names in the notes the partitions that are not drained.

    Raises MemberDied if a member ends in another way than it was told. Raises DeadlinePassed if a member is given no
    partitions, or if a user application (a program of the user's own) does not finish the records before the markers
    in time.
    """
    connections = {client: cluster.load_connection.properties_of(client) for client in clients_of(scenario)}
    pool = MemberPool(scenario, connections, cluster.workspace, cluster.agent.adopt)
    if not pool.members:
        return
    arms = {arm.name for arm, _ in applications_of(scenario)}
    own = {arm.name for arm, application in applications_of(scenario) if application.discipline == "own"}
    ends = {
        (part.arm, part.partition): snapshot.rounds - 1 if part.arm in own else part.end
        for part in snapshot.partitions
        if part.arm in arms
    }
    with output.timed("applications"):
        try:
            pool.start()
            _wait_until_drained(pool, ends, output)
            if own and "not_drained" not in output.notes:
                _wait_until_quiet(scenario, pool, cluster, snapshot)
            pool.stop()
        finally:
            pool.close()
    for arm, application in applications_of(scenario):
        folder, connection = application_folder(cluster.workspace, arm.name), cluster.load_connection
        inputs = SinkInputs(
            arm,
            folder,
            application.batch,
            scenario.run_token,
            connection.client_properties(),
            VisibleRecords(cluster),
            scenario.load.payload_bytes,
        )
        _seal(inputs, application, scenario, output)


def _wait_until_drained(pool: MemberPool, ends: Mapping[tuple[str, int], int], output: StepOutput) -> None:
    """Waits until every partition in `ends` is drained. Stops waiting if no record was applied for `STALLED_S` seconds,
    and names in the notes of `output` the partitions that are not drained.

    `ends` maps (arm, partition) to the offset of the marker at which the partition's snapshot ends. The effects of an
    user application (a program of the user's own) have no offsets. For its arm, the value is the number of the last
    round of markers.
    """
    applied, end = -1, 0.0

    def has_ended() -> bool:
        nonlocal applied, end
        pool.check()
        pool.note_markers()
        count = sum(member.control[Word.APPLIED] for member in pool.members)
        if count != applied:
            applied, end = count, time.monotonic() + STALLED_S
        return not _undrained(pool, ends) or time.monotonic() >= end

    wait_until(has_ended, "the applications to come to the end", _DEADLINE_S, every_s=0.1)
    if undrained := _undrained(pool, ends):
        output.notes["not_drained"] = ", ".join(undrained)


def _wait_until_quiet(scenario: Scenario, pool: MemberPool, cluster: Cluster, snapshot: Offsets) -> None:
    """Waits until user applications (programs of the user's own) have finished the records before the markers. Call it
    when all markers are applied.

    The wait is needed because an application that works on several records of a partition at a time may apply the
    markers first. Raises DeadlinePassed after `STALLED_S` seconds.
    """
    begin_s = changed_s = time.monotonic()
    applied = -1

    def are_done() -> bool:
        nonlocal applied, changed_s
        pool.check()
        now_s, count = time.monotonic(), sum(member.control[Word.APPLIED] for member in pool.members if member.is_own)
        if count != applied:
            applied, changed_s = count, now_s
        if now_s - changed_s >= QUIET_S:
            return True
        return now_s - begin_s >= BUSY_S and _have_committed(scenario, cluster, snapshot)

    wait_until(
        are_done, f"the user applications to commit, or to write nothing for {QUIET_S:g} s", STALLED_S, every_s=0.1
    )


def _have_committed(scenario: Scenario, cluster: Cluster, snapshot: Offsets) -> bool:
    """Returns whether the groups of all user applications have committed all records before the markers."""
    client = topics.admin(cluster.connection)
    for arm, application in applications_of(scenario):
        ends = {part.partition: part.end for part in snapshot.partitions if part.arm == arm.name}
        if application.discipline == "own":
            committed = groups.committed_offsets(client, group_of(scenario, arm), arm.topic_name, ends)
            if any(committed[partition] < end for partition, end in ends.items()):
                return False
    return True


def _undrained(pool: MemberPool, ends: Mapping[tuple[str, int], int]) -> list[str]:
    """Returns the partitions, as `<arm>/<partition>`, that the members have not drained in their latest incarnations.

    A partition is drained if a member has applied, in its latest incarnation, the marker that `ends` names, or a later
    one. (`_wait_until_drained` explains `ends`.) Behind such a marker, there are only further markers.
    """
    applied = dict[tuple[str, int], int]()
    for member in pool.members:
        incarnation = incarnations_of(member.folder).get(member.control[Word.INCARNATION])
        for partition, offset in (last_markers(incarnation) if incarnation else {}).items():
            key = member.arm.name, partition
            applied[key] = max(offset, applied.get(key, -1))
    return [f"{arm}/{partition}" for (arm, partition), end in ends.items() if applied.get((arm, partition), -1) < end]


def _seal(inputs: SinkInputs, application: Application, scenario: Scenario, output: StepOutput) -> None:
    """Writes the effects and journals of all incarnations of the arm's members to `output`. Also adds counts to
    `output`: the incarnations, the kills, and the orders to kill.

    Raises FileNotFoundError if the supervisor did not see an incarnation end.
    """
    rows, killed, incarnations, orders, arm = list[dict[str, object]](), 0, 0, 0, inputs.arm
    numbers = (*range(application.members), *replacements_of(scenario.fault, application))
    for member in numbers:
        folder = inputs.folder / str(member)
        control = Control(folder)
        orders += control[Word.KILLS]
        if member < application.members or control[Word.PID]:  # a replacement may never have been started
            # the supervisor's own count: an incarnation whose folder is gone breaks an invariant
            incarnations += control[Word.INCARNATION] + 1
        for incarnation, path in incarnations_of(folder).items():
            killed += read_end(path).killed
            rows += journal_rows(arm, member, incarnation, path)
    for effects in sink_of(application.discipline).read(inputs):
        seal_incarnation(effects, arm.name, output)
    if application.discipline == "own":
        _keep_outputs(inputs, output)
    output.write_table(f"journal/{arm.name}", pa.Table.from_pylist(rows, arrow_schema(JOURNAL)))
    output.counts |= {
        f"incarnations/{arm.name}": incarnations,
        f"killed/{arm.name}": killed,
        f"kill_orders/{arm.name}": orders,
    }


def _keep_outputs(inputs: SinkInputs, output: StepOutput) -> None:
    """Writes to `output` what the members of a user application have printed, one file per incarnation. The texts are
    already shortened and free of secrets (see `keep_output`).

    If the members print their effects, these texts do not contain the effects. The function also replaces the secrets
    in the printed effects, which are stored elsewhere.
    """
    for member, folder in members_of(inputs.folder).items():
        for incarnation, path in incarnations_of(folder).items():
            file = output.staging / "printed" / f"{inputs.arm.name}-{member}-{incarnation}.txt"
            file.parent.mkdir(exist_ok=True)
            file.write_text(printed(inputs, path))
            redact_effects(path)


def seal_incarnation(effects: IncarnationEffects, arm: str, output: StepOutput) -> None:
    """Writes the effects of one incarnation to `output`, and adds the number of these effects to the counts of
    `output`. `arm` is the name of the arm."""
    file = output.staging / "effects" / f"{arm}-{effects.member}-{effects.incarnation}.parquet"
    file.parent.mkdir(exist_ok=True)
    seal_effects(effects, arm, file)
    output.counts[effects_key(arm, effects.member, effects.incarnation)] = effects.counted


def journal_rows(arm: Arm, member: int, incarnation: int, folder: Path) -> list[dict[str, object]]:
    """Returns the journal of one incarnation as rows of the table `journal`. `folder` is the folder of the
    incarnation."""
    events = read_journal(folder)
    return [
        {"arm": arm.name, "member": member, "incarnation": incarnation, "at": event.at_us, **event._asdict()}
        for event in events
    ]
