"""Removes acknowledged records that no election can have taken, on real brokers. Each of them must be convicted.

`python bench/campaigns/removed_records.py [--cells acks_1:kill_leader,...]`, or `make campaign PART=removed_records`. A
cell is a weak profile and a fault, or a scenario of the catalogue that is judged by its contract alone. When the faults
are over and before the snapshot, one record is replaced on all replicas by a copy of another one, with a checksum that
is right, in each of PLACES:

* `below`: the last record before the first offset of the last leader;
* `by_new_leader`: a record in the middle of what the last leader appended itself;
* `other_partition`: the same moment, in a partition without an election;
* `recovered`: the last record of the load.

Each must count as `LOST unexplained`, the run must be VIOLATED, and all other losses must be permitted. Where the
cluster had no leader in between (the scenarios of min_isr_1 and unclean), nobody saw one epoch: there, a plant may be
the doubt `unexplained`, and it is never permitted. Beside each cell runs one without a plant, in which nothing may be
convicted. After Ctrl-C, or any other end, the same command at the same commit goes on where it ended. The page
docs/results/removed-records-<date>.md is written at the end. The exit code is 1 if a run was not as expected.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import google_crc32c
from msgspec import Struct
from msgspec.structs import replace

from bench.kit import saved
from delivery_verifier.cluster import lease
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.protocol.fetch import RawBatch, whole_batches
from delivery_verifier.host import folders as run_folders
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.scenario import ClusterSpec, Scenario
from delivery_verifier.pipeline import direct
from delivery_verifier.pipeline.steps import plan, settle
from delivery_verifier.planning.provenance import commit, versions_of
from delivery_verifier.suite.directly import runner
from delivery_verifier.verdict.evidence import Evidence
from delivery_verifier.verdict.explained_by import explained_cases_of

STATE = saved.STATE / "removed-records.json"
PLACES = ("below", "by_new_leader", "other_partition", "recovered")
CELLS = (
    "acks_1:kill_leader",
    "acks_1:pause_leader",
    "acks_1:rolling_restart",
    "acks_1:elect_preferred",
    "acks_1.frozen_followers",
    "acks_1.isolated_leader",
    "acks_1.replication_cut",
    "min_isr_1.last_in_sync_killed",
    "unclean.stale_replica_elected",
)
LOAD: dict[str, Any] = {"records": 20_000}
PATIENCE_S = 60.0


class Plant(Struct):
    """A record that was removed: its place, partition and offset."""

    place: str
    partition: int
    offset: int


class Row(Struct, kw_only=True):
    """One run. `planted`: what was removed. `lost`: the losses of the subject. `convicted`, `permitted`, `doubtful`:
    how many of them. `found`: how many of the planted ones are cases. `wrong`: what was not as expected."""

    cell: str
    planted: list[Plant]
    verdict: str
    lost: int
    convicted: int
    permitted: int
    doubtful: int
    found: int
    doubts: list[str]
    seconds: float
    wrong: str = ""


class Campaign(Struct):
    """The rows of a campaign that may not have ended yet, at one commit."""

    commit: str
    rows: list[Row]


class Batch(NamedTuple):
    """A batch in the log of one partition."""

    partition: int
    raw: RawBatch


def main() -> int:
    """Makes the runs that are still to be made, and writes the page. Returns the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # raises SystemExit, so that the cluster is ended
    parser = saved.option_parser(__doc__)
    parser.add_argument("--cells", default=",".join(CELLS))
    cells = parser.parse_args().cells.split(",")
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    lease.require_free_host()
    campaign = saved.resumed(STATE, Campaign)
    runs = [f"{cell}{plants}" for cell in cells for plants in ("", "+removed")]
    planned = plan.scenario_from_params
    plan.scenario_from_params = lambda params, name: _by_contract(planned(params, name))
    with runner(saved.say) as direct_runner:
        for cell in runs:
            if cell not in {row.cell for row in campaign.rows}:
                campaign.rows.append(_run(cell, direct_runner.session))
                saved.keep(STATE, campaign)
                print("\n".join(saved.table([_columns(campaign.rows[-1])])), flush=True)
    rows = [row for cell in runs for row in campaign.rows if row.cell == cell]
    target = saved.RESULTS / f"removed-records-{date.today()}{'' if cells == list(CELLS) else '-part'}.md"
    target.write_text(report(rows))
    print(target.read_text())
    return int(any(row.wrong for row in rows))


