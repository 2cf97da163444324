"""Performs an audit: reads the ledger, takes the snapshot, reads the topic, and writes an ordinary run directory.

Everything is gathered in a folder beside the run directory first. So there is a run only if its evidence is complete.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec.structs import replace
from pyarrow import dataset

from delivery_verifier import __version__
from delivery_verifier.audit import canary as spliced
from delivery_verifier.audit import matching, readers, snapshot
from delivery_verifier.audit.request import AuditRequest
from delivery_verifier.catalogue import FAULTS, PROFILES
from delivery_verifier.catalogue.single import CANARY, token
from delivery_verifier.cluster import foreign_topic, workspaces
from delivery_verifier.cluster.connection import Connection
from delivery_verifier.cluster.protocol.batches import Hidden
from delivery_verifier.cluster.security import spark_options
from delivery_verifier.model.audit import Audit
from delivery_verifier.model.history import now_us
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.outcomes import Outcome
from delivery_verifier.model.scenario import MOST_PRODUCERS, Arm, ClusterSpec, Load, Profile, Scenario
from delivery_verifier.model.snapshot import Offsets, PartitionSnapshot
from delivery_verifier.planning import provenance
from delivery_verifier.run_directory import ledger
from delivery_verifier.run_directory.replicas import REPLICAS
from delivery_verifier.run_directory.run_directory import RunDirectory, StepOutput
from delivery_verifier.run_directory.table import arrow_schema
from delivery_verifier.verdict.audits import COUNT, NOT_PLANTED, PLANTED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUBJECT = "audited"
"""The name of the arm whose topic and ledger are the user's own."""
Say = Callable[[str], None]
"""Tells the user what is being done."""


@dataclass
class Gathered:
    """All that an audit has found out.

    * `folder` holds the files of both arms (see `_files`).
    * `read`: how many records Spark read, by arm. `tail`: how many records came behind the snapshot, by partition.
    """

    folder: Path
    audit: Audit
    facts: foreign_topic.TopicFacts
    snapshot: snapshot.Snapshot
    offsets: Offsets
    subject: matching.Matched
    canary: matching.Matched
    planted: spliced.Canary
    read: dict[str, int]
    tail: dict[int, int]


def perform(request: AuditRequest, run_dir: Path, spark: Callable[[int], SparkSession], say: Say) -> None:
    """Gathers the evidence of an audit, and writes the run directory `run_dir`, up to the step read_topic. `spark`
    returns a session for this number of records.

    Raises BadInput if the ledger or an option is not allowed, and the errors of the cluster and of Spark.
    """
    workspaces.sweep_unless_busy()  # an audit that was killed has left what it kept secret
    run_dir.parent.mkdir(parents=True, exist_ok=True)
    with _folder(run_dir) as folder:
        connection = foreign_topic.connected(request.access, request.topic)
        facts = foreign_topic.facts(connection, request.topic)
        say(f"reading {len(request.files)} file{'' if len(request.files) == 1 else 's'} of claims")
        claims = readers.read_ledger(request.files, request.format, folder / "claims.parquet")
        request = request.joined(claims)
        audit = request.audit(claims)
        quiet_s = snapshot.quiet_s(claims.without_offset)
        say(f"{claims.count:,} claims; waiting until {request.topic} stands still for {quiet_s:g} s")
        taken = snapshot.take(
            lambda: foreign_topic.look(connection, request.topic, facts.partitions), _acked_ends(claims.file), quiet_s
        )
        gathered = _gather(request, audit, connection, facts, taken, folder, spark, say)
        scenario = _scenario(request, gathered, run_dir.name)
        _write(RunDirectory(run_dir), scenario, gathered)


