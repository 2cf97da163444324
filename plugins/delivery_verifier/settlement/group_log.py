"""The group log: writes down what the brokers keep of the applications' groups and of their output topics, after all
applications have ended."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from delivery_verifier.applications.pool import applications_of, group_of
from delivery_verifier.cluster import groups, topics
from delivery_verifier.cluster.group_log import GroupLog, LogEntry, read_groups
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.protocol.group_records import GroupCommit, GroupMember
from delivery_verifier.model.scenario import Arm, Scenario
from delivery_verifier.run_directory.group_log_tables import COMMITS, GENERATIONS, POSITIONS
from delivery_verifier.run_directory.run_directory import StepOutput
from delivery_verifier.run_directory.table import Table, arrow_schema
from delivery_verifier.settlement.outputs import write_outputs

Row = dict[str, object]


def write_group_log(scenario: Scenario, cluster: Cluster, output: StepOutput, began_us: int) -> None:
    """Writes the tables of the group log to `output`. No member of an application runs any more, and all effects have
    been read.

    `began_us` is a time before the first member began, in µs since the epoch. Writes nothing if no arm has an
    application. Raises the errors of `read_groups` and `write_outputs`, and KafkaException if the coordinator of a
    group does not answer.
    """
    arms = {group_of(scenario, arm): arm for arm, _ in applications_of(scenario)}
    if not arms:
        return
    with output.timed("group_log"):
        logs = read_groups(cluster, arms, began_us // 1000)
        client, partitions = topics.admin(cluster.connection), range(scenario.load.partitions)
        removed = {group: log.removed for log in logs for group in log.groups}
        positions: list[Row] = [
            {"arm": arm.name, "partition": partition, "position": position, "removed": removed.get(group, 0)}
            for group, arm in arms.items()
            for partition, position in groups.committed_offsets(client, group, arm.topic_name, partitions).items()
        ]
        rows = [row for log in logs for entry in log.entries for row in _rows(arms, log, entry)]
        for table in (COMMITS, GENERATIONS):
            _write(output, table, [row for of_table, row in rows if of_table is table])
        _write(output, POSITIONS, positions)
        write_outputs(scenario, cluster, output)


def _rows(arms: dict[str, Arm], log: GroupLog, entry: LogEntry) -> Iterator[tuple[Table, Row]]:
    """Yields each row that `entry` of the log gives, together with the table to which the row belongs. `arms` maps a
    consumer group to its arm."""
    arm = arms[entry.record.group]
    location: Row = {"arm": arm.name, "log_partition": log.partition, "log_offset": entry.offset}
    if isinstance(entry.record, GroupCommit):
        yield COMMITS, location | _commit(entry, entry.record)
        return
    for member in entry.record.members or (None,):
        known = {"generation": entry.record.number, "at": entry.written_ms * 1000}
        yield GENERATIONS, location | known | (_member(arm, member) if member else {})


def _member(arm: Arm, member: GroupMember) -> Row:
    assigned = member.assigned
    partitions = None if assigned is None else [number for topic, number in assigned if topic == arm.topic_name]
    return {"member_id": member.member_id, "client_id": member.client_id, "assigned": partitions}


def _commit(entry: LogEntry, commit: GroupCommit) -> Row:
    return {
        "topic": commit.topic,
        "partition": commit.partition,
        "offset": commit.offset,
        "leader_epoch": commit.leader_epoch,
        "metadata": commit.metadata,
        "at": 1000 * (entry.written_ms if commit.offset is None else commit.at_ms),
        "transactional": entry.is_transactional,
        "committed": entry.is_valid,
    }


def _write(output: StepOutput, table: Table, rows: list[Row]) -> None:
    output.write_table(table.name, pa.Table.from_pylist(rows, arrow_schema(table)))