def _by_contract(scenario: Scenario) -> Scenario:
    """Returns the scenario with no other claim on its subjects than the contract."""
    arms = tuple(replace(arm, claim="contract") if arm.role == "subject" else arm for arm in scenario.arms)
    return replace(scenario, arms=arms)


def _run(cell: str, session: direct.SparkProvider) -> Row:
    name, begun_s = f"removed-records-{run_folders.new_run_id()}", time.monotonic()
    print(f"{cell}: {name}", file=sys.stderr, flush=True)
    what, _, removed = cell.partition("+")
    profile, _, fault = what.partition(":")
    fields = {"profile": profile, "fault": fault, **LOAD} if fault else {"scenario": what}
    plants: list[Plant] = []
    ended, settle._end_faults = settle._end_faults, _then(settle._end_faults, plants) if removed else settle._end_faults
    try:
        run_dir = direct.observe(fields, name, saved.say, session)
    finally:
        settle._end_faults = ended
    verdict = direct.judge(run_dir, saved.say, session)
    row = _row(cell, plants, run_dir, verdict.verdict, time.monotonic() - begun_s)
    row.wrong = "; ".join(_wrong(row, bool(removed)))
    return row


def _then(end_faults: Callable[..., None], plants: list[Plant]) -> Callable[..., None]:
    """Returns `_end_faults` of settle, which then also removes records of the first subject, and notes them."""

    def end_and_remove(cluster: Cluster, names: list[str]) -> None:
        end_faults(cluster, names)
        data, topic = cluster.workspace / "data", names[0]
        logs = _logs(data, topic)
        for name, batch in [*_places(logs)]:
            plants.append(_remove(data, topic, name, batch, logs[batch.partition]))

    return end_and_remove


def _logs(data: Path, topic: str) -> dict[int, list[Batch]]:
    """Returns the batches of each partition of `topic`, as the first broker has them."""
    logs: dict[int, list[Batch]] = {}
    for folder in sorted(data.glob(f"*/{topic}-*")):
        number = int(folder.name.removeprefix(f"{topic}-"))
        raw = [each for file in sorted(folder.glob("*.log")) for each in whole_batches(file.read_bytes())]
        logs.setdefault(number, [Batch(number, each) for each in raw if not each.attributes & 0x20])
    return logs