@contextmanager
def _folder(run_dir: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=f".{run_dir.name}.", dir=run_dir.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _acked_ends(claims: Path) -> dict[int, int]:
    """Maps partitions to the offset behind the last one that was acknowledged there."""
    acked = (pc.field("outcome") == "acked") & pc.field("offset").is_valid()
    ends: dict[int, int] = {}
    for batch in dataset.dataset(claims).to_batches(columns=["partition", "offset"], filter=acked):
        for row in pa.table(batch).group_by("partition").aggregate([("offset", "max")]).to_pylist():
            ends[row["partition"]] = max(ends.get(row["partition"], 0), row["offset_max"] + 1)
    return ends


def _gather(
    request: AuditRequest,
    audit: Audit,
    connection: Connection,
    facts: foreign_topic.TopicFacts,
    taken: snapshot.Snapshot,
    folder: Path,
    start_spark: Callable[[int], SparkSession],
    say: Say,
) -> Gathered:
    run_token = token(request.run_id)
    offsets = _offsets(request, connection, taken)
    spark = start_spark(max(offsets.records, audit.claims))
    from spark_jobs.reading import foreign

    say(f"reading {offsets.records:,} offsets of {request.topic}")
    identified, read = folder / "found", {}
    with _options(connection) as options:
        records = foreign.read_foreign(spark, offsets, options)
        foreign.identified(records, audit.identity, audit.hash).write.parquet(str(identified))
    read[SUBJECT] = dataset.dataset(identified).count_rows()
    offsets, hidden = _with_controls(offsets, connection, identified, taken)
    say(f"matching {read[SUBJECT]:,} records with {audit.claims:,} claims")
    bounds = {part.partition: matching.Bounds(part.start, part.end) for part in offsets.partitions}
    names = tuple(file.name for file in request.files)
    sides = matching.Matching(
        SUBJECT, 1, run_token, folder / "claims.parquet", identified, names, bounds, audit, offsets.taken_at_us, hidden
    )
    subject = matching.match(sides, _files(folder, SUBJECT), folder, spliced.PICKS)
    with _options(connection) as options:
        raws = _raws(spark, foreign.read_foreign, offsets, options, subject.picks)
    planted = spliced.Planter(subject.picks, raws, audit).lay_out() if subject.picks else spliced.Canary()
    canary = _match_canary(spark, planted, audit, run_token, folder, offsets.taken_at_us)
    read[CANARY] = len(planted.records)
    live = foreign_topic.look(connection, request.topic, facts.partitions)
    tail = {part.partition: live[part.partition].end - part.end for part in offsets.partitions}
    return Gathered(folder, audit, facts, taken, offsets, subject, canary, planted, read, tail)


@contextmanager
def _options(connection: Connection) -> Iterator[dict[str, str]]:
    """Yields the options by which Spark reads from the cluster, while the block runs. What is secret stands in a file
    of a workspace, never in the run directory."""
    with workspaces.passing() as workspace, spark_options.granted(connection, workspace) as options:
        yield options


def _files(folder: Path, arm: str) -> matching.Written:
    return matching.Written(*(folder / f"{arm}.{table}.parquet" for table in matching.Written._fields))


def _offsets(request: AuditRequest, connection: Connection, taken: snapshot.Snapshot) -> Offsets:
    parts = [
        PartitionSnapshot(
            arm=SUBJECT,
            topic=request.topic,
            partition=number,
            start=look.start,
            end=look.end,
            live_end=look.end,
            leader=look.leader,
            leader_epoch=look.leader_epoch,
        )
        for number, look in sorted(taken.looks.items())
    ]
    return Offsets(bootstrap_servers=connection.bootstrap_servers, taken_at_us=now_us(), partitions=parts)


def _with_controls(
    offsets: Offsets, connection: Connection, identified: Path, taken: snapshot.Snapshot
) -> tuple[Offsets, list[Hidden]]:
    """Returns `offsets` with the numbers of control records, and what no read_committed consumer gets. Both are looked
    for only in partitions in which offsets hold no record, or a transaction is open; the invariant `offsets_accounted`
    then compares the numbers."""
    counted = dataset.dataset(identified).to_table(columns=["partition"])["partition"].value_counts().to_pylist()
    records = {row["values"]: row["counts"] for row in counted}
    parts, hidden = [], list[Hidden]()
    for part in offsets.partitions:
        controls, look = 0, taken.looks[part.partition]
        if records.get(part.partition, 0) < part.end - part.start or look.stable < look.end:
            where = (part.topic, part.partition, part.leader, part.start, part.end)
            controls, of_partition = foreign_topic.hidden(connection, *where)
            hidden += of_partition
        parts.append(replace(part, control_records=controls))
    return replace(offsets, partitions=parts), hidden


def _raws(
    spark: SparkSession,
    read: Callable[..., Any],
    offsets: Offsets,
    options: Mapping[str, str],
    picks: list[spliced.Row],
) -> dict[spliced.Place, spliced.Row]:
    """Returns the records of `picks` as they stand in the topic, by place. They are read once more."""
    picked: dict[int, list[int]] = {}
    for pick in picks:
        picked.setdefault(pick["found_partition"], []).append(pick["found_offset"])
    parts = [
        replace(part, start=min(picked[part.partition]), end=max(picked[part.partition]) + 1)
        for part in offsets.partitions
        if part.partition in picked
    ]
    rows: dict[spliced.Place, spliced.Row] = {}
    if parts:
        records = read(spark, replace(offsets, partitions=parts), options)
        every = sorted({offset for of_partition in picked.values() for offset in of_partition})
        for row in records.where(records["offset"].isin(every)).toArrow().to_pylist():
            rows[row["partition"], row["offset"]] = row
    return rows


def _match_canary(
    spark: SparkSession, planted: spliced.Canary, audit: Audit, run_token: str, folder: Path, at_us: int
) -> matching.Matched:
    from spark_jobs.reading import foreign
    from spark_jobs.schemas import arrow

    table = pa.Table.from_pylist(planted.records, schema=arrow(foreign.FOREIGN))
    records = spark.createDataFrame(table, foreign.FOREIGN)
    identified = foreign.identified(records, audit.identity, audit.hash).toArrow()
    pq.write_table(identified, folder / "canary-found.parquet")
    pq.write_table(pa.Table.from_pylist(planted.claims, schema=readers.WRITTEN), folder / "canary-claims.parquet")
    bounds = {0: matching.Bounds(0, len(planted.records))}
    files = folder / "canary-claims.parquet", folder / "canary-found.parquet"
    sides = matching.Matching(CANARY, 0, run_token, *files, ("the canary",), bounds, audit, at_us)
    return matching.match(sides, _files(folder, CANARY), folder)


def _scenario(request: AuditRequest, gathered: Gathered, name: str) -> Scenario:
    if gathered.subject.producers > MOST_PRODUCERS:
        raise BadInput(
            f"the ledger has {gathered.subject.producers:,} producers; allowed: {MOST_PRODUCERS:,}; split it"
        )
    facts = gathered.facts
    replicas = facts.replicas
    profile = _with_topic(request.profile or UNKNOWN, facts)
    run_token = token(request.run_id)
    subject = Arm(
        name=SUBJECT,
        ordinal=1,
        role="subject",
        profile=profile,
        topic_name=request.topic,
        claim=request.claim,
        producers=max(1, gathered.subject.producers),
    )
    safe = PROFILES["safe"]
    canary = Arm(
        name=CANARY,
        ordinal=0,
        role="canary",
        profile=replace(safe, topic={**safe.topic, "min.insync.replicas": 1}),
        topic_name=f"kdv-{run_token}-canary",
        producers=max(1, gathered.canary.producers),
    )
    return Scenario(
        run_id=name,
        run_token=run_token,
        name=f"audit.{request.topic}"[:63].rstrip("-_."),
        arms=(subject, canary),
        load=Load(partitions=facts.partitions, replication_factor=replicas),
        fault=FAULTS["none"],
        cluster=ClusterSpec(backend="foreign", brokers=replicas),
        min_exposed=1,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=provenance.versions_of("unknown"),
        commit=provenance.commit(),
        command=request.command,
        audit=gathered.audit,
    )


UNKNOWN = replace(PROFILES["acks_1"], name="unknown", summary="the producer's settings are not known")
"""Stands for settings that nobody gave: those that promise least to a client that was acknowledged anything."""


def _with_topic(profile: Profile, facts: foreign_topic.TopicFacts) -> Profile:
    """Returns `profile` with the settings that the topic has in its cluster. min.insync.replicas above the number of
    replicas lets no acks=all through; the contract then knows all of them as in sync."""
    topic = {**profile.topic, **{name: facts.settings[name] for name in foreign_topic.DELIVERY}}
    topic["min.insync.replicas"] = min(int(topic["min.insync.replicas"]), facts.replicas)
    return replace(profile, topic=topic)


def _write(run: RunDirectory, scenario: Scenario, gathered: Gathered) -> None:
    """Writes the run directory. Each step is sealed as in any other run."""
    run.path.mkdir(parents=True, exist_ok=True)
    with run.writing("plan") as output:
        output.write_json("scenario.json", scenario)
        output.notes["verifier"] = __version__
    with run.writing("produce") as output:
        _ledger_of(output, gathered, SUBJECT, gathered.subject)
        (output.staging / "claims").mkdir()
        shutil.move(_files(gathered.folder, SUBJECT).claims, output.staging / "claims" / f"{SUBJECT}.parquet")
        _audit_counts(output, gathered.subject, gathered.snapshot.wrong)
        _transactions(output, gathered)
    with run.writing("inject_fault") as output:
        output.write_json("injections.json", [])
        output.counts |= {"injections": 0, "took_effect": 0}
    with run.writing("settle") as output:
        _ledger_of(output, gathered, CANARY, gathered.canary)
        _settle(output, scenario, gathered)
    with run.writing("read_topic") as output:
        (output.staging / "log").mkdir()
        for arm in (SUBJECT, CANARY):
            shutil.move(_files(gathered.folder, arm).log, output.staging / "log" / f"{arm}.parquet")
            output.counts[f"read/{arm}"] = gathered.read[arm]
        for part in range(scenario.load.partitions):
            output.counts |= {f"tail/{SUBJECT}/{part}": gathered.tail[part], f"tail/{CANARY}/{part}": 0}


def _ledger_of(output: StepOutput, gathered: Gathered, arm: str, matched: matching.Matched) -> None:
    """Adds the ledger of an arm, and the counts that the invariants compare with it."""
    (output.staging / "ledger").mkdir()
    shutil.move(_files(gathered.folder, arm).ledger, output.staging / "ledger" / f"{arm}.parquet")
    for producer in range(max(1, matched.producers)):
        name = f"{arm}/{producer}/0"
        counts = {outcome: matched.announced.get((producer, outcome.value), (0, 0)) for outcome in Outcome}
        attempts = sum(count for _, count in counts.values())
        output.counts[f"announced/{name}"] = output.counts[f"attempted/{name}"] = attempts
        output.counts |= {ledger.outcomes_key(outcome, name): claimed for outcome, (claimed, _) in counts.items()}
        output.counts[ledger.outcomes_key(ledger.MISCOUNTED, name)] = 0


def _audit_counts(output: StepOutput, matched: matching.Matched, wrong: Mapping[str, str]) -> None:
    names = ("expired", "unknowable", "past_the_end", "shared", "shared_acks", "foreign_writers", "unclaimed", "gaps")
    for name in (*names, "inferred", "left_out", "aborted_records", "open_records"):
        output.counts[COUNT + name] = getattr(matched, name)
    output.counts |= {COUNT + name: count for name, count in matched.unproven.items()}
    output.notes |= {COUNT + name: text for name, text in (matched.examples | dict(wrong)).items()}


def _transactions(output: StepOutput, gathered: Gathered) -> None:
    """Counts the signs of transactions. One that has ended has its control record behind its records, and one that is
    open keeps the last stable offset below the high watermark."""
    looks = gathered.snapshot.looks.values()
    output.counts[COUNT + "control_records"] = sum(part.control_records for part in gathered.offsets.partitions)
    output.counts[COUNT + "open_transactions"] = sum(look.stable < look.end for look in looks)


def _settle(output: StepOutput, scenario: Scenario, gathered: Gathered) -> None:
    """Writes the snapshot of both arms, and what the canary must show. Nobody observed the cluster."""
    planted = gathered.planted
    canary = [
        PartitionSnapshot(
            arm=CANARY,
            topic=scenario.canary.topic_name,
            partition=number,
            start=0,
            end=len(planted.records) if number == 0 else 0,
            live_end=len(planted.records) if number == 0 else 0,
            leader=-1,
            leader_epoch=-1,
        )
        for number in range(scenario.load.partitions)
    ]
    partitions = [*gathered.offsets.partitions, *canary]
    output.write_json("offsets.json", replace(gathered.offsets, partitions=partitions))
    output.write_json("observations.json", [])
    output.write_table("replicas", arrow_schema(REPLICAS).empty_table())
    output.counts |= {PLANTED + name: count for name, count in planted.expected.items()}
    output.notes |= {NOT_PLANTED + kind: reason for kind, reason in planted.not_planted.items()}
    if len(gathered.subject.picks) < spliced.LEAST:
        output.notes[COUNT + "canary_too_small"] = (
            f"only {len(gathered.subject.picks)} sound records of the topic are claimed, and the canary needs "
            f"{spliced.LEAST}; is it the identity of this topic?"
        )
    elif gathered.canary.shared != planted.shared:
        output.notes[COUNT + "canary_wrong"] = (
            f"{planted.shared} offsets of the canary are claimed twice, and {gathered.canary.shared} were found"
        )
