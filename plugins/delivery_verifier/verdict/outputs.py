"""Output topics in the judgement: whether the cluster has kept all records that an application wrote to one.

The effects of such an application are the records of its output topic. A record that stood below a high watermark and
is gone was lost by the cluster. A record behind an open transaction is there, and no reader gets it. Without such a
record, an attempt looks SKIPPED that was applied, and one that was applied twice looks healthy. So this forbids both
verdicts. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from delivery_verifier.model.application import output_topic
from delivery_verifier.model.history import Observation
from delivery_verifier.model.scenario import Arm
from delivery_verifier.run_directory.group_log import Row
from delivery_verifier.verdict.evidence import Evidence


def output_doubts(run: Evidence) -> Iterator[tuple[str, str, str]]:
    """Yields a doubt as (arm, name, detail) for each sign that an output topic has lost records, and for each partition
    of an output topic of which nobody can show that it kept them. Also yields one for each open transaction in it.

    Yields nothing for a run without applications.
    """
    if run.outputs is None:
        return
    for arm in run.scenario.loaded:
        if arm.application is None or not arm.application.has_output_topic:
            continue
        rows = {row["partition"]: row for row in run.outputs if row["arm"] == arm.name}
        for partition in range(run.scenario.load.partitions):
            where = f"{arm.name}: partition {partition} of its output topic"
            for detail in _lost(rows.get(partition)):
                yield arm.name, "output_cut_off", f"{where} {detail}"
            if held := rows.get(partition, {}).get("held_back"):
                yield arm.name, "output_held_back", f"{where}: {held}"
            for detail in _unproven(run, arm, partition, rows.get(partition)):
                yield arm.name, "output_unproven", f"{where} {detail}"


def _lost(row: Row | None) -> Iterator[str]:
    """Yields a text for each sign that the partition of `row` has lost records."""
    if row is not None and row["start"] > 0:
        yield f"begins at offset {row['start']}: the records before it were deleted"
    if row is not None and row["watermark"] is not None:
        yield (
            f"had the high watermark {row['watermark']} in leader epoch {row['epoch']}, and this epoch now ends at "
            f"offset {row['kept_until']}: the log was cut off, and the records behind that are gone"
        )


def _unproven(run: Evidence, arm: Arm, partition: int, row: Row | None) -> Iterator[str]:
    """Yields a text for each reason why the partition may have lost records. `row`: its row in the table of output
    topics.

    A log keeps all records below its high watermark if each leader was in the ISR, or eligible, when it was elected.
    """
    if row is None:
        yield "was not looked at after the effects were read"
        return
    topic = output_topic(arm.topic_name)
    elections = [each for each in run.disturbances if each.kind == "unclean_election" and each.topic == topic]
    for election in elections:
        if partition in election.partitions:
            yield f"may have had an unclean election: {election.detail}"
    observed = [each for each in run.observations if (each.topic, each.partition) == (topic, partition)]
    if not observed:
        yield "was never observed"
    elif (observed[-1].leader, observed[-1].leader_epoch) != (row["leader"], row["leader_epoch"]):
        yield (
            f"is led by broker {row['leader']} in epoch {row['leader_epoch']}, and the observer last saw broker "
            f"{observed[-1].leader} in epoch {observed[-1].leader_epoch}: it missed an election"
        )
    yield from _missed(observed)


def _missed(observations: list[Observation]) -> Iterator[str]:
    """Yields a text for each election that the observer missed. `observations`: those of one partition, in order. Each
    election raises the leader epoch by one."""
    for before, now in pairwise(observations):
        if now.leader_epoch > before.leader_epoch + 1:
            epochs = f"{before.leader_epoch} and {now.leader_epoch}"
            yield f"had elections that the observer missed between leader epochs {epochs}"