def _places(logs: dict[int, list[Batch]]) -> Iterator[tuple[str, Batch]]:
    moved = next((log for log in logs.values() if len({each.raw.epoch for each in log}) > 1), None)
    if moved is None:
        return
    last = moved[-1].raw.epoch
    before = [each for each in moved if each.raw.epoch < last]
    behind = [each for each in moved if each.raw.epoch == last]
    yield "below", before[-1]
    new = behind[(len(behind) - 1) // 2]  # nobody knows who acknowledged what was sent while the old leader woke up
    yield "by_new_leader", new
    if len(behind) > 1:
        yield "recovered", behind[-1]
    still = next((log for log in logs.values() if len(log) > 1 and len({each.raw.epoch for each in log}) == 1), None)
    if still is not None:
        yield "other_partition", min(still, key=lambda each: abs(_sent_ms(each.raw) - _sent_ms(new.raw)))


def _sent_ms(batch: RawBatch) -> int:
    """The first timestamp of a batch: when its first record was handed over."""
    return int.from_bytes(batch.data[27:35], "big", signed=True)


def _remove(data: Path, topic: str, name: str, batch: Batch, log: Sequence[Batch]) -> Plant:
    """Replaces the last record of a batch by a copy of an earlier record, on all brokers. Returns what was removed."""
    old = batch.raw
    records = list(_records(old.data))
    head, rest = records[-1]
    copies = [
        other for each in log for _, other in _records(each.raw.data) if len(other) == len(rest) and other != rest
    ]
    body = b"".join(_framed(*record) for record in [*records[:-1], (head, copies[0])])
    crc = google_crc32c.value(old.data[21:61] + body)
    new = old.data[:17] + crc.to_bytes(4, "big") + old.data[21:61] + body
    assert len(new) == len(old.data), "the batch keeps its size"
    folders = list(data.glob(f"*/{topic}-{batch.partition}"))

    def segments_with_batch() -> list[Path]:
        files = [file for folder in folders for file in folder.glob("*.log") if old.data in file.read_bytes()]
        return files if len(files) == len(folders) else []

    for file in wait_until(segments_with_batch, "every replica to have the batch", PATIENCE_S):
        with file.open("r+b") as segment:
            segment.seek(file.read_bytes().index(old.data))
            segment.write(new)
    return Plant(name, batch.partition, old.end - 1)


def _records(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields the records of a batch in two parts: attributes, time and offset, which say where it stands, and what was
    sent."""
    position = 61
    while position < len(data):
        length, begin = _number(data, position)
        behind = begin + length
        _, offset_begin = _number(data, begin + 1)
        _, sent_begin = _number(data, offset_begin)
        yield data[begin:sent_begin], data[sent_begin:behind]
        position = behind


def _number(data: bytes, position: int) -> tuple[int, int]:
    """Returns the zigzag varint at a position, and the position behind it."""
    value = shift = 0
    while data[position] >= 0x80:
        value |= (data[position] & 0x7F) << shift
        position, shift = position + 1, shift + 7
    value |= data[position] << shift
    return value >> 1 ^ -(value & 1), position + 1


def _framed(head: bytes, rest: bytes) -> bytes:
    size, length = bytearray(), len(head + rest) << 1
    while length >= 0x80:
        size.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([*size, length]) + head + rest


def _row(cell: str, plants: list[Plant], run_dir: Path, verdict: str, seconds: float) -> Row:
    evidence = Evidence.load(run_dir)
    arm = next(arm for arm in evidence.arms if arm.spec.role == "subject")
    explained_by = explained_cases_of(arm)
    assert evidence.cases is not None
    lost = [row for row in evidence.cases.to_pylist() if row["arm"] == arm.name and row["kind"] == Anomaly.LOST]
    places = {(row["partition"], row["acked_offset"]) for row in lost}
    return Row(
        cell=cell,
        planted=plants,
        verdict=verdict,
        lost=len(lost),
        convicted=explained_by.cases[Anomaly.LOST],
        permitted=sum(explanation.count for explanation in explained_by.explained.get(Anomaly.LOST, [])),
        doubtful=explained_by.doubtful[Anomaly.LOST] + explained_by.unseen[Anomaly.LOST],
        found=sum((plant.partition, plant.offset) in places for plant in plants),
        doubts=[f"{doubt.name}: {doubt.detail}" for doubt in _doubts(run_dir)],
        seconds=round(seconds, 1),
    )


def _doubts(run_dir: Path) -> list[Any]:
    from delivery_verifier.verdict.judge import load_and_judge

    return [doubt for arm in load_and_judge(run_dir).arms if arm.role == "subject" for doubt in arm.doubts]


def _wrong(row: Row, removed: bool) -> Iterator[str]:
    """Yields what was not as expected."""
    if removed and not {"below", "by_new_leader"} <= {plant.place for plant in row.planted}:
        yield "too little was removed"
    if row.found != len(row.planted):
        yield f"{row.found} of {len(row.planted)} removed records are cases"
    if row.permitted != row.lost - len(row.planted):
        yield f"{row.permitted} of {row.lost} lost permitted"
    if row.convicted != len(row.planted) and (not row.doubtful or row.cell.startswith("acks_1")):
        yield f"{row.convicted} of {len(row.planted)} convicted, {row.doubtful} doubtful"
    if (row.verdict == "VIOLATED") != removed:
        yield row.verdict


def report(rows: Sequence[Row]) -> str:
    """Returns the page as Markdown."""
    right = sum(not row.wrong for row in rows)
    planted = sum(len(row.planted) for row in rows)
    where = saved.circumstances(versions_of(ClusterSpec().kafka_version))
    return "\n".join(
        [
            "# Removed records",
            "",
            f"`make campaign PART=removed_records` at {commit()}; {where}.",
            "",
            f"{right} of {len(rows)} runs ended as expected. {planted} acknowledged records were removed on all "
            f"replicas, and {sum(row.convicted for row in rows)} losses were convicted. Elections and losses of power "
            f"took {sum(row.permitted for row in rows):,} records, which are permitted.",
            "",
            *saved.table([_columns(row) for row in rows]),
            "",
        ]
    )


def _columns(row: Row) -> dict[str, object]:
    what = row.cell.partition("+")[0]
    return {
        "profile and fault, or scenario": what,
        "removed": ", ".join(f"{plant.place} ({plant.partition}/{plant.offset})" for plant in row.planted) or "–",
        "verdict": row.verdict,
        "lost": row.lost,
        "convicted": row.convicted,
        "permitted": row.permitted,
        "doubtful": row.doubtful,
        "doubts": "; ".join(row.doubts),
        "s": row.seconds,
        "not as expected": row.wrong,
    }


if __name__ == "__main__":
    sys.exit(main())
